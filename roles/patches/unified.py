"""A unified diff as a patch: offsets but no fuzz, all files or none, states told by dry runs both ways."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blackstart.errors import InputError

from .definition import DiffPatch
from .diff_parse import FileDiff, Hunk, Line, read_diff
from .outcome import Edit, Outcome
from .tree import SourceTree, sha256

_WIDTH = 58
"""Characters a side, where a hunk and the code that is there are shown side by side."""


@dataclass(frozen=True)
class Fit:
    """Where a file's hunks apply: the line index from 0 of each; or the first hunk that does not, and why."""

    at: tuple[int, ...] = ()
    failed: Hunk | None = None
    why: str = ""


Fits = Mapping[str, Fit]
"""Each file's, by path."""


def decide(patch: DiffPatch, tree: SourceTree) -> Outcome:
    """The diff's state on the tree. Raises InputError for a diff that cannot be used."""
    diffs = chosen(patch)
    absent = [diff.path for diff in diffs if not tree.holds(diff.path)]
    if absent:
        return _absent(patch, tree, diffs, absent)
    contents = {diff.path: tree.read(diff.path) for diff in diffs}
    forward, backward = _both_ways(diffs, contents, at_edges=False)
    if _all(forward) and _all(backward):
        # What is added before a file's first line or after its last leaves all that stood there as it was.
        forward, backward = _both_ways(diffs, contents, at_edges=True)
        if _all(forward) == _all(backward):
            detail = "the diff fits both as it is and in reverse: its context is too short to tell which"
            return Outcome(patch, "drifted", detail, diffs[0].path)
    if _all(backward):
        return _there(patch, tree, contents)
    if _all(forward):
        return _missing(patch, diffs, contents, forward)
    return _drifted(patch, diffs, contents, forward, backward)


def _both_ways(diffs: Sequence[FileDiff], contents: Mapping[str, bytes], *, at_edges: bool) -> tuple[Fits, Fits]:
    return (
        {diff.path: fit(diff.hunks, contents[diff.path], at_edges=at_edges) for diff in diffs},
        {diff.path: fit(diff.undoing(), contents[diff.path], at_edges=at_edges) for diff in diffs},
    )


def _all(fits: Fits) -> bool:
    return not any(side.failed for side in fits.values())


def chosen(patch: DiffPatch) -> list[FileDiff]:
    """The files of the diff that the patch is about. Raises InputError where it would leave something out unsaid."""
    diffs, outside = read_diff(patch.diff, patch.package)
    if not patch.include:
        if outside:
            raise InputError(
                f"the diff also changes files outside {patch.package}/",
                where=str(patch.diff),
                found=", ".join(outside),
                remedy=f"leave them out of the diff, or name what to take in patch.yml: include: [{patch.package}/…]",
            )
        return diffs
    unused = [glob for glob in patch.include if not any(fnmatch.fnmatch(diff.path, glob) for diff in diffs)]
    if unused:
        raise InputError(
            "include names what the diff does not change",
            where=str(patch.folder / "patch.yml"),
            found=", ".join(unused),
            remedy="it changes " + ", ".join(diff.path for diff in diffs),
        )
    return [diff for diff in diffs if any(fnmatch.fnmatch(diff.path, glob) for glob in patch.include)]


def fit(hunks: Sequence[Hunk], content: bytes, *, at_edges: bool = False) -> Fit:
    """Where each hunk's old lines stand, to the letter: at its own line, moved as the hunk before, or the one place.

    Hunks keep their order. Where the lines stand more than once and none is at its own line, nothing is guessed. With
    `at_edges` a hunk without context before or after it stands at the file's beginning or end, as git apply has it.
    """
    lines = _lines(content)
    at: list[int] = []
    offset, free = 0, 0
    for hunk in hunks:
        old = hunk.old
        places = [n for n in range(free, len(lines) - len(old) + 1) if _stands(old, lines, n)]
        if at_edges:
            places = [n for n in places if _is_at_its_edges(hunk, n, len(lines))]
        expected = hunk.start + offset
        if not places:
            return Fit(failed=hunk, why="its lines are not there")
        if expected not in places and len(places) > 1:
            found = ", ".join(str(n + 1) for n in places)
            return Fit(failed=hunk, why=f"its lines are there more than once (lines {found}), and not at its own")
        place = expected if expected in places else places[0]
        at.append(place)
        offset, free = place - hunk.start, place + len(old)
    return Fit(tuple(at))


def apply_at(hunks: Sequence[Hunk], at: Sequence[int], content: bytes) -> bytes:
    """The content with each hunk's old lines replaced. Kept lines stay byte for byte; new ones end as the file's do."""
    lines = _lines(content)
    ending = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    out: list[bytes] = []
    done = 0
    for hunk, place in zip(hunks, at, strict=True):
        out += lines[done:place]
        done = place
        for line in hunk.lines:
            if line.mark == b"+":
                out.append(line.text + (ending if line.ended else b""))
            else:
                out += [lines[done]] if line.mark == b" " else []
                done += 1
    return b"".join([*out, *lines[done:]])


def _lines(content: bytes) -> list[bytes]:
    """Lines with their endings. Only a newline ends one, as in diff."""
    pieces = content.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _is_at_its_edges(hunk: Hunk, at: int, count: int) -> bool:
    opens, closes = hunk.lines[0].mark != b" ", hunk.lines[-1].mark != b" "
    return (not opens or at == 0) and (not closes or at + len(hunk.old) == count)


def _stands(old: Sequence[Line], lines: Sequence[bytes], at: int) -> bool:
    return all(
        lines[at + n].rstrip(b"\r\n") == line.text and lines[at + n].endswith(b"\n") == line.ended
        for n, line in enumerate(old)
    )


def _missing(patch: DiffPatch, diffs: Sequence[FileDiff], contents: Mapping[str, bytes], forward: Fits) -> Outcome:
    edits = tuple(
        Edit(d.path, contents[d.path], apply_at(d.hunks, forward[d.path].at, contents[d.path])) for d in diffs
    )
    moved = [d.path for d in diffs if forward[d.path].at != tuple(hunk.start for hunk in d.hunks)]
    detail = f"every hunk fits ({len(diffs)} {'file' if len(diffs) == 1 else 'files'})"
    detail += f", at other lines in {', '.join(moved)}" if moved else ""
    after = b"\n".join(edit.after for edit in edits)
    lacking = [text for text in patch.expect if text.encode() not in after]
    if lacking:
        return Outcome(
            patch, "drifted", f"patched, the files would not hold what is expected: {lacking[0]!r}", diffs[0].path
        )
    return Outcome(patch, "needed", detail, diffs[0].path, edits)


def _there(patch: DiffPatch, tree: SourceTree, contents: Mapping[str, bytes]) -> Outcome:
    released = {path: tree.released_sha256(path) for path in contents}
    edited = [path for path, digest in released.items() if digest is not None and digest != sha256(contents[path])]
    detail = "every hunk is there already"
    if edited:
        return Outcome(patch, "applied", f"by hand: {detail}; {edited[0]} is not as released", edited[0], by="hand")
    if None in released.values():
        detail += " (no RECORD says whether the files are as released)"
    return Outcome(patch, "upstream", detail, next(iter(contents)))


def _absent(patch: DiffPatch, tree: SourceTree, diffs: Sequence[FileDiff], absent: Sequence[str]) -> Outcome:
    """Files are missing. If their code is nowhere either, the release has no such code; else it has moved."""
    needles = {line: diff.path for diff in diffs for hunk in diff.hunks if (line := distinctive(hunk))}
    held = tree.containing(list(needles)) if needles else {}
    elsewhere = {path: hits for path, hits in held.items() if any(needles[hit] in absent for hit in hits)}
    if not elsewhere and len(absent) == len(diffs):
        return Outcome(
            patch, "not-applicable", f"no {', no '.join(absent)}, and no trace of what it would change there"
        )
    where = f"; its code is in {', '.join(elsewhere)}" if elsewhere else ""
    return Outcome(patch, "drifted", f"there is no {absent[0]}{where}", absent[0])


def distinctive(hunk: Hunk) -> bytes:
    """The longest old line without its indentation, if it says enough to be known again elsewhere."""
    longest = max((line.text.strip() for line in hunk.old), key=len, default=b"")
    return longest if len(longest) >= 24 else b""


def _drifted(
    patch: DiffPatch,
    diffs: Sequence[FileDiff],
    contents: Mapping[str, bytes],
    forward: Fits,
    backward: Fits,
) -> Outcome:
    there = [diff.path for diff in diffs if not backward[diff.path].failed]
    failing = next((diff for diff in diffs if forward[diff.path].failed and diff.path not in there), None)
    if failing is None:
        lacking = [diff.path for diff in diffs if diff.path not in there]
        return Outcome(
            patch, "drifted", f"half there: {', '.join(there)} has it, {', '.join(lacking)} does not", lacking[0]
        )
    found = forward[failing.path]
    assert found.failed is not None
    shown = side_by_side(found.failed, contents[failing.path])
    which = f"hunk {found.failed.number} of {failing.path} (line {found.failed.start + 1})"
    return Outcome(patch, "drifted", f"{which} does not fit: {found.why}\n{shown}", failing.path)


def side_by_side(hunk: Hunk, content: bytes) -> str:
    """The lines a hunk expects beside the most similar lines of the file, differing ones marked with `!`."""
    expected = [line.text.decode("utf-8", "replace") for line in hunk.old]
    lines = [line.rstrip(b"\r\n").decode("utf-8", "replace") for line in _lines(content)]
    first = _most_similar(expected, lines, hunk.start)
    present = lines[first : first + len(expected)]
    matcher = difflib.SequenceMatcher(None, expected, present, autojunk=False)
    rows = [f"  {'the diff expects':<{_WIDTH}}   {f'the file has, from line {first + 1}':<{_WIDTH}}".rstrip()]
    for tag, a, b, c, d in matcher.get_opcodes():
        left, right = expected[a:b], present[c:d]
        for n in range(max(len(left), len(right))):
            cells = [side[n] if n < len(side) else "" for side in (left, right)]
            mark = " " if tag == "equal" else "!"
            rows.append(f"{mark} {_cut(cells[0]):<{_WIDTH}} | {_cut(cells[1])}".rstrip())
    return "\n".join(rows)


def _most_similar(expected: Sequence[str], lines: Sequence[str], near: int) -> int:
    """The start of the window that shares most lines with what is expected; the nearest of equals."""
    wanted = {line.strip() for line in expected if line.strip()}
    hits = [n for n, line in enumerate(lines) if line.strip() in wanted]
    if not hits:
        return max(0, min(near, len(lines) - len(expected)))
    size = len(expected)

    def shared(start: int) -> int:
        return sum(1 for line in lines[start : start + size] if line.strip() in wanted)

    starts = {max(0, hit - n) for hit in hits for n in range(size)}
    return max(sorted(starts), key=lambda start: (shared(start), -abs(start - near)))


def _cut(text: str) -> str:
    text = text.expandtabs(4)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
