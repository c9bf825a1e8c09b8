"""What an installed distribution says of itself: its version, its RECORD, where an editable one is.

Source: PEP 376 and PEP 627 (dist-info, RECORD), PEP 610 (direct_url.json).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from pathlib import Path

from blackstart.errors import InputError


def version_of(info: Path | None, package: Path) -> str:
    """The release by METADATA, else by the package's own version file, else "unknown"."""
    if info is not None:
        metadata = info / "METADATA"
        if metadata.is_file():
            found = re.search(r"^Version:\s*(\S+)", metadata.read_text(encoding="utf-8", errors="replace"), re.M)
            if found:
                return found.group(1)
    for name in ("_version.py", "version.py"):
        file = package / name
        if file.is_file():
            found = re.search(
                r"""^(?:__version__\s*=\s*)+(?:version\s*=\s*)?["']([^"']+)["']""",
                file.read_text(encoding="utf-8", errors="replace"),
                re.M,
            )
            if found:
                return found.group(1)
    return "unknown"


def record_hashes(record: str) -> dict[str, str]:
    """RECORD's text -> path to sha256 in hex. Lines without a sha256 are left out. Source: PEP 376, PEP 427."""
    hashes = {}
    for line in record.splitlines():
        path, _, rest = line.rpartition(",sha256=")
        digest = rest.partition(",")[0]
        if path and digest:
            try:
                raw = base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4))
            except (ValueError, binascii.Error):
                continue
            hashes[path.strip('"')] = raw.hex()
    return hashes


def parse_record(record: Path) -> dict[str, str]:
    """RECORD's hashes by path; none where there is no such file."""
    return record_hashes(record.read_text(encoding="utf-8", errors="replace")) if record.is_file() else {}


def the_dist_info(folder: Path, distribution: str) -> Path | None:
    """The distribution's dist-info, None without one. Raises InputError where a folder records two releases."""
    name = re.sub(r"[-_.]+", "_", distribution)
    found = sorted(
        path
        for path in folder.glob("*.dist-info")
        if re.sub(r"[-_.]+", "_", path.name.rpartition(".dist-info")[0].rpartition("-")[0]).lower() == name.lower()
    )
    if len(found) > 1:
        raise InputError(
            f"two releases of {distribution} are recorded in one folder",
            where=str(folder),
            found=", ".join(path.name for path in found),
            remedy=f"reinstall {distribution} there, or remove the record of the release that is gone",
        )
    return found[0] if found else None


def missing_package(folder: Path, package: str, info: Path | None) -> InputError:
    """Why the folder is none to patch, and which one may be meant."""
    if not folder.is_dir():
        return InputError("there is no such folder", where=str(folder))
    if (folder / "__init__.py").is_file() and folder.name == package:
        return InputError(
            f"this is the package itself, not the folder that holds {package}/",
            where=str(folder),
            remedy=f"give {folder.parent}",
        )
    editable = _editable_source(info) if info is not None else None
    if editable:
        return InputError(
            f"{package} is an editable install: its source is elsewhere",
            where=str(folder),
            found=editable,
            remedy=f"give the folder below {editable} that holds {package}/ (SGLang keeps it in python/)",
        )
    inner = next((found.parent for found in sorted(folder.glob(f"*/{package}")) if found.is_dir()), None)
    return InputError(
        f"the folder holds no {package}/",
        where=str(folder),
        remedy=f"give {inner}" if inner else "give a site-packages or the folder of an unpacked wheel",
    )


def _editable_source(info: Path) -> str | None:
    """Where an editable install says its source is. Source: PEP 610, direct_url.json."""
    file = info / "direct_url.json"
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if not isinstance(data, dict) or not data.get("dir_info", {}).get("editable"):
        return None
    return str(data.get("url", "")).removeprefix("file://")
