"""Deciding a patch that finds its place by the shape of the code: locator, template and proof together."""

from __future__ import annotations

from dataclasses import dataclass, field

from blackstart import render

from .code import locate, locate_membership, locate_read, prove
from .code.source import Function, Source, Unparsable, splice
from .definition import StructuralPatch
from .outcome import Edit, Outcome
from .tree import SourceTree, sha256


def decide(patch: StructuralPatch, tree: SourceTree) -> Outcome:
    """The patch's state by the source alone. Raises InputError where the patch itself cannot be used."""
    return _Structural(patch, tree).outcome()


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
        for finding in findings:
            why = self._by_hand(finding)
            if why:
                detail = f"by hand: {finding.where}: {finding.verdict.why}; {why}"
                return Outcome(self.patch, "applied", detail, finding.source.path, by="hand")
        first = findings[0]
        return Outcome(self.patch, "upstream", f"{first.where}: {first.verdict.why}", first.source.path)

    def _by_hand(self, finding: _Finding) -> str:
        """Why this is somebody's edit and not the release's own; "" if it is the release's."""
        edited = self._edited(finding.source)
        start, end = finding.source.span(finding.function.node)
        sign = self.patch.upstream_sign
        if edited is False or (sign is not None and sign.search(finding.source.content, start, end)):
            return ""
        return "the file is not as released" if edited else "no release is known to have it so (there is no RECORD)"

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
        for finding in findings:
            try:
                patched, twin = self._patched(finding, after)
            except Unparsable as error:
                raise _Drift(f"{finding.where}: patched, the file is no Python any more: {error}", path) from None
            verdict = self.proof.verdict(patched, twin)
            if verdict.word != "behaves":
                raise _Drift(f"{finding.where}: {finding.verdict.why}, and patched {verdict.why}", path)
            changed = self.proof.regressions(finding.verdict.seen, verdict.seen)
            if changed:
                raise _Drift(f"{finding.where}: the patch would change more than it means to: {changed[0]}", path)

    def _patched(self, finding: _Finding, after: bytes) -> tuple[Source, Function]:
        changed = finding.source.with_function(finding.function, after)
        if changed is not None:
            return changed
        patched = Source(finding.source.path, after)
        twin = next((f for f in patched.functions if _address(f) == _address(finding.function)), None)
        if twin is None:
            raise _Drift(f"{finding.where}: patched, the function is gone", finding.source.path)
        return patched, twin


def _address(function: Function) -> tuple[str, ...]:
    return (*(around.name for around in function.around), function.name)
