"""Applying, reverting and adopting patches on a folder of source (`--source DIR`)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blackstart.errors import CheckError

from . import changes
from .changes import Change
from .decide import Outcome
from .definition import Patch
from .manifest import Manifest
from .store import Store
from .tree import FolderTree, SourceTree


@dataclass(frozen=True)
class Result:
    """States afterwards, the edits made (one a file), and what an earlier run had left unfinished ("" if nothing)."""

    version: str
    outcomes: tuple[Outcome, ...]
    change: Change
    completed: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The JSON of `patch.apply` and `patch.revert`: that of `patch.status`, and what changed."""
        result: dict[str, Any] = {
            "sglang_version": self.version,
            "patches": [outcome.as_dict() for outcome in self.outcomes],
            "changed": [edit.path for edit in self.change.edits],
        }
        return {**result, "completed": self.completed} if self.completed else result


def apply(source: Path, patches: Sequence[Patch], known: Sequence[Patch] = (), *, check: bool = False) -> Result:
    """Apply what is needed; a drifted patch is left alone and stays `drifted`. `check` writes nothing."""
    date = _now()

    def plan(group: Sequence[Patch], tree: SourceTree, manifest: Manifest, store: Store) -> Change:
        return changes.plan_apply(group, tree, manifest, store.stock, date, known or patches)

    return _run(source, patches, "apply", plan, check=check)


def revert(source: Path, names: Collection[str], known: Sequence[Patch], *, check: bool = False) -> Result:
    """Take patches out again, to the byte; `known` are all there are. Raises CheckError where that cannot be."""
    chosen = [patch for patch in known if patch.name in names]

    def plan(group: Sequence[Patch], tree: SourceTree, manifest: Manifest, store: Store) -> Change:
        return changes.plan_revert([patch.name for patch in group], tree, manifest, store.stock, known)

    result = _run(source, chosen, "revert", plan, check=check)
    for outcome in result.outcomes:
        if outcome.state == "applied":
            raise CheckError(
                f"{outcome.patch.name} is still in the source, and was not put there by us",
                where=outcome.file,
                found=outcome.detail,
                remedy=f"reinstall {outcome.patch.distribution} to get the released file back",
            )
    return result


def adopt(source: Path, patches: Sequence[Patch]) -> Result:
    """Record what was applied by hand, so that a later change of it is noticed."""
    date = _now()

    def plan(group: Sequence[Patch], tree: SourceTree, manifest: Manifest, store: Store) -> Change:
        return changes.plan_adopt(group, tree, manifest, date)

    return _run(source, patches, "adopt", plan)


Plan = Callable[[Sequence[Patch], SourceTree, Manifest, Store], Change]


def _run(source: Path, patches: Sequence[Patch], what: str, plan: Plan, *, check: bool = False) -> Result:
    store = Store(source)
    version = FolderTree(source).version()
    found = store.unfinished()
    if found and check:
        raise CheckError("an earlier run was cut short", where=str(source), found=found, remedy="run without --check")
    manifest = store.manifest()
    if not found:
        change = _planned(source, store, patches, manifest, plan)
        if check or not (change.edits or change.manifest != manifest or store.leftovers()):
            return Result(version, change.outcomes, change)
    with store.locked():
        completed = store.finish()
        if completed or store.manifest() != manifest:
            change = _planned(source, store, patches, store.manifest(), plan)
        if change.edits or change.manifest != store.manifest():
            store.commit(change, what)
    return Result(version, change.outcomes, change, completed)


def _planned(source: Path, store: Store, patches: Sequence[Patch], manifest: Manifest, plan: Plan) -> Change:
    """One change for the patches of every distribution, so that all files of all of them change or none."""
    done = Change(manifest=manifest)
    for distribution, package in dict.fromkeys((patch.distribution, patch.package) for patch in patches):
        tree = FolderTree(source, distribution, package)
        own = [patch for patch in patches if patch.distribution == distribution and patch.package == package]
        change = plan(own, tree, done.manifest, store)
        done = Change(
            (*done.edits, *change.edits),
            {**done.stock, **change.stock},
            change.manifest,
            (*done.outcomes, *change.outcomes),
        )
    return done


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
