"""Every patch on every release: what `inv patch.matrix` runs, and the page that its table goes to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .apply import apply, revert
from .definition import Patch
from .outcome import Outcome, State
from .releases import Release
from .status import outcomes
from .tree import STATE_FOLDER


@dataclass(frozen=True)
class Cell:
    """One patch on one release as it came from the registry. `problem` says what did not hold, "" where all did."""

    version: str
    patch: str
    state: State | None
    file: str
    detail: str
    problem: str = ""


def run(releases: Sequence[Release], patches: Sequence[Patch]) -> list[Cell]:
    """Each patch's state on each release; and where one is needed: applied, again, reverted, and applied after that."""
    cells: list[Cell] = []
    for release in releases:
        if release.folder is None:
            cells += [Cell(release.version, patch.name, None, "", "", release.problem) for patch in patches]
        else:
            cells += _try(release.version, release.folder, patches)
    return cells


def _try(version: str, folder: Path, patches: Sequence[Patch]) -> list[Cell]:
    found = outcomes(folder, patches)
    problems = dict.fromkeys((patch.name for patch in patches), "")
    needed = [outcome.patch for outcome in found if outcome.state == "needed"]
    problems |= _there_and_back(folder, needed) if needed else {}
    return [Cell(version, o.patch.name, o.state, o.file, o.detail, problems[o.patch.name] or _drift(o)) for o in found]


def _drift(outcome: Outcome) -> str:
    return outcome.detail.splitlines()[0] if outcome.state == "drifted" else ""


def _there_and_back(folder: Path, patches: Sequence[Patch]) -> dict[str, str]:
    """Name -> the first thing that did not hold. The proof itself runs within apply and within deciding `applied`."""
    problems: dict[str, str] = {}

    def note(states: Sequence[Outcome], wanted: str, when: str) -> None:
        for outcome in states:
            if outcome.state != wanted:
                problems.setdefault(outcome.patch.name, f"{outcome.state} {when}: {outcome.detail}")

    def note_all(holds: bool, what: str) -> None:
        if not holds:
            for patch in patches:
                problems.setdefault(patch.name, what)

    with tempfile.TemporaryDirectory(prefix="blackstart-matrix-") as scratch:
        copy = Path(scratch) / "source"
        shutil.copytree(folder, copy)
        stock = _contents(copy)
        note(apply(copy, patches).outcomes, "applied", "after apply")
        patched = _contents(copy)
        note_all(patched != stock, "apply wrote nothing")
        note_all(not apply(copy, patches).change.edits, "a second apply changed something")
        shutil.rmtree(copy / STATE_FOLDER)
        by_proof = outcomes(copy, patches)
        note([o for o in by_proof if o.by != "hand"], "applied", "by its proof alone")
        note_all(all(o.state == "applied" for o in by_proof), "the proof does not hold on what was written")
        for path, content in stock.items():
            (copy / path).write_bytes(content)
        apply(copy, patches)
        note(revert(copy, [patch.name for patch in patches], patches).outcomes, "needed", "after revert")
        note_all(_contents(copy) == stock, "revert did not give back every byte")
        note(apply(copy, patches).outcomes, "applied", "applied after a revert")
        note_all(_contents(copy) == patched, "applied after a revert, the bytes differ")
    return problems


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and STATE_FOLDER not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
