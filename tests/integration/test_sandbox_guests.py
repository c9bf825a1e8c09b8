"""Real nested containers by way of the stand-in `pct`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sandbox_lab import TEMPLATE, Lab, eventually, lab

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def host() -> Iterator[Lab]:
    with lab() as made:
        made.up()
        made.ok("mkdir -p /srv/data && echo hi > /srv/data/a && mknod -m 666 /dev/kmsg-stand-in c 1 11")
        yield made


@pytest.fixture(scope="module")
def privileged(host: Lab) -> int:
    started = time.monotonic()
    host.ok(
        f"pct create 200 {TEMPLATE} --rootfs local:0 --unprivileged 0 --hostname sglang --memory 4096 --swap 0 "
        "--features nesting=1 --dev0 /dev/nvidia0,mode=0666 --dev1 /dev/nvidiactl,uid=0,gid=44,mode=0440 "
        "--mp0 /srv/data,mp=/data,ro=1 --net0 name=eth0,bridge=vmbr0,ip=198.51.100.50/24"
    )
    host.ok("pct start 200")
    # About one second on an idle machine; the bound is for one that is busy with other things.
    assert time.monotonic() - started < 30, "create and start"
    return 200


@pytest.fixture(scope="module")
def unprivileged(host: Lab) -> int:
    host.ok(
        f"pct create 210 {TEMPLATE} --rootfs local:0 --unprivileged 1 --hostname u --features nesting=1,keyctl=1 "
        "--dev0 /dev/nvidia0,mode=0666 --dev1 /dev/nvidiactl --mp0 /srv/data,mp=/data,ro=1 "
        "--net0 name=eth0,bridge=vmbr0,ip=198.51.100.51/24 && pct start 210"
    )
    return 210


def settled(host: Lab, vmid: int) -> str:
    """systemd's own word, once it is one of those that stay."""
    said = ""

    def done() -> bool:
        nonlocal said
        said = host.ssh(f"pct exec {vmid} -- systemctl is-system-running").stdout.strip()
        return said in ("running", "degraded", "maintenance")

    eventually(done, "systemd has settled")
    return said


def test_a_privileged_guest_reaches_running(host: Lab, privileged: int) -> None:
    assert settled(host, privileged) == "running"
    assert host.ok("pct exec 200 -- hostname") == "sglang\n"
    assert "198.51.100.50/24" in host.ok("pct exec 200 -- ip -br address show eth0")
    # Refused (ECONNREFUSED), not timed out: the guest itself answers over the bridge.
    probe = 'import socket; s = socket.socket(); s.settimeout(5); print(s.connect_ex(("198.51.100.50", 9)))'
    assert host.ok(f"python3 -c '{probe}'") == "111\n"


def test_an_unprivileged_guest_is_degraded_by_one_mount_only(host: Lab, unprivileged: int) -> None:
    assert settled(host, unprivileged) == "degraded"
    failed = host.ok("pct exec 210 -- systemctl --failed --no-legend --plain")
    assert [line.split()[0] for line in failed.splitlines()] == ["sys-kernel-debug.mount"]
    assert host.ok("pct exec 210 -- cat /proc/self/uid_map").split() == ["0", "100000", "65536"]


@pytest.mark.parametrize("guest", ["privileged", "unprivileged"])
def test_a_unit_runs_in_a_guest(host: Lab, guest: str, request: pytest.FixtureRequest) -> None:
    vmid = request.getfixturevalue(guest)
    settled(host, vmid)
    host.ok(f"pct exec {vmid} -- systemd-run --wait --collect -p PrivateTmp=yes -p LimitNOFILE=65536 true")


@pytest.mark.parametrize("guest", ["privileged", "unprivileged"])
def test_devices_have_the_options_mode_and_owner_and_open(
    host: Lab, guest: str, request: pytest.FixtureRequest
) -> None:
    vmid = request.getfixturevalue(guest)
    assert host.ok(f"pct exec {vmid} -- stat -c '%F %t:%T %a %u:%g' /dev/nvidia0") == (
        "character special file 1:3 666 0:0\n"
    )
    ctl = host.ok(f"pct exec {vmid} -- stat -c '%a %u:%g' /dev/nvidiactl")
    assert ctl == ("440 0:44\n" if guest == "privileged" else "660 0:0\n")
    assert host.ok(f"pct exec {vmid} -- sh -c 'echo x > /dev/nvidia0 && echo written'") == "written\n"
    assert host.ok(f"pct exec {vmid} -- ls /dev/nvidia1 2>&1 || true").startswith("ls: cannot access")


def test_a_device_without_a_rule_is_there_but_does_not_open(host: Lab) -> None:
    """The raw way, as in the recording: a bind mount alone, then with the rule of another device."""
    host.ok(f"pct create 220 {TEMPLATE} --rootfs local:0 --unprivileged 0")
    host.ok("echo 'lxc.mount.entry: /dev/kmsg-stand-in dev/gpu none bind,create=file 0 0' >> /etc/pve/lxc/220.conf")
    host.ok("echo 'lxc.mount.entry: /dev/none dev/nvidia9 none bind,optional,create=file' >> /etc/pve/lxc/220.conf")
    host.ok("pct start 220")
    done = host.ssh("pct exec 220 -- sh -c 'stat -c %t:%T /dev/gpu; head -c1 /dev/gpu'")
    assert done.returncode != 0
    assert done.stdout == "1:b\n" and "Operation not permitted" in done.stderr
    # An optional entry whose source is absent leaves an empty regular file: the trap of the recording.
    assert host.ok("pct exec 220 -- stat -c '%F %s' /dev/nvidia9") == "regular empty file 0\n"
    host.ok("pct stop 220 && sed -i s/bind,optional/bind/ /etc/pve/lxc/220.conf")
    failed = host.ssh("pct start 220")
    assert failed.returncode == 255 and "startup for container '220' failed" in failed.stderr
    assert host.ok("pct status 220") == "status: stopped\n"
    host.ok("pct destroy 220")


def test_the_rule_is_what_opens_a_device(host: Lab) -> None:
    """Everything denied but what systemd needs: the same node is closed without its rule, and open with it."""
    host.ok("mknod -m 666 /dev/full-stand-in c 1 7")
    host.ok(f"pct create 221 {TEMPLATE} --rootfs local:0 --unprivileged 0 --dev0 /dev/full-stand-in,mode=0666")
    needed = ("c 1:3", "c 1:5", "c 1:8", "c 1:9", "c 5:*", "c 136:*")
    rules = ["devices.deny: a", *(f"devices.allow: {number} rwm" for number in needed)]
    host.ok("; ".join(f"echo 'lxc.cgroup2.{rule}' >> /etc/pve/lxc/221.conf" for rule in rules) + "; pct start 221")
    closed = host.ssh("pct exec 221 -- head -c1 /dev/full-stand-in")
    assert closed.returncode != 0 and "Operation not permitted" in closed.stderr
    host.ok("pct stop 221; echo 'lxc.cgroup2.devices.allow: c 1:7 rw' >> /etc/pve/lxc/221.conf; pct start 221")
    host.ok("pct exec 221 -- head -c1 /dev/full-stand-in")
    host.ok("pct stop 221 && pct destroy 221")


def test_numbers_are_read_anew_at_every_start(host: Lab) -> None:
    host.ok("mknod -m 666 /dev/moving c 1 3")
    host.ok(f"pct create 230 {TEMPLATE} --rootfs local:0 --unprivileged 0 --dev0 /dev/moving,mode=0666")
    host.ok("pct start 230 && rm /dev/moving && mknod -m 666 /dev/moving c 1 5")
    assert host.ok("pct exec 230 -- stat -c %t:%T /dev/moving") == "1:3\n"
    host.ok("pct stop 230 && pct start 230")
    assert host.ok("pct exec 230 -- stat -c %t:%T /dev/moving") == "1:5\n"
    assert "lxc.cgroup2.devices.allow = c 1:5 rw" in host.ok("cat /var/lib/lxc/230/config")
    host.ok("pct stop 230 && rm /dev/moving")
    gone = host.ssh("pct start 230")
    assert (gone.returncode, gone.stderr) == (255, "Device /dev/moving does not exist\n")
    host.ok("pct destroy 230")


@pytest.mark.parametrize("guest", ["privileged", "unprivileged"])
def test_a_mount_point_is_read_only(host: Lab, guest: str, request: pytest.FixtureRequest) -> None:
    vmid = request.getfixturevalue(guest)
    assert host.ok(f"pct exec {vmid} -- cat /data/a") == "hi\n"
    denied = host.ssh(f"pct exec {vmid} -- sh -c 'echo y > /data/b'")
    assert denied.returncode != 0 and "Read-only file system" in denied.stderr


def test_exec_passes_bytes_and_exit_codes_through(host: Lab, privileged: int) -> None:
    data = os.urandom(5_000_000)
    done = host.ssh("pct exec 200 -- cat", input=data, text=False)
    assert done.returncode == 0 and done.stdout == data and done.stderr == b""
    for code in (0, 7, 127, 137, 143, 255):
        assert host.ssh(f"pct exec 200 -- sh -c 'exit {code}'").returncode == code
    split = host.ssh("pct exec 200 -- sh -c 'echo out; echo err >&2'")
    assert (split.stdout, split.stderr) == ("out\n", "err\n")
    # lxc-attach stays in the caller's folder where the guest has it too, and goes to / where it has not.
    assert host.ok("cd /usr && pct exec 200 -- pwd") == "/usr\n"
    assert host.ok("cd /srv/models && pct exec 200 -- pwd") == "/\n"
    words = host.ok("pct exec 200 -- printf '%s|' 'two words' --flag '*'")
    assert words == "two words|--flag|*|"


@pytest.mark.parametrize("guest", ["privileged", "unprivileged"])
def test_push_writes_as_the_guests_own_root(host: Lab, guest: str, request: pytest.FixtureRequest) -> None:
    vmid = request.getfixturevalue(guest)
    host.ok(f"printf 'a\\0b' > /tmp/pushed && pct push {vmid} /tmp/pushed /root/pushed --perms 0640 --group 44")
    assert host.ok(f"pct exec {vmid} -- stat -c '%a %u:%g %s' /root/pushed") == "640 0:44 3\n"
    missing = host.ssh(f"pct push {vmid} /tmp/none /root/x")
    assert missing.returncode == 255 and "failed to open /tmp/none: No such file or directory" in missing.stderr


def test_the_stages_of_a_guests_life(host: Lab) -> None:
    host.ok(f"pct create 240 {TEMPLATE} --rootfs local:8 --unprivileged 0 --memory 512")
    assert "rootfs: local:240/vm-240-disk-0.raw,size=8G\n" in host.ok("cat /etc/pve/lxc/240.conf")
    assert host.ssh("pct exec 240 -- true").stderr == "container '240' not running!\n"
    host.ok("pct start 240")
    assert host.ssh("pct start 240").stderr == "CT 240 already running\n"
    assert host.ssh("pct destroy 240").stderr == "unable to destroy CT 240 - container is running\n"
    assert "240        running                 CT240" in host.ok("pct list")
    settled(host, 240)
    host.ok("pct shutdown 240 --timeout 20")
    assert host.ssh("pct stop 240").stderr == "CT 240 not running\n"
    host.ok("pct destroy 240 --purge")
    assert host.ssh("pct status 240").returncode == 2
    assert host.ok("ls /var/lib/vz/images; ls /var/lib/lxc; grep -c 240 /proc/mounts || true").count("240") == 0


def test_two_commands_for_one_guest_wait_for_each_other(host: Lab) -> None:
    host.ok(f"pct create 250 {TEMPLATE} --rootfs local:0 --unprivileged 0")
    host.ok("for n in 1 2 3 4 5 6; do pct set 250 --mp$n /srv/data,mp=/m$n & done; wait")
    assert len([line for line in host.ok("pct config 250").splitlines() if line.startswith("mp")]) == 6
    host.ok("pct destroy 250")


def test_nvidia_smi_works_on_the_host_and_as_a_copy_in_a_guest(host: Lab, privileged: int) -> None:
    assert len(host.ok("nvidia-smi -L").splitlines()) == 8
    sample = Path(__file__).parents[1] / "unit/sandbox/samples/nvidia_topo_m.8xRTXPRO6000.txt"
    assert host.ok("nvidia-smi topo -m") == sample.read_text()
    host.ok("pct push 200 /srv/blackstart-sandbox/sandbox/nvidia_smi.py /usr/bin/nvidia-smi --perms 0755")
    done = host.ssh("pct exec 200 -- nvidia-smi --query-gpu=index --format=csv,noheader")
    assert done.stdout.split() == [str(n) for n in range(8)]
    assert done.stderr.startswith("SIMULATED")
