"""What patching a machine comes to: the changes of every distribution in its environment, as one fileset."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from blackstart import resources
from blackstart.resources import Replacement, Resource

from . import jit
from .changes import Change
from .definition import Patch
from .facts import Installed
from .tree import STATE_FOLDER, sha256

PATCHES = "patches"
"""The resource's name; its detail is the state of each patch."""

Planned = tuple[Installed, Change]


def plan_each(
    patches: Sequence[Patch],
    installed: Mapping[str, Installed],
    plan: Callable[[Sequence[Patch], Installed], Change],
) -> list[Planned]:
    """Plan distribution after distribution; they share one manifest, so each builds on what the one before leaves."""
    planned: list[Planned] = []
    for name, found in installed.items():
        manifest = planned[-1][1].manifest if planned else found.manifest
        own = [patch for patch in patches if patch.distribution == name]
        planned.append((found, plan(own, replace(found, manifest=manifest))))
    return planned


def fileset(
    planned: Sequence[Planned], environment: Mapping[str, str | None], notify: tuple[str, ...] = ()
) -> Resource:
    """All changes as one resource: stock copies first, then the files, gate and manifest last.

    `environment` is the server's, which says where what is compiled on the machine is kept.
    """
    site = planned[0][0]
    home = f"{site.site}/{STATE_FOLDER}"
    stock: list[Replacement] = []
    files: list[Replacement] = []
    stale: list[str] = []
    for found, change in planned:
        for digest, content in change.stock.items():
            present = sha256(found.stock[digest]) if digest in found.stock else None
            stock.append(Replacement(f"{home}/stock/{digest}", content, present, quiet=True))
        for edit in change.edits:
            files.append(Replacement(f"{found.site}/{edit.path}", edit.after, sha256(edit.before)))
            folder, _, name = edit.path.rpartition("/")
            stale.append(f"{found.site}/{folder}/__pycache__/{name.removesuffix('.py')}.*.pyc")
        edited = [edit.path for edit in change.edits]
        stale += jit.stale_builds(found.tree.distribution, found.tree.version(), edited, environment)
    records: list[Replacement] = []
    gate = gate_content(planned)
    if gate != site.gate:
        known = None if site.gate is None else sha256(site.gate)
        records.append(Replacement(f"{home}/gate.json", gate, known, quiet=True))
    manifest = planned[-1][1].manifest
    if manifest != site.manifest:
        records.append(Replacement(f"{home}/manifest.json", manifest.as_json(), site.manifest_sha256, quiet=True))
    return resources.fileset(
        PATCHES,
        [*stock, *files, *records],
        stale=stale,
        detail=summary(planned),
        notify=notify if files else (),  # a record alone changes nothing that runs
    )


def gate_content(planned: Sequence[Planned]) -> bytes:
    """What the gate reads before each start: the state of every patch that was ever looked at, and its files' hashes.

    Patches that this run is not about stay in it.
    """
    before = planned[0][0].gate
    patches: dict[str, Any] = json.loads(before)["patches"] if before else {}
    manifest = planned[-1][1].manifest
    for found, change in planned:
        written = {edit.path: edit.after for edit in change.edits}
        for patch in patches.values():
            patch["files"] |= {path: sha256(written[path]) for path in patch["files"] if path in written}
        for outcome in change.outcomes:
            name = outcome.patch.name
            paths = manifest.paths(name) if manifest.has(name) else (outcome.file,)
            left = {path: written.get(path) or found.tree.read(path) for path in paths if outcome.state == "applied"}
            patches[name] = {
                "package": found.tree.distribution.replace("-", "_"),
                "release": found.tree.version(),
                "state": outcome.state,
                "files": {path: sha256(content) for path, content in left.items()},
            }
    hashes = {path: record.after for path, record in manifest.files.items()}
    kept = {"format": 1, "patches": patches, "jit_key": jit.key(hashes)}
    return (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode()


def summary(planned: Sequence[Planned]) -> str:
    """`sm120-autotune needed -> applied, nsa-guard upstream (sglang 0.5.13)`."""
    parts = []
    for found, change in planned:
        states = ", ".join(
            f"{one.patch.name} {'needed -> ' if one.edits else ''}{one.state}" for one in change.outcomes
        )
        parts.append(f"{states} ({found.tree.distribution} {found.tree.version()})")
    return "; ".join(parts)
