"""Ways to start a program on a machine with its stdin and stdout in hand: here, through another machine (and ssh.py).

Never a pty: it would change line ends and merge the streams.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Protocol

from .entry import as_root
from .errors import ConnectError

HANG_UP_POLL_S = 0.2


class Channel(Protocol):
    """A running program's ends."""

    def send(self, data: bytes) -> None:
        """Write all of it to stdin. Raises ConnectError."""

    def receive(self, deadline_s: float) -> bytes:
        """Some bytes of stdout, b"" at its end. Raises TimeoutError, ConnectError."""

    def hang_up(self) -> None:
        """From another thread: let the program see that nobody is there, and `receive` return b""."""

    def close(self) -> tuple[int, str]:
        """Close stdin, wait for the end; exit status and what came on stderr."""


class Transport(Protocol):
    """A machine that programs can be started on."""

    where: str
    login_is_root: bool
    retries: int

    def connect(self) -> None:
        """Make ready for `start`, which does it where it was not done. Raises ConnectError."""

    def start(self, argv: Sequence[str]) -> Channel:
        """Run argv as the login; raises ConnectError."""

    def start_as_root(self, argv: Sequence[str]) -> Channel:
        """Run argv as root. Where the login is not, `entry` says what is announced first. Raises ConnectError."""

    def close(self) -> None: ...


class LocalChannel:
    def __init__(self, argv: Sequence[str], where: str) -> None:
        self._where = where
        self._hung_up = threading.Event()
        self._ended: tuple[int, str] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the channel
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise ConnectError(f"{argv[0]} cannot be started", where=where, found=str(error.strerror)) from None

    def _pipe(self, stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream

    def send(self, data: bytes) -> None:
        try:
            stdin = self._pipe(self._process.stdin)
            view = memoryview(data)
            while view:
                view = view[stdin.write(view) :]
        except BrokenPipeError:
            raise ConnectError(
                "the program ended before it was fed", where=self._where, found=self.close()[1]
            ) from None

    def receive(self, deadline_s: float) -> bytes:
        stdout = self._pipe(self._process.stdout)
        deadline = time.monotonic() + deadline_s
        while not self._hung_up.is_set():
            if select.select([stdout], [], [], HANG_UP_POLL_S)[0]:
                return stdout.read(65536)
            if time.monotonic() > deadline:
                raise TimeoutError
        return b""

    def hang_up(self) -> None:
        self._hung_up.set()

    def close(self) -> tuple[int, str]:
        if self._ended is None and self._hung_up.is_set():
            self._let_go()
        if self._ended is None:
            with contextlib.suppress(BrokenPipeError):
                self._pipe(self._process.stdin).close()
            with self._pipe(self._process.stdout) as stdout:
                # A full pipe would keep the program from ending; what it left running may hold the pipe for ever.
                while self._process.poll() is None:
                    if select.select([stdout], [], [], HANG_UP_POLL_S)[0] and not stdout.read(65536):
                        self._process.wait()
            status = self._process.wait()
            with self._stderr:
                self._stderr.seek(0)
                self._ended = status, self._stderr.read().decode("utf-8", "replace")
        return self._ended

    def _let_go(self) -> None:
        """The program finishes what it has in hand, and nobody waits for it."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                self._pipe(stream).close()
        self._stderr.close()
        self._process.returncode = -1  # or its object would complain that the program still runs
        self._ended = -1, ""


class Local:
    """This machine itself."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.login_is_root = os.geteuid() == 0
        self.retries = 0

    def connect(self) -> None:
        """There is no way to go."""

    def start(self, argv: Sequence[str]) -> LocalChannel:
        return LocalChannel(argv, self.where)

    def start_as_root(self, argv: Sequence[str]) -> LocalChannel:
        return self.start(argv if self.login_is_root else as_root(argv))

    def close(self) -> None:
        """Nothing is held."""


class Through:
    """A machine that is entered from another one: `enter` turns an argv into the one that runs it inside."""

    def __init__(self, where: str, outer: Transport, enter: Callable[[Sequence[str]], list[str]]) -> None:
        self.where = where
        self.login_is_root = outer.login_is_root
        self.retries = 0
        self._outer = outer
        self._enter = enter

    def connect(self) -> None:
        self._outer.connect()

    def start(self, argv: Sequence[str]) -> Channel:
        """Only root may enter."""
        return self.start_as_root(argv)

    def start_as_root(self, argv: Sequence[str]) -> Channel:
        return self._outer.start_as_root(self._enter(argv))

    def close(self) -> None:
        """The outer machine's connection is its owner's to close."""
