"""What each machine is doing right now: the lines below those that stay, on a terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


@dataclass
class Doing:
    """One machine's work in hand, what it last said, and since when (monotonic seconds)."""

    what: str
    said: str = ""
    since: float = field(default_factory=time.monotonic)

    def text(self) -> str:
        seconds = int(time.monotonic() - self.since)
        elapsed = f"  {seconds // 60}:{seconds % 60:02}" if seconds >= 2 else ""
        return f"{self.what}{elapsed}" + (f" | {self.said}" if self.said else "")


class Progress:
    """The work in hand of every machine; may be told of it from several threads."""

    def __init__(self) -> None:
        self._doing: dict[str, Doing] = {}

    def begins(self, machine: str, what: str) -> None:
        present = self._doing.get(machine)
        if present is None or present.what != what:
            self._doing[machine] = Doing(what)

    def says(self, machine: str, line: str) -> None:
        if machine in self._doing:
            self._doing[machine].said = line.strip()

    def rests(self, machine: str) -> None:
        self._doing.pop(machine, None)

    def clear(self) -> None:
        self._doing.clear()

    def table(self) -> Table:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        for machine, doing in list(self._doing.items()):
            spinner = Spinner("dots", style="cyan")
            spinner.start_time = doing.since
            text = Text(doing.text(), overflow="ellipsis", no_wrap=True)
            grid.add_row(spinner.render(time.monotonic()), machine, text)
        return grid
