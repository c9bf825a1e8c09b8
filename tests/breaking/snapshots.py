"""What hosts came to hold, compared. Only what was written since a host was made is looked at, all of it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from .hosts import Host

Entry = tuple[str, ...]

# What two runs to the same end differ in by their nature: times, process numbers, unused caches, logs.
OF_ITS_TIME = re.compile(
    r"/var/log/|/var/cache/|/var/lib/apt/|/var/lib/dpkg/(status-old|lock|triggers/Lock|available)"
    # The backups of shadow's tools, and the locks that they leave when killed and never look at again.
    r"|/etc/(passwd|group|shadow|gshadow)(-|\.\d+|\.lock)$|/etc/\.pwd\.lock"
    r"|/var/lib/stand-in-systemd/.*/invocation$|/root/\."
    r"|/var/lib/blackstart(/lock|/journal\.jsonl|/owed\.json|/intents)?$"
    r"|/var/lib/blackstart/(replaced(/|$)|jobs/[^/]*/(log|process)$)"
)

# The engine's own unfinished business, by the names that it gives it.
TEMPORARY = re.compile(r"\.blackstart-(tmp|link)$|\.partial$|/var/lib/blackstart/intents/.|/jobs/.*/exit\.new$")


def written(host: Host) -> set[str]:
    """Every path that was written or removed there, but /run and /tmp."""
    upper = host.upper
    found = set()
    for folder, folders, names in os.walk(upper):
        below = folder[len(str(upper)) :]
        found |= {f"{below}/{name}" for name in (*folders, *names)}
    return found


def temporaries(host: Host) -> list[str]:
    return sorted(path for path in written(host) if TEMPORARY.search(path))


def entry(place: Path) -> Entry:
    """Type, mode, owner and content of what stands at a place."""
    try:
        found = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ("absent",)
    if stat.S_ISLNK(found.st_mode):
        return ("link", str(place.readlink()))
    shape = (oct(stat.S_IMODE(found.st_mode)), str(found.st_uid), str(found.st_gid))
    if stat.S_ISDIR(found.st_mode):
        return ("directory", *shape)
    if stat.S_ISREG(found.st_mode):
        return ("file", *shape, hashlib.sha256(place.read_bytes()).hexdigest())
    return ("other", *shape)


def snapshot(host: Host, paths: Iterable[str]) -> dict[str, Entry]:
    return {path: entry(host.path(path)) for path in paths}


class Settled:
    """The state that an undisturbed run leads to, to hold others against."""

    def __init__(self, host: Host) -> None:
        self._layer = host.layer
        self._paths = written(host)
        self._entries = snapshot(host, self._paths)

    def differences(self, host: Host) -> list[str]:
        """`path: wanted | found` of whatever differs, times and the like left out."""
        # What only the other host wrote must read as it did when the host was new.
        others = {path: self._when_new(path) for path in written(host) - self._paths}
        wanted = {**self._entries, **others}
        found = snapshot(host, wanted)
        return [
            f"{path}: {' '.join(wanted[path])} | {' '.join(found[path])}"
            for path in sorted(wanted)
            if wanted[path] != found[path] and not OF_ITS_TIME.search(path)
        ]

    def _when_new(self, path: str) -> Entry:
        layered = entry(self._layer / path.lstrip("/"))
        return entry(Path(path)) if layered == ("absent",) else layered
