"""Check mode: whatever a run then changes was foreseen, as a change or as unknown; nothing is called ok that is not."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blackstart import resources
from blackstart.plan import Role, State
from blackstart.resources import Replacement, Resource

from . import fleets, rich
from .conftest import Recorder
from .hosts import Host, Hosts
from .layer import DYING_PYTHON, PACKAGE, PACKAGE_USER, tool_archive
from .predictions import broken_promises
from .snapshots import entry, written

AT_ONCE = 3
TOOL = hashlib.sha256(tool_archive()).hexdigest()
VARIABLES = rich.Variables(inventory_hostname="host")


@pytest.fixture(scope="module")
def layer(layer_of: Callable[[bool], Path]) -> Path:
    return layer_of(True)


def look(host: Host) -> dict[str, object]:
    return {path: entry(host.path(path)) for path in written(host)}


def check_then_run(host: Host, role: Role, *, exact: bool) -> list[str]:  # type: ignore[type-arg]
    before = look(host)
    checked = fleets.converge(host, role, check=True)
    touched = [path for path, found in look(host).items() if before.get(path) != found]
    ran = fleets.converge(host, role)
    return [f"the check touched {path}" for path in touched] + broken_promises([checked], [ran], exact=exact)


# the rich role, from all kinds of places on the way to it

DRIFTS = {
    "a file went": "rm -f /srv/rich/settings.conf",
    "a file was edited": "echo more >>/srv/rich/settings.conf",
    "a mode was changed": "chmod 0600 /srv/rich/big",
    "an owner was changed": "chown daemon:daemon /srv/rich/token",
    "a folder went": "rm -rf /srv/rich/deep",
    "a folder's owner was changed": "chown daemon /srv/rich",
    "a link was turned": "ln -sfn /nowhere /srv/rich/current",
    "a link went": "rm -f /etc/rich/link",
    "a line went": "sed -i /nvidia-uvm/d /etc/rich/modules",
    "the mark before which lines stand went": "sed -i '/# end/d' /etc/rich/modules",
    "what was absent came back": "mkdir -p /etc/rich/old-tree/again; touch /etc/rich/obsolete",
    "a package was removed": f"dpkg --purge {PACKAGE}",
    "a package's file was edited": f"echo own=1 >>/etc/{PACKAGE}.conf",
    "a user went": "userdel rich",
    "a user's shell was changed": "usermod -s /bin/sh rich",
    "a tree got a stranger": "touch /srv/rich-tree/folder-1/stranger",
    "what a command made went": "rm -rf /srv/rich/made",
    "what a command made is half there": "rm -f /srv/rich/made/complete",
    "a guard's line went": "rm -f /etc/rich/by-command",
    "an unpacked tool went": "rm -rf /srv/tool",
    "a job's result went": "rm -f /srv/rich/job-done",
    "a unit was stopped": "systemctl stop -- other.service",
    "a unit was disabled": "systemctl disable -- other.service",
    "a set was partly taken back": "sed -i s/new/old/ /srv/rich-set/two.py",
}


def truncated(role: Role[rich.Variables], count: int) -> Role[rich.Variables]:
    def state(variables: rich.Variables, facts: Sequence[object]) -> State:
        whole = role.state(variables, facts)
        return State(whole.resources[:count], whole.handlers)

    return Role(role.name, role.variables, role.probes, state)


def only_declared(variables: rich.Variables, facts: Sequence[object]) -> State:
    return State(rich.declared(variables), {rich.HANDLER: resources.Restart(rich.UNIT)})


DECLARED = Role("rich", lambda: rich.Variables, lambda variables: (), only_declared)


@pytest.mark.parametrize("role", [rich.ROLE, DECLARED], ids=["with programs", "declared only"])
def test_from_a_bare_machine(hosts: Hosts, layer: Path, role: Role[rich.Variables]) -> None:
    with hosts.one(layer) as host:
        assert check_then_run(host, role, exact=role is DECLARED) == []


@pytest.mark.parametrize("role", [rich.ROLE, DECLARED], ids=["with programs", "declared only"])
@pytest.mark.parametrize("count", [5, pytest.param(30, marks=pytest.mark.soak)])
def test_from_a_half_converged_machine(
    hosts: Hosts, layer: Path, rng: random.Random, record: Recorder, role: Role[rich.Variables], count: int
) -> None:
    """A random part of the plan was applied, and random drift came over it."""
    longest = len(role.state(VARIABLES, [{}]).resources)
    # What a user's number will be when it is made anew, and so whom files belong to, is not foreseen exactly.
    drifting = sorted(name for name in DRIFTS if role is not DECLARED or name != "a user went")
    places = []
    for number in range(count):
        # Every other one was converged to its end, so that drift meets everything.
        applied = longest if number % 2 else rng.randrange(1, longest)
        drifts = rng.sample(drifting, rng.randrange(1, 4))
        places.append((applied, drifts))

    def play(applied: int, drifts: list[str]) -> list[str]:
        with hosts.one(layer) as host:
            begun = fleets.converge(host, truncated(role, applied))
            assert not begun.failed, fleets.why(begun)
            for drift in drifts:
                host.run("sh", "-c", DRIFTS[drift], check=False)  # some find nothing to drift yet
            found = check_then_run(host, role, exact=role is DECLARED)
            return [f"{applied} applied, {', '.join(drifts)}: {promise}" for promise in found]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        broken = list(pool.map(lambda place: play(*place), places))
    outcome = f"{sum(map(bool, broken))} promises broken"
    kind = "declared resources only, both lists equal" if role is DECLARED else "every kind of resource"
    record(f"check, then run, on half-converged and drifted machines: {kind}", f"{count} machines", outcome)
    assert [promise for promises in broken for promise in promises] == []


def test_a_set_that_a_death_left_half_written_is_foreseen_to_be_completed(hosts: Hosts, layer: Path) -> None:
    with hosts.one(layer) as host:
        host.path("/run/die-at").write_text("0")
        whole = fleets.converge(host, rich.ROLE, python=DYING_PYTHON)
        assert not whole.failed, fleets.why(whole)
        calls = host.path("/run/calls").read_text().splitlines()
    renames = [n for n, call in enumerate(calls, 1) if "os.rename" in call and "two.py" in call]
    with hosts.one(layer) as host:
        host.path("/run/die-at").write_text(str(renames[0]))
        fleets.require_failed(fleets.converge(host, rich.ROLE, python=DYING_PYTHON))
        assert check_then_run(host, rich.ROLE, exact=False) == []
        assert "new" in host.path("/srv/rich-set/two.py").read_text()


# what is easily got wrong


def tricky() -> dict[str, list[Resource]]:
    """Plans whose later resources stand on what earlier ones would make."""
    package = resources.packages(
        PACKAGE, provides=[f"/etc/{PACKAGE}.conf", f"/var/lib/{PACKAGE}"], users=[PACKAGE_USER]
    )
    makes = resources.command(
        "makes", ["sh", "-ec", "mkdir -p /srv/made/in && echo x >/srv/made/in/x"], creates="/srv/made"
    )
    old, new = b"state = 'old'\n", b"state = 'new'\n"
    return {
        "a line in a file that a package ships": [package, resources.lines(f"/etc/{PACKAGE}.conf", ["own = yes"])],
        "a line that the package itself ships": [package, resources.lines(f"/etc/{PACKAGE}.conf", ["shipped = yes"])],
        "an owner that a package makes": [package, resources.file("/srv/owned", "x\n", owner=PACKAGE_USER)],
        "a tree of a package's user": [
            package,
            resources.tree(f"/var/lib/{PACKAGE}", owner=PACKAGE_USER, group="root"),
        ],
        "absent, then a file": [resources.absent("/etc/rich/obsolete"), resources.file("/etc/rich/obsolete", "x\n")],
        "absent, then the same file": [
            resources.absent("/etc/rich/obsolete"),
            resources.file("/etc/rich/obsolete", "nobody needs this\n"),
        ],
        "an absent tree, then a file in it": [
            resources.absent("/etc/rich/old-tree", recursive=True),
            resources.directory("/etc/rich/old-tree/folder"),
            resources.file("/etc/rich/old-tree/folder/file-1", "1\n"),
        ],
        "a parent behind a future link": [
            resources.directory("/srv/releases/1"),
            resources.link("/srv/now", "releases/1"),
            resources.file("/srv/now/file", "x\n"),
            resources.file("/srv/releases/1/file", "x\n"),
        ],
        "a link turned to where a file is already": [
            resources.link("/etc/rich/link", "/etc/rich/old-tree"),
            resources.file("/etc/rich/link/folder/file-1", "1\n"),
        ],
        "a guard that reads an unknown path": [
            makes,
            resources.command("guarded", ["touch", "/srv/made/in/y"], creates="/srv/made/in/x"),
            resources.command("guarded by a line", ["true"], line={"path": "/srv/made/in/x", "line": "x"}),
        ],
        "a file in a folder that a command makes": [makes, resources.file("/srv/made/in/x", "x\n")],
        "lines in a file of the same plan": [
            resources.file("/srv/list", "a\nb\n"),
            resources.lines("/srv/list", ["b", "c"]),
        ],
        "a set over a file of the same plan": [
            resources.file("/srv/set", old.decode()),
            resources.fileset("set", [Replacement("/srv/set", new, hashlib.sha256(old).hexdigest())]),
        ],
        "an archive, then a file in it": [
            resources.archive("/srv/tool", "/srv/source/tool.tar", [TOOL]),
            resources.file("/srv/tool/tool/part-1", "x\n"),
            resources.command("guarded by a part", ["false"], creates="/srv/tool/tool/part-2"),
        ],
        "a user, then what is the user's": [
            resources.group("g"),
            resources.user("u", group="g"),
            resources.directory("/srv/u", owner="u", group="g", mode="0700"),
            resources.file("/srv/u/file", "x\n", owner="u", group="g"),
            resources.tree("/srv/u", owner="u", group="g"),
        ],
        "one place wanted twice": [
            resources.file("/srv/twice", "a\n"),
            resources.file("/srv/twice", "b\n"),
            resources.file("/srv/twice", "b\n"),
        ],
        "a job, then its result": [
            resources.job("works", ["sh", "-ec", "mkdir /srv/result && touch /srv/result/done"], creates="/srv/result"),
            resources.file("/srv/result/note", "x\n"),
        ],
    }


DECLARED_ONLY = (
    "absent, then a file",
    "absent, then the same file",
    "an absent tree, then a file in it",
    "a parent behind a future link",
    "a link turned to where a file is already",
    "lines in a file of the same plan",
    "a set over a file of the same plan",
    "a user, then what is the user's",
    "one place wanted twice",
)


@pytest.mark.parametrize("name", tricky())
@pytest.mark.parametrize("steps", ["from the start", pytest.param("from each step", marks=pytest.mark.soak)])
def test_what_is_easily_got_wrong(hosts: Hosts, layer: Path, name: str, steps: str) -> None:
    """From a bare machine or from each step on the way, and once more from the end."""
    plan = tricky()[name]
    role = fleets.role_of(*plan)
    for applied in range(len(plan) if steps == "from each step" else 1):
        with hosts.one(layer) as host:
            if applied:
                fleets.converge(host, fleets.role_of(*plan[:applied]))
            exact = name in DECLARED_ONLY
            assert (applied, check_then_run(host, role, exact=exact)) == (applied, [])
            assert ("the end", check_then_run(host, role, exact=exact)) == ("the end", [])
