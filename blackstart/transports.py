"""Ways to start a program on a machine with its stdin and stdout in hand: locally, over SSH, through another machine.

Never a pty: it would change line ends and merge the streams.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from .entry import as_root
from .errors import ConnectError

if TYPE_CHECKING:
    import fabric
    import paramiko

CONNECT_TIMEOUT_S = 15
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

    def start(self, argv: Sequence[str]) -> Channel:
        """Run argv as the login; raises ConnectError."""

    def start_as_root(self, argv: Sequence[str]) -> Channel:
        """Run argv as root. Where the login is not, `entry` says what is announced first. Raises ConnectError."""

    def close(self) -> None: ...


class LocalChannel:
    def __init__(self, argv: Sequence[str], where: str) -> None:
        self._where = where
        self._hung_up = threading.Event()
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
        with contextlib.suppress(BrokenPipeError):
            self._pipe(self._process.stdin).close()
        status = self._process.wait()
        self._pipe(self._process.stdout).close()
        self._stderr.seek(0)
        text = self._stderr.read().decode("utf-8", "replace")
        self._stderr.close()
        return status, text


class Local:
    """This machine itself."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.login_is_root = os.geteuid() == 0

    def start(self, argv: Sequence[str]) -> LocalChannel:
        return LocalChannel(argv, self.where)

    def start_as_root(self, argv: Sequence[str]) -> LocalChannel:
        return self.start(argv if self.login_is_root else as_root(argv))

    def close(self) -> None:
        """Nothing is held."""


class SSHChannel:
    def __init__(self, channel: paramiko.Channel, where: str) -> None:
        self._channel = channel
        self._where = where

    def _lost(self, error: BaseException) -> ConnectError:
        return ConnectError("the connection was lost", where=self._where, found=str(error) or type(error).__name__)

    def send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except (OSError, EOFError) as error:
            raise self._lost(error) from None

    def receive(self, deadline_s: float) -> bytes:
        self._channel.settimeout(deadline_s)
        try:
            return self._channel.recv(65536)
        except TimeoutError:
            raise
        except (OSError, EOFError) as error:
            raise self._lost(error) from None

    def hang_up(self) -> None:
        self._channel.close()

    def close(self) -> tuple[int, str]:
        self._channel.settimeout(CONNECT_TIMEOUT_S)
        try:
            self._channel.shutdown_write()
            stderr = b""
            while part := self._channel.recv_stderr(65536):
                stderr += part
            status = self._channel.recv_exit_status()
        except (OSError, EOFError):
            status, stderr = -1, b""
        self._channel.close()
        return status, stderr.decode("utf-8", "replace")


class SSH:
    """One connection to a machine, opened on first use and shared by all that is started there."""

    def __init__(
        self, where: str, *, address: str, port: int, user: str, identity_file: str | None, known_hosts: str | None
    ) -> None:
        self.where = where
        self.login_is_root = user == "root"
        self._address = address
        self._port = port
        self._user = user
        self._identity_file = identity_file
        self._known_hosts = known_hosts
        self._connection: fabric.Connection | None = None

    def _open(self) -> fabric.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> fabric.Connection:
        import fabric
        import paramiko

        keys: dict[str, object] = {
            "allow_agent": self._identity_file is None,
            "look_for_keys": self._identity_file is None,
        }
        if self._identity_file:
            if not Path(self._identity_file).exists():
                raise ConnectError(
                    "the identity file is not there",
                    where=self.where,
                    found=self._identity_file,
                    remedy=self._key_remedy(),
                )
            keys["key_filename"] = self._identity_file
        connection = fabric.Connection(
            self._address, user=self._user, port=self._port, connect_timeout=CONNECT_TIMEOUT_S, connect_kwargs=keys
        )
        self._trust_known_hosts_only(connection.client)
        at = f"{self._user}@{self._address}:{self._port}"
        try:
            connection.open()
        except paramiko.BadHostKeyException as error:
            raise ConnectError(
                "the host key is not the one in known_hosts",
                where=self.where,
                found=f"{error.key.get_name()} {error.key.fingerprint} at {at}",
                remedy=f"if the machine was rebuilt: ssh-keygen -R {self._known_name()}{self._file_option()}, "
                "then accept its new key; if it was not, somebody may stand in between",
            ) from None
        except UnknownHostKey as error:
            raise ConnectError(
                "the host key is not in known_hosts",
                where=self.where,
                found=f"{error.kind} {error.fingerprint} at {at}",
                remedy=f"compare it with the machine's own, then: {self._accept_command()}",
            ) from None
        except paramiko.AuthenticationException as error:
            raise ConnectError(
                f"{self._user} may not log in", where=self.where, found=f"{at}: {error}", remedy=self._key_remedy()
            ) from None
        except (OSError, paramiko.SSHException, EOFError) as error:
            raise ConnectError(
                "the machine cannot be reached",
                where=self.where,
                found=f"{at}: {str(error) or type(error).__name__}",
                remedy="check address and port in the inventory, and that sshd runs there",
            ) from None
        self._hurry(connection)
        return connection

    def _trust_known_hosts_only(self, client: paramiko.SSHClient) -> None:
        import paramiko

        class Refuse(paramiko.MissingHostKeyPolicy):
            def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
                raise UnknownHostKey(key.get_name(), key.fingerprint)

        client.set_missing_host_key_policy(Refuse())
        if self._known_hosts is None:
            client.load_system_host_keys()
        elif Path(self._known_hosts).exists():
            client.load_host_keys(self._known_hosts)

    @staticmethod
    def _hurry(connection: fabric.Connection) -> None:
        """Without this, Nagle's algorithm costs each small exchange some 40 ms."""
        transport = connection.transport
        if isinstance(transport.sock, socket.socket):
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_keepalive(15)

    def _known_name(self) -> str:
        return self._address if self._port == 22 else f"[{self._address}]:{self._port}"

    def _file_option(self) -> str:
        return f" -f {self._known_hosts}" if self._known_hosts else ""

    def _accept_command(self) -> str:
        return f"ssh-keyscan -p {self._port} {self._address} >> {self._known_hosts or '~/.ssh/known_hosts'}"

    def _key_remedy(self) -> str:
        return "name a key that this machine accepts as identity_file in the inventory"

    def start(self, argv: Sequence[str]) -> SSHChannel:
        import paramiko

        connection = self._open()
        try:
            channel = connection.transport.open_session(timeout=CONNECT_TIMEOUT_S)
            channel.exec_command(shlex.join(argv))
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise ConnectError("no program could be started", where=self.where, found=str(error)) from None
        return SSHChannel(channel, self.where)

    def start_as_root(self, argv: Sequence[str]) -> SSHChannel:
        return self.start(argv if self.login_is_root else as_root(argv))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class UnknownHostKey(Exception):
    def __init__(self, kind: str, fingerprint: str) -> None:
        super().__init__(kind, fingerprint)
        self.kind = kind
        self.fingerprint = fingerprint


class Through:
    """A machine that is entered from another one: `enter` turns an argv into the one that runs it inside."""

    def __init__(self, where: str, outer: Transport, enter: Callable[[Sequence[str]], list[str]]) -> None:
        self.where = where
        self.login_is_root = outer.login_is_root
        self._outer = outer
        self._enter = enter

    def start(self, argv: Sequence[str]) -> Channel:
        """Only root may enter."""
        return self.start_as_root(argv)

    def start_as_root(self, argv: Sequence[str]) -> Channel:
        return self._outer.start_as_root(self._enter(argv))

    def close(self) -> None:
        """The outer machine's connection is its owner's to close."""
