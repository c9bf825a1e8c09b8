"""A small role that waits in its middle until a test lets it go on."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from blackstart import resources
from blackstart.plan import Facts, Probe, Role, State

from .hosts import Host

WAITS = 'touch "$1.reached"; until [ -e "$1" ]; do sleep 0.02; done'


class Variables(BaseModel):
    inventory_hostname: str
    gated_by: str
    """The file whose making opens the gate; `.reached` beside it says that somebody waits."""


def defaults() -> dict[str, object]:
    """As roles/*/defaults.yml would declare them."""
    return {"gated_by": "/run/gate"}


def probes(variables: Variables) -> Sequence[Probe]:
    return ()


def state(variables: Variables, facts: Facts) -> State:
    return State(
        [
            resources.file("/srv/before", f"before {variables.gated_by}\n"),
            resources.command("gate", ["sh", "-c", WAITS, "sh", variables.gated_by]),
            resources.file("/srv/after", f"after {variables.gated_by}\n"),
        ]
    )


ROLE: Role[Variables] = Role("gated", lambda: Variables, probes, state)


def is_reached(host: Host, gate: str) -> bool:
    return host.path(f"{gate}.reached").exists()


def open_gate(host: Host, gate: str) -> None:
    host.path(gate).touch()
