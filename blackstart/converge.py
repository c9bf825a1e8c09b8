"""Converging machines: everything is planned first, so that bad input touches nothing; then it is applied."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from .ask import leave
from .errors import InputError, Interrupted
from .fleet import Fleet, Options
from .machine import Machine
from .plan import Role
from .report import MachineReport
from .tree import Tree

POOL = 32
AHEAD = 4
"""Machines that are connected while the plans are made: enough to keep the network busy, too few to be in the way."""


def converge(fleet: Fleet, machines: Sequence[Machine], options: Options) -> list[MachineReport]:
    """Plan all, then apply all. Raises InputError before anything is touched, Interrupted where a person leaves.

    Other errors are in the reports.
    """
    trees = _trees(fleet, machines, options)
    with ExitStack() as stack, ThreadPoolExecutor(POOL) as pool:
        for tree in trees:
            stack.callback(tree.close)
        for tree in trees[:AHEAD]:
            tree.connects(pool.submit(tree.connect))
        try:
            list(pool.map(Tree.plan, trees))
            refused = [tree.input_error for tree in trees if tree.input_error]
            if refused:
                raise refused[0]
            _apply_in_batches(pool, trees, options)
        except KeyboardInterrupt:
            in_hand = [line for tree in trees for target in tree.targets() if (line := target.in_hand())]
            leave()
            for tree in trees:
                tree.hang_up()
            raise Interrupted("\n".join(in_hand)) from None
    return [report for tree in trees for report in tree.reports()]


def require_input(fleet: Fleet, machines: Sequence[Machine], options: Options) -> None:
    """Raises InputError for what `converge` would refuse whatever a machine answers, before any is reached."""
    for tree in _trees(fleet, machines, options):
        for target in tree.targets():
            for role, machine in target.bound:
                variables = fleet.variables(role, machine)
                if not role.probes(variables):  # what asks nothing of a machine is decided already
                    role.state(variables, ())


def _trees(fleet: Fleet, machines: Sequence[Machine], options: Options) -> list[Tree]:
    """Each machine reached by itself, with the selected ones that are reached through it."""
    groups: dict[str, list[Machine]] = {}
    for machine in machines:
        outer = machine.through or machine.name
        groups.setdefault(outer, [])
        if machine.through:
            groups[outer].append(machine)
    roles = _tagged(fleet.roles, options.tags)
    return [Tree(fleet, fleet.inventory.machines[outer], inner, roles, options) for outer, inner in groups.items()]


def _tagged(roles: Sequence[Role[Any]], tags: Sequence[str]) -> list[Role[Any]]:
    """The roles that the tags name, by name or pattern. Raises InputError for a tag that matches none."""
    known = list(dict.fromkeys(role.name for role in roles))
    chosen: set[str] = set()
    for tag in tags:
        matched = fnmatch.filter(known, tag)
        if not matched:
            raise InputError(f"no role has the tag {tag!r}", where="--tags", found="known: " + ", ".join(known))
        chosen.update(matched)
    return [role for role in roles if not tags or role.name in chosen]


def _apply_in_batches(pool: ThreadPoolExecutor, trees: Sequence[Tree], options: Options) -> None:
    def apply(tree: Tree) -> None:
        failed = [other.outer.machine.name for other in trees if other.failed]
        if options.max_fail and len(failed) >= options.max_fail:
            tree.leave_alone(f"{len(failed)} failed: {', '.join(failed)}")
        else:
            tree.apply()

    size = options.serial or max(len(trees), 1)
    for start in range(0, len(trees), size):
        list(pool.map(apply, trees[start : start + size]))
