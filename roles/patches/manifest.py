"""What was applied to a tree, as data: written beside the package, the same for a folder and for a machine.

{"format": 1,
 "patches": {name: {"distribution", "release", "template", "date", "files": [path], "adopted": bool}},
 "files": {path: {"before": sha256, "after": sha256}}}
The stock bytes of a file are kept as stock/<its "before">.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blackstart.errors import InputError

FORMAT = 1
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class FileRecord:
    """sha256 of a file before any patch (None where that is not known, for what was adopted) and as we left it."""

    before: str | None
    after: str


@dataclass(frozen=True)
class PatchRecord:
    """One applied patch: to which release, from which template, when (ISO 8601, UTC), and which files."""

    distribution: str
    release: str
    template: str
    date: str
    files: tuple[str, ...]
    adopted: bool = False


@dataclass(frozen=True)
class Manifest:
    patches: Mapping[str, PatchRecord] = field(default_factory=dict)
    files: Mapping[str, FileRecord] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.patches

    def release(self, name: str) -> str:
        return f"{self.patches[name].distribution} {self.patches[name].release}"

    def template(self, name: str) -> str:
        return self.patches[name].template

    def paths(self, name: str) -> tuple[str, ...]:
        return self.patches[name].files

    def describe(self, name: str) -> str:
        record = self.patches[name]
        how = "adopted" if record.adopted else "applied"
        return f"{how} to {record.distribution} {record.release} on {record.date}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "patches": {
                name: {
                    "distribution": p.distribution,
                    "release": p.release,
                    "template": p.template,
                    "date": p.date,
                    "files": list(p.files),
                    "adopted": p.adopted,
                }
                for name, p in self.patches.items()
            },
            "files": {path: {"before": f.before, "after": f.after} for path, f in sorted(self.files.items())},
        }

    def as_json(self) -> bytes:
        return (json.dumps(self.as_dict(), indent=1) + "\n").encode()


def parse(content: bytes, where: str) -> Manifest:
    """Raises InputError for a manifest that is damaged or of another format: nothing is guessed from it."""
    try:
        data = json.loads(content)
    except ValueError as error:
        raise _damaged(where, str(error)) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise _damaged(where, f"format {found!r}, not {FORMAT}")
    try:
        patches = {str(name): _patch(item) for name, item in data["patches"].items()}
        files = {
            str(path): FileRecord(_sha(item["before"]), _sha(item["after"]) or "")
            for path, item in data["files"].items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damaged(where, f"{type(error).__name__}: {error}") from None
    missing = sorted({path for patch in patches.values() for path in patch.files} - set(files))
    unsafe = [path for path in files if path.startswith("/") or ".." in path.split("/") or "\\" in path]
    if missing or unsafe:
        raise _damaged(where, f"files that cannot be: {', '.join(missing or unsafe)}")
    return Manifest(patches, files)


def without(manifest: Manifest, names: Iterable[str]) -> Manifest:
    """The manifest less some patches, and less the files that only they changed."""
    gone = set(names)
    patches = {name: record for name, record in manifest.patches.items() if name not in gone}
    kept = {path for record in patches.values() for path in record.files}
    return Manifest(patches, {path: record for path, record in manifest.files.items() if path in kept})


def _patch(item: dict[str, Any]) -> PatchRecord:
    texts = [item[key] for key in ("distribution", "release", "template", "date")]
    if not all(isinstance(text, str) for text in (*texts, *item["files"])) or not item["files"]:
        raise ValueError("a patch's record is not complete")
    distribution, release, template, date = texts
    return PatchRecord(distribution, release, template, date, tuple(item["files"]), bool(item.get("adopted", False)))


def _sha(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 64 or not set(value) <= _HEX:
        raise ValueError(f"{value!r} is no sha256")
    return value


def _damaged(where: str, found: str) -> InputError:
    return InputError(
        "the patch manifest is damaged",
        where=where,
        found=found,
        remedy="reinstall the package, remove the folder that holds the manifest, and apply the patches again",
    )
