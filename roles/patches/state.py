"""The installed sources are patched: one resource, so that all files change or none."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from blackstart import resources
from blackstart.errors import CheckError
from blackstart.plan import Facts, Probe, State
from blackstart.resources import Restart
from roles.server import profile as profiles
from roles.server.state import PATCH_GATE

from . import changes, definition, facts, gate
from .changes import Change
from .committed import PATCHES, Planned, fileset, plan_each
from .definition import Patch
from .facts import Installed


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
    gate_program = resources.file(PATCH_GATE, Path(gate.__file__).read_text(), mode="0755")
    installed = facts.read(answers, patches)
    missing = [patch.distribution for patch in patches if patch.distribution not in installed]
    if missing:
        problem = f"{missing[0]} is not installed in {variables.ml_env_link}"
        waiting = resources.undecided(PATCHES, after="the environment", problem=problem, remedy="inv up --tags ml_env")
        return State([gate_program, waiting], handlers)
    planned = plan_each(patches, installed, plan_apply)
    require_no_drift(planned)
    return State([gate_program, fileset(planned, variables.environment(), notify=(restart,))], handlers)


def plan_apply(patches: Sequence[Patch], found: Installed) -> Change:
    """What applying these comes to on their installed distribution."""
    return changes.plan_apply(patches, found.tree, found.manifest, found.stock.get, today(), definition.load_all())


def require_no_drift(planned: Sequence[Planned]) -> None:
    for found, change in planned:
        for outcome in change.outcomes:
            if outcome.state in ("drifted", "needed"):
                raise CheckError(
                    f"patch {outcome.patch.name} is {outcome.state} on {found.tree.place}",
                    where=outcome.file,
                    found=outcome.detail,
                    remedy=f"look at it with inv patch.show {outcome.patch.name}; the source was left as it is",
                )


def today() -> str:
    """The time that a manifest records, ISO 8601 in UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
