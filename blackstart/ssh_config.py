"""The person's ssh_config, read as ssh(1) reads it where paramiko or Fabric would read it otherwise."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

import fabric
import paramiko

FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
"""In ssh's own order: of two values the first one counts."""

EVERYWHERE = "Host *"
KEYWORD = re.compile(r"\s*(\w+)[\s=]*(.*)")
DEEPEST = 16


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
    """Raises OSError, ValueError and paramiko.ConfigParseError."""
    found = SSHConfig()
    for name in FILES:
        path = Path(name).expanduser()
        if path.is_file():
            found.parse(_lines(path, path.parent))
    return Config(ssh_config=found)


def _lines(path: Path, folder: Path, outer: str = EVERYWHERE, depth: int = 0) -> Iterator[str]:
    """The lines of a file, and in their place those of the files that it includes, which paramiko passes over.

    `outer` is the Host or Match line under which the file is included, and holds for all of it.
    """
    if depth > DEEPEST:
        raise ValueError(f"{path}: files include each other without end")
    block = outer
    for line in path.read_text().splitlines():
        found = KEYWORD.match(line)
        keyword, rest = (found[1].lower(), found[2]) if found else ("", "")
        if keyword == "include":
            for included in _included(rest, folder):
                yield from _lines(included, folder, block, depth + 1)
                yield block
            continue
        if keyword in ("host", "match"):
            block = line if outer == EVERYWHERE else f"Match {_criteria(outer)} {_criteria(line)}"
            line = block
        yield line


def _criteria(block: str) -> str:
    """What a Host or Match line asks for, in the words of a Match line."""
    keyword, _, rest = re.sub(r"[\s=]+", " ", block.strip(), count=1).partition(" ")
    if keyword.lower() == "match":
        return "" if rest.strip().lower() == "all" else rest
    return "originalhost " + ",".join(shlex.split(rest))


def _included(names: str, folder: Path) -> list[Path]:
    """The files of an Include line: patterns, below ~/.ssh or /etc/ssh where they do not say otherwise."""
    patterns = [str(folder / Path(name).expanduser()) for name in shlex.split(names, comments=True)]
    # glob: unlike Path.glob it takes absolute patterns and leaves hidden files alone.
    return [Path(name) for pattern in patterns for name in sorted(glob(pattern)) if Path(name).is_file()]  # noqa: PTH207
