"""Finding a process again: a pid alone may have passed to another; with its start time and boot it cannot."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """A process: its pid, its start in clock ticks since boot (field 22 of /proc/PID/stat), and that boot's id."""

    pid: int
    start: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """Who has this pid now; None where nobody has, or where only a zombie is left."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command name stands in brackets and may itself hold brackets and spaces.
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else cls(pid, int(fields[19]), _boot())

    def alive(self) -> bool:
        return Identity.of(self.pid) == self


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def save(identity: Identity, path: Path) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(asdict(identity)), encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> Identity | None:
    """The process that the file names, if it is still the same one; a file cut short names nobody."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = Identity(int(data["pid"]), int(data["start"]), str(data["boot"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return found if found.alive() else None
