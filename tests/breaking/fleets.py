"""Controllers in this process: the engine's own Fleet over hosts to break."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from blackstart.converge import converge as converge_fleet
from blackstart.fleet import Fleet, Options
from blackstart.inventory import Inventory
from blackstart.machine import Machine, Value
from blackstart.plan import Entrance, Role, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blackstart.report import MachineReport, Record
    from blackstart.resources import Resource, Restart

    from .hosts import Host

PLACE = "hosts to break"


class Plain(BaseModel):
    """Variables of a role that needs none."""

    inventory_hostname: str


def role_of(*wanted: Resource, handlers: Mapping[str, Restart] | None = None) -> Role[Plain]:
    """A role that always wants the same."""
    return Role("plain", lambda: Plain, lambda variables: (), lambda variables, facts: State(wanted, handlers or {}))


class Deaf:
    """A listener that hears nothing."""

    def begins(self, machine: str, role: str, name: str) -> None: ...

    def says(self, machine: str, line: str) -> None: ...

    def ends(self, machine: str, record: Record) -> None: ...

    def rests(self, machine: str) -> None: ...


def machine(name: str, host: Host, **over: Any) -> Machine:
    """`over` replaces or adds variables."""
    variables = {
        "address": host.address,
        "port": host.port,
        "identity_file": str(host.keys.login),
        "known_hosts": str(host.keys.known_hosts),
        **over,
    }
    return Machine(name, ("all",), {key: Value(value, PLACE) for key, value in variables.items()}, PLACE)


@contextmanager
def fleet(
    machines: Iterable[Machine], role: Role[Any], listener: Any = None, defaults: Mapping[str, Value] | None = None
) -> Iterator[Fleet]:
    """Every machine is reached by itself, and has one role."""
    inventory = Inventory(Path(PLACE), False, {machine.name: machine for machine in machines})
    nothing_inside: Entrance[Any] = Entrance(role, lambda variables, argv: list(argv), lambda variables, facts: True)
    with Fleet(inventory, defaults or {}, [role], nothing_inside, listener or Deaf()) as opened:
        opened.pause_s = 0.1
        yield opened


def converge(
    host: Host, role: Role[Any], *, listener: Any = None, check: bool = False, restart: bool = True, **over: Any
) -> MachineReport:
    """One run on one host, by a fleet of its own."""
    (report,) = converge_all([machine("host", host, **over)], role, listener=listener, check=check, restart=restart)
    return report


def converge_all(
    machines: list[Machine], role: Role[Any], *, listener: Any = None, check: bool = False, restart: bool = True
) -> list[MachineReport]:
    with fleet(machines, role, listener) as opened:
        return converge_fleet(opened, machines, Options(check=check, restart=restart))


def why(report: MachineReport) -> str:
    """What went wrong, for an assertion's message."""
    if report.error:
        return str(report.error)
    failure = report.failure
    return f"{failure.name}: {failure.detail}" if failure else "nothing"


def require_failed(report: MachineReport) -> str:
    """What a run failed with, in the words that a person reads."""
    assert report.failed, states(report)
    return why(report)


def states(report: MachineReport) -> dict[str, str]:
    """Resource → outcome."""
    return {record.name: record.state for record in report.records}
