"""Where the benchmark keeps what it makes: keys, hosts' state, inventories, the peers' environments, results."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
PEERS = HERE / "peers"
VARS = HERE / "vars.yml"
TEMPLATES = HERE / "templates"

PORT = 4022
DELAYED = 200
"""Added to a host's number: its address behind the delaying proxy."""


def label(number: int) -> str:
    """A host's name: h01, h02, …"""
    return f"h{number:02d}"


def address(number: int, *, delayed: bool = False) -> str:
    return f"127.0.1.{number + (DELAYED if delayed else 0)}"


@dataclass(frozen=True)
class Workspace:
    """Every path below one folder."""

    root: Path

    @classmethod
    def default(cls) -> Workspace:
        """`bench` below BLACKSTART_CACHE, else below ~/.cache/blackstart."""
        cache = os.environ.get("BLACKSTART_CACHE") or Path.home() / ".cache" / "blackstart"
        return cls(Path(cache).absolute() / "bench")

    @property
    def venvs(self) -> Path:
        return self.root / "venvs"

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def identity(self) -> Path:
        return self.keys / "id"

    @property
    def host_key(self) -> Path:
        return self.keys / "hostkey"

    @property
    def known_hosts(self) -> Path:
        return self.keys / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.root / "ssh_config"

    @property
    def control(self) -> Path:
        """The sockets of OpenSSH's ControlMaster."""
        return self.root / "control"

    @property
    def inventories(self) -> Path:
        return self.root / "inventories"

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def last_output(self) -> Path:
        return self.root / "last-output.txt"
