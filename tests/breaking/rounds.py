"""One round of breaking: disturb a run on a new host, run again, and hold the end to account."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blackstart.plan import Role
from blackstart.report import MachineReport
from tests.waiting import wait_for

from . import fleets, rich
from .hosts import Host, Hosts
from .snapshots import Entry, Settled, entry, temporaries

# Each is old or new at every moment: contents, mode and owner.
WRITTEN_AT_ONCE = (
    "/srv/rich/settings.conf",
    "/srv/rich/token",
    "/srv/rich/big",
    "/srv/rich/made/settings",
    "/srv/rich/deep/er/inside",
    "/srv/rich/current",
    "/etc/rich/link",
    "/etc/rich/old.conf",
    "/etc/rich/modules",
    "/etc/rich/new-lines",
    "/etc/rich/obsolete",
    "/srv/rich-set/one.py",
    "/srv/rich-set/two.py",
    "/srv/rich-set/three.py",
    "/srv/rich-set/four.py",
    "/srv/tool/.sha256",
)
STATE = "/var/lib/blackstart"


@dataclass(frozen=True)
class Undisturbed:
    """What a run that nothing disturbs takes and leads to."""

    role: Role[Any]
    layer: Path
    settled: Settled
    old: dict[str, Entry]
    new: dict[str, Entry]
    seconds: dict[str, float]
    """Each resource's share of the run, in its order."""

    @classmethod
    def watch(cls, hosts: Hosts, layer: Path, role: Role[Any] = rich.ROLE) -> Undisturbed:
        with hosts.one(layer) as host:
            old = {path: entry(host.path(path)) for path in WRITTEN_AT_ONCE}
            report = fleets.converge(host, role)
            assert not report.failed, fleets.why(report)
            again = fleets.converge(host, role)
            assert set(fleets.states(again).values()) == {"ok"}, fleets.states(again)
            return cls(
                role,
                layer,
                Settled(host),
                old,
                {path: entry(host.path(path)) for path in WRITTEN_AT_ONCE},
                {record.name: record.seconds for record in report.records},
            )


@dataclass
class Outcome:
    """What one round came to. `struck` says whether the run was really disturbed; `problems` should be empty."""

    struck: bool = True
    problems: list[str] = field(default_factory=list)
    half_done: list[str] = field(default_factory=list)
    completed_sets: int = 0
    seconds: float = 0.0
    retried: bool = False


Disturb = Callable[[Host], tuple[MachineReport, bool]]


def play(hosts: Hosts, undisturbed: Undisturbed, disturb: Disturb) -> Outcome:
    """A round on a host of its own. `disturb` makes the first run; it returns its report and whether it was struck."""
    with hosts.one(undisturbed.layer) as host:
        report, struck = disturb(host)
        outcome = Outcome(struck)
        if report.error is None and not set(undisturbed.seconds) <= set(fleets.states(report)):
            outcome.problems.append("the controller did not notice")
        if report.failure is not None:
            outcome.problems.append(f"the disturbed run blames a resource: {fleets.why(report)}")
        hold_to_account(host, undisturbed, outcome)
        return outcome


def hold_to_account(host: Host, undisturbed: Undisturbed, outcome: Outcome) -> None:
    """After a disturbed run: nothing is between old and new, and the next run ends where an undisturbed one does."""
    _require_old_or_new(host, undisturbed, outcome)
    outcome.half_done = temporaries(host)
    _mend(host, undisturbed, outcome)


def told(outcomes: dict[str, Outcome]) -> list[str]:
    """All problems, each with its round."""
    return [f"{label}: {problem}" for label, outcome in outcomes.items() for problem in outcome.problems]


def _require_old_or_new(host: Host, undisturbed: Undisturbed, outcome: Outcome) -> None:
    for path in WRITTEN_AT_ONCE:
        found = entry(host.path(path))
        if found not in (undisturbed.old[path], undisturbed.new[path]):
            outcome.problems.append(f"{path} is neither old nor new: {' '.join(found)}")


def _mend(host: Host, undisturbed: Undisturbed, outcome: Outcome) -> None:
    report = fleets.converge(host, undisturbed.role)
    if report.failed:
        outcome.problems.append(f"the next run failed: {fleets.why(report)}")
        return
    interrupted = [record for record in report.records if record.name.startswith("interrupted")]
    outcome.completed_sets = len(interrupted)
    outcome.problems += [
        f"said of the set: {record.detail}" for record in interrupted if "completed" not in record.detail
    ]
    wait_for(host.is_quiet, "an end of what was left running")
    outcome.problems += [f"left: {path}" for path in temporaries(host)]
    outcome.problems += undisturbed.settled.differences(host)
    owed = host.path(f"{STATE}/owed.json")
    if owed.exists() and json.loads(owed.read_bytes()):
        outcome.problems.append(f"still owed: {owed.read_text()}")
    again = fleets.converge(host, undisturbed.role, check=True)
    outcome.problems += [
        f"not settled: {name} {state}" for name, state in fleets.states(again).items() if state != "ok"
    ]
