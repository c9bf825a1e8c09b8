"""Which state a patch is in on a tree, and the edits that it needs: source in, outcome out, nothing written.

The state follows from the locator, the template and the proof alone:
  not-applicable  no trace of the code in the tree, or code that has nothing to do with what the patch changes
  needed          the proof shows the unpatched behaviour, and shows the patched one after the edits made here
  upstream        the proof shows the patched behaviour, in a file as it was released
  applied         our manifest says so and the files are as it left them; or, by hand, as `upstream` but edited
  drifted         a trace, and anything else: never touched
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from blackstart import render

from . import locate, locate_membership, locate_read, prove, unified
from .definition import DiffPatch, Patch, StructuralPatch
from .manifest import Manifest
from .outcome import Edit as Edit
from .outcome import Outcome as Outcome
from .source import Function, Source, Unparsable, splice
from .tree import OverlaidTree, SourceTree, sha256


def decide(patch: Patch, tree: SourceTree, manifest: Manifest | None = None) -> Outcome:
    """The patch's state on the tree. Raises InputError only for a patch or a tree that cannot be read at all."""
    manifest = manifest or Manifest()
    recorded = _by_manifest(patch, tree, manifest)
    if recorded is not None:
        return recorded
    outcome = decide_unrecorded(patch, _Recorded(tree, manifest))
    if manifest.has(patch.name):
        note = f"the manifest has it applied to {manifest.release(patch.name)}, but the files are not as it left them"
        outcome = replace(outcome, detail=f"{outcome.detail}; {note}")
    return outcome


def decide_all(patches: Sequence[Patch], tree: SourceTree, manifest: Manifest | None = None) -> list[Outcome]:
    """Every patch on the same tree, in order. Edits of one file build on each other."""
    _search_at_once(patches, tree)
    outcomes: list[Outcome] = []
    files: dict[str, bytes] = {}
    for patch in patches:
        outcome = decide(patch, OverlaidTree(tree, files) if files else tree, manifest)
        files.update({edit.path: edit.after for edit in outcome.edits})
        outcomes.append(outcome)
    return outcomes


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
    structural = [patch for patch in patches if isinstance(patch, StructuralPatch)]
    for look_in in dict.fromkeys(patch.look_in for patch in structural):
        alike = [patch for patch in structural if patch.look_in == look_in]
        tree.containing([needle for patch in alike for needle in (*patch.trace.needles, *patch.requires)], look_in)


def decide_unrecorded(patch: Patch, tree: SourceTree) -> Outcome:
    """The state by the source alone, as if there were no manifest."""
    if isinstance(patch, DiffPatch):
        return unified.decide(patch, tree)
    assert isinstance(patch, StructuralPatch)
    return _Structural(patch, tree).outcome()


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


class _Drift(Exception):
    def __init__(self, detail: str, file: str = "") -> None:
        super().__init__(detail)
        self.file = file


@dataclass
class _Finding:
    source: Source
    function: Function
    verdict: prove.Verdict

    @property
    def where(self) -> str:
        return f"{self.function.name} (line {self.function.node.lineno})"


@dataclass
class _Structural:
    patch: StructuralPatch
    tree: SourceTree
    proof: prove.Proof = field(init=False)

    def __post_init__(self) -> None:
        self.proof = prove.load(self.patch.proof)

    def outcome(self) -> Outcome:
        traced = self._traced()
        if not traced:
            detail = f"no trace of what it would change in {self.patch.distribution} {self.tree.version()}"
            return Outcome(self.patch, "not-applicable", detail)
        try:
            return self._judge(self._findings(traced))
        except _Drift as drift:
            return Outcome(self.patch, "drifted", str(drift), drift.file or min(traced))

    def _traced(self) -> dict[str, int]:
        """Path -> line of the first trace. Where the likely folders hold none, the whole package is searched."""
        for within in [self.patch.look_in, ()] if self.patch.look_in else [()]:
            traced = {}
            for path in self.tree.containing(self.patch.trace.needles, within):
                content = self.tree.read(path)
                found = self.patch.trace.pattern.search(content)
                if found and not (self.patch.trace.unless and self.patch.trace.unless.search(content)):
                    traced[path] = content.count(b"\n", 0, found.start()) + 1
            if traced:
                return traced
        return {}

    def _findings(self, traced: dict[str, int]) -> list[_Finding]:
        sources = {}
        for path, line in traced.items():
            try:
                sources[path] = Source(path, self.tree.read(path))
            except Unparsable as error:
                raise _Drift(
                    f"line {line} has a trace of it, but the file is not read as Python here: {error}", path
                ) from None
        findings = []
        for or_reads in ("", self.patch.or_reads):
            for source in sources.values():
                for function in locate.functions(source, self.patch.named, or_reads):
                    findings.append(_Finding(source, function, self.proof.verdict(source, function)))
            if findings:
                return findings
        path, line = next(iter(traced.items()))
        raise _Drift(f"line {line} has a trace of it, but no function of a shape that the patch knows", path)

    def _judge(self, findings: list[_Finding]) -> Outcome:
        for finding in findings:
            if finding.verdict.word == "unclear":
                raise _Drift(f"{finding.where}: {finding.verdict.why}", finding.source.path)
        related = [finding for finding in findings if finding.verdict.word != "unrelated"]
        if not related:
            return self._unrelated(findings)
        needing = [finding for finding in related if finding.verdict.word == "needs"]
        return self._needed(needing) if needing else self._behaving(related)

    def _unrelated(self, findings: list[_Finding]) -> Outcome:
        first = findings[0]
        edited = [f for f in findings if self._edited(f.source) is True]
        if edited:
            raise _Drift(
                f"{edited[0].where}: {edited[0].verdict.why}, and the file is not as released", edited[0].source.path
            )
        return Outcome(self.patch, "not-applicable", f"{first.where}: {first.verdict.why}", first.source.path)

    def _behaving(self, findings: list[_Finding]) -> Outcome:
        first = findings[0]
        detail = f"{first.where}: {first.verdict.why}"
        hand = [f for f in findings if self._by_hand(f.source)]
        if hand:
            why = "it is not as released" if self._edited(hand[0].source) else "it carries this patch's mark"
            return Outcome(self.patch, "applied", f"by hand: {detail}; {why}", hand[0].source.path, by="hand")
        if self._edited(first.source) is None:
            detail += " (no RECORD says whether the file is as released)"
        return Outcome(self.patch, "upstream", detail, first.source.path)

    def _by_hand(self, source: Source) -> bool:
        edited = self._edited(source)
        return edited if edited is not None else f"blackstart: {self.patch.name}".encode() in source.content

    def _edited(self, source: Source) -> bool | None:
        released = self.tree.released_sha256(source.path)
        return None if released is None else released != sha256(source.content)

    def _needed(self, findings: list[_Finding]) -> Outcome:
        self._check_requirements(findings[0])
        edits = []
        for path in dict.fromkeys(finding.source.path for finding in findings):
            edits.append(self._edit([finding for finding in findings if finding.source.path == path]))
        first = findings[0]
        detail = f"{first.where}: {first.verdict.why}"
        return Outcome(self.patch, "needed", detail, first.source.path, tuple(edits))

    def _check_requirements(self, finding: _Finding) -> None:
        held = self.tree.containing((*self.patch.trace.needles, *self.patch.requires), self.patch.look_in)
        missing = set(self.patch.requires) - {needle for needles in held.values() for needle in needles}
        if missing:
            text = ", ".join(sorted(needle.decode() for needle in missing))
            raise _Drift(f"{finding.where} needs the patch, but the release has no {text}", finding.source.path)

    def _edit(self, findings: list[_Finding]) -> Edit:
        source = findings[0].source
        changes = []
        for finding in findings:
            try:
                place = self._place(finding)
            except locate.Unplaceable as error:
                raise _Drift(f"{finding.verdict.why}; {error}", source.path) from None
            self._refuse_if_imported(place, source.path)
            text = render.render(
                f"{self.patch.folder.name}/{self.patch.template}", root=self.patch.folder.parent, **place.variables
            )
            changes += place.fill(text)
        after = splice(source.content, changes)
        self._confirm(findings, after)
        return Edit(source.path, source.content, after)

    def _place(self, finding: _Finding) -> locate.Place:
        place = self.patch.place
        if place["kind"] == "membership":
            return locate_membership.find(finding.source, finding.function, place["among"], place["entry"])
        return locate_read.find(finding.source, finding.function, place["attribute"], place["calls"])

    def _refuse_if_imported(self, place: locate.Place, path: str) -> None:
        """A constant that other files name may change more than the function that was proved."""
        holding = self.tree.containing([place.constant.encode()]) if place.constant else {}
        others = [other for other in holding if other != path]
        if others:
            raise _Drift(f"line {place.line}: {place.constant} is named in {', '.join(others)} as well", path)

    def _confirm(self, findings: list[_Finding], after: bytes) -> None:
        """What would be written has to parse, behave, and change nothing that it is not meant to change."""
        path = findings[0].source.path
        try:
            patched = Source(path, after)
        except Unparsable as error:
            raise _Drift(f"{findings[0].where}: patched, the file is no Python any more: {error}", path) from None
        for finding in findings:
            twin = next((f for f in patched.functions if _address(f) == _address(finding.function)), None)
            if twin is None:
                raise _Drift(f"{finding.where}: patched, the function is gone", path)
            verdict = self.proof.verdict(patched, twin)
            if verdict.word != "behaves":
                raise _Drift(f"{finding.where}: {finding.verdict.why}, and patched {verdict.why}", path)
            changed = self.proof.regressions(finding.verdict.seen, verdict.seen)
            if changed:
                raise _Drift(f"{finding.where}: the patch would change more than it means to: {changed[0]}", path)


def _address(function: Function) -> tuple[str, ...]:
    return (*(around.name for around in function.around), function.name)
