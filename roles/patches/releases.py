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
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from blackstart.errors import ConnectError

from .definition import Patch, StructuralPatch

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


@dataclass(frozen=True)
class Release:
    """A release's source, or why there is none here."""

    version: str
    folder: Path | None
    problem: str = ""


def cache() -> Path:
    """BLACKSTART_CACHE, else ~/.cache/blackstart."""
    return Path(os.environ.get("BLACKSTART_CACHE") or Path.home() / ".cache" / "blackstart") / "sglang-sources"


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
    root, needles = into or cache(), needles_of(patches)
    root.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as workers:
        return list(workers.map(lambda version: _fetch(version, needles, root), versions))


def needles_of(patches: Sequence[Patch]) -> frozenset[str]:
    structural = [patch for patch in patches if isinstance(patch, StructuralPatch)]
    return frozenset(needle.decode() for patch in structural for needle in (*patch.trace.needles, *patch.requires))


def order(version: str) -> tuple[tuple[int, ...], int]:
    """Sorts 0.5.9 < 0.5.10 < 0.5.10.post1. Source: PEP 440, as far as SGLang uses it."""
    base, _, post = version.partition(".post")
    return tuple(int(part) for part in re.findall(r"\d+", base)), int(post or 0)


def _fetch(version: str, needles: frozenset[str], root: Path) -> Release:
    folder = root / version
    if _holds(folder, needles):
        return Release(version, folder)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{version}-") as scratch:
        try:
            _pip("download", "--quiet", "--no-deps", "--dest", scratch, *_tags(), f"sglang=={version}")
        except ConnectError as error:
            return Release(version, None, error.found.strip().splitlines()[-1] if error.found.strip() else str(error))
        wheels = sorted(Path(scratch).glob("*.whl"))
        unpacked = Path(scratch) / "unpacked"
        keep(wheels[0], unpacked, needles)
        # The marker travels inside the folder, which appears whole or not at all.
        (unpacked / _KEPT).write_text(json.dumps(sorted(needles)), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        unpacked.replace(folder)
    return Release(version, folder)


def keep(wheel: Path, into: Path, needles: Collection[str]) -> None:
    """Unpack from a wheel the .py files with a needle, the package's version and the dist-info."""
    wanted = [needle.encode() for needle in needles]
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                continue
            always = path.name in ("METADATA", "RECORD", "_version.py", "version.py") and len(path.parts) == 2
            if always or (path.suffix == ".py" and any(needle in archive.read(name) for needle in wanted)):
                target = into / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))


def _holds(folder: Path, needles: frozenset[str]) -> bool:
    try:
        return needles <= set(json.loads((folder / _KEPT).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
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
