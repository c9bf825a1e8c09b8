"""The converge benchmark: every contestant on the same hosts, taking turns, so that the ratios are fair.

    .venv/bin/python -m bench.converge.run [--quick]

Needs root, a quiet machine, and what install.sh made. Writes docs/performance.md, and a JSON file into the workspace.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from . import report
from .bytecode import libraries, objection, uncompiled
from .contestants import Contestant, contestants
from .hosts import Hosts, HostsError, down
from .machine import describe
from .measure import MeasureError, Meter, run_alone
from .results import Case, Results, Sample
from .targets import FLEET, FLOOR, LARGE_FLEET, OURS
from .workspace import HERE, PORT, PROJECT, Workspace, address

ROUND_TRIP_S = 0.020
LIST_RUNS = 21
"""Cheap, and short enough for the machine's own noise to count."""
ONE_HOST = (OURS, FLOOR, "floor-mux", "fabric-naive", "pyinfra", "ansible-pipe", "mitogen")
BY_NAME = ("mitogen",)
"""Takes part only where --only names it."""
MANY_HOSTS = (OURS, FLOOR, "floor-mux", "fabric-naive", "pyinfra")
FAR_HOST = (OURS, FLOOR, "floor-mux", "fabric-naive", "pyinfra")
ON_TERMINAL = (OURS, FLOOR)
HEAVY = ("paramiko", "jinja2", "pydantic", "rich")


class Bench:
    """One run of the benchmark, step by step."""

    def __init__(self, work: Workspace, results: Results, options: argparse.Namespace) -> None:
        self.work = work
        self.results = results
        self.runs: int = options.runs
        self.patience_s: float = options.patience
        self.only: set[str] = set(options.only.split(",")) if options.only else {*ONE_HOST} - {*BY_NAME}

    def wanted(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.only]

    def count(self, hosts: int) -> None:
        """All that is measured on this many hosts."""
        fleet = Hosts(self.work, hosts)
        fleet.up()
        meter = Meter(self.work, fleet, self.patience_s)
        everyone = contestants(self.work, hosts)
        if hosts == 1:
            near = self.wanted(ONE_HOST)
            self._take_turns("first", hosts, near, lambda name: self._first(meter, fleet, everyone[name]))
            self._settle(meter, fleet, everyone)
            self._take_turns("noop", hosts, near, lambda name: meter.run(everyone[name]), warm=True)
            self._take_turns("check", hosts, near, lambda name: meter.run(everyone[name], check=True))
            on_terminal = self.wanted(ON_TERMINAL)
            self._take_turns("pty", hosts, on_terminal, lambda name: meter.run(everyone[name], terminal=True))
            with far_away():
                distant = contestants(self.work, hosts, delayed=True)
                far = self.wanted(FAR_HOST)
                self._take_turns("delayed", hosts, far, lambda name: meter.run(distant[name]), warm=True)
        else:
            names = self.wanted(MANY_HOSTS if hosts < LARGE_FLEET else (OURS, FLOOR))
            self._settle(meter, fleet, everyone)
            self._take_turns("noop", hosts, names, lambda name: meter.run(everyone[name]), warm=True)
        drop_control_masters(self.work)

    def _first(self, meter: Meter, fleet: Hosts, contestant: Contestant) -> Sample:
        fleet.reset()
        drop_control_masters(self.work)
        sample = meter.run(contestant)
        if not sample.changed:
            raise MeasureError(f"{contestant.name} changed nothing in a first run")
        return sample

    def _settle(self, meter: Meter, fleet: Hosts, everyone: dict[str, Contestant]) -> None:
        """The state that all contestants agree on, made by the floor."""
        fleet.reset()
        meter.run(everyone["floor-ssh"])

    def _take_turns(
        self, mode: str, hosts: int, names: Sequence[str], run: Callable[[str], Sample], *, warm: bool = False
    ) -> None:
        """Each name once a round; a first round does not count where `warm` (it opens ControlMasters, fills caches)."""
        for turn in range(-1 if warm else 0, self.runs):
            for name in names:
                sample = run(name)
                if mode != "first" and sample.changed:
                    raise MeasureError(f"{name} sees {sample.changed} changes in a run that has none to make ({mode})")
                if turn >= 0:
                    self.results.add(Case(name, mode, hosts), sample)
                    say(f"{mode:<8} {hosts:>3} {name:<15} {sample.wall_s:7.3f} s  other load {sample.other_load:.2f}")

    def list_tasks(self) -> None:
        """`inv --list` of the project itself; `changed` carries the number of heavy modules that it imported."""
        argv = [str(Path(sys.executable).with_name("inv")), "--list"]
        heavy = len(heavy_imports())
        for turn in range(-1, LIST_RUNS):
            sample = run_alone(argv, PROJECT, self.patience_s)
            if turn >= 0:
                self.results.add(Case(OURS, "list", 0), dataclasses.replace(sample, changed=heavy))
        say(f"list         {OURS:<15} {self.results.median(Case(OURS, 'list', 0)):7.3f} s")


def heavy_imports() -> list[str]:
    """The heavy modules that listing the tasks imports."""
    argv = [sys.executable, "-X", "importtime", "-m", "invoke", "--list"]
    ran = subprocess.run(argv, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    imported = {line.rsplit("|", 1)[-1].strip() for line in ran.stderr.splitlines()}
    return [name for name in HEAVY if name in imported]


@contextlib.contextmanager
def far_away() -> Iterator[None]:
    """Host 1 behind the delaying proxy."""
    here, there = address(1, delayed=True), address(1)
    argv = [sys.executable, "-m", "bench.converge.delay", str(ROUND_TRIP_S), f"{here}:{PORT}", f"{there}:{PORT}"]
    proxy = subprocess.Popen(argv, cwd=PROJECT)
    try:
        Hosts.wait_until_answered(here, PORT)
        yield
    finally:
        proxy.terminate()
        proxy.wait()


def drop_control_masters(work: Workspace) -> None:
    for socket in work.control.iterdir():
        subprocess.run(["ssh", "-S", str(socket), "-O", "exit", "any"], stderr=subprocess.DEVNULL, check=False)


def say(text: str) -> None:
    print(text, flush=True)


def require_fair(work: Workspace, names: Collection[str]) -> None:
    """Raises MeasureError where one of these would not run from bytecode, or is not installed."""
    missing = uncompiled([PROJECT / "blackstart", PROJECT / "roles", HERE], sys.implementation.cache_tag)
    everyone = contestants(work, 1)
    unknown = set(names) - set(everyone)
    if unknown:
        raise MeasureError(f"nobody is called {', '.join(sorted(unknown))}; known: {', '.join(everyone)}")
    for contestant in (everyone[name] for name in {*names, "floor-ssh"}):
        if not contestant.venv.is_dir():
            raise MeasureError(
                f"{contestant.name} is not installed in {contestant.venv}. Run bench/converge/install.sh."
            )
        missing += uncompiled(*libraries(contestant.venv))
    problem = objection(os.environ, missing)
    if problem:
        raise MeasureError(problem)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.converge.run", description=__doc__)
    parser.add_argument("--counts", default=f"1,{FLEET},{LARGE_FLEET}", help="numbers of hosts, comma separated")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each case")
    parser.add_argument("--only", default="", help="only these contestants, comma separated")
    parser.add_argument(
        "--patience", type=float, default=60.0, help="seconds to wait, before each run, for an idle machine"
    )
    parser.add_argument("--quick", action="store_true", help="one host, three runs")
    parser.add_argument("--no-report", action="store_true", help="leave docs/performance.md as it is")
    options = parser.parse_args(arguments)
    if options.quick:
        options.counts, options.runs = "1", 3
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    work = Workspace.default()
    command = shlex.join([".venv/bin/python", "-m", "bench.converge.run", *arguments])
    results = Results(describe(), command)
    bench = Bench(work, results, options)
    try:
        require_fair(work, bench.only)
        bench.list_tasks()
        for count in map(int, options.counts.split(",")):
            bench.count(count)
    except (MeasureError, HostsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        down(work)
    place = work.results / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    results.write(place)
    say(report.tables(results))
    say(f"written: {place}")
    if not options.no_report:
        report.write(results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
