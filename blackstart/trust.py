"""Whom a connection trusts: the keys that known_hosts has for a machine, and no others; of each jump host alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import fabric
import paramiko

from .known_hosts import KnownKey, keys_of

SIGNED_BY = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}
"""The kind of key behind a signature's name, where the two differ."""


class HostKeyRefused(Exception):
    """A machine showed this key."""

    def __init__(self, key: paramiko.PKey) -> None:
        super().__init__(key.get_name(), key.fingerprint)
        self.key = key


class RevokedHostKey(HostKeyRefused):
    """known_hosts says that nobody is to be trusted by it."""


class ChangedHostKey(HostKeyRefused):
    """known_hosts has another key of its kind for the machine."""

    def __init__(self, key: paramiko.PKey, known: KnownKey) -> None:
        super().__init__(key)
        self.known = known


class UnknownHostKey(HostKeyRefused):
    """known_hosts has no key of its kind for the machine; it may have some of other `kinds`."""

    def __init__(self, key: paramiko.PKey, kinds: Collection[str] = ()) -> None:
        super().__init__(key)
        self.kinds = kinds


class _Trust(paramiko.MissingHostKeyPolicy):
    """Asked about each key that is shown, since the client is told of none; what this does not refuse is trusted."""

    def __init__(self, own: list[KnownKey], fallback: list[KnownKey]) -> None:
        self._own = [known for known in own if not known.is_revoked]
        self._revoked = [known.key for known in (*own, *fallback) if known.is_revoked]
        lines = self._own or [known for known in fallback if not known.is_revoked]
        self.trusted = [known.key for known in lines if known.key not in self._revoked]

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        if key in self._revoked:
            raise RevokedHostKey(key)
        if key in self.trusted:
            return
        for known in self._own:
            if known.key.get_name() == key.get_name():
                raise ChangedHostKey(key, known)
        raise UnknownHostKey(key, sorted({known.key.get_name() for known in self._own}))


def hops(connection: fabric.Connection) -> list[fabric.Connection]:
    """The way to a machine as the person's ssh_config has it: the jump hosts in order, then the machine itself."""
    way = [connection]
    while isinstance(way[-1].gateway, fabric.Connection):
        way.append(way[-1].gateway)
    return way[::-1]


def trust_only(connection: fabric.Connection, files: Iterable[Path]) -> None:
    """Hold what is at the end of a connection to the known_hosts `files`; Fabric itself would trust anybody.

    Raises OSError where one of them cannot be read.
    """
    paths = list(files)

    def said_of(names: list[str]) -> list[KnownKey]:
        return [known for name in names for path in paths for known in keys_of(name, path)]

    name, *plainer = known_names(connection)
    own = said_of([name])
    fallback = said_of(plainer) if all(known.is_revoked for known in own) else []
    trust = _Trust(own, fallback)
    connection.client.set_missing_host_key_policy(trust)
    kinds = {key.get_name() for key in trust.trusted}
    connection.connect_kwargs = {**connection.connect_kwargs, "transport_factory": _asking_first_for(kinds)}


def _asking_first_for(kinds: Collection[str]) -> Callable[..., paramiko.Transport]:
    """A machine has a key of each kind and shows the one that it is asked for first: one that is known, if it can."""

    def make_transport(*arguments: Any, **options: Any) -> paramiko.Transport:
        transport = paramiko.Transport(*arguments, **options)
        security = transport.get_security_options()
        security.key_types = sorted(security.key_types, key=lambda kind: SIGNED_BY.get(kind, kind) not in kinds)
        return transport

    return make_transport


def known_names(connection: fabric.Connection) -> list[str]:
    """How known_hosts names what is at the end of a connection, and how else where it has no such line (as ssh does).

    HostKeyAlias of the person's ssh_config stands for host and port.
    """
    if alias := connection.ssh_config.get("hostkeyalias"):
        return [alias]
    return [connection.host] if connection.port == 22 else [f"[{connection.host}]:{connection.port}", connection.host]
