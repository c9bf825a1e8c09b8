"""The agent is killed: at random moments, after each resource, and before each single call that changes the machine."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from blackstart import resources
from blackstart.plan import Role
from blackstart.report import MachineReport, Record

from . import fleets, rich
from .conftest import Recorder
from .hosts import Host, Hosts
from .layer import DYING_PYTHON, PACKAGE
from .rounds import Disturb, Outcome, Undisturbed, play, told

AT_ONCE = 3


@pytest.fixture(scope="module", params=[True, False], ids=["booted", "unbooted"])
def undisturbed(request: pytest.FixtureRequest, hosts: Hosts, layer_of: Callable[[bool], Path]) -> Undisturbed:
    return Undisturbed.watch(hosts, layer_of(request.param))


class Striker(fleets.Deaf):
    """Strikes so many seconds after a resource began; once."""

    def __init__(self, resource: str, delay_s: float, strike: Callable[[], int]) -> None:
        self._resource = resource
        self._delay_s = delay_s
        self._strike = strike
        self._thread: threading.Thread | None = None
        self.struck = False

    def begins(self, machine: str, role: str, name: str) -> None:
        if name == self._resource and self._thread is None:
            self._thread = threading.Thread(target=self._run)
            self._thread.start()

    def _run(self) -> None:
        threading.Event().wait(self._delay_s)
        self.struck = self._strike() > 0

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()


def at_moment(role: Role[Any], resource: str, delay_s: float, all_at_once: bool) -> Disturb:
    def disturb(host: Host) -> tuple[MachineReport, bool]:
        striker = Striker(resource, delay_s, host.kill_all if all_at_once else host.kill_agents)
        report = fleets.converge(host, role, listener=striker)
        striker.wait()
        return report, striker.struck and report.error is not None

    return disturb


class AfterEnd(fleets.Deaf):
    """Kills the agent as soon as one resource is done."""

    def __init__(self, host: Host, resource: str) -> None:
        self._host = host
        self._resource = resource

    def ends(self, machine: str, record: Record) -> None:
        if record.name == self._resource:
            self._host.kill_agents()


def after(resource: str) -> Disturb:
    def disturb(host: Host) -> tuple[MachineReport, bool]:
        report = fleets.converge(host, rich.ROLE, listener=AfterEnd(host, resource))
        return report, report.error is not None

    return disturb


def before_call(number: int) -> Disturb:
    """Die before the call of that number; 0 counts them instead."""

    def disturb(host: Host) -> tuple[MachineReport, bool]:
        host.path("/run/die-at").write_text(str(number))
        report = fleets.converge(host, rich.ROLE, python=DYING_PYTHON)
        return report, report.error is not None

    return disturb


def calls_of_a_run(hosts: Hosts, undisturbed: Undisturbed) -> list[list[str]]:
    """Every call by which an undisturbed agent changes the machine."""
    with hosts.one(undisturbed.layer) as host:
        report, _ = before_call(0)(host)
        assert not report.failed, fleets.why(report)
        return [json.loads(line) for line in host.path("/run/calls").read_text().splitlines()]


def play_all(
    hosts: Hosts, undisturbed: Undisturbed, rounds: dict[str, Disturb], record: Recorder, what: str
) -> dict[str, Outcome]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        playing = {label: pool.submit(play, hosts, undisturbed, disturb) for label, disturb in rounds.items()}
        outcomes = {label: future.result() for label, future in playing.items()}
    struck = sum(outcome.struck for outcome in outcomes.values())
    half_done = sum(bool(outcome.half_done) for outcome in outcomes.values())
    completed = sum(outcome.completed_sets for outcome in outcomes.values())
    wrong = sum(bool(outcome.problems) for outcome in outcomes.values())
    record(
        f"agent killed {what}",
        f"{struck} of {len(outcomes)} struck",
        f"{wrong} wrong; {half_done} left a temporary that the next run cleared, {completed} a set that it completed",
    )
    return outcomes


def is_booted(undisturbed: Undisturbed) -> bool:
    return undisturbed.layer.joinpath("etc/breaking-booted").exists()


def kind_of(undisturbed: Undisturbed) -> str:
    return "with systemd" if is_booted(undisturbed) else "without systemd"


@pytest.mark.parametrize("count", [8, pytest.param(150, marks=pytest.mark.soak)])
def test_killed_at_a_random_moment(
    hosts: Hosts, undisturbed: Undisturbed, rng: random.Random, record: Recorder, count: int
) -> None:
    """Moments are spread evenly over the resources, since by time alone nearly all would fall into apt."""
    rounds = {}
    for number in range(count):
        resource = rng.choice(list(undisturbed.seconds))
        delay, everything = rng.random() * (undisturbed.seconds[resource] + 0.005), number % 2 == 1
        label = f"{number}: {resource} + {delay:.4f} s{', with all it started' if everything else ''}"
        rounds[label] = at_moment(undisturbed.role, resource, delay, everything)
    what = f"at a random moment, every other time with all it started, {kind_of(undisturbed)}"
    outcomes = play_all(hosts, undisturbed, rounds, record, what)
    assert told(outcomes) == []
    # A moment drawn near a resource's end may come when all is done; of few, one more of them is no sign of anything.
    assert sum(outcome.struck for outcome in outcomes.values()) >= count * 0.9 - 1


PROGRAMS: dict[str, Role[Any]] = {
    "accounts": fleets.role_of(resources.group("richers"), resources.user("rich", group="richers", home="/srv/rich")),
    "packages": fleets.role_of(resources.packages(PACKAGE)),
}


@pytest.mark.parametrize("what", PROGRAMS)
@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_a_power_cut_in_the_middle_of_a_program(
    hosts: Hosts, layer_of: Callable[[bool], Path], rng: random.Random, record: Recorder, what: str, count: int
) -> None:
    """Programs that are not ours leave half of their own work: what they left is recognised and finished."""
    undisturbed = Undisturbed.watch(hosts, layer_of(False), PROGRAMS[what])
    rounds = {}
    for number in range(count):
        resource = rng.choice(list(undisturbed.seconds))
        delay = rng.random() * undisturbed.seconds[resource]
        rounds[f"{number}: {resource} + {delay:.4f} s"] = at_moment(undisturbed.role, resource, delay, True)
    outcomes = play_all(hosts, undisturbed, rounds, record, f"with all it started, while it makes {what}")
    assert told(outcomes) == []


def test_an_account_that_a_killed_program_left_half_made_is_finished(
    hosts: Hosts, layer_of: Callable[[bool], Path]
) -> None:
    """Between /etc/passwd and /etc/shadow there is a moment that random deaths seldom meet."""
    shadows = {"rich": "/etc/shadow", "richers": "/etc/gshadow"}
    with hosts.one(layer_of(False)) as host:
        assert not fleets.converge(host, PROGRAMS["accounts"]).failed
        whole = {path: host.path(path).read_text() for path in shadows.values()}
        for name, path in shadows.items():
            host.run("sed", "-i", f"/^{name}:/d", path)
        for foreseen, done in (("change", "changed"), ("ok", "ok")):
            checked = fleets.converge(host, PROGRAMS["accounts"], check=True)
            assert set(fleets.states(checked).values()) == {foreseen}
            assert set(fleets.states(fleets.converge(host, PROGRAMS["accounts"])).values()) == {done}
        assert {path: host.path(path).read_text() for path in shadows.values()} == whole


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_after_a_resource(
    hosts: Hosts, undisturbed: Undisturbed, rng: random.Random, record: Recorder, step: int
) -> None:
    names = list(undisturbed.seconds)[rng.randrange(step) :: step]
    rounds = {name: after(name) for name in names}
    outcomes = play_all(hosts, undisturbed, rounds, record, f"after each resource, {kind_of(undisturbed)}")
    assert told(outcomes) == []


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_before_a_call(
    hosts: Hosts, undisturbed: Undisturbed, rng: random.Random, record: Recorder, step: int
) -> None:
    """Every place between two calls that change the machine; a host without systemd differs in its jobs only."""
    calls = calls_of_a_run(hosts, undisturbed)
    booted = is_booted(undisturbed)
    numbers = [n for n, call in enumerate(calls, 1) if booted or "/jobs/" in " ".join(call)]
    chosen = numbers[rng.randrange(step) :: step]
    rounds = {f"{n}: {' '.join(calls[n - 1])}": before_call(n) for n in chosen}
    what = f"before each call that changes the machine, {kind_of(undisturbed)}{'' if booted else ', jobs only'}"
    outcomes = play_all(hosts, undisturbed, rounds, record, what)
    assert told(outcomes) == []
    assert all(outcome.struck for outcome in outcomes.values())
    if step == 1 and booted:
        assert any(outcome.half_done for outcome in outcomes.values())
        assert any(outcome.completed_sets for outcome in outcomes.values())
