"""Tables of a benchmark's results, and docs/performance.md.

python -m bench.converge.report RESULTS.json
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from blackstart.render import render

from .results import Case, Results
from .targets import FLOOR, judge
from .workspace import HERE, PROJECT

DOCUMENT = PROJECT / "docs" / "performance.md"
TITLES = {
    "first": "First run",
    "noop": "No-op",
    "check": "Check",
    "delayed": "No-op through a 20 ms round trip",
    "pty": "No-op on a terminal",
}
COLUMNS = (
    "contestant",
    "median s",
    "least to most",
    "x floor",
    "controller CPU s",
    "host CPU s",
    "conn. / exec / sftp a host",
    "peak MB",
    "other load",
)


def tables(results: Results) -> str:
    """The targets, then a table for each mode and number of hosts, as Markdown."""
    parts = [_targets(results)]
    for mode, title in TITLES.items():
        for hosts in results.counts(mode):
            parts.append(f"### {title}, {hosts} host{'s' if hosts > 1 else ''}\n\n{_measured(results, mode, hosts)}")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _targets(results: Results) -> str:
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [
        (
            verdict.target.measure,
            verdict.target.goal,
            "" if verdict.value is None else f"{verdict.value:.2f}",
            words[verdict.reached],
        )
        for verdict in judge(results)
    ]
    return _table(("measure", "to reach", "measured", "reached"), rows)


def _measured(results: Results, mode: str, hosts: int) -> str:
    return _table(COLUMNS, [_row(results, case) for case in results.cases(mode, hosts)])


def _row(results: Results, case: Case) -> list[str]:
    def median(name: str) -> float:
        value = results.median(case, name)
        assert value is not None, "a case that was measured has samples"
        return value

    walls = [sample.wall_s for sample in results.clean(case)]
    ratio = results.ratio(case, case._replace(contestant=FLOOR))
    channels = " / ".join(f"{median(name):g}" for name in ("connections", "execs", "subsystems"))
    return [
        case.contestant,
        f"{median('wall_s'):.2f}",
        f"{min(walls):.2f} - {max(walls):.2f} ({len(walls)} of {len(results.samples[case])})",
        "" if ratio is None else f"{ratio:.2f}",
        f"{median('controller_cpu_s'):.2f}",
        f"{median('host_cpu_s'):.2f}",
        channels,
        f"{median('peak_rss_mb'):.0f}",
        f"{median('other_load'):.2f}",
    ]


def document(results: Results) -> str:
    disturbed, counted = results.disturbed()
    return render(
        "performance.md.j2",
        root=HERE,
        machine=results.machine,
        command=results.command,
        disturbed=disturbed,
        counted=counted,
        tables=tables(results),
    )


def write(results: Results) -> None:
    DOCUMENT.write_text(document(results))


if __name__ == "__main__":
    write(Results.read(Path(sys.argv[1])))
