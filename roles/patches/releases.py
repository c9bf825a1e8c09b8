"""SGLang's releases from the registry, as source trees to try patches on: `inv patch.matrix`.

Of each wheel only what patches look at is kept: <cache>/sglang-sources/<version>/ holds the .py files with one of their
needles, and the dist-info's METADATA and RECORD.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from blackstart.errors import ConnectError

from . import unified
from .definition import DiffPatch, Patch, StructuralPatch

FIRST = (0, 5, 4)
"""The oldest release that patches are tried on."""

# From 0.5.11 the wheels are per Python and architecture; these tags also take the older ones.
_WHEELS = [
    "--only-binary=:all:",
    "--python-version",
    "312",
    "--implementation",
    "cp",
    "--abi",
    "cp312",
    "--abi",
    "none",
]
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(17, 41)] + ["manylinux2014_x86_64", "any"]
_KEPT = "kept.json"
_ALWAYS = ("METADATA", "RECORD", "_version.py", "version.py")


@dataclass(frozen=True)
class Release:
    """A release's source, or why there is none here."""

    version: str
    folder: Path | None
    problem: str = ""


def cache() -> Path:
    """BLACKSTART_CACHE, else ~/.cache/blackstart."""
    return Path(os.environ.get("BLACKSTART_CACHE") or Path.home() / ".cache" / "blackstart") / "sglang-sources"


@dataclass(frozen=True)
class Wanted:
    """What patches look at in a package: files with one of the texts, and files by their path."""

    needles: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, patches: Sequence[Patch]) -> Wanted:
        structural = [patch for patch in patches if isinstance(patch, StructuralPatch)]
        diffs = [found for patch in patches if isinstance(patch, DiffPatch) for found in unified.chosen(patch)]
        needles = {needle for patch in structural for needle in (*patch.trace.needles, *patch.requires)}
        needles |= {text for found in diffs for hunk in found.hunks if (text := unified.distinctive(hunk))}
        return cls(frozenset(needle.decode() for needle in needles), frozenset(found.path for found in diffs))

    def covers(self, other: Wanted) -> bool:
        return other.needles <= self.needles and other.paths <= self.paths

    def as_json(self) -> str:
        return json.dumps({"needles": sorted(self.needles), "paths": sorted(self.paths)})

    @classmethod
    def from_json(cls, text: str) -> Wanted:
        """Raises ValueError or KeyError for anything else than `as_json` gives."""
        data = json.loads(text)
        return cls(frozenset(data["needles"]), frozenset(data["paths"]))


def available(distribution: str = "sglang") -> list[str]:
    """Every release from FIRST on, oldest first. Raises ConnectError where the registry cannot be asked."""
    said = _pip("index", "versions", distribution, *_tags())
    found = re.search(r"^Available versions: (.*)$", said, re.M)
    versions = found.group(1).split(", ") if found else []
    return sorted((v for v in versions if order(v) >= (FIRST, 0)), key=order)


def cached(into: Path | None = None) -> list[str]:
    """The releases that are in the cache already, oldest first."""
    root = into or cache()
    return sorted((file.parent.name for file in root.glob(f"*/{_KEPT}")), key=order)


def fetch(versions: Sequence[str], patches: Sequence[Patch], into: Path | None = None) -> list[Release]:
    """The releases as folders to use as a source, in order; what cannot be had says why. Cached between runs."""
    root, wanted = into or cache(), Wanted.of(patches)
    root.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as workers:
        return list(workers.map(lambda version: _fetch(version, wanted, root), versions))


def order(version: str) -> tuple[tuple[int, ...], int]:
    """Sorts 0.5.9 < 0.5.10 < 0.5.10.post1. Source: PEP 440, as far as SGLang uses it."""
    base, _, post = version.partition(".post")
    return tuple(int(part) for part in re.findall(r"\d+", base)), int(post or 0)


def _fetch(version: str, wanted: Wanted, root: Path) -> Release:
    folder = root / version
    if _holds(folder, wanted):
        return Release(version, folder)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{version}-") as scratch:
        try:
            _pip("download", "--quiet", "--no-deps", "--dest", scratch, *_tags(), f"sglang=={version}")
        except ConnectError as error:
            return Release(version, None, error.found.strip().splitlines()[-1] if error.found.strip() else str(error))
        wheels = sorted(Path(scratch).glob("*.whl"))
        unpacked = Path(scratch) / "unpacked"
        keep(wheels[0], unpacked, wanted)
        # The marker travels inside the folder, which appears whole or not at all.
        (unpacked / _KEPT).write_text(wanted.as_json(), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        unpacked.replace(folder)
    return Release(version, folder)


def keep(wheel: Path, into: Path, wanted: Wanted) -> None:
    """Unpack from a wheel the .py files that are wanted, the package's version and the dist-info."""
    needles = [needle.encode() for needle in wanted.needles]
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                continue
            named = name in wanted.paths or (len(path.parts) == 2 and path.name in _ALWAYS)
            if named or (path.suffix == ".py" and any(needle in archive.read(name) for needle in needles)):
                target = into / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))


def _holds(folder: Path, wanted: Wanted) -> bool:
    try:
        return Wanted.from_json((folder / _KEPT).read_text(encoding="utf-8")).covers(wanted)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


def _tags() -> list[str]:
    return [*_WHEELS, *(word for platform in _PLATFORMS for word in ("--platform", platform))]


def _pip(*arguments: str) -> str:
    """pip of this environment, with the user's own index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConnectError(
            f"pip {arguments[0]} failed",
            where=arguments[-1],
            found=done.stderr,
            remedy="check the network and pip's index; without pip: uv pip install pip",
        )
    return done.stdout
