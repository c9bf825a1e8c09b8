"""The system calls that Python 3.11 lacks: namespaces and mounts."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Leave the named namespaces for new ones (unshare(2)). Raises OSError."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str | Path, target: str | Path, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError naming the target."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _check(result, str(target))


def bind(source: str | Path, target: str | Path, *, read_only: bool = False) -> None:
    """Show source at target as well. Raises OSError."""
    mount(source, target, "", MS_BIND)
    if read_only:
        mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)


def detach(target: str | Path) -> None:
    """Unmount target, now or as soon as nobody uses it. Raises OSError."""
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(MNT_DETACH)), str(target))
