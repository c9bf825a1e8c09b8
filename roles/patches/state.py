"""The installed sources are patched: one resource, so that all files change or none."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from blackstart import resources
from blackstart.errors import CheckError
from blackstart.plan import Facts, Probe, State
from blackstart.resources import Replacement, Resource, Restart
from roles.server import profile as profiles
from roles.server.state import PATCH_GATE

from . import changes, definition, facts, gate, jit
from .changes import Change
from .definition import Patch
from .facts import Installed
from .manifest import Manifest
from .tree import STATE_FOLDER, sha256

PATCHES = "patches"
"""The resource's name; its detail is the state of each patch."""


class Variables(BaseModel):
    """roles/patches/defaults.yml, and the environment and server that the patches are for."""

    patches_apply: list[str]
    ml_env_link: str
    server_profile: str
    server_unit: str
    server_environment: dict[str, str | None]

    def environment(self) -> dict[str, str | None]:
        """The server's environment."""
        return {**profiles.read(self.server_profile).environment, **self.server_environment}

    def chosen(self) -> list[Patch]:
        """The patches to apply, each once. Raises InputError for one that is not there."""
        required = profiles.read(self.server_profile).patches
        return [definition.load(name) for name in dict.fromkeys([*self.patches_apply, *required])]


def probes(variables: Variables) -> list[Probe]:
    return facts.probes(variables.ml_env_link, variables.chosen())


def state(variables: Variables, answers: Facts) -> State:
    """Raises CheckError for a patch that has drifted: a server without it would be started in its place."""
    patches = variables.chosen()
    restart = f"restart {variables.server_unit}"
    handlers = {restart: Restart(variables.server_unit)}
    installed = facts.read(answers, patches)
    missing = [patch.distribution for patch in patches if patch.distribution not in installed]
    if missing:
        problem = f"{missing[0]} is not installed in {variables.ml_env_link}"
        waiting = resources.undecided(PATCHES, after="the environment", problem=problem, remedy="inv up --tags ml_env")
        return State([waiting], handlers)
    planned = [(found, plan_apply(patches, found)) for found in installed.values()]
    require_no_drift(planned)
    gate_program = resources.file(PATCH_GATE, Path(gate.__file__).read_text(), mode="0755")
    return State([gate_program, fileset(planned, variables.environment(), notify=(restart,))], handlers)


def plan_apply(patches: Sequence[Patch], found: Installed) -> Change:
    """What applying comes to on one installed distribution."""
    own = [patch for patch in patches if patch.distribution == found.tree.distribution]
    return changes.plan_apply(own, found.tree, found.manifest, found.stock.get, today(), definition.load_all())


def require_no_drift(planned: Sequence[tuple[Installed, Change]]) -> None:
    for found, change in planned:
        for outcome in change.outcomes:
            if outcome.state in ("drifted", "needed"):
                raise CheckError(
                    f"patch {outcome.patch.name} is {outcome.state} on {found.tree.place}",
                    where=outcome.file,
                    found=outcome.detail,
                    remedy=f"look at it with inv patch.show {outcome.patch.name}; the source was left as it is",
                )


def fileset(
    planned: Sequence[tuple[Installed, Change]], environment: Mapping[str, str | None], notify: tuple[str, ...] = ()
) -> Resource:
    """The changes of all distributions as one resource: stock copies first, manifests last.

    `environment` is the server's, which says where what is compiled on the machine is kept.
    """
    files: list[Replacement] = []
    stale: list[str] = []
    for found, change in planned:
        home = f"{found.site}/{STATE_FOLDER}"
        for digest, content in change.stock.items():
            present = sha256(found.stock[digest]) if digest in found.stock else None
            files.append(Replacement(f"{home}/stock/{digest}", content, present, quiet=True))
        for edit in change.edits:
            files.append(Replacement(f"{found.site}/{edit.path}", edit.after, sha256(edit.before)))
            folder, _, name = edit.path.rpartition("/")
            stale.append(f"{found.site}/{folder}/__pycache__/{name.removesuffix('.py')}.*.pyc")
        edited = [edit.path for edit in change.edits]
        stale += jit.stale_builds(found.tree.distribution, found.tree.version(), edited, environment)
        gate_text = gate_content(found, change)
        if gate_text != found.gate:
            known = None if found.gate is None else sha256(found.gate)
            files.append(Replacement(f"{home}/gate.json", gate_text, known, quiet=True))
        if change.manifest != found.manifest:
            written = change.manifest.as_json()
            files.append(Replacement(f"{home}/manifest.json", written, found.manifest_sha256, quiet=True))
    return resources.fileset(PATCHES, files, stale=stale, detail=summary(planned), notify=notify)


def gate_content(found: Installed, change: Change) -> bytes:
    """What the gate reads before each start: every patch's state for this release, and the hashes of its files."""
    package = found.tree.distribution.replace("-", "_")
    patches = {
        outcome.patch.name: {
            "package": package,
            "release": found.tree.version(),
            "state": outcome.state,
            "files": {
                path: change.manifest.files[path].after
                for path in (
                    change.manifest.paths(outcome.patch.name) if change.manifest.has(outcome.patch.name) else ()
                )
            },
        }
        for outcome in change.outcomes
    }
    hashes = {path: record.after for path, record in change.manifest.files.items()}
    kept = {"format": 1, "patches": patches, "jit_key": jit.key(hashes)}
    return (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode()


def _recorded(name: str, manifest: Manifest) -> dict[str, str]:
    return {path: manifest.files[path].after for path in manifest.paths(name)} if manifest.has(name) else {}


def summary(planned: Sequence[tuple[Installed, Change]]) -> str:
    """`sm120-autotune applied, nsa-guard applied (sglang 0.5.9)`."""
    parts = []
    for found, change in planned:
        states = ", ".join(f"{outcome.patch.name} {outcome.state}" for outcome in change.outcomes)
        parts.append(f"{states} ({found.tree.distribution} {found.tree.version()})")
    return "; ".join(parts)


def today() -> str:
    """The time that a manifest records, ISO 8601 in UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
