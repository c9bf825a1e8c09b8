#!/usr/bin/python3 -IS
"""An interpreter that kills itself before the n-th call by which a program changes the machine, n in /run/die-at.

With 0 it lives, and writes each such call down in /run/calls. It stands in for `python:` of a host's inventory, so the
agent itself knows nothing of it.
"""

import json
import os
import signal
import sys
from typing import Any

CHANGING = {
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
    "os.utime", "shutil.rmtree", "subprocess.Popen",
}  # fmt: skip

with open("/run/die-at") as wish:  # noqa: PTH123  pathlib would be imported into every agent
    die_at = int(wish.read())
log = os.open("/run/calls", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
calls = 0


def changes(event: str, arguments: "tuple[Any, ...]") -> bool:
    """How often systemd is asked about a job depends on the time that it takes: no number would mean the same call."""
    if event == "subprocess.Popen" and list(arguments[1])[:2] == ["systemctl", "show"]:
        return False
    if event == "open":
        return arguments[0] != os.devnull and bool((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return event in CHANGING


def hook(event: str, arguments: "tuple[Any, ...]") -> None:
    global calls
    if not changes(event, arguments):
        return
    calls += 1
    if calls == die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    if die_at == 0:
        os.write(log, (json.dumps([event, *map(str, arguments[:2])]) + "\n").encode())


sys.addaudithook(hook)
exec(sys.argv[3])
