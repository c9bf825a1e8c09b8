"""A check held against the run that follows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from blackstart.report import MachineReport

FORESEEN = ("change", "unknown")
SAME = {"ok": "ok", "changed": "change", "failed": "failed"}


def outcomes(reports: Sequence[MachineReport]) -> dict[tuple[str, str, str, str], str]:
    """(machine, role, resource, its how-many-eth of that name) → outcome; what only verifies is left out."""
    found: dict[tuple[str, str, str, str], str] = {}
    for report in reports:
        seen: Counter[tuple[str, str]] = Counter()
        for record in report.records:
            if record.state == "verified" or record.verify:
                continue
            seen[record.role, record.name] += 1
            found[report.name, record.role, record.name, str(seen[record.role, record.name])] = record.state
    return found


def broken_promises(
    checked: Sequence[MachineReport], ran: Sequence[MachineReport], *, exact: bool = False
) -> list[str]:
    """What a run did although the check before it had not foreseen it; with `exact`, every difference."""
    foreseen, done = outcomes(checked), outcomes(ran)
    promises = []
    for key, state in done.items():
        said = foreseen.get(key, "nothing")
        if state == "changed" and said not in FORESEEN:
            promises.append(f"{' '.join(key)}: changed, the check said {said}")
        elif exact and state in SAME and said != SAME[state]:
            promises.append(f"{' '.join(key)}: {state}, the check said {said}")
    failures = [failure for report in ran if (failure := _failure(report))]
    excused = any(map(_failure, checked)) or ("unknown" in foreseen.values() and not exact)
    return promises if excused else promises + [f"failed unforeseen: {failure}" for failure in failures]


def _failure(report: MachineReport) -> str:
    """What ended a run, verifications left out: a check makes none."""
    if report.error:
        return str(report.error)
    failure = report.failure
    return f"{failure.name}: {failure.detail}" if failure and not failure.verify else ""
