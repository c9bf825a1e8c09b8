"""One machine's keys in a known_hosts file.

Paramiko reads a whole file in time that grows with the square of its length, anew for each connection; of a fleet's
file each connection needs a line or two.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

HASHED = "|1|"
REVOKED = "@revoked "


def keys_of(name: str, path: Path) -> Iterator[paramiko.PKey]:
    """The keys that the file has for a name (`host`, or `[host]:port`), plain or hashed; none without a file."""
    import paramiko
    from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

    def is_named(line: str) -> bool:
        return any(known == name or _is_hash_of(name, known) for known in line.split(" ", 1)[0].split(","))

    def entry_of(line: str, number: int) -> HostKeyEntry | None:
        try:
            return HostKeyEntry.from_line(line.strip(), number)
        except (InvalidHostKey, paramiko.SSHException):
            return None  # a line that says nothing trusts nobody

    if not path.exists():
        return
    trusted: list[paramiko.PKey] = []
    revoked: set[str] = set()
    with path.open(encoding="utf-8", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            is_revoked = line.startswith(REVOKED)
            if not is_named(line.removeprefix(REVOKED)):
                continue
            entry = entry_of(line.removeprefix(REVOKED), number)
            if entry is None or entry.key is None:
                continue
            if is_revoked:
                revoked.add(entry.key.get_base64())
            else:
                trusted.append(entry.key)
    yield from (key for key in trusted if key.get_base64() not in revoked)


def _is_hash_of(name: str, known: str) -> bool:
    """Whether `|1|salt|hash` stands for the name."""
    if not known.startswith(HASHED):
        return False
    salt, _, digest = known.removeprefix(HASHED).partition("|")
    try:
        made = hmac.digest(base64.b64decode(salt, validate=True), name.encode(), "sha1")
    except ValueError:
        return False
    return hmac.compare_digest(base64.b64encode(made), digest.encode())
