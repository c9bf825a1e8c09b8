"""SSH, by Fabric's Connection: host keys from known_hosts only, one connection a machine, no Nagle."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .entry import as_root
from .errors import ConnectError

if TYPE_CHECKING:
    import fabric
    import paramiko

    from .trust import HostKeyRefused

CONNECT_TIMEOUT_S = 15
CONNECT_ATTEMPTS = 3
KEEPALIVE_S = 15
UNHEARD = logging.NullHandler()
TRANSIENT = (ConnectionRefusedError, ConnectionResetError, EOFError)
KEY_REMEDY = "name a key that this machine accepts as identity_file in the inventory"
USERS_KNOWN_HOSTS = "~/.ssh/known_hosts"
REACH_REMEDY = "check address and port in the inventory, and that sshd runs there"


class _Passing(ConnectError):
    """A failure to connect that may pass by itself."""


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
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError, EOFError):  # the other end is gone already, which is an end too
            self._channel.close()

    def close(self) -> tuple[int, str]:
        self._channel.settimeout(CONNECT_TIMEOUT_S)
        try:
            self._channel.shutdown_write()
            while self._channel.recv(65536):
                pass  # a full window would keep the program from ending
            stderr = b""
            while part := self._channel.recv_stderr(65536):
                stderr += part
            status = self._channel.recv_exit_status()
        except (OSError, EOFError):
            status, stderr = -1, b""
        self._close()
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
        # Here, before there are several threads: while they import at once they take turns, and no connection begins.
        import fabric  # noqa: F401

        self._connection: fabric.Connection | None = None
        self._opening = threading.Lock()
        self.retries = 0

    def connect(self) -> None:
        self._open()

    def _open(self) -> fabric.Connection:
        with self._opening:
            if self._connection is None:
                self._connection = self._connect_patiently()
            return self._connection

    def _connect_patiently(self) -> fabric.Connection:
        """Connect; what may pass by itself (a refused or reset connection) is tried again, nothing else."""
        try:
            return self._connect_once()
        except _Passing:
            pass  # tried again below
        import tenacity  # here, because most connections come about at once

        for attempt in tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Passing),
            stop=tenacity.stop_after_attempt(CONNECT_ATTEMPTS - 1),
            wait=tenacity.wait_exponential(0.2, max=2),
            reraise=True,
        ):
            with attempt:
                self.retries += 1
                return self._connect_once()
        raise AssertionError("tenacity ends with a result or an error")

    def _connect_once(self) -> fabric.Connection:
        # What paramiko's threads log is said once, in our words, by whoever asked; a handler keeps it off stderr.
        logging.getLogger("paramiko").addHandler(UNHEARD)
        try:
            return self._connect_over_hops(self._make_connection())
        except ConnectError:
            raise
        except Exception as error:  # whatever the libraries raise over odd input, it ends this machine only
            found = f"{self._address}: {type(error).__name__}: {error}"
            raise ConnectError(
                "the machine cannot be reached", where=self.where, found=found, remedy=REACH_REMEDY
            ) from error

    def _make_connection(self) -> fabric.Connection:
        import fabric

        from . import ssh_config  # only now, since it imports what Fabric has

        keys = self._keys()
        try:
            return fabric.Connection(
                self._address,
                config=ssh_config.read(),
                user=self._user,
                port=self._port,
                connect_timeout=CONNECT_TIMEOUT_S,
                connect_kwargs=keys,
            )
        except RecursionError:
            found = "a ProxyJump that leads back to itself"
        except Exception as error:  # noqa: BLE001  Fabric says in many ways that it cannot follow the file
            found = f"{type(error).__name__}: {error}"
        remedy = f"correct it; ssh -G {shlex.quote(self._address)} shows how ssh reads it"
        raise ConnectError("~/.ssh/config cannot be followed", where=self.where, found=found, remedy=remedy)

    def _connect_over_hops(self, connection: fabric.Connection) -> fabric.Connection:
        from .trust import hops  # only now, since it imports what Fabric has

        with contextlib.ExitStack() as failed:
            for hop in hops(connection):
                failed.callback(hop.client.close)
                files = self._known_hosts_for(hop is connection)
                self._hold_to(hop, files)
                self._open_explained(hop, files[0])
                hop.transport.set_keepalive(KEEPALIVE_S)
            failed.pop_all()
        return connection

    def _hold_to(self, hop: fabric.Connection, files: Sequence[str]) -> None:
        from .trust import trust_only

        try:
            trust_only(hop, [_expanded(name) for name in files])
        except OSError as error:
            found = f"{error.filename}: {error.strerror}"
            remedy = "known_hosts in the inventory is the path of a file"
            raise ConnectError("known_hosts cannot be read", where=self.where, found=found, remedy=remedy) from None

    def _known_hosts_for(self, is_machine: bool) -> list[str]:
        """Where a key may stand, and first where it belongs: a jump host comes from the person's own ssh_config."""
        if is_machine:
            return [self._known_hosts or USERS_KNOWN_HOSTS]
        return [USERS_KNOWN_HOSTS, *([self._known_hosts] if self._known_hosts else [])]

    def _keys(self) -> dict[str, object]:
        """The inventory's key alone where it names one, else what the person's agent and ~/.ssh offer."""
        if not self._identity_file:
            return {"allow_agent": True, "look_for_keys": True}
        path = _expanded(self._identity_file)
        try:
            path.read_text()
        except OSError as error:
            message, found = "the identity file cannot be read", f"{path}: {error.strerror}"
        except UnicodeDecodeError:
            message, found = "the identity file is no private key", str(path)
        else:
            return {"allow_agent": False, "look_for_keys": False, "key_filename": str(path)}
        raise ConnectError(message, where=self.where, found=found, remedy=KEY_REMEDY)

    def _open_explained(self, connection: fabric.Connection, known_hosts: str) -> None:
        """Open it; what goes wrong is said in a person's words, with the library's error as its context."""
        import paramiko

        from .trust import HostKeyRefused

        at = f"{connection.user}@{connection.host}:{connection.port}"
        try:
            if not connection.gateway:
                connection.connect_kwargs["sock"] = _dial(connection.host, connection.port)
            connection.open()
        except HostKeyRefused as error:
            message, found, remedy = _explained(error, connection, at, known_hosts)
        except paramiko.AuthenticationException as error:
            message, found, remedy = f"{connection.user} may not log in", f"{at}: {error}", KEY_REMEDY
        except paramiko.ssh_exception.NoValidConnectionsError as error:
            raise self._unreachable(at, next(iter(error.errors.values()))) from None
        except (OSError, paramiko.SSHException, EOFError) as error:
            raise self._unreachable(at, error) from None
        else:
            return
        raise ConnectError(message, where=self.where, found=found, remedy=remedy)

    def _unreachable(self, at: str, error: Exception) -> ConnectError:
        found = getattr(error, "strerror", None) or str(error) or type(error).__name__
        kind = _Passing if isinstance(error, TRANSIENT) else ConnectError
        return kind("the machine cannot be reached", where=self.where, found=f"{at}: {found}", remedy=REACH_REMEDY)

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
            from .trust import hops

            for hop in reversed(hops(self._connection)):
                hop.close()
            self._connection = None


def _explained(
    refused: HostKeyRefused, connection: fabric.Connection, at: str, known_hosts: str
) -> tuple[str, str, str]:
    """Message, found and remedy for a host key that is not trusted."""
    from .trust import ChangedHostKey, RevokedHostKey, UnknownHostKey, known_names

    shown = f"{refused.key.get_name()} {refused.key.fingerprint} at {at}"
    if isinstance(refused, RevokedHostKey):
        remedy = "whoever shows this key may be anybody; if it is the machine's own, give it a new one"
        return "the host key is revoked", shown, remedy
    if isinstance(refused, ChangedHostKey):
        name, file = shlex.quote(known_names(connection)[0]), shlex.quote(str(refused.known.path))
        remedy = (
            f"if the machine was rebuilt: ssh-keygen -R {name} -f {file}, "
            "then accept its new key; if it was not, somebody may stand in between"
        )
        return "the host key is not the one in known_hosts", f"{shown}; another in {refused.known.place}", remedy
    remedy = f"compare it with the machine's own, then: {_accept_command(connection, known_hosts)}"
    if isinstance(refused, UnknownHostKey) and refused.kinds:
        found = f"{shown}; known: {', '.join(refused.kinds)}"
        return "known_hosts has no host key of this kind", found, remedy
    return "the host key is not in known_hosts", shown, remedy


def _accept_command(connection: fabric.Connection, known_hosts: str) -> str:
    if connection.gateway or "hostkeyalias" in connection.ssh_config:  # ssh follows its configuration, ssh-keyscan not
        # ssh takes a blank in the option for the end of a name, and expands ~ by itself.
        file = f'"{known_hosts}"' if " " in known_hosts else known_hosts
        option = shlex.quote(f"UserKnownHostsFile={file}")
        login = shlex.quote(f"{connection.user}@{connection.original_host}")
        return f"ssh -o {option} -p {connection.port} {login}"
    return f"ssh-keyscan -p {connection.port} {shlex.quote(connection.host)} >> {_for_shell(known_hosts)}"


def _for_shell(path: str) -> str:
    """A path as a word for the shell, which is to expand its `~`."""
    home = re.match(r"~[\w.-]*/", path)
    start = home[0] if home else ""
    return start + shlex.quote(path.removeprefix(start))


def _expanded(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111  pathlib's fails for a login that is not there


def _dial(host: str, port: int) -> socket.socket:
    """A connection without Nagle's algorithm, which costs the handshake some 40 ms, and each small exchange as much."""
    dialled = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return dialled
