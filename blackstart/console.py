"""What people see while a run is going on and when it is over; plain lines where stdout is no terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from .errors import BlackstartError
from .progress import Progress
from .report import MachineReport, Record
from .secrets import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.live import Live

QUIET = ("ok", "verified")
MAX_DETAIL = 100
MAX_SAID = 500
COLOURS = {"changed": "33", "change": "33", "failed": "31", "unknown": "35", "pending": "36", "ok": "32"}


class Console:
    """Lines for people. With `silent` (for JSON) nothing is shown at all."""

    def __init__(
        self, stream: TextIO | None = None, *, silent: bool = False, diff: bool = False, verbose: bool = False
    ) -> None:
        self._stream = stream or sys.stdout
        self._silent = silent
        self._diff = diff
        self._verbose = verbose
        self._terminal = not silent and self._stream.isatty()
        self._coloured = self._terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._progress = Progress()
        self._live: Live | None = None

    # lines

    def line(self, text: str = "") -> None:
        if self._silent:
            return
        text = mask(text)
        with self._lock:
            if self._live is not None:
                from rich.text import Text

                self._live.console.print(Text.from_ansi(self._folded(text)), soft_wrap=True)
            else:
                self._print(self._folded(text))

    def _print(self, text: str) -> None:
        """Raises BlackstartError where there is no room for it, and BrokenPipeError where nobody reads any more."""
        try:
            print(text, file=self._stream, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(error) from None

    def _folded(self, text: str) -> str:
        """A long line goes on indented, on a terminal; what is read by programs stays one line."""
        if not self._terminal:
            return text
        width = shutil.get_terminal_size().columns
        if len(text) <= width or "\x1b" in text:
            return text
        return textwrap.fill(
            text,
            width,
            subsequent_indent=" " * 11,
            drop_whitespace=True,
            break_long_words=False,
            replace_whitespace=False,
        )

    def paint(self, text: str, state: str) -> str:
        colour = COLOURS.get(state)
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured and colour else text

    # progress; a listener of converge

    def begins(self, machine: str, role: str, name: str) -> None:
        self._progress.begins(machine, f"{role}: {name}")

    def says(self, machine: str, line: str) -> None:
        self._progress.says(machine, mask(line)[:MAX_SAID])

    def ends(self, machine: str, record: Record) -> None:
        self._progress.rests(machine)
        if record.state in QUIET and not self._verbose:
            return
        state = self.paint(f"{record.state:<8}", record.state)
        first_line = mask(record.detail).splitlines()[0][:MAX_DETAIL] if record.detail else ""
        detail = f"  ({first_line})" if first_line and record.state != "failed" else ""
        self.line(f"{state} {machine:<10} {record.role:<10} {record.name}{detail}{_duration(record.seconds)}")
        if self._diff and record.diff:
            for text in record.diff.splitlines():
                self.line("    " + self.paint(text, {"+": "ok", "-": "failed"}.get(text[:1], "")))

    def stage(self, name: str, text: str) -> None:
        """A step that is no machine's: fetching, building an image."""
        self._progress.begins(name, text)

    def rests(self, machine: str) -> None:
        self._progress.rests(machine)

    @contextmanager
    def progress(self) -> Iterator[None]:
        """On a terminal: a line for each machine with what it is doing now, below the lines that stay."""
        if not self._terminal:
            yield
            return
        from rich.console import Console as Rich
        from rich.live import Live

        with Live(
            get_renderable=self._progress.table, console=Rich(file=self._stream), refresh_per_second=8, transient=True
        ) as self._live:
            try:
                yield
            finally:
                self._live = None
                self._progress.clear()

    # the end

    def recap(self, reports: Sequence[MachineReport], *, check: bool) -> None:
        """One line a machine, then each failure once, whole."""
        for report in reports:
            counts = report.counts
            names = ["ok", "change", "unknown"] if check else ["ok", "changed"]
            shown = [f"{counts[name]} {name}" for name in names if name != "unknown" or counts[name]]
            if report.failed:
                shown.append(self.paint("failed", "failed"))
            execs = f"{report.execs} exec" + ("" if report.execs == 1 else "s")
            retries = f", {report.retries} retries" if report.retries else ""
            self.line(f"{report.name:<10} {', '.join(shown)}   [{execs}, {report.seconds:.1f} s{retries}]")
            for record in report.records:
                if record.state == "pending":
                    word = "would be pending" if check else "pending restart"
                    self.line(f"{'':<10} {self.paint(word, 'pending')}: {record.name}; add --restart to do it")
        for report in reports:
            if report.error:
                self.line(self.paint(f"error: {report.error}", "failed"))
            elif report.failure:
                self.line(self.paint(f"failed: {report.name}: {report.failure.name}", "failed"))
                for text in report.failure.detail.splitlines():
                    self.line(f"  found: {text}")
                if report.failure.remedy:
                    self.line(f"  do: {report.failure.remedy}")


def unwritable(error: OSError) -> BlackstartError:
    return BlackstartError("what is said cannot be written", found=error.strerror or str(error))


def _duration(seconds: float) -> str:
    return f"  {seconds:.1f} s" if seconds >= 1 else ""


class Timer:
    """Seconds between entering and now; use as a context manager."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._end: float | None = None

    def __enter__(self) -> Timer:
        self._start = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end = time.monotonic()

    @property
    def seconds(self) -> float:
        return (self._end or time.monotonic()) - self._start
