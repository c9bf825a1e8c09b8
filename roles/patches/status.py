"""The states of patches on a folder of source: what `patch.status --source` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .decide import Outcome, decide_all
from .definition import Patch
from .store import Store
from .tree import FolderTree


def outcomes(source: Path, patches: Sequence[Patch]) -> list[Outcome]:
    """Raises InputError for a folder without the package of a patch."""
    store = Store(source)
    manifest = store.manifest()
    trees: dict[tuple[str, str], FolderTree] = {}
    found: list[Outcome] = []
    for key in dict.fromkeys((patch.distribution, patch.package) for patch in patches):
        trees[key] = FolderTree(source, *key)
        found += decide_all([p for p in patches if (p.distribution, p.package) == key], trees[key], manifest)
    order = {patch.name: n for n, patch in enumerate(patches)}
    return sorted(found, key=lambda outcome: order[outcome.patch.name])


def status(source: Path, patches: Sequence[Patch]) -> dict[str, Any]:
    """{"sglang_version", "patches": [{"name", "state", "file", "detail"}]}; "unfinished" where a run was cut short."""
    result: dict[str, Any] = {
        "sglang_version": FolderTree(source).version(),
        "patches": [outcome.as_dict() for outcome in outcomes(source, patches)],
    }
    unfinished = Store(source).unfinished()
    return {**result, "unfinished": unfinished} if unfinished else result
