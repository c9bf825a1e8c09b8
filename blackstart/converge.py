"""Converging machines: everything is planned first, so that bad input touches nothing; then it is applied."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import InputError, Interrupted
from .inventory import Inventory, Machine
from .plan import Entrance, Role
from .report import MachineReport, Record
from .secrets import ask_password, reveal
from .session import Session
from .ssh import SSH
from .transports import Local, Through, Transport
from .tree import Tree
from .variables import Defaults, resolve

POOL = 32
AHEAD = 4
"""Machines that are connected while the plans are made: enough to keep the network busy, too few to be in the way."""


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
    """The machines of a run: their connections, their plans, their reports."""

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

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *ending: object) -> None:
        for transport in self._transports.values():
            transport.close()

    def transport(self, machine: Machine) -> Transport:
        """The way to a machine; connections open on first use and are shared."""
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

    def session(self, machine: Machine, *, installs: bool = True) -> Session:
        login = self.inventory.machines[machine.through] if machine.through else machine
        reference = login.variables.get("sudo_password")
        password = (lambda: reveal(reference.value, reference.place)) if reference else ask_password(login.name)
        python = machine.get("python", "/usr/bin/python3")
        return Session(self.transport(machine), python=python, password=password, installs=installs)

    def variables(self, role: Role[Any], machine: Machine) -> Any:
        return resolve(machine, self.defaults, role.variables())

    def require_input(self, machines: Sequence[Machine], options: Options) -> None:
        """Raises InputError for tags and variables that `converge` would refuse, before anything is reached."""
        for tree in self._trees(machines, options):
            for target in tree.targets():
                for role, machine in target.bound:
                    self.variables(role, machine)

    def _trees(self, machines: Sequence[Machine], options: Options) -> list[Tree]:
        roles = self._tagged(options.tags)
        return [Tree(self, outer, inner, roles, options) for outer, inner in self._grouped(machines)]

    def converge(self, machines: Sequence[Machine], options: Options) -> list[MachineReport]:
        """Plan all, then apply all. Raises InputError before anything is touched, Interrupted where a person leaves.

        Other errors are in the reports.
        """
        trees = self._trees(machines, options)
        with ExitStack() as stack, ThreadPoolExecutor(POOL) as pool:
            for tree in trees:
                stack.callback(tree.close)
            for tree in trees[:AHEAD]:
                tree.connecting = pool.submit(tree.connect)
            try:
                list(pool.map(Tree.plan, trees))
                refused = [tree.input_error for tree in trees if tree.input_error]
                if refused:
                    raise refused[0]
                self._apply_in_batches(pool, trees, options)
            except KeyboardInterrupt:
                in_hand = [line for tree in trees if (line := tree.in_hand())]
                for tree in trees:
                    tree.hang_up()
                raise Interrupted("\n".join(in_hand)) from None
        return [report for tree in trees for report in tree.reports()]

    def _apply_in_batches(self, pool: ThreadPoolExecutor, trees: Sequence[Tree], options: Options) -> None:
        size = options.serial or max(len(trees), 1)
        for start in range(0, len(trees), size):
            failed = [tree.outer.machine.name for tree in trees[:start] if tree.failed]
            if options.max_fail and len(failed) >= options.max_fail:
                for tree in trees[start:]:
                    tree.leave_alone(f"{len(failed)} failed: {', '.join(failed)}")
                return
            list(pool.map(Tree.apply, trees[start : start + size]))

    def _tagged(self, tags: Sequence[str]) -> list[Role[Any]]:
        """The roles that the tags name, by name or pattern. Raises InputError for a tag that matches none."""
        known = list(dict.fromkeys(role.name for role in self.roles))
        chosen: set[str] = set()
        for tag in tags:
            matched = fnmatch.filter(known, tag)
            if not matched:
                raise InputError(f"no role has the tag {tag!r}", where="--tags", found="known: " + ", ".join(known))
            chosen.update(matched)
        return [role for role in self.roles if not tags or role.name in chosen]

    def _grouped(self, machines: Sequence[Machine]) -> list[tuple[Machine, list[Machine]]]:
        """Each machine reached by itself, with the selected ones that are reached through it."""
        groups: dict[str, list[Machine]] = {}
        for machine in machines:
            outer = machine.through or machine.name
            groups.setdefault(outer, [])
            if machine.through:
                groups[outer].append(machine)
        return [(self.inventory.machines[outer], inner) for outer, inner in groups.items()]
