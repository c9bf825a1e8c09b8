import io
import os
import pty
import re
import select
import time

import pytest

from blackstart.console import Console, Timer
from blackstart.errors import ConnectError
from blackstart.report import MachineReport, Record


def plain(**options):
    stream = io.StringIO()
    return Console(stream, **options), stream


def test_lines_go_out_at_once_and_without_colour():
    console, stream = plain()
    console.line("one")
    console.line()
    console.line(console.paint("two", "changed"))
    assert stream.getvalue() == "one\n\ntwo\n"


def test_a_silent_console_shows_nothing_at_all():
    console, stream = plain(silent=True, diff=True)
    with console.progress():
        console.begins("box", "web", "file")
        console.ends("box", Record("web", "file", "changed", diff="+ x"))
    console.line("text")
    console.recap([MachineReport("box", error=ConnectError("lost"))], check=False)
    assert stream.getvalue() == ""


def test_what_did_not_change_is_not_shown():
    console, stream = plain()
    for state in ("ok", "verified"):
        console.ends("box", Record("web", "file", state))
    assert stream.getvalue() == ""


@pytest.mark.parametrize("state", ["changed", "change", "unknown", "pending", "failed"])
def test_what_matters_is_one_line(state):
    console, stream = plain()
    console.ends("box", Record("web", "file /x", state, seconds=0.2))
    assert stream.getvalue().split() == [state, "box", "web", "file", "/x"]


def test_a_detail_is_shown_by_its_first_line_and_a_failures_detail_waits_for_the_end():
    console, stream = plain()
    console.ends("box", Record("web", "packages", "changed", "rsync\nmore", seconds=12.34))
    console.ends("box", Record("web", "file", "failed", "no space"))
    first, second = stream.getvalue().splitlines()
    assert first.endswith("packages  (rsync)  12.3 s")
    assert "no space" not in second


def test_a_diff_is_shown_on_request_only():
    for diff, expected in ((False, 1), (True, 4)):
        console, stream = plain(diff=diff)
        console.ends("box", Record("web", "file", "changed", diff="--- a\n+++ b\n+x"))
        assert len(stream.getvalue().splitlines()) == expected


def reports():
    good = MachineReport("box", [Record("web", "a", "ok"), Record("web", "b", "changed")], execs=1, seconds=0.31)
    pending = MachineReport("bay", [Record("handlers", "restart x", "pending")], execs=2, seconds=2)
    failed = MachineReport("bad", [Record("web", "c", "failed", "line 1\nline 2", remedy="fix it")], execs=1)
    lost = MachineReport("gone", error=ConnectError("lost", where="gone", found="reset", remedy="look"))
    return [good, pending, failed, lost]


def test_the_recap_is_one_line_a_machine_then_each_failure_once_and_whole():
    console, stream = plain()
    console.recap(reports(), check=False)
    assert stream.getvalue().splitlines() == [
        "box        1 ok, 1 changed   [1 exec, 0.3 s]",
        "bay        0 ok, 0 changed   [2 execs, 2.0 s]",
        "           pending restart: restart x; add --restart to do it",
        "bad        0 ok, 0 changed, failed   [1 exec, 0.0 s]",
        "gone       0 ok, 0 changed, failed   [0 execs, 0.0 s]",
        "failed: bad: c",
        "  found: line 1",
        "  found: line 2",
        "  do: fix it",
        "error: gone: lost",
        "  found: reset",
        "  do: look",
    ]


def test_the_recap_of_a_check_speaks_of_what_would_change():
    console, stream = plain()
    console.recap([MachineReport("box", [Record("w", "a", "ok"), Record("w", "b", "change")])], check=True)
    console.recap([MachineReport("box", [Record("w", "b", "unknown", "after a")])], check=True)
    assert stream.getvalue().splitlines() == [
        "box        1 ok, 1 change   [0 execs, 0.0 s]",
        "box        0 ok, 0 change, 1 unknown   [0 execs, 0.0 s]",
    ]


class Terminal:
    """A real pseudo-terminal: what is written to `stream` can be read as text."""

    def __init__(self):
        self.master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w")

    def text(self, until, deadline_s=5.0):
        """What arrived, once `until` is in it."""
        seen, deadline = "", time.monotonic() + deadline_s
        while until not in seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{until!r} did not come; there was {seen!r}"
            if select.select([self.master], [], [], left)[0]:
                seen += os.read(self.master, 65536).decode()
        return seen


@pytest.fixture
def terminal(monkeypatch):
    # rich asks these whether the terminal can do anything.
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    terminal = Terminal()
    yield terminal
    terminal.stream.close()
    os.close(terminal.master)


def test_a_terminal_gets_colours(terminal):
    console = Console(terminal.stream, diff=True)
    console.ends("box", Record("web", "file", "changed", diff="+new\n-old"))
    seen = terminal.text(until="old")
    assert "\x1b[33mchanged " in seen
    assert "\x1b[32m+new" in seen and "\x1b[31m-old" in seen


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_colours_gets_none(terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    Console(terminal.stream).ends("box", Record("web", "file", "changed"))
    assert "\x1b" not in terminal.text(until="file")


def test_progress_shows_what_each_machine_does_and_leaves_only_the_lines(terminal):
    console = Console(terminal.stream)
    with console.progress():
        console.begins("box", "web", "packages rsync")
        console.says("box", "  Unpacking rsync\r")
        seen = terminal.text(until="Unpacking rsync")
        assert "web: packages rsync | Unpacking rsync" in seen
        console.ends("box", Record("web", "packages rsync", "changed"))
        seen = terminal.text(until="changed")
    console.line("the end")
    after = terminal.text(until="the end")
    assert "Unpacking" not in after
    assert re.search(r"the end\r\n$", after)


def test_only_the_latest_output_is_shown_beside_what_is_done(terminal):
    console = Console(terminal.stream)
    with console.progress():
        console.begins("box", "web", "build")
        console.says("box", "first")
        console.says("box", "second")
        seen = terminal.text(until="build | second")
    assert "first | second" not in seen


def test_an_error_inside_progress_leaves_the_terminal_usable(terminal):
    console = Console(terminal.stream)
    with pytest.raises(RuntimeError), console.progress():
        raise RuntimeError
    console.line("still here")
    assert "\x1b[?25h" in terminal.text(until="still here")  # the cursor is shown again


def test_a_timer_stands_still_once_it_is_left():
    with Timer() as timer:
        running = timer.seconds
    first = timer.seconds
    assert 0 <= running <= first
    assert timer.seconds == first
