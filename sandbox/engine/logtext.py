"""Log lines as the installed release words them.

A line is found in the release's source by how it begins, and its placeholders are filled from a table by the
text that stands before each of them ("avail mem=", "elapsed="), so wording and order are the release's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sandbox.engine.release import Release

MAX_CALL_LINES = 16
# Where releases keep the lines of a server's life; each may be absent in some.
PLACES = (
    "sglang/srt/entrypoints/http_server.py",
    "sglang/srt/entrypoints/engine.py",
    "sglang/srt/managers/tokenizer_manager.py",
    "sglang/srt/managers/scheduler.py",
    "sglang/srt/utils/watchdog.py",
    "sglang/srt/model_executor",
    "sglang/srt/mem_cache",
    "sglang/srt/managers",
)


class NoSuchLine(Exception):
    """The release has no log line that begins so."""


@dataclass(frozen=True)
class LogText:
    """The log lines of one release. `files` are looked through in order, as paths below its root."""

    @classmethod
    def of(cls, release: Release) -> LogText:
        files: dict[str, None] = {}
        for place in PLACES:
            path = release.root / place
            found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            files |= dict.fromkeys(str(file.relative_to(release.root)) for file in found)
        return cls(release, tuple(files))

    release: Release
    files: tuple[str, ...]
    _read: dict[str, str] = field(default_factory=dict)

    def line(self, beginning: str, values: Mapping[str, object], holding: str = "") -> str:
        """The line that begins with `beginning` (and contains `holding`), with its placeholders filled.

        `values` maps the end of the text before a placeholder, without spaces after it, to the value, or
        "{" with a part of the placeholder's own expression; the first entry that fits is taken and the
        release's format specification is applied to it. A placeholder that no entry fits shows as "?".

        Raises NoSuchLine.
        """
        for file in self.files:
            for template in _templates(self._text(file), beginning):
                if holding in "".join(_texts(template)):
                    return _filled(template, values)
        raise NoSuchLine(f"SGLang {self.release.version} logs no line that begins with {beginning!r}")

    def _text(self, file: str) -> str:
        if file not in self._read:
            self._read[file] = self.release.read(file)
        return self._read[file]


def _templates(text: str, beginning: str) -> Iterator[ast.expr]:
    """The message expressions of the calls whose message begins so."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if beginning in line:
            call = _call_around(lines, number)
            for argument in call.args if call else []:
                if "".join(_texts(argument)).startswith(beginning):
                    yield argument


def _call_around(lines: list[str], number: int) -> ast.Call | None:
    """The call statement that line `number` is part of, parsed alone: these files are long."""
    for start in range(number, max(-1, number - MAX_CALL_LINES), -1):
        if "(" not in lines[start]:
            continue
        for end in range(number, min(len(lines), number + MAX_CALL_LINES)):
            try:
                node = ast.parse("\n".join(line.strip() for line in lines[start : end + 1])).body
            except SyntaxError:
                continue
            if len(node) == 1 and isinstance(node[0], ast.Expr) and isinstance(node[0].value, ast.Call):
                return node[0].value
    return None


def _texts(template: ast.expr) -> Iterator[str]:
    match template:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from _texts(part)


def _filled(template: ast.expr, values: Mapping[str, object]) -> str:
    line = ""
    if isinstance(template, ast.Constant):
        return str(template.value)
    assert isinstance(template, ast.JoinedStr)
    for part in template.values:
        if isinstance(part, ast.FormattedValue):
            specification = "".join(_texts(part.format_spec)) if part.format_spec else ""
            line += _formatted(line, ast.unparse(part.value), values, specification)
        else:
            line += "".join(_texts(part))
    return line


def _formatted(before: str, expression: str, values: Mapping[str, object], specification: str) -> str:
    for key, value in values.items():
        if before.rstrip().endswith(key) or (key.startswith("{") and key[1:] in expression):
            return _as_specified(value, specification)
    return "?"


def _as_specified(value: object, specification: str) -> str:
    try:
        return format(value, specification)
    except ValueError:  # a release that formats this place as another kind of value
        return str(value)
