"""Which state a patch is in on a tree, and the edits that it needs: source in, outcome out, nothing written.

The state follows from the locator, the template and the proof alone:
  not-applicable  no trace of the code in the tree, or code that has nothing to do with what the patch changes
  needed          the proof shows the unpatched behaviour, and shows the patched one after the edits made here
  upstream        the proof shows the patched behaviour, in a file as it was released
  applied         our manifest says so and the files are as it left them; or, by hand, as `upstream` but edited
  drifted         a trace, and anything else: never touched
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import structural
from .definition import DiffPatch, Patch, StructuralPatch
from .manifest import Manifest
from .outcome import Edit as Edit
from .outcome import Outcome as Outcome
from .tree import OverlaidTree, SourceTree, sha256


def decide(patch: Patch, tree: SourceTree, manifest: Manifest | None = None) -> Outcome:
    """The patch's state on the tree. Raises InputError only for a patch or a tree that cannot be read at all."""
    manifest = manifest or Manifest()
    return _by_manifest(patch, tree, manifest) or _by_source(patch, tree, manifest)


def decide_all(patches: Sequence[Patch], tree: SourceTree, manifest: Manifest | None = None) -> list[Outcome]:
    """Every patch on the same tree, in order. Edits of one file build on each other."""
    manifest = manifest or Manifest()
    with _without_collection():
        _search_at_once(patches, tree)
        outcomes: list[Outcome] = []
        files: dict[str, bytes] = {}
        for patch in patches:
            # What the manifest says is about the files as they are, not as an earlier patch would leave them.
            outcome = _by_manifest(patch, tree, manifest) or _by_source(patch, OverlaidTree(tree, files), manifest)
            files.update({edit.path: edit.after for edit in outcome.edits})
            outcomes.append(outcome)
        return outcomes


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Syntax trees are many small objects that live on: looking for garbage among them takes a tenth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _by_source(patch: Patch, tree: SourceTree, manifest: Manifest) -> Outcome:
    outcome = decide_unrecorded(patch, _Recorded(tree, manifest))
    if manifest.has(patch.name):
        note = f"the manifest has it applied to {manifest.release(patch.name)}, but the files are not as it left them"
        outcome = replace(outcome, detail=f"{outcome.detail}; {note}")
    return outcome


class _Recorded(OverlaidTree):
    """The tree, with files that only our own recorded patches have changed counting as released."""

    def __init__(self, below: SourceTree, manifest: Manifest) -> None:
        super().__init__(below, {})
        self._manifest = manifest

    def released_sha256(self, path: str) -> str | None:
        released = super().released_sha256(path)
        record = self._manifest.files.get(path)
        return record.after if record is not None and record.before == released is not None else released


def _search_at_once(patches: Sequence[Patch], tree: SourceTree) -> None:
    """Read every file once, for the needles of all patches that look in the same folders."""
    searching = [patch for patch in patches if isinstance(patch, StructuralPatch)]
    for look_in in dict.fromkeys(patch.look_in for patch in searching):
        alike = [patch for patch in searching if patch.look_in == look_in]
        tree.containing([needle for patch in alike for needle in (*patch.trace.needles, *patch.requires)], look_in)


def decide_unrecorded(patch: Patch, tree: SourceTree) -> Outcome:
    """The state by the source alone, as if there were no manifest."""
    if isinstance(patch, DiffPatch):
        from . import unified

        return unified.decide(patch, tree)
    assert isinstance(patch, StructuralPatch)
    return structural.decide(patch, tree)


def _by_manifest(patch: Patch, tree: SourceTree, manifest: Manifest) -> Outcome | None:
    if not manifest.has(patch.name):
        return None
    paths = manifest.paths(patch.name)
    if not all(tree.holds(path) and sha256(tree.read(path)) == manifest.files[path].after for path in paths):
        return None
    detail = manifest.describe(patch.name)
    if manifest.template(patch.name) != patch.template_hash:
        detail += "; the patch has changed since: apply it again to renew it"
    return Outcome(patch, "applied", detail, paths[0], by="manifest")
