"""Roles, sections and plans: what stands between a role's pure state function and the agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .resources import Resource, Restart

if TYPE_CHECKING:
    from pydantic import BaseModel

V = TypeVar("V", bound="BaseModel")

Probe = Mapping[str, Any]
"""One question about a machine, as data: {"probe": KIND, ...}; the agent's probes module lists the kinds."""

Facts = Sequence[Any]
"""The answers to a role's probes, in the order of the questions."""


@dataclass(frozen=True)
class State:
    """What a role wants of a machine: resources in order, handlers by name, and what must be true afterwards."""

    resources: Sequence[Resource] = ()
    handlers: Mapping[str, Restart] = field(default_factory=dict)
    verify: Sequence[Resource] = ()


@dataclass(frozen=True)
class Role(Generic[V]):
    """A role as the engine sees it. `probes` and `state` are pure functions of one machine's variables.

    `on_host` says that it runs on the machine through which the one it describes is reached.
    """

    name: str
    variables: Callable[[], type[V]]
    probes: Callable[[V], Sequence[Probe]]
    state: Callable[[V, Facts], State]
    on_host: bool = False


@dataclass(frozen=True)
class Entrance(Generic[V]):
    """How machines inside other machines are entered: known to the role that makes them, not to the engine."""

    role: Role[V]
    enter: Callable[[V, Sequence[str]], list[str]]
    running: Callable[[V, Facts], bool]


@dataclass(frozen=True)
class Section:
    """One role's part of a plan, for one machine's variables, with the digest of the facts it was built on."""

    role: str
    subject: str
    probes: Sequence[Probe]
    digest: str
    state: State

    def to_wire(self) -> dict[str, Any]:
        prefix = f"{self.subject}:{self.role}:"
        return {
            "role": self.role,
            "probes": list(self.probes),
            "facts": self.digest,
            "handlers": list(self.state.handlers),
            "resources": [item.to_wire(f"{prefix}{n}") for n, item in enumerate(self.state.resources)],
            "verify": [item.to_wire(f"{prefix}v{n}") for n, item in enumerate(self.state.verify)],
        }

    def by_id(self) -> dict[str, Resource]:
        """Its resources and verifications by the ids that they have on the wire."""
        prefix = f"{self.subject}:{self.role}:"
        numbered = [(f"{prefix}{n}", item) for n, item in enumerate(self.state.resources)]
        return dict(numbered + [(f"{prefix}v{n}", item) for n, item in enumerate(self.state.verify)])


def plan_to_wire(sections: Sequence[Section], *, check: bool, restart: bool, empty: bool) -> dict[str, Any]:
    """The plan of one machine. `empty` checks it against a machine that does not exist yet."""
    handlers = {name: handler.to_wire() for part in sections for name, handler in part.state.handlers.items()}
    return {
        "sections": [part.to_wire() for part in sections],
        "handlers": handlers,
        "check": check,
        "restart": restart,
        "empty": empty,
    }
