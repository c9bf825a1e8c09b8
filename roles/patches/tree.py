"""Where patches look: an installed source tree, as a folder or as bytes fetched from a machine.

Paths are relative to the folder that holds the package, with `/`: `sglang/srt/server_args.py`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from blackstart.errors import InputError

from .distinfo import missing_package, parse_record, the_dist_info, version_of
from .distinfo import record_hashes as record_hashes

STATE_FOLDER = ".blackstart-patches"


class SourceTree(Protocol):
    """One installed distribution's Python source, read-only."""

    @property
    def distribution(self) -> str:
        """Its name in the registry."""

    @property
    def place(self) -> str:
        """The tree in words, for messages."""

    def version(self) -> str:
        """The installed release, or "unknown" where the tree does not say."""

    def containing(self, needles: Collection[bytes], within: Sequence[str] = ()) -> dict[str, frozenset[bytes]]:
        """Path -> the needles found in it, over every .py file below `within` (default: the whole package).

        A search for more needles at once costs little more, and later ones for some of them cost nothing.
        """

    def read(self, path: str) -> bytes:
        """The file's bytes. Raises InputError where it is missing or unreadable."""

    def holds(self, path: str) -> bool:
        """Whether there is such a file."""

    def released_sha256(self, path: str) -> str | None:
        """The hash that the release's own RECORD gives the file; None where there is no RECORD or no such line."""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class FolderTree:
    """A folder that holds the package: a site-packages, or an unpacked wheel."""

    def __init__(self, folder: Path, distribution: str = "sglang", package: str = "") -> None:
        """Raises InputError for a folder without the package, an editable install, or two releases at once."""
        self.folder = Path(folder)
        self._distribution = distribution
        self.package = package or distribution.replace("-", "_")
        self._record: dict[str, str] | None = None
        self._searches: dict[tuple[frozenset[bytes], tuple[str, ...]], dict[str, frozenset[bytes]]] = {}
        self._info = the_dist_info(self.folder, distribution)
        if not (self.folder / self.package).is_dir():
            raise missing_package(self.folder, self.package, self._info)

    @property
    def distribution(self) -> str:
        return self._distribution

    @property
    def place(self) -> str:
        return f"{self.distribution} {self.version()} in {self.folder}"

    def version(self) -> str:
        return version_of(self._info, self.folder / self.package)

    def containing(self, needles: Collection[bytes], within: Sequence[str] = ()) -> dict[str, frozenset[bytes]]:
        wanted = frozenset(needles)
        for (searched, root), hits in self._searches.items():
            if wanted <= searched and root == tuple(within):
                return {path: found & wanted for path, found in hits.items() if found & wanted}
        self._searches[wanted, tuple(within)] = self._search(wanted, tuple(within))
        return self._searches[wanted, tuple(within)]

    def _search(self, needles: frozenset[bytes], within: tuple[str, ...]) -> dict[str, frozenset[bytes]]:
        found: dict[str, frozenset[bytes]] = {}
        for root in within or (self.package,):
            base = str(self.folder / root)
            for path in _python_files(base):
                content = _read(path)
                hits = frozenset(needle for needle in needles if needle in content)
                if hits:
                    found[root + path[len(base) :].replace(os.sep, "/")] = hits
        return dict(sorted(found.items()))

    def read(self, path: str) -> bytes:
        return _read(str(self.folder / path))

    def holds(self, path: str) -> bool:
        return (self.folder / path).is_file()

    def released_sha256(self, path: str) -> str | None:
        if self._record is None:
            self._record = parse_record(self._info / "RECORD") if self._info is not None else {}
        return self._record.get(path)


class FetchedTree:
    """The same over facts: the files with a trace, as a probe fetched them from a machine."""

    def __init__(
        self,
        release: str,
        files: Mapping[str, bytes],
        *,
        distribution: str = "sglang",
        released: Mapping[str, str] | None = None,
        place: str = "",
    ) -> None:
        self._distribution = distribution
        self._release = release
        self._files = dict(files)
        self._released = dict(released or {})
        self._place = place

    @property
    def distribution(self) -> str:
        return self._distribution

    @property
    def place(self) -> str:
        return self._place or f"{self.distribution} {self._release}"

    def version(self) -> str:
        return self._release

    def containing(self, needles: Collection[bytes], within: Sequence[str] = ()) -> dict[str, frozenset[bytes]]:
        found = {}
        for path, content in sorted(self._files.items()):
            if path.endswith(".py") and (not within or path.startswith(tuple(root + "/" for root in within))):
                hits = frozenset(needle for needle in needles if needle in content)
                if hits:
                    found[path] = hits
        return found

    def read(self, path: str) -> bytes:
        if path not in self._files:
            raise InputError("the file is missing", where=f"{path} of {self.place}")
        return self._files[path]

    def holds(self, path: str) -> bool:
        return path in self._files

    def released_sha256(self, path: str) -> str | None:
        return self._released.get(path)


class OverlaidTree:
    """Another tree with some files as they will be: what the next patch of the same file has to work on."""

    def __init__(self, below: SourceTree, files: Mapping[str, bytes]) -> None:
        self._below = below
        self._files = dict(files)

    @property
    def distribution(self) -> str:
        return self._below.distribution

    @property
    def place(self) -> str:
        return self._below.place

    def version(self) -> str:
        return self._below.version()

    def containing(self, needles: Collection[bytes], within: Sequence[str] = ()) -> dict[str, frozenset[bytes]]:
        found = {p: h for p, h in self._below.containing(needles, within).items() if p not in self._files}
        over = FetchedTree(self.version(), self._files).containing(needles, within)
        return dict(sorted({**found, **over}.items()))

    def read(self, path: str) -> bytes:
        return self._files[path] if path in self._files else self._below.read(path)

    def holds(self, path: str) -> bool:
        return path in self._files or self._below.holds(path)

    def released_sha256(self, path: str) -> str | None:
        return self._below.released_sha256(path)


def _python_files(folder: str) -> Iterator[str]:
    """Linked folders below the root are left out: they may lead round in a circle."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError("the folder cannot be read", where=folder, found=str(error.strerror)) from None
    for entry in entries:
        if entry.name.endswith(".py"):
            if entry.is_file():
                yield entry.path
        elif entry.is_dir(follow_symlinks=False):
            yield from _python_files(entry.path)


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            return os.read(handle, os.fstat(handle).st_size + 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError("the file cannot be read", where=path, found=str(error.strerror)) from None
