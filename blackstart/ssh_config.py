"""The person's ssh_config, read as ssh(1) reads it where paramiko or Fabric would read it otherwise."""

from __future__ import annotations

import itertools
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
MATCHES = ("host", "originalhost", "user", "localuser", "exec")
MATCHES_WITHOUT_VALUE = ("all", "canonical", "final")
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
            block = line = _block(outer, line)
        yield line


def _block(outer: str, line: str) -> str:
    """A Host or Match line as paramiko takes it, under the condition of `outer`. Raises ValueError."""
    if outer == EVERYWHERE and line.lstrip().lower().startswith("host"):
        return line
    criteria = [*_criteria(outer), *_criteria(line)]
    return f"Match {shlex.join(criteria)}" if criteria else EVERYWHERE


def _criteria(line: str) -> list[str]:
    """What a Host or Match line asks for, in the words of a Match line.

    Raises ValueError for a word that paramiko does not know: it would pass it over, and the block would hold anywhere.
    """
    keyword, rest = KEYWORD.findall(line)[0]
    words = shlex.split(rest)
    if keyword.lower() == "host":
        return [] if words == ["*"] else ["originalhost", ",".join(words)]
    criteria: list[str] = []
    left = iter(words)
    for word in left:
        name = word.removeprefix("!")
        if name in MATCHES:
            criteria += [word, *itertools.islice(left, 1)]
        elif name not in MATCHES_WITHOUT_VALUE:
            raise ValueError(f"{line.strip()}: Match {name} is not supported")
        elif name != "all":
            criteria.append(word)
    return criteria


def _included(names: str, folder: Path) -> list[Path]:
    """The files of an Include line: patterns, below ~/.ssh or /etc/ssh where they do not say otherwise."""
    patterns = [str(folder / Path(name).expanduser()) for name in shlex.split(names, comments=True)]
    # glob: unlike Path.glob it takes absolute patterns and leaves hidden files alone.
    return [Path(name) for pattern in patterns for name in sorted(glob(pattern)) if Path(name).is_file()]  # noqa: PTH207
