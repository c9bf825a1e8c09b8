"""The cgroup that holds every process of the sandbox, so that all of them can be ended at once."""

from __future__ import annotations

import time
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.paths import Paths


def hierarchy(mountinfo: str) -> Path | None:
    """Where /proc/self/mountinfo says that cgroup2 is mounted, alone or beside version 1; None if nowhere."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[:1] == ["cgroup2"]:
            return Path(before.split()[4])
    return None


def ours(paths: Paths) -> Path | None:
    """This sandbox's cgroup, whether or not it exists yet; None where the machine has no cgroup2 mount."""
    base = hierarchy(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    return base / paths.cgroup if base else None


def remove(paths: Paths, deadline_s: float = 10.0) -> None:
    """Kill whatever still runs in the sandbox's cgroup and remove it, with all below it.

    Raises:
        SandboxError: processes stay (one that the kernel holds in a system call cannot be killed).
    """
    group = ours(paths)
    if group is None or not group.is_dir():
        return
    (group / "cgroup.kill").write_text("1", encoding="ascii")
    until = time.monotonic() + deadline_s
    while not _removed(group):
        if time.monotonic() > until:
            raise SandboxError(
                f"processes of an earlier sandbox do not end ({group}/cgroup.procs)",
                "look at them with ps; a reboot ends them for certain",
            )
        time.sleep(0.02)


def _removed(group: Path) -> bool:
    """Remove the tree leaves first; False while a process still holds one of them."""
    for below in sorted((p for p in group.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
        if not _rmdir(below):
            return False
    return _rmdir(group)


def _rmdir(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
