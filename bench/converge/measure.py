"""One whole command, measured from outside: time, CPU, memory, and what the hosts' sshd saw of it."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from .accounting import Account, machine_seconds, wait_for_quiet
from .contestants import Contestant
from .hosts import Hosts
from .results import Sample
from .workspace import Workspace

LOGGED_S = 0.1
"""sshd writes the end of a connection a little after the client has left."""


class MeasureError(Exception):
    """A contestant failed, or did something else than what is measured; the text says which and how."""


class Meter:
    """Measures commands against these hosts. `patience_s`: how long to wait, before each, for a quiet machine."""

    def __init__(self, work: Workspace, hosts: Hosts, patience_s: float) -> None:
        self._output = work.last_output
        self._hosts = hosts
        self._patience_s = patience_s
        self._controller = Account("controller")
        self._far_side = Account("hosts")
        for pid in hosts.pids():
            self._far_side.join(pid)

    def run(self, contestant: Contestant, *, check: bool = False, terminal: bool = False) -> Sample:
        """Raises MeasureError where the command fails."""
        self._hosts.clear_logs()
        wait_for_quiet(self._patience_s)
        before = self._controller.seconds, self._far_side.seconds, machine_seconds()[0]
        started = time.perf_counter()
        status, peak_rss_mb = self._spawn(
            contestant.check if check else contestant.argv, contestant.cwd, contestant.environment, terminal
        )
        wall_s = time.perf_counter() - started
        after = self._controller.seconds, self._far_side.seconds, machine_seconds()[0]
        output = self._output.read_text(errors="replace")
        if status:
            raise MeasureError(f"{contestant.name} ended with {status}:\n{output[-2000:]}")
        controller, far_side, all_of_it = (late - early for late, early in zip(after, before, strict=True))
        time.sleep(LOGGED_S)
        channels = self._hosts.channels()
        return Sample(
            wall_s=wall_s,
            controller_cpu_s=controller,
            host_cpu_s=far_side / len(self._hosts.labels),
            peak_rss_mb=peak_rss_mb,
            connections=channels.connections,
            execs=channels.execs,
            subsystems=channels.subsystems,
            other_load=max(0.0, all_of_it - controller - far_side) / wall_s,
            changed=contestant.changed(output),
        )

    def _spawn(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], terminal: bool
    ) -> tuple[int, float]:
        """Exit status and peak RSS in MB of its largest process (at least this harness's: it is forked from it)."""
        with self._output.open("wb") as output:
            sink = _Terminal(output) if terminal else None
            ends = sink.end if sink else output.fileno()
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**os.environ, **environment},
                stdin=ends if sink else subprocess.DEVNULL,
                stdout=ends,
                stderr=ends,
                start_new_session=True,
                preexec_fn=lambda: self._controller.join(os.getpid()),  # safe: this process has no other thread yet
            )
            if sink:
                sink.drain()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if sink:
                sink.close()
        return process.returncode, usage.ru_maxrss / 1024


def run_alone(argv: Sequence[str], cwd: Path, patience_s: float) -> Sample:
    """A command that talks to no host; `changed` is 0. Raises MeasureError where it fails."""
    wait_for_quiet(patience_s)
    busy, started = machine_seconds()[0], time.perf_counter()
    process = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - started
    if process.returncode:
        raise MeasureError(f"{' '.join(argv)} ended with {process.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    other_load = max(0.0, machine_seconds()[0] - busy - cpu_s) / wall_s
    return Sample(wall_s, cpu_s, 0, usage.ru_maxrss / 1024, 0, 0, 0, other_load, 0)


class _Terminal:
    """A pty whose output is drained into a file, as a person's terminal would."""

    def __init__(self, output: BinaryIO) -> None:
        self._near, self.end = pty.openpty()
        self._output = output
        self._drain = threading.Thread(target=self._copy)

    def drain(self) -> None:
        self._drain.start()

    def _copy(self) -> None:
        while True:
            try:
                data = os.read(self._near, 65536)
            except OSError:
                return  # EIO: the last one on the far end has left
            self._output.write(data)

    def close(self) -> None:
        os.close(self.end)
        self._drain.join()
        os.close(self._near)
