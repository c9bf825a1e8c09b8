"""Lock files: every package pinned, with the hashes of its wheels."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from blackstart.errors import InputError
from blackstart.paths import INVENTORY
from blackstart.yamlfile import shown

LOCKS = INVENTORY / "locks"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Lock:
    """A lock's text, its name, and its packages with version and hashes."""

    name: str
    text: str
    versions: dict[str, str]
    hashes: dict[str, tuple[str, ...]]

    @property
    def identity(self) -> str:
        """Name and the start of the text's sha256: what an environment is called after."""
        return f"{self.name}-{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"


def read(name: str, folder: Path = LOCKS) -> Lock:
    """Raises InputError where there is no such lock or a package in it is not pinned by hash."""
    path = folder / f"{name}.txt"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in folder.glob("*.txt")))
        raise InputError(f"there is no lock {name!r}", where="ml_env_lock", found=f"known: {known}")
    text = path.read_text()
    versions: dict[str, str] = {}
    hashes: dict[str, list[str]] = {}
    package = ""
    for number, line in enumerate(text.splitlines(), 1):
        pinned = PINNED.match(line)
        if pinned:
            package = pinned[1].lower()
            versions[package] = pinned[2].rstrip("\\").strip()
            hashes[package] = []
        elif line.strip() and not line.startswith((" ", "#")):
            raise InputError(
                "a lock pins every package",
                where=f"{shown(path)}:{number}",
                found=line,
                remedy="make it with uv pip compile",
            )
        if package:
            hashes[package] += HASH.findall(line)
    for package, found in hashes.items():
        if not found:
            raise InputError(f"{package} has no hash", where=shown(path), remedy="make it with --generate-hashes")
    return Lock(name, text, versions, {package: tuple(found) for package, found in hashes.items()})
