"""The command that runs for the agent writes itself down: it outlives an agent that is killed, and whoever comes next
must not start it a second time beside itself.

Only the program itself counts. What it leaves running when it ends well, a daemon, is no concern of ours.
"""

import contextlib
import os
import time
from typing import Any, Dict, List, Optional

WAIT_S = 10.0
POLL_S = 0.05

# In the command's own process, before it becomes the command: an agent that wrote it could die before it did. A note
# that cannot be written stops nothing.
NOTE = '{ read -r stat </proc/$$/stat && printf "%s\\n" "$stat" >"$0"; } 2>/dev/null; exec "$@"'


def noted(argv: List[str], path: str) -> List[str]:
    """The command that writes down at `path` who it is, by /proc/PID/stat, and then is `argv`."""
    return ["/bin/sh", "-c", NOTE, path, *argv]


def forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def outlived(path: str) -> Optional[Dict[str, Any]]:
    """A program that still runs after WAIT_S, though who started it is gone; None without.

    {pid, program, since}, the last in seconds since 1970.
    """
    deadline = time.monotonic() + WAIT_S
    while True:
        alive = _alive(path)
        if alive is None:
            forget(path)
            return None
        if time.monotonic() >= deadline:
            return alive
        time.sleep(POLL_S)


def _alive(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path) as stream:
            note = stream.read()
        pid = int(note.split(" ")[0])
        with open("/proc/%d/stat" % pid) as stream:
            found = stream.read()
        since = os.stat(path).st_mtime
    except (OSError, ValueError):  # it is gone, or its note was torn by a death
        return None
    if _state(found) in "ZX" or _began(found) is None or _began(found) != _began(note):
        return None
    return {"pid": pid, "program": found[found.index("(") + 1 : found.rindex(")")], "since": since}


def _state(stat: str) -> str:
    return stat.rpartition(")")[2].split()[0]


def _began(stat: str) -> Optional[str]:
    """When a process began, as the kernel counts it: what tells it from a later one of the same number."""
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else None
