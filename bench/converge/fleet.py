"""How the benchmark's one role is given to the engine: imported on first use, as the connections are being made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blackstart.errors import InputError
from blackstart.machine import Value
from blackstart.plan import Entrance, Facts, Probe, Role, State
from blackstart.yamlfile import load

from .workspace import VARS

if TYPE_CHECKING:
    from .role import Variables


def _variables() -> type[Variables]:
    from .role import Variables

    return Variables


def _probes(variables: Variables) -> Sequence[Probe]:
    from .role import probes

    return probes(variables)


def _state(variables: Variables, facts: Facts) -> State:
    from .role import state

    return state(variables, facts)


ROLE: Role[Any] = Role("converge", _variables, _probes, _state)
NOTHING_INSIDE: Entrance[Any] = Entrance(ROLE, lambda variables, argv: list(argv), lambda variables, facts: True)
"""Every host of the benchmark is reached by itself."""


def read_variables() -> dict[str, Value]:
    """vars.yml, which every contestant reads. Raises InputError."""
    document = load(VARS)
    if not isinstance(document.data, dict):
        raise InputError("a mapping belongs here", where=document.place(()))
    return {name: Value(value, document.place((name,))) for name, value in document.data.items()}
