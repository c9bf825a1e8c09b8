"""What the full runs came to, kept beside the other caches until the report is made of it (see report.py)."""

from __future__ import annotations

import datetime
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .debs import cache


def place() -> Path:
    return cache("reliability") / "figures.json"


@dataclass(frozen=True)
class Figure:
    """One test of a full run: what was done, how often, and what came of it."""

    test: str
    what: str
    times: str
    outcome: str
    seconds: float = 0.0


class Figures:
    """Those of one session, by test; `passed` counts the other tests of a session that ran in full."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.figures: dict[str, Figure] = {}
        self.passed: dict[str, int] = {}

    def record(self, test: str, what: str, times: str, outcome: str) -> None:
        self.figures[test] = Figure(test, what, times, outcome)

    def ended(self, test: str, seconds: float, passed: bool) -> None:
        """A test that failed has no figures."""
        file = test.split("::")[0].rpartition("/")[2]
        if test in self.figures:
            figure = self.figures.pop(test)
            if passed:
                self.figures[test] = Figure(figure.test, figure.what, figure.times, figure.outcome, seconds)
        elif passed:
            self.passed[file] = self.passed.get(file, 0) + 1

    def keep(self) -> None:
        """Join them to those of earlier sessions: a full run may be made in parts."""
        if not self.figures:
            return
        known: dict[str, Any] = json.loads(place().read_text()) if place().exists() else {}
        figures = {**known.get("figures", {}), **{test: asdict(figure) for test, figure in self.figures.items()}}
        found = {
            "figures": figures,
            "passed": {**known.get("passed", {}), **self.passed},
            "seed": self.seed,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "machine": machine(),
        }
        place().parent.mkdir(parents=True, exist_ok=True)
        place().write_text(json.dumps(found, indent=1))


def machine() -> str:
    """`2 cores, Linux 6.1, Python 3.11.7`."""
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} cores, Linux {kernel}, Python {platform.python_version()}"
