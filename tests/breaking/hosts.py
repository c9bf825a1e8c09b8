"""Hosts to break: this machine's root under an overlay, in mount and PID namespaces of their own, each with a real
sshd on 127.0.2.<number>. What a host writes lies in memory; when its init is killed, all of it is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import wait_for

HERE = Path(__file__).resolve().parent
MOST = 250

SSHD_CONFIG = """\
HostKey /run/keys/host_key
AuthorizedKeysFile /run/keys/authorized
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
LogLevel VERBOSE
MaxStartups 100
MaxSessions 100
PidFile none
PrintMotd no
"""


class HostsError(Exception):
    """The hosts cannot be had; the text says why and what to do."""


@dataclass(frozen=True)
class Keys:
    """One key pair to log in with and one that all hosts show, and the port that all listen on; made once a session."""

    folder: Path
    port: int

    @property
    def login(self) -> Path:
        return self.folder / "login_key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def make(self) -> None:
        for name in ("login_key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)], check=True)
        public = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        hosts = [f"[127.0.2.{number}]:{self.port} {public}\n" for number in range(1, MOST + 1)]
        self.known_hosts.write_text("".join(hosts))


class Host:
    """One host that runs. `layer` is a folder whose content lies over this machine's own root."""

    def __init__(self, number: int, folder: Path, layer: Path, keys: Keys) -> None:
        self.address = f"127.0.2.{number}"
        self.port = keys.port
        self.keys = keys
        self.layer = layer
        self._folder = folder
        folder.mkdir()
        # It dies with what made it, even where that is killed.
        argv = [
            "setpriv",
            "--pdeathsig=KILL",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
        ]
        argv += [str(HERE / "host.sh"), str(folder), str(layer), str(keys.folder), self.address, str(self.port)]
        self._said = (folder.parent / f"{folder.name}.log").open("w+b")
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, start_new_session=True
        )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> None:
        def answers() -> bool:
            if self._process.poll() is not None:
                self._said.seek(0)
                raise HostsError(f"a host ended while it started: {self._said.read().decode()}")
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((self.address, self.port), timeout=5).close()
                return True
            return False

        wait_for(answers, f"sshd on {self.address}:{self.port}")

    def stop(self) -> None:
        """Kill everything in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._said.close()
        Path(self._said.name).unlink()
        self._folder.rmdir()

    @property
    def _seen_from_outside(self) -> Path:
        # unshare itself waits outside the chroot, inside the mount namespace.
        return Path(f"/proc/{self._process.pid}/root{self._folder}")

    @property
    def root(self) -> Path:
        """Its root directory."""
        return self._seen_from_outside / "root"

    @property
    def upper(self) -> Path:
        """What was written there since it was made."""
        return self._seen_from_outside / "upper"

    def path(self, inside: str) -> Path:
        return self.root / inside.lstrip("/")

    @property
    def init(self) -> int:
        """Its sshd, by the number that it has on this machine."""
        (child,) = children(self._process.pid)
        return child

    def run(self, *argv: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program inside, by none of our own means."""
        entered = ["nsenter", f"--target={self.init}", "--mount", "--pid", "--root", "--"]
        entered += ["/bin/sh", "-c", 'cd / && exec "$@"', "sh", *argv]
        ran = subprocess.run(entered, input=stdin, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        if check and ran.returncode != 0:
            raise AssertionError(f"{argv} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
        return ran

    def processes(self) -> dict[int, list[bytes]]:
        """What runs there, init left out: number on this machine → words of the command line."""
        found = {}
        todo = children(self.init)
        while todo:
            pid = todo.pop()
            todo += children(pid)
            words = command_line(pid)
            if words:
                found[pid] = words
        return found

    def agents(self) -> list[int]:
        return [pid for pid, words in self.processes().items() if b"-IS" in words and b"zlib" in words[-1]]

    def is_quiet(self) -> bool:
        """Nothing runs but sshd."""
        return not children(self.init)

    def kill_agents(self) -> int:
        """Kill the agents and nothing that they started; how many there were."""
        agents = self.agents()
        send(signal.SIGKILL, agents)
        return len(agents)

    def kill_all(self) -> int:
        """Kill all but sshd at one blow, as a power cut would; how many agents there were."""
        agents = self.agents()
        all_but_sshd = [pid for pid, words in self.processes().items() if b"sshd" not in words[0]]
        send(signal.SIGSTOP, all_but_sshd)
        send(signal.SIGKILL, all_but_sshd)
        return len(agents)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _free_port() -> int:
    """One of this session's own, so that two sessions at once do not meet."""
    with socket.create_server(("127.0.2.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Hosts:
    """Makes hosts, each with a number of its own; all of them end with this."""

    def __init__(self, folder: Path) -> None:
        lacking = [name for name in ("unshare", "nsenter", "setpriv", "ssh-keygen") if shutil.which(name) is None]
        if not Path("/usr/sbin/sshd").exists():
            lacking.append("sshd")
        if os.geteuid() != 0:
            raise HostsError("making hosts takes root: they are mount namespaces")
        if lacking:
            raise HostsError(
                f"{', '.join(lacking)} is missing: apt-get install openssh-server openssh-client util-linux"
            )
        self.folder = folder
        self.keys = Keys(folder / "keys", _free_port())
        self.keys.folder.mkdir()
        self.keys.make()
        self._numbers = itertools.cycle(range(1, MOST))
        self._running: dict[int, Host] = {}

    @contextlib.contextmanager
    def one(self, layer: Path) -> Iterator[Host]:
        number = next(number for number in self._numbers if number not in self._running)
        host = Host(number, self.folder / f"host{number}", layer, self.keys)
        self._running[number] = host
        try:
            yield host
        finally:
            host.stop()
            del self._running[number]

    @contextlib.contextmanager
    def several(self, layer: Path, count: int) -> Iterator[list[Host]]:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.one(layer)) for _ in range(count)]
