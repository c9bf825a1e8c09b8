"""What the agent keeps on a machine: the lock, the journal, replaced contents, and handlers that are still owed."""

import fcntl
import json
import os
import time
from typing import Any, Dict, List

from .atomic import write_atomically

STATE = "/var/lib/blackstart"
CREDENTIALS = "/run/blackstart"
KEPT = 500
HOLDER_WRITES_S = 1.0


class Held(Exception):
    """Another controller holds this machine's lock."""

    def __init__(self, holder: Dict[str, Any]) -> None:
        Exception.__init__(self, str(holder))
        self.holder = holder


class Damaged(Exception):
    """A file of ours cannot be read: a full disk, a power cut, or another program's writing."""

    def __init__(self, path: str, why: str) -> None:
        Exception.__init__(self, path)
        self.message = "%s is damaged: %s" % (path, why)
        self.remedy = "look at it, move it away, then run again"


def now() -> str:
    return stamp(time.time())


def stamp(seconds: float) -> str:
    """A moment, in seconds since 1970, as it is written everywhere here."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Store:
    """The state folder of a machine. Made when the first change is made, so that checks leave nothing behind."""

    def __init__(self, root: str, controller: str) -> None:
        self.root = root
        self.controller = controller
        self._locks: List[int] = []

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def credentials(self, *parts: str) -> str:
        """Where secrets of jobs lie, in memory."""
        return os.path.join(CREDENTIALS, *parts)

    def jobs_with_credentials(self) -> List[str]:
        """The jobs of this folder whose secrets are still there."""
        names = os.listdir(CREDENTIALS) if os.path.isdir(CREDENTIALS) else []
        return [name for name in names if os.path.isdir(self.path("jobs", name))]

    def lock(self) -> None:
        """Take the machine's lock for the life of this process; the kernel frees it. Raises Held.

        The folder is locked too: who removes the file `lock` while it is held lets nobody in.
        """
        if self._locks:
            return
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        folder = self._take(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            handle = self._take(self.path("lock"), os.O_RDWR | os.O_CREAT)
        except BaseException:
            os.close(folder)
            raise
        self._locks = [folder, handle]
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"controller": self.controller, "pid": os.getpid(), "since": now()}).encode())
        self._await_what_was_left()

    def _await_what_was_left(self) -> None:
        """A command outlives an agent that is killed: it is waited for, and then as good as a holder. Raises Held."""
        if not os.path.exists(self.path("running")):
            return
        from .running import outlived  # here, because few runs come after a death

        left = outlived(self.path("running"))
        if left is not None:
            for handle in self._locks:
                os.close(handle)
            self._locks = []
            what = "what a dead run left running: process %d, %s" % (left["pid"], left["program"])
            raise Held({"controller": what, "pid": left["pid"], "since": stamp(left["since"])})

    def _take(self, path: str, flags: int) -> int:
        """Lock what stands at a path, not what stood there a moment ago. Raises Held."""
        while True:
            handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                raise Held(_holder(self.path("lock"))) from None
            if _stands_at(path, handle):
                return handle
            os.close(handle)

    def journal(self, **entry: Any) -> None:
        line = json.dumps(dict({"at": now(), "by": self.controller}, **entry), separators=(",", ":")) + "\n"
        with open(self.path("journal.jsonl"), "ab+", opener=_private) as stream:
            if stream.tell() and os.pread(stream.fileno(), 1, stream.tell() - 1) != b"\n":
                line = "\n" + line  # a full disk or a power cut tore the last one
            stream.write(line.encode())

    def keep(self, digest: str, content: bytes) -> None:
        """Keep a content that is about to be replaced, under its own hash."""
        place = self.path("replaced", digest)
        if os.path.exists(place):
            os.utime(place)  # it counts as new again
            return
        os.makedirs(self.path("replaced"), mode=0o700, exist_ok=True)
        write_atomically(place, content, 0o600, None)
        self._prune(digest)

    def _prune(self, newest: str) -> None:
        """The oldest contents go once there are more than KEPT of them; never `newest`, whatever clocks say."""
        folder = self.path("replaced")
        others = [name for name in os.listdir(folder) if name != newest]
        others.sort(key=lambda name: os.stat(os.path.join(folder, name)).st_mtime_ns)
        for name in others[: -(KEPT - 1)]:
            os.unlink(os.path.join(folder, name))

    def owed(self) -> Dict[str, Dict[str, Any]]:
        """Handlers that were notified and have not run yet, by name. Raises Damaged."""
        try:
            return read_json(self.path("owed.json"))
        except FileNotFoundError:
            return {}

    def set_owed(self, owed: Dict[str, Dict[str, Any]]) -> None:
        if owed or os.path.exists(self.path("owed.json")):
            write_atomically(self.path("owed.json"), json.dumps(owed).encode(), 0o600, None)


def read_json(path: str) -> Dict[str, Any]:
    """What we wrote there. Raises Damaged."""
    with open(path, "rb") as stream:
        content = stream.read()
    try:
        found = json.loads(content)
    except ValueError as error:
        raise Damaged(path, str(error) if content else "it is empty") from None
    if not isinstance(found, dict):
        raise Damaged(path, "it holds no mapping")
    return found


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _stands_at(path: str, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _holder(path: str) -> Dict[str, Any]:
    """Who holds a lock; {} where nobody can tell. A dead holder's word stands there until its heir has written."""
    deadline = time.monotonic() + HOLDER_WRITES_S
    while time.monotonic() < deadline:
        try:
            holder = read_json(path)
        except (FileNotFoundError, Damaged):
            holder = {}
        if os.path.exists("/proc/%s" % holder.get("pid")):
            return holder
        time.sleep(0.01)
    return {}
