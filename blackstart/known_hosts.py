"""What a known_hosts file says of one machine, as ssh reads it: patterns, hashed names, revoked keys (man sshd).

Paramiko reads a whole file in time that grows with the square of its length, anew for each connection, and knows
neither patterns nor markers. Of a fleet's file each connection needs a line or two; only their keys are parsed.
"""

from __future__ import annotations

import base64
import hmac
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import paramiko

HASHED = b"|"
REVOKED = b"@revoked"
COMMENT_OR_MARKER = (b"#", b"@")
"""Another marker than `@revoked` makes no host key of a line; `@cert-authority` needs certificates, which paramiko
does not check."""
PATTERN = re.compile(rb"[*?!]")


class KnownKey(NamedTuple):
    """A key that a line has for a machine, to be trusted or, if revoked, never to be."""

    key: paramiko.PKey
    is_revoked: bool
    place: str
    path: Path


def keys_of(name: str, path: Path) -> list[KnownKey]:
    """The keys that the file has for a name (`host`, or `[host]:port`); none without a file.

    Raises OSError where there is one that cannot be read.
    """
    wanted = name.lower().encode()
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return []
    found = []
    with stream:
        for number, line in enumerate(stream, 1):
            fields = line.split(None, 4)
            is_revoked = fields[:1] == [REVOKED]
            names, *kind_and_data = fields[is_revoked:] or [b""]
            if len(kind_and_data) < 2 or not _names(names, wanted):
                continue
            key = _key_of(kind_and_data[0], kind_and_data[1])
            if key is not None:
                found.append(KnownKey(key, is_revoked, f"{path}:{number}", path))
    return found


def _names(names: bytes, wanted: bytes) -> bool:
    """Whether the first field of a line stands for the machine."""
    if names.startswith(HASHED):
        return _is_hash_of(wanted, names)
    if names.startswith(COMMENT_OR_MARKER):
        return False
    patterns = names.lower().split(b",")
    if not PATTERN.search(names):
        return wanted in patterns
    if any(_fits(wanted, pattern[1:]) for pattern in patterns if pattern.startswith(b"!")):
        return False
    return any(_fits(wanted, pattern) for pattern in patterns)


def _fits(wanted: bytes, pattern: bytes) -> bool:
    """Not fnmatch's patterns: here brackets are brackets, as in `[host]:*`."""
    return re.fullmatch(re.escape(pattern).replace(rb"\*", rb".*").replace(rb"\?", rb"."), wanted) is not None


def _is_hash_of(wanted: bytes, known: bytes) -> bool:
    """Whether `|1|salt|hash` stands for the name."""
    try:
        _, version, salt, digest = known.split(b"|")
        made = hmac.digest(base64.b64decode(salt, validate=True), wanted, "sha1")
    except ValueError:
        return False
    return version == b"1" and hmac.compare_digest(base64.b64encode(made), digest)


def _key_of(kind: bytes, data: bytes) -> paramiko.PKey | None:
    """The key of a line; None for a damaged one, and for a kind that paramiko does not have: neither trusts anybody."""
    import paramiko

    try:
        blob = base64.b64decode(data, validate=True)
        key = paramiko.PKey.from_type_string(kind.decode(), blob)
        is_whole = key.asbytes() == blob  # paramiko reads zeros where a key was cut
        return key if is_whole and key.get_name() == kind.decode() else None
    except Exception:  # noqa: BLE001  its parsers raise whatever the damage leads them to
        return None
