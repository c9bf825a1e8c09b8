"""CPU time of a group of processes, exact whatever else the machine does: Linux control groups of either version."""

from __future__ import annotations

import os
import time
from pathlib import Path

V1 = Path("/sys/fs/cgroup/cpuacct")
V2 = Path("/sys/fs/cgroup")


class Account:
    """Processes that join are counted from then on, with their children."""

    def __init__(self, name: str) -> None:
        self._v1 = V1.is_dir()
        self._folder = (V1 if self._v1 else V2) / f"blackstart-bench-{name}"
        self._folder.mkdir(exist_ok=True)

    def join(self, pid: int) -> None:
        (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def seconds(self) -> float:
        if self._v1:
            return int((self._folder / "cpuacct.usage").read_text()) / 1e9
        fields = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6


def machine_seconds() -> tuple[float, float]:
    """(busy, idle) CPU time of all processors since the machine started."""
    with Path("/proc/stat").open() as stream:
        user, nice, system, idle, iowait, irq, softirq = map(int, stream.readline().split()[1:8])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, (idle + iowait) / tick


def wait_for_quiet(patience_s: float, share: float = 0.85, look_s: float = 0.4) -> None:
    """Until this share of all processors idles, or patience ends."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        before = machine_seconds()[1]
        time.sleep(look_s)
        if machine_seconds()[1] - before > share * look_s * (os.cpu_count() or 1):
            return
