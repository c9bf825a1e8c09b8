"""Reading a unified diff: files, hunks and lines, with nothing skipped that is not said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blackstart.errors import InputError

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Line:
    """A hunk's line: `mark` is b" ", b"-" or b"+"; `ended` is false where the file ends without a newline."""

    mark: bytes
    text: bytes
    ended: bool = True


@dataclass(frozen=True)
class Hunk:
    """`start` is the index from 0 of its first old line; `number` counts from 1 within the file."""

    number: int
    start: int
    lines: tuple[Line, ...]

    @property
    def old(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.mark != b"+")

    @property
    def new(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.mark != b"-")

    def reversed(self, shift: int) -> Hunk:
        """The hunk that undoes this one, in a file where earlier hunks have added `shift` lines."""
        swap = {b"+": b"-", b"-": b"+", b" ": b" "}
        lines = tuple(replace(line, mark=swap[line.mark]) for line in self.lines)
        return replace(self, start=self.start + shift, lines=lines)


@dataclass(frozen=True)
class FileDiff:
    """One file's hunks, in order. `path` begins with the package."""

    path: str
    hunks: tuple[Hunk, ...]

    def undoing(self) -> tuple[Hunk, ...]:
        out, shift = [], 0
        for hunk in self.hunks:
            out.append(hunk.reversed(shift))
            shift += len(hunk.new) - len(hunk.old)
        return tuple(out)


def read_diff(file: Path, package: str) -> tuple[list[FileDiff], list[str]]:
    """The files of the package that the diff changes, and the paths outside the package that it names.

    Raises InputError with the line for what is no unified diff, and for new, removed, renamed and binary files.
    """
    lines = file.read_bytes().split(b"\n")
    reader = _Reader(str(file), lines)
    inside: dict[str, tuple[Hunk, ...]] = {}
    outside: list[str] = []
    while reader.skip_to_file():
        name, hunks = reader.file()
        path = _in_package(name, package)
        if path is None:
            outside.append(name)
        elif path in inside:
            raise reader.error(f"{path} comes up twice", "join its hunks under one header")
        else:
            inside[path] = hunks
    if not inside:
        raise InputError(
            f"the diff changes no file of {package}/",
            where=str(file),
            found=", ".join(outside) or "no file header (--- and +++)",
        )
    return [FileDiff(path, hunks) for path, hunks in inside.items()], outside


class _Reader:
    def __init__(self, place: str, lines: Sequence[bytes]) -> None:
        # A diff that was saved with CRLF endings carries a \r on its own header lines as well.
        crlf = all(line.endswith(b"\r") for line in lines[:-1]) and len(lines) > 1
        self._lines = [line.removesuffix(b"\r") for line in lines] if crlf else list(lines)
        # What follows the last newline is no line.
        self._end = len(self._lines) - (self._lines[-1:] == [b""])
        self._place = place
        self._at = 0

    def error(self, message: str, remedy: str = "", found: str = "") -> InputError:
        return InputError(message, where=f"{self._place}:{self._at + 1}", remedy=remedy, found=found)

    def skip_to_file(self) -> bool:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
                return True
            for mark, what in _REFUSED.items():
                if line.startswith(mark):
                    raise self.error(f"the diff {what}, which is not done here", "leave that file out of the diff")
            if _HUNK.match(line):
                raise self.error("a hunk stands outside any file", "a file begins with --- and +++ lines")
            self._at += 1
        return False

    def file(self) -> tuple[str, tuple[Hunk, ...]]:
        names = [self._name(self._lines[self._at + n][4:]) for n in (0, 1)]
        if "/dev/null" in names:
            what = "makes a new file" if names[0] == "/dev/null" else "removes a file"
            raise self.error(f"the diff {what}, which is not done here", "leave that file out of the diff")
        self._at += 2
        hunks: list[Hunk] = []
        while (header := _HUNK.match(self._peek(0))) is not None:
            hunks.append(self._hunk(header, len(hunks) + 1))
        if not hunks:
            raise self.error(f"{names[1]} has no hunk")
        return names[1], tuple(hunks)

    def _hunk(self, header: re.Match[bytes], number: int) -> Hunk:
        first, old, _, new = (int(group) if group is not None else 1 for group in header.groups())
        self._at += 1
        lines: list[Line] = []
        while old > 0 or new > 0:
            line = self._peek(0)
            # An editor that trims white space leaves an empty line for an empty line of context.
            mark, text = (line[:1], line[1:]) if line else (b" ", b"")
            if self._at >= self._end or mark not in (b" ", b"-", b"+"):
                raise self.error("the hunk is shorter than its header says", found=line.decode("utf-8", "replace")[:60])
            old -= mark != b"+"
            new -= mark != b"-"
            self._at += 1
            ended = not self._peek(0).startswith(b"\\")
            self._at += not ended
            lines.append(Line(mark, text.removesuffix(b"\r"), ended))
        if old or new:
            raise self.error("the hunk is longer than its header says")
        if not any(line.mark != b"+" for line in lines):
            raise self.error("the hunk has no line of context, so its place cannot be checked", "make it with diff -U3")
        return Hunk(number, first - 1, tuple(lines))

    def _peek(self, ahead: int) -> bytes:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else b""

    def _name(self, raw: bytes) -> str:
        name = raw.split(b"\t")[0].rstrip()
        if name.startswith(b'"'):
            raise self.error("the file's name is quoted, which is not read here")
        return name.decode("utf-8", "replace")


_REFUSED = {
    b"rename from ": "renames a file",
    b"copy from ": "copies a file",
    b"GIT binary patch": "holds a binary file",
    b"Binary files ": "holds a binary file",
    b"deleted file mode ": "removes a file",
    b"new file mode ": "makes a new file",
}


def _in_package(name: str, package: str) -> str | None:
    """`a/python/sglang/srt/x.py` -> `sglang/srt/x.py`; None for a file outside the package."""
    parts = name.split("/")
    if package not in parts[:-1] or ".." in parts:
        return None
    return "/".join(parts[parts.index(package) :])
