"""A whole Fleet over a real sshd: a tiny role that writes below a folder, and an agent whose state lies there too."""

import contextlib
import fcntl
import json
import sys
import threading
from pathlib import Path

from pydantic import BaseModel

from blackstart import resources
from blackstart.converge import converge
from blackstart.errors import InputError
from blackstart.fleet import Fleet, Options
from blackstart.inventory import read
from blackstart.machine import Value
from blackstart.plan import Entrance, Role, State
from blackstart.session import Session
from blackstart.variables import Defaults

DEFAULTS: Defaults = {
    name: Value(value, "defaults.yml:1")
    for name, value in {"tiny_root": "", "tiny_text": "one", "tiny_command": [], "tiny_refuses": False}.items()
}


class Variables(BaseModel):
    tiny_root: str
    tiny_text: str
    tiny_command: list[str]
    tiny_refuses: bool
    inventory_hostname: str


def tiny_state(variables, facts):
    """A folder, a file, a command between them and a link, so that a run can be met in the middle."""
    if variables.tiny_refuses:
        raise InputError("this cannot be", where="here")
    root = variables.tiny_root
    command = variables.tiny_command or ["touch", f"{root}/app/marker"]
    return State(
        [
            resources.directory(f"{root}/app", mode="0750"),
            resources.file(f"{root}/app/before", f"{variables.inventory_hostname} {variables.tiny_text}\n"),
            resources.command("middle", command, creates=f"{root}/app/marker"),
            resources.file(f"{root}/app/after", f"{variables.tiny_text}\n", mode="0600"),
            resources.lines(f"{root}/app/lines", ["a", "b"]),
            resources.link(f"{root}/app/link", "after"),
        ]
    )


def names(root):
    """The tiny role's resources, in order."""
    paths = ("directory app", "file app/before", "", "file app/after", "lines in app/lines", "link app/link")
    return [path.replace("app", f"{root}/app", 1) or "middle" for path in paths]


TINY = Role("tiny", lambda: Variables, lambda variables: [], tiny_state)
TINY_ON_HOST = Role("tiny_host", lambda: Variables, lambda variables: [], tiny_state, on_host=True)
"""The same for machines that are entered from another."""


def entrance(running=True, enter=list):
    return Entrance(TINY_ON_HOST, lambda variables, argv: enter(argv), lambda variables, facts: running)


class StatefulSession(Session):
    """A session whose agent keeps its lock, journal and kept contents in a folder of the test."""

    state = ""

    def request(self, operation, **fields):
        return super().request(operation, state=self.state, **fields)


class TestFleet(Fleet):
    __test__ = False

    def session(self, machine, *, installs=True):
        session = StatefulSession(self.transport(machine), python=sys.executable, installs=installs)
        session.state = f"{machine.get('tiny_root')}/state"
        return session


class Ear:
    """A listener that remembers what began and ended."""

    def __init__(self):
        self.began = []
        self.ended = []
        self.said = []

    def begins(self, machine, role, name):
        self.began.append((machine, name))

    def says(self, machine, line):
        self.said.append((machine, line))

    def ends(self, machine, record):
        self.ended.append((machine, record.name, record.state))

    def rests(self, machine):
        pass


class Site:
    """An inventory of machines that are all one sshd, each with a folder of its own."""

    def __init__(self, folder, server, machines=("box",)):
        self.folder = folder
        self.server = server
        self.hosts = {name: self._variables(name) for name in machines}
        self.ear = Ear()
        self.retries = {}

    def _variables(self, name):
        self.root(name).mkdir(parents=True, exist_ok=True)
        return {
            "address": "127.0.0.1",
            "port": self.server.port,
            "identity_file": str(self.server.identity),
            "known_hosts": str(self.server.known_hosts),
            "tiny_root": str(self.root(name)),
        }

    def root(self, name="box"):
        return self.folder / "machines" / name

    def inventory(self):
        path = self.folder / "inventory"
        path.mkdir(exist_ok=True)
        (path / "hosts.yml").write_text(json.dumps({"all": {"hosts": self.hosts}}))
        return read(path, set(DEFAULTS))

    @contextlib.contextmanager
    def fleet(self, roles=(TINY,), through=None):
        with TestFleet(self.inventory(), DEFAULTS, list(roles), through or entrance(), self.ear) as fleet:
            yield fleet

    def converge(self, roles=(TINY,), through=None, **options):
        """All machines, by a controller of its own. Returns the reports by machine."""
        with self.fleet(roles, through) as fleet:
            reports = converge(fleet, list(fleet.inventory.machines.values()), Options(**options))
        return {report.name: report for report in reports}

    def in_background(self, **options):
        """A converge in a thread: (thread, reports, fleet)."""
        reports = {}
        stack = contextlib.ExitStack()
        fleet = stack.enter_context(self.fleet())

        def work():
            with stack:
                found = converge(fleet, list(fleet.inventory.machines.values()), Options(**options))
                reports.update({report.name: report for report in found})

        thread = threading.Thread(target=work)
        thread.start()
        return thread, reports, fleet

    def journal(self, name="box"):
        path = self.root(name) / "state" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def is_locked(self, name="box"):
        path = self.root(name) / "state" / "lock"
        if not path.exists():
            return False
        with path.open() as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def states(report):
    return [record.state for record in report.records]


def agents(root):
    """The processes that have a file of an agent's state folder open: those that hold its lock."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) == f"{root}/state/lock":
                found.add(int(link.parts[2]))
    return found
