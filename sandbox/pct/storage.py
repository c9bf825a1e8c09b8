"""The storage `local`: templates and volumes. SIMULATED: every volume, `raw` ones too, is a plain directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from sandbox.pct.failure import DIED, NO_ENTRY, PctError

ROOT = Path("/var/lib/vz")
_STORAGES = {"local": ROOT}
_ID_SHIFT = ("-m", "u:0:100000:65536", "-m", "g:0:100000:65536")


def storage(name: str) -> Path:
    try:
        return _STORAGES[name]
    except KeyError:
        raise PctError(f"storage '{name}' does not exist", DIED) from None


def template(volume: str, vmid: int) -> Path:
    """The archive that `local:vztmpl/NAME` names, or that stands at an absolute path."""
    if volume.startswith("/"):
        found = Path(volume)
    else:
        name, _, rest = volume.partition(":")
        kind, _, file = rest.partition("/")
        found = storage(name) / "template/cache" / file
        if kind != "vztmpl" or not file or "/" in file:
            raise PctError(f"unable to parse directory volume name '{rest}'", DIED)
    if not found.is_file():
        gone = f"volume '{volume}' does not exist"
        raise PctError(f"{gone}\nunable to create CT {vmid} - {gone}", DIED)
    return found


def is_new(volume: str) -> bool:
    """`STORAGE:SIZE` asks for a new volume; `STORAGE:ID/NAME` names one; a path is a bind mount."""
    return re.fullmatch(r"[a-zA-Z][\w\-.]*:\d+(\.\d+)?", volume) is not None


def allocate(volume: str, vmid: int, index: int) -> tuple[str, str]:
    """Name a new volume for `STORAGE:SIZE` (GiB; 0 for no limit): (volume id, size)."""
    name, _, size = volume.partition(":")
    storage(name)
    if float(size) == 0:
        return f"{name}:{vmid}/subvol-{vmid}-disk-{index}.subvol", "0T"
    return f"{name}:{vmid}/vm-{vmid}-disk-{index}.raw", f"{size}G"


def place(volume: str) -> Path:
    """The directory of a volume id, or the path itself."""
    if volume.startswith("/"):
        return Path(volume)
    name, _, rest = volume.partition(":")
    return storage(name) / "images" / rest


def extract(archive: Path, target: Path, unprivileged: bool) -> None:
    """Unpack a template; an unprivileged container's files belong to its shifted ids. Raises PctError."""
    print(f"extracting archive '{_shown(archive)}'", flush=True)
    code = _unpack(archive, target, unprivileged)
    if code != 0:
        raise PctError(f"unable to extract '{archive}': exit code {code}")


def _shown(archive: Path) -> Path:
    """The archive's path as on a real host, wherever the storage is."""
    return Path("/var/lib/vz") / archive.relative_to(ROOT) if archive.is_relative_to(ROOT) else archive


def _unpack(archive: Path, target: Path, unprivileged: bool) -> int:
    target.mkdir(parents=True, exist_ok=True)
    if unprivileged:
        os.chown(target, 100000, 100000)
    shifted = ["lxc-usernsexec", *_ID_SHIFT, "--"] if unprivileged else []
    tar = ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--totals", "--skip-old-files"]
    packing = ["--zstd"] if archive.suffix == ".zst" else ["--gzip"] if archive.suffix == ".gz" else []
    with archive.open("rb") as stream:
        argv = [*shifted, *tar, *packing, "--file", "-", "--directory", str(target)]
        return subprocess.run(argv, stdin=stream, check=False).returncode


def remove(vmid: int) -> None:
    folder = ROOT / "images" / str(vmid)
    if folder.exists():
        shutil.rmtree(folder)


def script(volume: str) -> Path:
    """A hook script, `local:snippets/NAME`, that can be run."""
    name, _, rest = volume.partition(":")
    found = storage(name) / rest
    if not found.is_file():
        raise PctError(f"script '{volume}' does not exist", NO_ENTRY)
    if not os.access(found, os.X_OK):
        raise PctError(f"script '{volume}' is not executable", DIED)
    return found
