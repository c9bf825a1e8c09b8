"""Secrets: references in the inventory, values in memory only, and masks over whatever is shown or kept.

A reference is one of {env: NAME}, {file: PATH}, {command: [pass, show, hf]}.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .errors import InputError

MASK = "********"
SHORTEST_MASKED = 4
"""A shorter value would blot out half of every text; whoever has such a secret has none."""

HOW = "{env: NAME}, {file: PATH} or {command: [program, argument]}"

_revealed: set[str] = set()
_lock = threading.Lock()


def is_reference(value: Any) -> bool:
    """Whether a value stands for a secret, by its shape; what it stands for is not looked at."""
    match value:
        case {"env": str()} | {"file": str()} if len(value) == 1:
            return True
        case {"command": [*words]} if len(value) == 1 and words and all(isinstance(word, str) for word in words):
            return True
    return False


def reveal(reference: Any, place: str) -> str:
    """The value that a reference stands for, without its final newline; masked from then on. Raises InputError."""
    if not isinstance(reference, Mapping) or len(reference) != 1:
        raise InputError(
            "a secret is given as a reference, never by value",
            where=place,
            remedy=HOW,
        )
    ((kind, source),) = reference.items()
    if not is_reference(reference):
        raise InputError("this is no reference to a secret", where=place, found=f"{kind}: …")
    value = _read(kind, source, place).rstrip("\r\n")
    if not value:
        raise InputError("the secret is empty", where=place, found=f"{kind}: {source}")
    with _lock:
        _revealed.add(value)
    return value


def _read(kind: str, source: Any, place: str) -> str:
    if kind == "env":
        if source not in os.environ:
            raise InputError(f"the environment has no {source}", where=place)
        return os.environ[source]
    if kind == "file":
        try:
            return Path(source).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError("the secret's file cannot be read", where=place, found=str(error)) from None
    try:
        ran = subprocess.run(source, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        found = f"{source[0]}: {type(error).__name__}"
        raise InputError("the secret's command failed", where=place, found=found) from None
    return ran.stdout


def ask_password(machine: str) -> Callable[[], str] | None:
    """How to ask the person at the terminal for sudo's password on a machine; None where nobody is there to ask."""
    return functools.partial(_prompt, machine) if sys.stdin.isatty() else None


def _prompt(machine: str) -> str:
    from .ask import ask_unseen

    value = ask_unseen(f"sudo password on {machine}: ", machine)
    with _lock:
        _revealed.add(value)
    return value


def mask(text: str) -> str:
    """`text` with every revealed value blotted out, in each line of it that such a value has."""
    for value in sorted(_revealed, key=len, reverse=True):
        for part in {value, *value.splitlines()}:
            if len(part) >= SHORTEST_MASKED:
                text = text.replace(part, MASK)
    return text


def mask_data(data: Any) -> Any:
    """The same over JSON data, keys included."""
    if isinstance(data, str):
        return mask(data)
    if isinstance(data, list | tuple):
        return [mask_data(item) for item in data]
    if isinstance(data, Mapping):
        return {mask(str(key)): mask_data(value) for key, value in data.items()}
    return data
