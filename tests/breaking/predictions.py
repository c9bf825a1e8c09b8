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
    if any(report.failed for report in ran) and not any(report.failed for report in checked):
        excused = "unknown" in foreseen.values() and not exact
        whys = [report.error or report.failure for report in ran if report.failed]
        if not excused:
            promises.append(f"failed, which the check did not foresee: {whys}")
    return promises
