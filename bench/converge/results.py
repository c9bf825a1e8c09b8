"""What was measured, as data: samples by contestant, mode and number of hosts; medians over the clean ones."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

CLEAN_LOAD = 0.15
"""CPUs' worth of other work beside a run; a run beside more counts only where no cleaner one was had."""


class Case(NamedTuple):
    """`mode`: first, noop, check, delayed (no-op through the proxy), pty (no-op on a terminal), list."""

    contestant: str
    mode: str
    hosts: int


@dataclass(frozen=True)
class Sample:
    """One whole command. Channels are means a host; `changed` is what the tool itself says, over all hosts."""

    wall_s: float
    controller_cpu_s: float
    host_cpu_s: float
    peak_rss_mb: float
    connections: float
    execs: float
    subsystems: float
    other_load: float
    changed: int


@dataclass
class Results:
    machine: Mapping[str, Any]
    command: str
    samples: dict[Case, list[Sample]] = field(default_factory=dict)

    def add(self, case: Case, sample: Sample) -> None:
        self.samples.setdefault(case, []).append(sample)

    def clean(self, case: Case) -> list[Sample]:
        taken = self.samples.get(case, [])
        return [sample for sample in taken if sample.other_load <= CLEAN_LOAD] or taken

    def median(self, case: Case, name: str = "wall_s") -> float | None:
        """None where the case was not measured."""
        values = [getattr(sample, name) for sample in self.clean(case)]
        return statistics.median(values) if values else None

    def ratio(self, of: Case, to: Case) -> float | None:
        above, below = self.median(of), self.median(to)
        return None if above is None or not below else above / below

    def disturbed(self) -> tuple[int, int]:
        """How many of the samples that count were taken beside too much other work, and how many count."""
        counted = [sample for case in self.samples for sample in self.clean(case)]
        return sum(sample.other_load > CLEAN_LOAD for sample in counted), len(counted)

    def cases(self, mode: str, hosts: int) -> Iterator[Case]:
        """Those measured, the quickest first."""
        found = [case for case in self.samples if case.mode == mode and case.hosts == hosts]
        return iter(sorted(found, key=lambda case: self.median(case) or 0.0))

    def counts(self, mode: str) -> list[int]:
        return sorted({case.hosts for case in self.samples if case.mode == mode})

    def write(self, path: Path) -> None:
        rows = [{**case._asdict(), "samples": [asdict(s) for s in taken]} for case, taken in self.samples.items()]
        document = {"machine": self.machine, "command": self.command, "cases": rows}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        document = json.loads(path.read_text())
        found = cls(document["machine"], document["command"])
        for row in document["cases"]:
            case = Case(row["contestant"], row["mode"], row["hosts"])
            found.samples[case] = [Sample(**sample) for sample in row["samples"]]
        return found
