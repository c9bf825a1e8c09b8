"""The person's ssh_config, read as ssh(1) reads it where paramiko or Fabric would read it otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fabric
import paramiko

FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
"""In ssh's own order: of two values the first one counts."""


class SSHConfig(paramiko.SSHConfig):
    def lookup(self, hostname: str) -> paramiko.SSHConfigDict:
        options = super().lookup(hostname)
        if options.get("proxyjump", "").lower() == "none":
            del options["proxyjump"]  # Fabric would look for a host of that name
        return options


class Config(fabric.Config):  # type: ignore[misc]  # Fabric has no types
    """Fabric's settings, whose clones, one for each jump host, keep the ssh_config that they were given."""

    def clone(self, *arguments: Any, **options: Any) -> Config:
        made: Config = super().clone(*arguments, **options)
        made.base_ssh_config = self.base_ssh_config
        return made


def read() -> Config:
    """Raises OSError, UnicodeDecodeError and paramiko.ConfigParseError."""
    found = SSHConfig()
    for name in FILES:
        path = Path(name).expanduser()
        if path.is_file():
            with path.open() as file:
                found.parse(file)
    return Config(ssh_config=found)
