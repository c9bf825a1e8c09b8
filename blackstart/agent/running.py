"""The command that runs for the agent, written down while it runs: it outlives an agent that is killed, and whoever
comes next must not start it a second time beside it.

Only the program itself counts. What it leaves running when it ends well, a daemon, is no concern of ours.
"""

import contextlib
import json
import os
import time
from typing import Any, Dict, Optional

from .store import now

WAIT_S = 10.0
POLL_S = 0.05


def write_down(path: str, pid: int, program: str) -> None:
    """Note what has just been started. It runs already, so a note that cannot be written must not stop us."""
    began = _began(pid)
    if began is None:
        return
    note = {"pid": pid, "began": began, "program": program, "since": now()}
    with contextlib.suppress(OSError), open(path, "w") as stream:
        stream.write(json.dumps(note))


def forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def outlived(path: str) -> Optional[Dict[str, Any]]:
    """The note of a program that still runs after WAIT_S, though who started it is gone; None where there is none."""
    deadline = time.monotonic() + WAIT_S
    while True:
        note = _alive(path)
        if note is None:
            forget(path)
            return None
        if time.monotonic() >= deadline:
            return note
        time.sleep(POLL_S)


def _alive(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path, "rb") as stream:
            note: Dict[str, Any] = json.load(stream)
    except (FileNotFoundError, ValueError):  # a note that was torn by a death
        return None
    return note if _began(note["pid"]) == note["began"] else None


def _began(pid: int) -> Optional[str]:
    """When a process began, as the kernel counts it; None for one that is gone, or dead and not yet buried."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            state, *fields = stream.read().decode("ascii", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else fields[18]
