"""Commands beyond the recorded ones: pending changes, a killed create, arguments, what is not here."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from sandbox.pct import guest, storage, store
from sandbox.pct.failure import PctError
from tests.unit.sandbox.pct.world import SGLANG, World
from tests.unit.sandbox.pct.world import world as world  # a fixture

TEMPLATE = "local:vztmpl/debian-12-mini_12.0_amd64.tar.gz"


def test_a_device_set_while_it_runs_waits_for_the_next_start(world: World) -> None:
    world.running.add(200)
    assert world.pct("set", "200", "--dev3", "/dev/nvidia3,mode=0666", "--memory", "4096") == 0
    assert world.read(200).endswith("\n[pve:pending]\ndev3: /dev/nvidia3,mode=0666\n")
    assert "memory: 4096\n" in world.read(200)
    world.running.clear()
    assert world.pct("start", "200") == 0
    assert "pending" not in world.read(200)
    assert "dev3: /dev/nvidia3,mode=0666\n" in world.read(200)


def test_config_shows_what_will_be_and_current_what_is(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.running.add(200)
    world.pct("set", "200", "--delete", "dev2", "--dev3", "/dev/nvidia3")
    capfd.readouterr()
    world.pct("config", "200")
    after = capfd.readouterr().out
    world.pct("config", "200", "--current")
    now = capfd.readouterr().out
    assert "dev2" not in after and "dev3" in after
    assert "dev2" in now and "dev3" not in now
    world.pct("pending", "200")
    told = capfd.readouterr().out
    assert "del dev2: /dev/nvidia-uvm,mode=0666\n" in told and "new dev3: /dev/nvidia3\n" in told


def test_setting_back_what_runs_takes_the_pending_change_away(world: World) -> None:
    world.running.add(200)
    world.pct("set", "200", "--hostname", "other")
    world.pct("set", "200", "--hostname", "sglang")
    assert "pending" not in world.read(200)


def test_delete_while_stopped_removes_at_once(world: World) -> None:
    assert world.pct("set", "200", "--delete", "dev1,dev2") == 0
    assert "dev1" not in world.read(200) and "dev2" not in world.read(200)


def test_options_are_read_in_every_spelling(world: World) -> None:
    assert world.pct("set", "200", "--memory=1024", "-swap", "16", "--onboot", "0") == 0
    for line in ("memory: 1024\n", "swap: 16\n", "onboot: 0\n"):
        assert line in world.read(200)


def test_a_network_keeps_its_name_first_and_gets_an_address(world: World) -> None:
    assert world.pct("set", "200", "--net1", "bridge=vmbr0,name=eth1,ip=198.51.100.9/24") == 0
    line = next(line for line in world.read(200).splitlines() if line.startswith("net1"))
    assert line.startswith("net1: name=eth1,bridge=vmbr0,hwaddr=BC:24:11:")
    assert line.endswith(",ip=198.51.100.9/24,type=veth")


def test_a_killed_create_is_seen_as_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "_unpack", killed)
    with pytest.raises(KeyboardInterrupt):
        world.pct("create", "300", TEMPLATE, "--rootfs", "local:0")
    assert world.read(300) == "lock: create\n"
    assert world.pct("start", "300") == 255
    assert world.pct("destroy", "300", "--force", "1") == 0
    assert world.pct("config", "300") == 2


def test_a_failed_create_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_unpack", lambda *_: 2)
    assert world.pct("create", "300", TEMPLATE, "--rootfs", "local:0") == 255
    assert not (world.root / "etc/pve/lxc/300.conf").exists()
    assert not (world.root / "vz/images/300").exists()


def test_a_size_asks_for_a_raw_volume_and_none_for_a_folder(world: World) -> None:
    world.pct("create", "300", TEMPLATE, "--rootfs", "local:8")
    world.pct("create", "301", TEMPLATE, "--rootfs", "local:0")
    assert "rootfs: local:300/vm-300-disk-0.raw,size=8G\n" in world.read(300)
    assert "rootfs: local:301/subvol-301-disk-0.subvol,size=0T\n" in world.read(301)


def test_create_can_start(world: World) -> None:
    assert world.pct("create", "300", TEMPLATE, "--rootfs", "local:0", "--start") == 0
    assert 300 in world.running


def test_a_failed_write_leaves_the_old_configuration(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert world.pct("set", "200", "--memory", "4096") == 255
    assert capfd.readouterr().err == "unable to set: No space left on device: no file\n"
    assert world.read(200) == SGLANG
    assert sorted(path.name for path in (world.root / "etc/pve/lxc").iterdir()) == ["200.conf", "203.conf"]


def test_a_held_lock_is_waited_for_and_then_named(world: World) -> None:
    with (world.root / "lock/pve-config-200.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with (
            pytest.raises(PctError, match=r"can't lock file .*pve-config-200\.lock' - got timeout"),
            store.alone(200, 0.1),
        ):
            pass


def test_what_is_not_here_says_so(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    assert world.pct("snapshot", "200", "before") == 255
    assert capfd.readouterr().err == "SIMULATED pct: 'snapshot' is not implemented in the sandbox\n"
    assert world.pct("create", "300", TEMPLATE, "--restore", "1") == 255
    assert "SIMULATED pct: 'create --restore' is not implemented" in capfd.readouterr().err
    assert world.pct("frobnicate") == 255
    assert "unknown command 'pct frobnicate'" in capfd.readouterr().err


def test_an_empty_host_lists_nothing_at_all(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.remove(200)
    world.remove(203)
    assert world.pct("list") == 0
    assert capfd.readouterr().out == ""


def test_missing_and_surplus_words(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    assert world.pct("status") == 255
    assert "400 not enough arguments\npct status <vmid>" in capfd.readouterr().err
    assert world.pct("status", "200", "201") == 255
    assert "400 too many arguments" in capfd.readouterr().err
    assert world.pct("set", "200", "--memory") == 2
    assert "Option memory requires an argument" in capfd.readouterr().err


def test_start_all_follows_onboot_and_order_and_goes_on_after_a_failure(
    world: World, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(guest, "launch", lambda vmid, *_: started.append(vmid))
    world.write(
        203, SGLANG.replace("order=5", "order=1").replace("dev2: /dev/nvidia-uvm,mode=0666", "dev2: /dev/nvidia99")
    )
    world.write(204, SGLANG.replace("startup: order=5,up=10\n", ""))
    world.write(205, SGLANG.replace("onboot: 1\n", ""))
    assert world.pct("sandbox-startall") == 0
    assert started == [200, 204]
    assert "starting CT 203 failed: Device /dev/nvidia99 does not exist" in capfd.readouterr().err


def test_limits_that_the_machine_may_not_raise_are_left_out_and_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = [("lxc.prlimit.memlock", "unlimited"), ("lxc.cap.drop", "sys_time")]
    monkeypatch.setattr(guest, "_CAP_SYS_RESOURCE", 63)
    assert guest._without_impossible_limits(raw) == raw[1:]
    assert "SIMULATED pct: 'lxc.prlimit.memlock: unlimited' is left out" in capfd.readouterr().err
