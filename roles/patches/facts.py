"""What patches need to know of a machine: asked in one go, and sources travel only when their hash is unknown here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blackstart.plan import Facts, Probe

from . import manifest as manifests
from . import unified
from .definition import DiffPatch, Patch, StructuralPatch
from .diff_parse import FileDiff
from .manifest import Manifest
from .tree import STATE_FOLDER, FetchedTree, record_hashes, sha256

SITE = "lib/python3*/site-packages"
QUESTIONS = 5


@dataclass(frozen=True)
class Installed:
    """One distribution as installed on a machine. `site` is the folder that holds the package."""

    site: str
    tree: FetchedTree
    manifest: Manifest
    manifest_sha256: str | None
    stock: dict[str, bytes]
    gate: bytes | None


def probes(environment: str, patches: Sequence[Patch]) -> list[Probe]:
    """Questions about every distribution that a patch names, in the order of `distributions`."""
    asked: list[Probe] = []
    for distribution, package in distributions(patches):
        own = [patch for patch in patches if patch.distribution == distribution]
        site = f"{environment}/{SITE}"
        asked += [
            {"probe": "glob", "pattern": f"{site}/{distribution.replace('-', '_')}-*.dist-info"},
            {
                "probe": "search",
                "root": f"{site}/{package}",
                "suffixes": [".py"],
                "needles": sorted({needle.decode() for patch in own for needle in needles(patch)}),
                "paths": sorted({path for patch in own for path in paths(patch)}),
                "listed": f"{site}/{STATE_FOLDER}/manifest.json",
                "known": sorted(_cached()),
                "record": f"{site}/{distribution.replace('-', '_')}-*.dist-info/RECORD",
            },
            {"probe": "files", "pattern": f"{site}/{STATE_FOLDER}/manifest.json"},
            {"probe": "files", "pattern": f"{site}/{STATE_FOLDER}/stock/*"},
            {"probe": "files", "pattern": f"{site}/{STATE_FOLDER}/gate.json"},
        ]
    return asked


def distributions(patches: Sequence[Patch]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((patch.distribution, patch.package) for patch in patches))


def needles(patch: Patch) -> set[bytes]:
    """The texts of which one stands in every file that this patch may have to see."""
    if isinstance(patch, StructuralPatch):
        return {*patch.trace.needles, *patch.requires}
    return {unified.distinctive(hunk) for diff in _diffs(patch) for hunk in diff.hunks} - {b""}


def paths(patch: Patch) -> set[str]:
    """Files that this patch names, whatever they hold."""
    return {diff.path for diff in _diffs(patch)}


def _diffs(patch: Patch) -> list[FileDiff]:
    return unified.chosen(patch) if isinstance(patch, DiffPatch) else []


def read(answers: Facts, patches: Sequence[Patch]) -> dict[str, Installed]:
    """Distribution → what is installed, for those that are. Raises InputError for a damaged manifest."""
    found = {}
    for number, (distribution, _) in enumerate(distributions(patches)):
        infos, files, *kept = answers[QUESTIONS * number : QUESTIONS * (number + 1)]
        if infos:
            found[distribution] = _installed(distribution, infos[-1], files, *kept)
    return found


def _installed(
    distribution: str,
    info: str,
    files: dict[str, Any],
    manifest_files: dict[str, Any],
    stock_files: dict[str, Any],
    gate_files: dict[str, Any],
) -> Installed:
    site, _, name = info.rpartition("/")
    release = name.removesuffix(".dist-info").rpartition("-")[2]
    contents = {path: _content(answer) for path, answer in files.items()}
    tree = FetchedTree(
        release,
        {path.removeprefix(f"{site}/"): content for path, content in contents.items()},
        distribution=distribution,
        released=record_hashes("\n".join(answer["record"] for answer in files.values() if answer.get("record"))),
        place=f"{distribution} {release} in {site}",
    )
    (manifest_path, manifest_answer) = next(iter(manifest_files.items()), ("", None))
    manifest = Manifest()
    if manifest_answer is not None:
        manifest = manifests.parse(_encoded(manifest_answer["text"]), manifest_path)
    gate = next((_encoded(answer["text"]) for answer in gate_files.values()), None)
    stock = {path.rpartition("/")[2]: _encoded(answer["text"]) for path, answer in stock_files.items()}
    return Installed(site, tree, manifest, manifest_answer["sha256"] if manifest_answer else None, stock, gate)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _content(answer: dict[str, Any]) -> bytes:
    """A file's bytes, from the answer or from the cache; what came is kept under its hash."""
    if "text" not in answer:
        cached: bytes = (_cache() / answer["sha256"]).read_bytes()
        return cached
    content = _encoded(answer["text"])
    with contextlib.suppress(OSError):  # a cache that cannot be written only costs a transfer
        _cache().mkdir(parents=True, exist_ok=True)
        temporary = _cache() / f".{answer['sha256']}.{os.getpid()}"
        temporary.write_bytes(content)
        temporary.replace(_cache() / answer["sha256"])
    return content


def _cache() -> Path:
    return Path(os.environ.get("BLACKSTART_CACHE") or "~/.cache/blackstart").expanduser() / "sources"


def _cached() -> list[str]:
    """Hashes of whole, unaltered files in the cache."""
    if not _cache().is_dir():
        return []
    return [path.name for path in _cache().iterdir() if len(path.name) == 64 and sha256(path.read_bytes()) == path.name]
