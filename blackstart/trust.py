"""Whom a connection trusts: the keys that known_hosts has for a machine, and no others; of each jump host alike."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import fabric
import paramiko

from .known_hosts import keys_of


class UnknownHostKey(Exception):
    """A machine of which known_hosts says nothing showed this key."""

    def __init__(self, key: paramiko.PKey) -> None:
        super().__init__(key.get_name(), key.fingerprint)
        self.key = key


class _Refuse(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise UnknownHostKey(key)


class _AnyOf(paramiko.PKey):
    """Several keys of one type for one machine, as while its key is being changed; paramiko compares with one."""

    def __init__(self, keys: list[paramiko.PKey]) -> None:
        self._keys = keys

    def get_name(self) -> str:
        return self._keys[0].get_name()

    def get_base64(self) -> str:
        return self._keys[0].get_base64()

    def __eq__(self, other: object) -> bool:
        return any(key == other for key in self._keys)

    __hash__ = None  # type: ignore[assignment]


def hops(connection: fabric.Connection) -> list[fabric.Connection]:
    """The way to a machine as the person's ssh_config has it: the jump hosts in order, then the machine itself."""
    way = [connection]
    while isinstance(way[-1].gateway, fabric.Connection):
        way.append(way[-1].gateway)
    return way[::-1]


def trust_only(connection: fabric.Connection, files: Iterable[Path]) -> None:
    """Hold what is at the end of a connection to the known_hosts `files`; Fabric itself would trust anybody."""
    connection.client.set_missing_host_key_policy(_Refuse())
    name = known_name(connection.host, connection.port)
    by_type: dict[str, list[paramiko.PKey]] = {}
    for path in files:
        for key in keys_of(name, path):
            by_type.setdefault(key.get_name(), []).append(key)
    for kind, keys in by_type.items():
        connection.client.get_host_keys().add(name, kind, keys[0] if len(keys) == 1 else _AnyOf(keys))


def known_name(host: str, port: int) -> str:
    """How known_hosts names a machine."""
    return host if port == 22 else f"[{host}]:{port}"
