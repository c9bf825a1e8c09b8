"""systemd's quoting: an argv and an environment as they must stand in a unit file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from blackstart.errors import InputError

PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+")
CONTROL = re.compile(r"[\x01-\x1f\x7f]")
"""A bare carriage return would end the line."""


def quote(word: str) -> str:
    """One word of ExecStart= or Environment=, so that systemd hands on exactly these bytes.

    systemd.service(5): C-style escapes within double quotes; `%` begins a specifier, `$` a variable; both are doubled.
    Raises InputError for a null character, which would end the line and which no program can be given.
    """
    if "\0" in word:
        raise InputError("a flag or variable of the server holds a null character", found=repr(word)[:100])
    if PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    escaped = CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", escaped)
    return '"' + escaped.replace("%", "%%").replace("$", "$$") + '"'


def quote_assignment(name: str, value: str) -> str:
    """A NAME=VALUE word of Environment=, in which `$` has no meaning and is not doubled."""
    return quote(f"{name}={value}").replace("$$", "$")


def command_line(argv: Sequence[str]) -> str:
    """ExecStart= of an argv; the program itself is a plain absolute path."""
    return " ".join([argv[0], *map(quote, argv[1:])])
