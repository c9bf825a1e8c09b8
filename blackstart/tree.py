"""One machine and those inside it: planned together, carried out from the outside in."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from .errors import BlackstartError, CheckError, InputError
from .fleet import Fleet, Options
from .machine import Machine
from .plan import Role
from .report import MachineReport
from .target import Target


class Tree:
    """A machine and those inside it: one thread's work."""

    def __init__(
        self, fleet: Fleet, outer: Machine, inner: Sequence[Machine], roles: Sequence[Role[Any]], options: Options
    ) -> None:
        self.fleet = fleet
        self.options = options
        self.input_error: InputError | None = None
        self._left_alone = False
        described = inner or [one for one in fleet.inventory.machines.values() if one.through == outer.name]
        on_outer = [(role, machine) for machine in described for role in roles if role.on_host]
        if fleet.carries_roles(outer):
            on_outer += [(role, outer) for role in roles if not role.on_host]
        self.outer = Target(fleet, options, outer, on_outer)
        self.inner = [
            Target(fleet, options, machine, [(role, machine) for role in roles if not role.on_host], self.outer)
            for machine in inner
        ]

    def targets(self) -> list[Target]:
        return [self.outer, *self.inner]

    def reports(self) -> list[MachineReport]:
        for target in self.targets():
            target.report.execs = target.session.execs
            target.report.retries = target.retries + self.fleet.transport(target.machine).retries
        return [target.report for target in self.targets() if target.bound or target.report.error]

    @property
    def failed(self) -> bool:
        """Whether something went wrong here; what was left alone did not fail."""
        return not self._left_alone and any(target.report.failed for target in self.targets())

    def leave_alone(self, why: str) -> None:
        """Do not begin; what has failed before its turn came keeps its own error."""
        if self.failed:
            return
        self._left_alone = True
        for target in self.targets():
            target.report.error = CheckError("not begun", where=target.machine.name, found=why)

    def hang_up(self) -> None:
        for target in self.targets():
            target.leave()

    def close(self) -> None:
        for target in reversed(self.targets()):
            target.close()

    def connects(self, connecting: Future[None]) -> None:
        """Tell whoever makes the first request that `connect` is at work already."""
        self.outer.connecting = connecting

    def connect(self) -> None:
        """Ahead of the first request: the other side takes its time, in which roles and templates are read here."""
        if not any(target.bound for target in self.targets()):
            return
        transport = self.fleet.transport(self.outer.machine)
        transport.connect()
        if transport.login_is_root:  # nobody is asked for sudo's password before the input has proved to be right
            self.outer.session.start()

    def plan(self) -> None:
        """Ask for facts and build every plan that can be built; errors stay with their machine."""
        target = self.outer
        try:
            self._plan_outer()
            for target in self.inner:
                target.plan()
        except InputError as error:
            self.input_error = error
        except BlackstartError as error:
            target.report.error = error

    def _plan_outer(self) -> None:
        """Plan the outer machine, and ask it in the same breath which of the inner ones run."""
        own = self.outer.questions()
        entrances = {f"{target.machine.name}:{self.fleet.entrance.role.name}": target for target in self.inner}
        facts = self.outer.ask({**own, **{key: self._entrance_questions(one) for key, one in entrances.items()}})
        self.outer.build(own, facts)
        for key, target in entrances.items():
            target.exists = self._runs(target, facts[key][0])

    def _entrance_questions(self, target: Target) -> Any:
        role = self.fleet.entrance.role
        return role.probes(self.fleet.variables(role, target.machine))

    def _runs(self, target: Target, answers: Any) -> bool:
        entrance = self.fleet.entrance
        return entrance.running(self.fleet.variables(entrance.role, target.machine), answers)

    def apply(self) -> None:
        """Carry the plans out, outer machine first; what fails ends the tree."""
        target = self.outer
        try:
            if target.report.error or any(inner.report.error for inner in self.inner):
                return
            target.carry_out()
            for target in self.inner:
                if self.outer.report.failed:
                    target.report.error = CheckError(
                        "left alone", where=target.machine.name, found=f"{self.outer.machine.name} failed"
                    )
                    continue
                self._enter(target)
                target.carry_out()
        except BlackstartError as error:
            target.report.error = error
        finally:
            self.close()

    def _enter(self, target: Target) -> None:
        """After the outer machine's plan, an inner machine that did not run does; what was known of it is not."""
        if self.options.check or (target.exists and not self.outer.report.counts["changed"]):
            return
        if not target.exists:
            self._require_running(target)
        target.exists = True
        target.close()
        target.plan()

    def _require_running(self, target: Target) -> None:
        facts = self.outer.ask({"entrance": self._entrance_questions(target)})
        if not self._runs(target, facts["entrance"][0]):
            raise CheckError(
                "it does not run",
                where=target.machine.name,
                remedy=f"inv up, with {self.fleet.entrance.role.name} among the tags",
            )
