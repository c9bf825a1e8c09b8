"""Kernel modules that the kernel loads by itself when a sandbox starts, and that a stop puts back.

Only those of a fixed list are ever unloaded, only if they were not there before, and only while nobody uses them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_PROC = Path("/proc/modules")
# In an order in which each is free once those before it are gone.
_OURS = ("veth", "bridge", "stp", "llc", "overlay")


def loaded() -> str:
    """The text of /proc/modules; empty for a kernel without modules."""
    return _PROC.read_text(encoding="ascii") if _PROC.exists() else ""


def remember(file: Path) -> None:
    file.write_text(loaded(), encoding="ascii")


def restore(file: Path) -> None:
    """Unload what has come since `remember`. A module in use again by somebody else stays."""
    if not file.exists():
        return
    before = names(file.read_text(encoding="ascii"))
    rmmod = shutil.which("rmmod", path="/usr/sbin:/sbin:/usr/bin:/bin")
    for name in _OURS:
        if rmmod and name in unused(loaded()) and name not in before:
            subprocess.run([rmmod, name], capture_output=True, check=False)
    file.unlink()


def names(text: str) -> frozenset[str]:
    """The modules of a /proc/modules text."""
    return frozenset(line.split()[0] for line in text.splitlines() if line.strip())


def unused(text: str) -> frozenset[str]:
    """Those of them that nothing refers to: `name size count users state address`."""
    return frozenset(line.split()[0] for line in text.splitlines() if line.split()[2:3] == ["0"])
