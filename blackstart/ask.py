"""Asking the person at the terminal for what must not be seen, from whichever thread needs it."""

from __future__ import annotations

import contextlib
import os
import select
import termios
import threading
from collections.abc import Iterator
from typing import IO

from .errors import ConnectError

LOOK_UP_S = 0.2

_one_at_a_time = threading.Lock()
_left = threading.Event()


def leave() -> None:
    """The person went away (Ctrl-C): whatever is being asked is not asked any more."""
    _left.set()


def ask_unseen(question: str, machine: str) -> str:
    """What is typed up to the line's end, without showing it. Raises ConnectError where nothing comes."""
    with _one_at_a_time, _terminal(machine) as terminal, _without_echo(terminal):
        terminal.write(question.encode())
        typed = b""
        while not typed.endswith(b"\n"):
            if _left.is_set():
                raise _unanswered(machine)
            if select.select([terminal], [], [], LOOK_UP_S)[0]:
                part = os.read(terminal.fileno(), 1024)
                if not part:
                    raise _unanswered(machine)
                typed += part
        return typed.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _unanswered(machine: str) -> ConnectError:
    return ConnectError("no password was given", where=machine, remedy="give it, or see sudo_password in the inventory")


@contextlib.contextmanager
def _terminal(machine: str) -> Iterator[IO[bytes]]:
    try:
        terminal = open("/dev/tty", "r+b", buffering=0)  # noqa: SIM115, PTH123  a device, both ways
    except OSError:
        raise _unanswered(machine) from None
    with terminal:
        yield terminal


@contextlib.contextmanager
def _without_echo(terminal: IO[bytes]) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        terminal.write(b"\n")
