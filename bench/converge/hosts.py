"""N hosts on this machine: mount namespaces with overlay roots, each with an sshd of its own on 127.0.1.<i>:4022.

    python -m bench.converge.hosts up N | down

Needs root and Linux with overlayfs. Host 1 can also be reached through a delaying proxy (see delay.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .workspace import DELAYED, HERE, PORT, Workspace, address, label

START_DEADLINE_S = 60.0
END_DEADLINE_S = 20.0
MOST = DELAYED - 1


class HostsError(Exception):
    """The hosts cannot be had; the text says why."""


@dataclass(frozen=True)
class Channels:
    """What sshd saw, a host: connections, exec channels, subsystem (sftp) channels."""

    connections: float
    execs: float
    subsystems: float


def count_channels(logs: list[str]) -> Channels:
    """The mean over the hosts' sshd logs (LogLevel VERBOSE)."""

    def mean(needle: str) -> float:
        return sum(log.count(needle) for log in logs) / len(logs)

    return Channels(mean("Connection from "), mean("Starting session: command"), mean("Starting session: subsystem"))


class Hosts:
    """The first `count` hosts."""

    def __init__(self, work: Workspace, count: int) -> None:
        if not 1 <= count <= MOST:
            raise HostsError(f"1 to {MOST} hosts can be had, not {count}")
        self.work = work
        self.labels = [label(number) for number in range(1, count + 1)]
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def up(self) -> None:
        """Start those that do not run yet; return once each answers. Raises HostsError."""
        if os.geteuid() != 0:
            raise HostsError("making hosts takes root: they are mount namespaces")
        for folder in (self.work.hosts, self.work.logs, self.work.keys, self.work.control):
            folder.mkdir(parents=True, exist_ok=True)
        self._make_keys()
        for number, name in enumerate(self.labels, 1):
            if self.running(name) is None:
                self._start(number, name)
        for number, name in enumerate(self.labels, 1):
            self._wait_for(number, name)

    def _make_keys(self) -> None:
        for key in (self.work.identity, self.work.host_key):
            if not key.exists():
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        shutil.copy(HERE / "sshd_config", self.work.keys)
        kind, public = self.work.host_key.with_suffix(".pub").read_text().split()[:2]
        numbers = [*range(1, len(self.labels) + 1), DELAYED + 1]
        lines = [f"[127.0.1.{number}]:{PORT} {kind} {public}\n" for number in numbers]
        self.work.known_hosts.write_text("".join(lines))
        self.work.ssh_config.write_text(
            "Host 127.0.1.*\n"
            f"  Port {PORT}\n"
            "  User root\n"
            f"  IdentityFile {self.work.identity}\n"
            "  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.work.known_hosts}\n"
            "  StrictHostKeyChecking yes\n"
        )

    def _start(self, number: int, name: str) -> None:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((address(number), PORT), timeout=5).close()
            raise HostsError(f"something that is no host of ours listens on {address(number)}:{PORT}")
        folder, log = self.work.hosts / name, self._log(name)
        folder.mkdir(exist_ok=True)
        log.touch()
        argv = ["unshare", "--mount", "--propagation", "private", str(HERE / "host.sh")]
        argv += [str(folder), str(self.work.keys), str(log), str(HERE / "reset.sh"), address(number)]
        with self._start_log(name).open("wb") as output:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._started[name] = process
        self._pid_file(name).write_text(f"{process.pid} {_started_at(process.pid) or 0}")

    def _wait_for(self, number: int, name: str) -> None:
        def require_running() -> None:
            if name in self._started and self._started[name].poll() is not None:
                raise HostsError(f"{name} ended while it started: {self._start_log(name).read_text().strip()}")

        self.wait_until_answered(address(number), PORT, require_running)

    @staticmethod
    def wait_until_answered(where: str, port: int, look: Callable[[], None] = lambda: None) -> None:
        """Until somebody listens there; `look` may give up earlier. Raises HostsError."""
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            look()
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((where, port), timeout=5).close()
                return
            if time.monotonic() > deadline:
                raise HostsError(f"nobody answers on {where}:{port}")
            time.sleep(0.05)

    def pids(self) -> list[int]:
        """Each host's sshd. Raises HostsError where one does not run."""
        found = []
        for name in self.labels:
            pid = self.running(name)
            if pid is None:
                raise HostsError(f"{name} does not run")
            found.append(pid)
        return found

    def running(self, name: str) -> int | None:
        """The host's process; a pid that has meanwhile become another program's is not it."""
        try:
            pid, started = map(int, self._pid_file(name).read_text().split())
        except (FileNotFoundError, ValueError):
            return None
        return pid if _started_at(pid) == started else None

    def reset(self) -> None:
        """Undo the converge on every host."""
        argv = ["--mount", "--root", "sh", "/etc/bench_ssh/reset.sh"]
        running = [subprocess.Popen(["nsenter", f"--target={pid}", *argv]) for pid in self.pids()]
        for process in running:
            process.wait()

    def clear_logs(self) -> None:
        for name in self.labels:
            os.truncate(self._log(name), 0)

    def channels(self) -> Channels:
        """What was seen since the logs were cleared."""
        return count_channels([self._log(name).read_text(errors="replace") for name in self.labels])

    def _log(self, name: str) -> Path:
        return self.work.logs / f"{name}.log"

    def _start_log(self, name: str) -> Path:
        return self.work.logs / f"{name}.start"

    def _pid_file(self, name: str) -> Path:
        return self.work.logs / f"{name}.pid"


def _started_at(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was: what tells it from a later one of the same number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def down(work: Workspace) -> None:
    """End every host that runs, and see it end: what listens still is in the way of the next. Raises HostsError."""
    running = {}
    for pid_file in work.logs.glob("h*.pid"):
        host = Hosts(work, int(pid_file.stem[1:]))
        pid = host.running(pid_file.stem)
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            running[pid_file.stem] = host
        else:
            pid_file.unlink()
    deadline = time.monotonic() + END_DEADLINE_S
    for name, host in running.items():
        while host.running(name) is not None:
            if time.monotonic() > deadline:
                raise HostsError(f"{name} does not end")
            time.sleep(0.02)
        (work.logs / f"{name}.pid").unlink()


def main(arguments: list[str]) -> int:
    work = Workspace.default()
    try:
        match arguments:
            case ["up", count] if count.isdigit():
                Hosts(work, int(count)).up()
            case ["down"]:
                down(work)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except HostsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
