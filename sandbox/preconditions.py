"""What the real machine must offer, looked at before anything is touched."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from sandbox import cgroup, link
from sandbox.paths import ADDRESS, MACHINE_ADDRESS, MACHINE_LINK, PREFIX_LENGTH, Paths

# What a container's root may lack: bit in /proc/PID/status -> name.
_CAPABILITIES = {
    21: "CAP_SYS_ADMIN",
    12: "CAP_NET_ADMIN",
    27: "CAP_MKNOD",
    18: "CAP_SYS_CHROOT",
    0: "CAP_CHOWN",
    31: "CAP_SETFCAP",
}
_NAMESPACES = ("mnt", "net", "pid", "cgroup", "ipc", "uts", "user")
_NO_UPPER_LAYER = ("overlay", "nfs", "nfs4", "cifs", "vfat", "exfat", "fuseblk", "9p")
_ROUTES = Path("/proc/net/route")
_FREE_BYTES = 2 * 1024**3
_MACHINES = ("x86_64",)


def reasons(paths: Paths) -> list[str]:
    """Why the sandbox cannot work here, each in words a person can act on; empty where it can."""
    if sys.platform != "linux":
        return [f"the sandbox needs Linux (this is {sys.platform})"]
    return [*_rights(), *_kernel(), *_system(), *_place(paths), *_other(paths), *_network()]


def _rights() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "the sandbox needs root (it makes namespaces, mounts and device nodes)"
        return
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    lacking = [name for bit, name in _CAPABILITIES.items() if not effective >> bit & 1]
    if lacking:
        yield f"root lacks {', '.join(lacking)} here (an unprivileged container?)"


def _kernel() -> Iterator[str]:
    lacking = [name for name in _NAMESPACES if not Path(f"/proc/self/ns/{name}").exists()]
    if lacking:
        yield f"the kernel has no {', '.join(lacking)} namespaces"
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8").split() and not _module("overlay"):
        yield "the kernel has no overlayfs"
    if cgroup.hierarchy(Path("/proc/self/mountinfo").read_text(encoding="utf-8")) is None:
        yield "cgroup2 is not mounted (boot with systemd.unified_cgroup_hierarchy=1, or mount it)"
    limit = Path("/proc/sys/user/max_user_namespaces")
    if limit.exists() and limit.read_text(encoding="utf-8").strip() == "0":
        yield "user namespaces are turned off (sysctl user.max_user_namespaces is 0)"


def _module(name: str) -> bool:
    folder = Path("/lib/modules") / os.uname().release
    return any(folder.rglob(f"{name}.ko*"))


def _system() -> Iterator[str]:
    if os.uname().machine not in _MACHINES:
        yield f"the sandbox is made for {', '.join(_MACHINES)} (this is {os.uname().machine})"
    if shutil.which("apt-get", path="/usr/bin:/bin") is None:
        yield "the sandbox needs Debian's apt-get to get its packages"


def _place(paths: Paths) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9/._@%+-]+", str(paths.root)):
        yield f"the state root {paths.root} has characters that mount options cannot hold"
        return
    place = paths.root
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        yield f"the state root {paths.root} cannot be made: {place} is no folder"
        return
    if place == paths.root:
        foreign = sorted(p.name for p in paths.root.iterdir() if p not in paths.own() and not p.name.startswith("."))
        if foreign:
            yield f"the state root {paths.root} holds things that are not the sandbox's: {', '.join(foreign[:5])}"
    free = shutil.disk_usage(place).free
    if free < _FREE_BYTES:
        yield f"{place} has {free / 1024**3:.1f} GiB free, {_FREE_BYTES / 1024**3:.0f} GiB are needed"
    kind = _file_system(place)
    if kind in _NO_UPPER_LAYER:
        yield f"{place} is on {kind}, which cannot hold an overlay's upper layer: set BLACKSTART_SANDBOX_DIR elsewhere"


def _file_system(place: Path) -> str:
    """The type of the file system that holds the place, from the longest mount point above it."""
    best, kind = -1, ""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, point, this, *_ = line.split()
        above = Path(point.replace("\\040", " "))
        if (place == above or above in place.parents) and len(above.parts) >= best:
            best, kind = len(above.parts), this
    return kind


def _network() -> Iterator[str]:
    ours = ipaddress.IPv4Network(f"{MACHINE_ADDRESS}/{PREFIX_LENGTH}", strict=False)
    for name, network in routes(_ROUTES.read_text(encoding="utf-8")):
        if name != MACHINE_LINK and network.prefixlen > 0 and network.overlaps(ours):
            yield f"{name} already leads to {network}, which holds the sandbox's own address {ADDRESS}"


def _other(paths: Paths) -> Iterator[str]:
    running = link.foreign(paths)
    if running:
        yield f"another sandbox runs on this machine, with its state in {running}: take that one down first"


def routes(table: str) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    """Each route of /proc/net/route as (link, network); the table holds little-endian hexadecimal."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        base, mask = (int.from_bytes(bytes.fromhex(fields[at]), "little") for at in (1, 7))
        yield fields[0], ipaddress.IPv4Network((base, mask.bit_count()), strict=False)
