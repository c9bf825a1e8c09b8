"""One machine and those inside it: their plans are made on facts, and carried out from the outside in."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from .errors import BlackstartError, CheckError, InputError
from .fleet import Fleet, Options
from .inventory import Machine
from .plan import Facts, Role, Section, State, plan_to_wire
from .report import MachineReport, Record
from .resources import JOB, Resource
from .session import Event, Session

MAX_REPLANS = 5
PATIENCE = 4


class _Passing(Exception):
    """A resource failed in a way that may pass by itself."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.name)
        self.record = record


@dataclass
class Target:
    """A machine with its roles on the way to be converged."""

    machine: Machine
    session: Session
    report: MachineReport
    bound: list[tuple[Role[Any], Machine]]
    sections: list[Section] = field(default_factory=list)
    exists: bool = True
    retries: int = 0


class Tree:
    """A machine and those inside it: one thread's work."""

    def __init__(
        self, fleet: Fleet, outer: Machine, inner: Sequence[Machine], roles: Sequence[Role[Any]], options: Options
    ) -> None:
        self.fleet = fleet
        self.options = options
        self.input_error: InputError | None = None
        self.connecting: Future[None] | None = None
        self._in_hand: tuple[str, Resource] | None = None
        described = inner or [one for one in fleet.inventory.machines.values() if one.through == outer.name]
        on_outer = [(role, machine) for machine in described for role in roles if role.on_host]
        if fleet.carries_roles(outer):
            on_outer += [(role, outer) for role in roles if not role.on_host]
        self.outer = self._target(outer, on_outer)
        self.inner = [
            self._target(machine, [(role, machine) for role in roles if not role.on_host]) for machine in inner
        ]

    def _target(self, machine: Machine, bound: list[tuple[Role[Any], Machine]]) -> Target:
        session = self.fleet.session(machine, installs=not self.options.check)
        return Target(machine, session, MachineReport(machine.name), bound)

    def targets(self) -> list[Target]:
        return [self.outer, *self.inner]

    def reports(self) -> list[MachineReport]:
        for target in self.targets():
            target.report.execs = target.session.execs
            target.report.retries = target.retries + self.fleet.transport(target.machine).retries
        return [target.report for target in self.targets() if target.bound or target.report.error]

    @property
    def failed(self) -> bool:
        return any(target.report.failed for target in self.targets())

    def leave_alone(self, why: str) -> None:
        for target in self.targets():
            target.report.error = target.report.error or CheckError("not begun", where=target.machine.name, found=why)

    def in_hand(self) -> str:
        """What is being done right now, in the words for whoever leaves it."""
        if self._in_hand is None:
            return ""
        machine, resource = self._in_hand
        goes_on = "a job, goes on by itself" if resource.kind == JOB else "is finished"
        return f"{machine}: {resource.name}, {goes_on}"

    def hang_up(self) -> None:
        for target in self.targets():
            target.session.hang_up()

    def close(self) -> None:
        for target in reversed(self.targets()):
            target.session.__exit__(None, None, None)

    def connect(self) -> None:
        """Ahead of the first request: the other side takes its time, in which roles and templates are read here."""
        if not any(target.bound for target in self.targets()):
            return
        transport = self.fleet.transport(self.outer.machine)
        transport.connect()
        if transport.login_is_root:  # nobody is asked for sudo's password before the input has proved to be right
            self.outer.session.start()

    def _connected(self) -> None:
        """Where nothing was done ahead, the first request connects. Raises ConnectError."""
        if self.connecting is not None:
            self.connecting.result()

    def plan(self) -> None:
        """Ask for facts and build every plan that can be built; errors stay with their machine."""
        target = self.outer
        try:
            presence = self._probe_outer()
            for target in self.inner:
                target.exists = presence[target.machine.name]
                self._plan_inside(target)
        except InputError as error:
            self.input_error = error
        except BlackstartError as error:
            target.report.error = error

    def _probe_outer(self) -> dict[str, bool]:
        """Plans the outer machine; says of each inner one whether it runs."""
        entrance = self.fleet.entrance
        groups: dict[str, Any] = {}
        for role, machine in self.outer.bound:
            groups[f"{machine.name}:{role.name}"] = role.probes(self.fleet.variables(role, machine))
        for target in self.inner:
            variables = self.fleet.variables(entrance.role, target.machine)
            groups[f"{target.machine.name}:{entrance.role.name}"] = entrance.role.probes(variables)
        facts = self._ask(self.outer, groups)
        self.outer.sections = self._sections(self.outer.bound, groups, facts)
        return {
            target.machine.name: entrance.running(
                self.fleet.variables(entrance.role, target.machine),
                facts[f"{target.machine.name}:{entrance.role.name}"][0],
            )
            for target in self.inner
        }

    def _plan_inside(self, target: Target, only: Sequence[str] | None = None) -> None:
        """(Re)build the plan of a machine, for the roles in `only` or all of them."""
        bound = [(role, machine) for role, machine in target.bound if only is None or role.name in only]
        groups = {f"{m.name}:{role.name}": role.probes(self.fleet.variables(role, m)) for role, m in bound}
        asked = target if target.exists else self.outer
        target.sections = self._sections(bound, groups, self._ask(asked, groups, empty=not target.exists))

    def _ask(self, target: Target, groups: Mapping[str, Any], empty: bool = False) -> dict[str, tuple[Facts, str]]:
        if not any(groups.values()):
            return dict.fromkeys(groups, ([], ""))
        self._connected()
        started = time.monotonic()
        self.fleet.listener.begins(target.machine.name, "facts", "gather facts")
        facts = target.session.probe(groups, empty=empty)
        self.fleet.listener.rests(target.machine.name)
        target.report.seconds += time.monotonic() - started
        return facts

    def _sections(
        self,
        bound: Sequence[tuple[Role[Any], Machine]],
        groups: Mapping[str, Any],
        facts: Mapping[str, tuple[Facts, str]],
    ) -> list[Section]:
        sections = []
        for role, machine in bound:
            key = f"{machine.name}:{role.name}"
            answers, digest = facts[key]
            try:
                state = role.state(self.fleet.variables(role, machine), answers)
            except BlackstartError as error:
                error.where = f"{machine.name}, {error.where or role.name}"
                raise
            sections.append(Section(role.name, machine.name, groups[key], digest, state))
        return sections

    def apply(self) -> None:
        """Carry the plans out, outer machine first; what fails ends the tree."""
        target = self.outer
        try:
            if target.report.error or any(inner.report.error for inner in self.inner):
                return
            self._carry_out(target)
            for target in self.inner:
                if self.outer.report.failed:
                    target.report.error = CheckError(
                        "left alone", where=target.machine.name, found=f"{self.outer.machine.name} failed"
                    )
                    continue
                self._enter(target)
                self._carry_out(target)
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
        target.session.__exit__(None, None, None)
        self._plan_inside(target)

    def _require_running(self, target: Target) -> None:
        role = self.fleet.entrance.role
        variables = self.fleet.variables(role, target.machine)
        facts = self._ask(self.outer, {"entrance": role.probes(variables)})
        if not self.fleet.entrance.running(variables, facts["entrance"][0]):
            raise CheckError(
                "it does not run", where=target.machine.name, remedy=f"inv up, with {role.name} among the tags"
            )

    def _carry_out(self, target: Target) -> None:
        if not target.sections:
            return
        self._connected()
        started = time.monotonic()
        for _ in range(MAX_REPLANS):
            stale = self._converge_patiently(target)
            if stale is None:
                break
            names = [section.role for section in target.sections]
            finished = target.sections[: names.index(stale)]
            self._plan_inside(target, names[names.index(stale) :])
            # What is done is done; what it wanted verified still is to be, at the end.
            target.sections = [
                Section(part.role, part.subject, (), "", State(verify=part.state.verify, handlers=part.state.handlers))
                for part in finished
            ] + target.sections
        else:
            raise CheckError(
                "the facts change faster than plans can be made",
                where=target.machine.name,
                remedy="something else is at work on this machine; find it, then run again",
            )
        target.report.seconds += time.monotonic() - started

    def _converge_patiently(self, target: Target) -> str | None:
        """What may pass by itself (a held apt lock, an ill mirror) is tried again; what was done stays done."""
        kept = list(target.report.records)
        try:
            return self._converge_once(target)
        except _Passing as passing:
            return self._try_again(target, passing, kept)

    def _try_again(self, target: Target, first: _Passing, kept: list[Record]) -> str | None:
        import tenacity  # here, because most runs meet nothing of the kind

        failures = [first]

        def once() -> str | None:
            if failures:
                raise failures.pop()
            return self._converge_once(target)

        def before_sleep(state: tenacity.RetryCallState) -> None:
            # The next try meets what was done as ok; that it was changed must not be forgotten.
            kept.extend(record for record in target.report.records[len(kept) :] if record.state == "changed")
            target.report.records[:] = kept
            target.retries += 1
            self.fleet.listener.says(target.machine.name, "waits for it to pass, then tries again")

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Passing),
            stop=tenacity.stop_after_attempt(PATIENCE),
            wait=tenacity.wait_exponential(self.fleet.pause_s, max=30),
            before_sleep=before_sleep,
            reraise=True,
        )
        try:
            return retrying(once)
        except _Passing as passing:
            target.report.records.append(passing.record)
            self.fleet.listener.ends(target.machine.name, passing.record)
            return None

    def _converge_once(self, target: Target) -> str | None:
        """One plan to its end; the role whose facts no longer held, if one's did not."""
        wire = plan_to_wire(
            target.sections, check=self.options.check, restart=self.options.restart, empty=not target.exists
        )
        known = {key: (part.role, item) for part in target.sections for key, item in part.by_id().items()}
        session = target.session if target.exists else self.outer.session
        stale: str | None = None
        for event in session.converge(wire):
            role, resource = known.get(event.get("id", ""), ("handlers", None))
            name = resource.name if resource else event.get("name", "")
            match event["e"]:
                case "start":
                    self._in_hand = (target.machine.name, resource) if resource else None
                    self.fleet.listener.begins(target.machine.name, role, name)
                case "output":
                    self.fleet.listener.says(target.machine.name, event["line"])
                case "done":
                    self._in_hand = None
                    record = _record(role, name, event)
                    if event.get("passing"):
                        raise _Passing(record)
                    target.report.records.append(record)
                    self.fleet.listener.ends(target.machine.name, record)
                case "stale":
                    stale = event["section"]
        return stale


def _record(role: str, name: str, event: Event) -> Record:
    return Record(
        role=role,
        name=name,
        state=event["state"],
        detail=event.get("detail", ""),
        diff=event.get("diff", ""),
        remedy=event.get("remedy", ""),
        seconds=event["seconds"],
        verify=event.get("verify", False),
    )
