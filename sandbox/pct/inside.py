"""`pct exec` and `pct push`: into a running container."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.pct import guest, lxcconf, store
from sandbox.pct.failure import DIED, PctError


def execute(vmid: int, command: Sequence[str]) -> None:
    """Become lxc-attach: streams and exit code are the command's own. Raises PctError where it does not run."""
    store.load(vmid)
    if not guest.running(vmid):
        raise PctError(f"container '{vmid}' not running!", DIED)
    if not command:
        raise PctError("missing command", DIED)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp("lxc-attach", ["lxc-attach", "--name", str(vmid), "--", *command])


def push(vmid: int, source: str, target: str, *, user: str, group: str, mode: str) -> None:
    """Copy a file of the host to a place in the container. Ids are the container's. Raises PctError."""
    options = store.load(vmid).current.options
    pid = guest.init_pid(vmid)
    if pid is None:
        raise PctError("can only push files to a running VM", DIED)
    shift = lxcconf.ID_SHIFT if lxcconf.unprivileged(options) else 0
    try:
        with Path(source).open("rb") as stream:
            owner = (int(user) + shift, int(group) + shift)
            if not _written(pid, stream.fileno(), target, owner, int(mode, 8)):
                raise PctError(f"failed to push {source} to {target} in CT {vmid}", DIED)
    except OSError as error:
        raise PctError(f"failed to open {source}: {error.strerror}", DIED) from error


def _written(pid: int, stream: int, target: str, owner: tuple[int, int], mode: int) -> bool:
    """In a child whose root is the container's, so that no link there leads out of it."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            os.chroot(f"/proc/{pid}/root")
            os.chdir("/")
            with open(stream, "rb", closefd=False) as source, Path(target).open("wb") as copy:
                shutil.copyfileobj(source, copy)
                os.fchown(copy.fileno(), *owner)
                os.fchmod(copy.fileno(), mode)
        except OSError as error:
            print(f"failed to create file: {target}: {error.strerror}", file=sys.stderr, flush=True)
            code = DIED
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0
