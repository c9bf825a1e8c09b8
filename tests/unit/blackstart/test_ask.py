"""Asked on a real terminal: a child on a pty of its own, since what it reads from is /dev/tty."""

import os
import pty
import subprocess
import sys
import termios
import time

import pytest

from blackstart.paths import ROOT

CHILD = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from blackstart import ask
from blackstart.ask import ask_unseen
print("got", repr(ask_unseen("password: ", "box")))
"""
DEADLINE_S = 20


class Terminal:
    """A child at a terminal, seen from the person's side."""

    def __init__(self, code):
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", code])
        self.shown = b""

    def read_until(self, text):
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            try:
                self.shown += os.read(self.handle, 4096)
            except OSError:  # the child has gone
                break
        assert text in self.shown, self.shown

    def echoes(self):
        return bool(termios.tcgetattr(self.handle)[3] & termios.ECHO)

    def end(self):
        os.waitpid(self.pid, 0)
        os.close(self.handle)


@pytest.fixture
def terminal():
    made = []

    def terminal(code=CHILD):
        made.append(Terminal(code))
        return made[-1]

    yield terminal
    for one in made:
        one.end()


def test_what_is_typed_is_read_and_not_shown(terminal):
    at = terminal()
    at.read_until(b"password: ")
    assert not at.echoes()
    os.write(at.handle, b"s3cret w\xc3\xb6rd\n")
    at.read_until("got 's3cret wörd'".encode())
    assert at.shown.count(b"s3cret") == 1
    assert at.echoes()


def test_an_end_instead_of_an_answer_is_said(terminal):
    at = terminal()
    at.read_until(b"password: ")
    os.write(at.handle, b"\x04")
    at.read_until(b"no password was given")


def test_whoever_leaves_is_not_asked_any_more_and_sees_again_what_is_typed(terminal):
    at = terminal(CHILD.replace("print(", "import threading; threading.Timer(0.3, ask.leave).start()\nprint("))
    at.read_until(b"no password was given")
    assert at.echoes()


def test_without_a_terminal_nobody_is_asked():
    ran = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, start_new_session=True, stdin=subprocess.DEVNULL
    )
    assert "no password was given" in ran.stderr
