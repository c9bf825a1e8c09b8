"""From a container's configuration to the one that LXC reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.pct import properties, schema, storage
from sandbox.pct.failure import DIED, NO_ENTRY, FormatProblem, PctError

ID_SHIFT = 100000
LXC = Path("/var/lib/lxc")


@dataclass(frozen=True)
class Node:
    """A device as the container is to have it: numbers from the host's node, owner and mode from devN."""

    path: str
    kind: int
    major: int
    minor: int
    mode: int
    uid: int
    gid: int
    read_only: bool

    @property
    def rule(self) -> str:
        letter = "b" if stat.S_ISBLK(self.kind) else "c"
        return f"{letter} {self.major}:{self.minor} {'r' if self.read_only else 'rw'}"


def node(value: str) -> Node:
    """Look at the host's node that a devN names. Raises PctError where it is absent or no device."""
    parts = parse("dev", value)
    try:
        found = os.stat(parts["path"])
    except FileNotFoundError as error:
        raise PctError(f"Device {parts['path']} does not exist", NO_ENTRY) from error
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
        raise PctError(f"{parts['path']} is not a device", DIED)
    return Node(
        path=parts["path"],
        kind=stat.S_IFMT(found.st_mode),
        major=os.major(found.st_rdev),
        minor=os.minor(found.st_rdev),
        mode=int(parts.get("mode", "0660"), 8),
        uid=int(parts.get("uid", "0")),
        gid=int(parts.get("gid", "0")),
        read_only=properties.is_true(parts.get("deny-write")),
    )


def nodes(options: Mapping[str, str]) -> list[Node]:
    """Every devN of a configuration, in the order of their numbers."""
    return [node(value) for _, value in indexed(options, "dev")]


def indexed(options: Mapping[str, str], kind: str) -> list[tuple[int, str]]:
    found = []
    for name, value in options.items():
        split = schema.split_index(name)
        if split and split[0] == kind:
            found.append((split[1], value))
    return sorted(found)


def parse(name: str, value: str) -> dict[str, str]:
    """Parts of a stored property string. Raises PctError as the real one does for a hand-made mistake."""
    try:
        return schema.PROPERTY_STRINGS[name].parse(value)
    except FormatProblem as problem:
        text = str(problem).removeprefix("invalid format - ")
        raise PctError(" ".join(text.split("\n")).rstrip() + " ", DIED) from problem


def unprivileged(options: Mapping[str, str]) -> bool:
    return properties.is_true(options.get("unprivileged"))


def render(
    vmid: int,
    options: Mapping[str, str],
    raw: Sequence[tuple[str, str]],
    devices: Sequence[Node],
    controllers: frozenset[str],
) -> str:
    """The text of /var/lib/lxc/ID/config. controllers: what the host's cgroup offers (memory, cpuset, …)."""
    ostype = options.get("ostype", "debian")
    include = ostype if Path(f"/usr/share/lxc/config/{ostype}.common.conf").exists() else "debian"
    lines = [
        "lxc.cgroup.relative = 0",
        f"lxc.cgroup.dir.monitor = lxc.monitor/{vmid}",
        f"lxc.cgroup.dir.container = lxc/{vmid}",
        "lxc.cgroup.dir.container.inner = ns",
        f"lxc.arch = {options.get('arch', 'amd64')}",
        f"lxc.include = /usr/share/lxc/config/{include}.common.conf",
        *_privileges(options),
        *(f"lxc.cgroup2.devices.allow = {device.rule}" for device in devices),
        "lxc.monitor.unshare = 1",
        f"lxc.tty.max = {options.get('tty', '2')}",
        "lxc.tty.dir =",
        "lxc.environment = TERM=linux",
        f"lxc.uts.name = {options.get('hostname', f'CT{vmid}')}",
        f"lxc.rootfs.path = dir:{storage.place(parse('rootfs', options['rootfs'])['volume'])}",
        *_limits(options, controllers),
        *_mounts(vmid, options, devices),
        *_networks(vmid, options),
        "lxc.apparmor.profile = unconfined",
        *(f"{key} = {value}" for key, value in raw),
    ]
    return "\n".join(lines) + "\n"


def _privileges(options: Mapping[str, str]) -> Iterator[str]:
    if not unprivileged(options):
        # nesting.conf would show a privileged guest a whole proc, with the real machine's sysctls writable.
        return
    yield "lxc.include = /usr/share/lxc/config/debian.userns.conf"
    if properties.is_true(parse("features", options["features"]).get("nesting") if "features" in options else None):
        yield "lxc.include = /usr/share/lxc/config/nesting.conf"
    yield f"lxc.idmap = u 0 {ID_SHIFT} 65536"
    yield f"lxc.idmap = g 0 {ID_SHIFT} 65536"


def _limits(options: Mapping[str, str], controllers: frozenset[str]) -> Iterator[str]:
    if "memory" in controllers:
        yield f"lxc.cgroup2.memory.max = {int(options.get('memory', '512')) * 1024**2}"
    if "cpuset" in controllers and "cores" in options:
        count = min(int(options["cores"]), os.cpu_count() or 1)
        yield f"lxc.cgroup2.cpuset.cpus = 0-{count - 1}"


def _mounts(vmid: int, options: Mapping[str, str], devices: Sequence[Node]) -> Iterator[str]:
    for _, value in indexed(options, "mp"):
        parts = parse("mp", value)
        flags = "rbind,create=dir" + (",ro" if properties.is_true(parts.get("ro")) else "")
        source, target = storage.place(parts["volume"]), parts["mp"].lstrip("/")
        yield f"lxc.mount.entry = {_escaped(str(source))} {_escaped(target)} none {flags} 0 0"
    for device in devices:
        inside = device.path.removeprefix("/")
        source = passthrough(vmid) / inside
        yield f"lxc.mount.entry = {_escaped(str(source))} {_escaped(inside)} none bind,create=file 0 0"


def _networks(vmid: int, options: Mapping[str, str]) -> Iterator[str]:
    for index, value in indexed(options, "net"):
        parts = parse("net", value)
        base = f"lxc.net.{index}"
        yield f"{base}.type = veth"
        yield f"{base}.veth.pair = veth{vmid}i{index}"
        if "bridge" in parts:
            yield f"{base}.link = {parts['bridge']}"
        if "hwaddr" in parts:
            yield f"{base}.hwaddr = {parts['hwaddr']}"
        yield f"{base}.name = {parts['name']}"
        yield f"{base}.mtu = {parts.get('mtu', '1500')}"
        if not properties.is_true(parts.get("link_down")):
            yield f"{base}.flags = up"
        # The real one leaves the address to the guest's ifupdown; these guests have none.
        if parts.get("ip", "manual") not in ("dhcp", "manual"):
            yield f"{base}.ipv4.address = {parts['ip']}"
        if "gw" in parts:
            yield f"{base}.ipv4.gateway = {parts['gw']}"


def bridges(options: Mapping[str, str]) -> list[str]:
    named = (parse("net", value).get("bridge") for _, value in indexed(options, "net"))
    return [bridge for bridge in named if bridge]


def passthrough(vmid: int) -> Path:
    """Where the container's device nodes are made, a file system of its own."""
    return LXC / str(vmid) / "passthrough"


def _escaped(path: str) -> str:
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
