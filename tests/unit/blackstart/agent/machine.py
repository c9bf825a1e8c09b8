"""A folder that plays a machine, and the agent's real Run on it, fed as the controller feeds it."""

import errno
import json
import os

from blackstart.agent.converge import Run
from blackstart.agent.store import Store
from blackstart.agent.wire import Wire
from blackstart.plan import Section, State, plan_to_wire


class Machine:
    """`apply` and `check` carry out resources and return what each came to; `events` holds all of the last run."""

    def __init__(self, root):
        self.root = root
        self.state = root / "state"
        self.events = []

    def apply(self, *resources, **options):
        return self.run(resources, check=False, **options)

    def check(self, *resources, **options):
        return self.run(resources, check=True, **options)

    def run(self, resources, *, check, handlers=None, verify=(), restart=False, empty=False, sections=None):
        """One plan with one section, or with `sections`, by a controller of its own. Returns the states in order."""
        one = Section("role", "box", (), "", State(list(resources), handlers or {}, list(verify)))
        plan = plan_to_wire(sections or [one], check=check, restart=restart, empty=empty)
        with Listening(self.root) as wire:
            store = Store(str(self.state), "tester")
            try:
                Run(plan, wire, store).execute()
            finally:
                release(store)
        self.events = wire.events()
        return [event["state"] for event in self.done]

    @property
    def done(self):
        return [event for event in self.events if event["e"] == "done"]

    @property
    def failure(self):
        """The detail of the resource that failed."""
        (failed,) = [event for event in self.done if event["state"] == "failed"]
        return failed["detail"]

    def journal(self):
        path = self.state / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def owed(self):
        path = self.state / "owed.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def kept(self):
        """The contents that the store keeps, by hash."""
        folder = self.state / "replaced"
        return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


class Listening:
    """A wire whose controller listens: stdin stays open, events go to a file. `hang_up` closes the controller's end."""

    def __init__(self, folder):
        self._path = folder / ".events"

    def __enter__(self):
        self._source, self._controller = os.pipe()
        self._sink = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.wire = Wire(self._source, self._sink)
        self.wire.events = self.events
        self.wire.hang_up = self.hang_up
        return self.wire

    def __exit__(self, *ending):
        self.hang_up()
        os.close(self._source)
        os.close(self._sink)
        self._found = self._read()
        self._path.unlink()

    def hang_up(self):
        if self._controller is not None:
            os.close(self._controller)
            self._controller = None

    def _read(self):
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def events(self):
        return self._found if not self._path.exists() else self._read()


def release(store):
    """What the kernel does when an agent ends."""
    for handle in store._locks:
        os.close(handle)
    store._locks = []


def tree(folder):
    """Everything below a folder that a run could change: kind, mode, owner, content or target, by relative path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            what = ("link", str(path.readlink()))
        elif path.is_dir():
            what = ("directory",)
        elif path.is_file():
            what = ("file", path.read_bytes())
        else:
            what = ("other",)
        mode = None if path.is_symlink() else status.st_mode & 0o7777
        found[str(path.relative_to(folder))] = (*what, mode, status.st_uid, status.st_gid)
    return found


def full(*arguments, **fields):
    """What any writing does once the disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def mode(path):
    return path.lstat().st_mode & 0o7777
