"""The machines of a run: how each is reached, with which variables, and who hears of what is done to it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .inventory import Inventory
from .machine import Machine
from .plan import Entrance, Role
from .report import Record
from .secrets import ask_password, reveal
from .session import DEBIANS_PYTHON, Session
from .ssh import SSH
from .transports import Local, Through, Transport
from .variables import Defaults, resolve


class Listener(Protocol):
    """Hears what happens while it happens; may be called from several threads."""

    def begins(self, machine: str, role: str, name: str) -> None: ...

    def says(self, machine: str, line: str) -> None: ...

    def ends(self, machine: str, record: Record) -> None: ...

    def rests(self, machine: str) -> None: ...


@dataclass(frozen=True)
class Options:
    """How a run goes. `serial`: so many hosts at a time; `max_fail`: none begins after so many failed; 0: no bound."""

    check: bool = False
    restart: bool = False
    tags: tuple[str, ...] = ()
    serial: int = 0
    max_fail: int = 0


class Fleet:
    """Connections open on first use, are shared, and close with the fleet; use as a context manager."""

    def __init__(
        self,
        inventory: Inventory,
        defaults: Defaults,
        roles: Sequence[Role[Any]],
        entrance: Entrance[Any],
        listener: Listener,
        *,
        bare: bool = True,
    ) -> None:
        """`bare`: a machine reached by itself that holds no others carries the roles; a local one always does."""
        self.inventory = inventory
        self.defaults = defaults
        self.roles = roles
        self.entrance = entrance
        self.listener = listener
        self.bare = bare
        self.pause_s = 1.0
        self._transports: dict[str, Transport] = {}
        self._making = threading.RLock()  # again from within: the way to a container begins with the way to its machine

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *ending: object) -> None:
        for transport in self._transports.values():
            transport.close()

    def transport(self, machine: Machine) -> Transport:
        """The way to a machine; connections open on first use and are shared."""
        with self._making:
            if machine.name not in self._transports:
                self._transports[machine.name] = self._make_transport(machine)
            return self._transports[machine.name]

    def _make_transport(self, machine: Machine) -> Transport:
        if machine.through is not None:
            outer = self.transport(self.inventory.machines[machine.through])
            variables = self.variables(self.entrance.role, machine)
            return Through(machine.name, outer, lambda argv: self.entrance.enter(variables, argv))
        if machine.get("local"):
            return Local(machine.name)
        return SSH(
            machine.name,
            address=machine.get("address"),
            port=machine.get("port", 22),
            user=machine.get("user", "root"),
            identity_file=machine.get("identity_file"),
            known_hosts=machine.get("known_hosts"),
        )

    def carries_roles(self, machine: Machine) -> bool:
        """Whether a machine that is reached by itself gets the roles, or only holds those that do."""
        holds_others = any(other.through == machine.name for other in self.inventory.machines.values())
        return not holds_others and (self.bare or bool(machine.get("local")))

    def session(self, machine: Machine, *, installs: bool = False) -> Session:
        """`installs`: a machine without Python is given one, which only what may change it should do."""
        login = self.inventory.machines[machine.through] if machine.through else machine
        reference = login.variables.get("sudo_password")
        password = (lambda: reveal(reference.value, reference.place)) if reference else ask_password(login.name)
        python = machine.get("python", DEBIANS_PYTHON)
        return Session(self.transport(machine), python=python, password=password, installs=installs)

    def variables(self, role: Role[Any], machine: Machine) -> Any:
        return resolve(machine, self.defaults, role.variables())
