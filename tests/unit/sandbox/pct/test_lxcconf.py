"""From a container's configuration to LXC's."""

from __future__ import annotations

import pytest

from sandbox.pct import lxcconf
from sandbox.pct.failure import PctError
from tests.unit.sandbox.pct.world import World
from tests.unit.sandbox.pct.world import world as world  # a fixture

OPTIONS = {
    "arch": "amd64",
    "cores": "4",
    "hostname": "sglang",
    "memory": "2048",
    "ostype": "debian",
    "rootfs": "local:200/subvol-200-disk-0.subvol,size=0T",
    "net0": "name=eth0,bridge=vmbr0,hwaddr=BC:24:11:54:B4:CA,ip=192.0.2.50/24,gw=192.0.2.1,type=veth",
    "mp0": "/srv/two words,mp=/models,ro=1",
    "dev0": "/dev/nvidia0,mode=0666",
    "dev10": "/dev/nvidiactl,deny-write=1",
    "dev2": "/dev/nvidia-caps/nvidia-cap1,uid=0,gid=44,mode=0440",
}


def rendered(options: dict[str, str], *raw: tuple[str, str], controllers: str = "") -> list[str]:
    nodes = lxcconf.nodes(options)
    return lxcconf.render(200, options, raw, nodes, frozenset(controllers.split())).splitlines()


def test_devices_come_by_number_with_rule_and_mount(world: World) -> None:
    lines = rendered(OPTIONS)
    assert [line for line in lines if "devices.allow" in line] == [
        "lxc.cgroup2.devices.allow = c 1:3 rw",
        "lxc.cgroup2.devices.allow = c 1:3 rw",
        "lxc.cgroup2.devices.allow = c 1:3 r",
    ]
    folder = world.root / "lxc/200/passthrough"
    assert [line for line in lines if "create=file" in line] == [
        f"lxc.mount.entry = {folder}/dev/nvidia0 dev/nvidia0 none bind,create=file 0 0",
        f"lxc.mount.entry = {folder}/dev/nvidia-caps/nvidia-cap1 dev/nvidia-caps/nvidia-cap1 none bind,create=file 0 0",
        f"lxc.mount.entry = {folder}/dev/nvidiactl dev/nvidiactl none bind,create=file 0 0",
    ]


def test_a_node_takes_its_numbers_from_the_host_and_the_rest_from_the_option(world: World) -> None:
    node = lxcconf.node("/dev/nvidia-caps/nvidia-cap1,uid=0,gid=44,mode=0440")
    assert (node.major, node.minor, node.uid, node.gid, node.mode) == (1, 3, 0, 44, 0o440)
    assert lxcconf.node("/dev/nvidia0").mode == 0o660


def test_a_mount_point_is_bound_read_only_with_its_blanks_escaped(world: World) -> None:
    assert "lxc.mount.entry = /srv/two\\040words models none rbind,create=dir,ro 0 0" in rendered(OPTIONS)


def test_the_guest_gets_its_address_from_lxc(world: World) -> None:
    lines = rendered(OPTIONS)
    assert "lxc.net.0.ipv4.address = 192.0.2.50/24" in lines
    assert "lxc.net.0.ipv4.gateway = 192.0.2.1" in lines
    without = rendered(OPTIONS | {"net0": "name=eth0,bridge=vmbr0,ip=dhcp"})
    assert not [line for line in without if "ipv4" in line]


def test_limits_are_written_only_where_the_cgroup_has_them(world: World) -> None:
    assert not [line for line in rendered(OPTIONS) if "memory.max" in line or "cpuset" in line]
    lines = rendered(OPTIONS, controllers="cpuset cpu memory pids")
    assert "lxc.cgroup2.memory.max = 2147483648" in lines
    assert "lxc.cgroup2.cpuset.cpus = 0-3" in lines


def test_only_an_unprivileged_guest_gets_an_id_map(world: World) -> None:
    assert not [line for line in rendered(OPTIONS) if "idmap" in line or "nesting" in line]
    lines = rendered(OPTIONS | {"unprivileged": "1", "features": "nesting=1"})
    assert "lxc.idmap = u 0 100000 65536" in lines
    assert "lxc.idmap = g 0 100000 65536" in lines
    assert "lxc.include = /usr/share/lxc/config/nesting.conf" in lines


def test_raw_lines_come_last_in_their_order(world: World) -> None:
    raw = (("lxc.prlimit.nofile", "1024"), ("lxc.apparmor.profile", "unconfined"))
    assert rendered(OPTIONS, *raw)[-2:] == ["lxc.prlimit.nofile = 1024", "lxc.apparmor.profile = unconfined"]


@pytest.mark.parametrize("path", ["/dev/nvidia99", "/dev/nvidia77"])
def test_an_absent_node_is_named(world: World, path: str) -> None:
    with pytest.raises(PctError, match=f"^Device {path} does not exist$"):
        lxcconf.node(path)


def test_a_file_in_place_of_a_device_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lxcconf.os, "stat", lambda path: world.root.stat())
    with pytest.raises(PctError, match="is not a device"):
        lxcconf.node("/dev/nvidia0")
