"""One machine on the way to be converged: its plan is made on facts, and made anew where they no longer hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from .errors import BlackstartError, CheckError
from .fleet import Fleet, Options
from .machine import Machine
from .plan import Facts, Role, Section, State, plan_to_wire
from .report import MachineReport, Record
from .resources import JOB, Resource

MAX_REPLANS = 5
PATIENCE = 4

Groups = dict[str, Any]
"""Questions by what asks them, `machine:role`."""


class _Passing(Exception):
    """A resource failed in a way that may pass by itself."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.name)
        self.record = record


class Target:
    """A machine with its roles. One that does not exist yet is asked and checked by way of its `host`."""

    def __init__(
        self,
        fleet: Fleet,
        options: Options,
        machine: Machine,
        bound: Sequence[tuple[Role[Any], Machine]],
        host: Target | None = None,
    ) -> None:
        self.fleet = fleet
        self.options = options
        self.machine = machine
        self.bound = bound
        self.host = host
        self.session = fleet.session(machine, installs=not options.check)
        self.report = MachineReport(machine.name)
        self.sections: list[Section] = []
        self.exists = True
        self.retries = 0
        self.connecting: Future[None] | None = None
        self._in_hand: Resource | None = None
        self._left = threading.Event()

    def in_hand(self) -> str:
        """What is being done right now, in the words for whoever leaves it."""
        if self._in_hand is None:
            return ""
        goes_on = "a job, goes on by itself" if self._in_hand.kind == JOB else "is finished"
        return f"{self.machine.name}: {self._in_hand.name}, {goes_on}"

    def leave(self) -> None:
        """From another thread: nothing more is begun here, and what is in hand is not waited for."""
        self._left.set()
        self.session.hang_up()

    def close(self) -> None:
        self.session.__exit__(None, None, None)

    # facts and plans

    def questions(self, only: Sequence[str] | None = None) -> Groups:
        """What its roles, or those in `only`, ask before they can plan."""
        return {
            f"{machine.name}:{role.name}": role.probes(self.fleet.variables(role, machine))
            for role, machine in self._bound(only)
        }

    def _bound(self, only: Sequence[str] | None) -> list[tuple[Role[Any], Machine]]:
        return [(role, machine) for role, machine in self.bound if only is None or role.name in only]

    def ask(self, groups: Groups) -> dict[str, tuple[Facts, str]]:
        """The answers to groups of questions, each group with its digest. Raises BlackstartError."""
        asked = self if self.exists or self.host is None else self.host
        if not any(groups.values()):
            return dict.fromkeys(groups, ([], ""))
        asked.connected()
        started = time.monotonic()
        self.fleet.listener.begins(asked.machine.name, "facts", "gather facts")
        facts = asked.session.probe(groups, empty=not self.exists)
        self.fleet.listener.rests(asked.machine.name)
        asked.report.seconds += time.monotonic() - started
        return facts

    def connected(self) -> None:
        """Where nothing was done ahead, the first request connects. Raises ConnectError."""
        if self.host is not None:
            self.host.connected()
        elif self.connecting is not None:
            self.connecting.result()

    def plan(self, only: Sequence[str] | None = None) -> None:
        """(Re)build the plan, for the roles in `only` or all of them."""
        groups = self.questions(only)
        self.build(groups, self.ask(groups), only)

    def build(self, groups: Groups, facts: Mapping[str, tuple[Facts, str]], only: Sequence[str] | None = None) -> None:
        """The plan on facts that are known. Raises what the roles raise, with the machine as its place."""
        sections = []
        for role, machine in self._bound(only):
            key = f"{machine.name}:{role.name}"
            answers, digest = facts[key]
            try:
                state = role.state(self.fleet.variables(role, machine), answers)
            except BlackstartError as error:
                error.where = f"{machine.name}, {error.where or role.name}"
                raise
            sections.append(Section(role.name, machine.name, groups[key], digest, state))
        self.sections = sections

    # carrying out

    def carry_out(self) -> None:
        """The plan to its end; a role whose facts no longer hold, and those after it, are planned anew."""
        if not self.sections:
            return
        self.connected()
        started = time.monotonic()
        for _ in range(MAX_REPLANS):
            stale = self._converge_patiently()
            if stale is None:
                break
            names = [section.role for section in self.sections]
            finished = self.sections[: names.index(stale)]
            self.plan(names[names.index(stale) :])
            # What is done is done; what it wanted verified still is to be, at the end.
            self.sections = [
                Section(part.role, part.subject, (), "", State(verify=part.state.verify, handlers=part.state.handlers))
                for part in finished
            ] + self.sections
        else:
            raise CheckError(
                "the facts change faster than plans can be made",
                where=self.machine.name,
                remedy="something else is at work on this machine; find it, then run again",
            )
        self.report.seconds += time.monotonic() - started

    def _converge_patiently(self) -> str | None:
        """What may pass by itself (a held apt lock, an ill mirror) is tried again; what was done stays done."""
        kept = list(self.report.records)
        try:
            return self._converge_once()
        except _Passing as passing:
            return self._try_again(passing, kept)

    def _try_again(self, first: _Passing, kept: list[Record]) -> str | None:
        import tenacity  # here, because most runs meet nothing of the kind

        failures = [first]

        def once() -> str | None:
            if failures:
                raise failures.pop()
            return self._converge_once()

        def before_sleep(state: tenacity.RetryCallState) -> None:
            # The next try meets what was done as ok; that it was changed must not be forgotten.
            kept.extend(record for record in self.report.records[len(kept) :] if record.state == "changed")
            self.report.records[:] = kept
            self.retries += 1
            self.fleet.listener.says(self.machine.name, "waits for it to pass, then tries again")

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Passing),
            stop=tenacity.stop_after_attempt(PATIENCE),
            wait=tenacity.wait_exponential(self.fleet.pause_s, max=30),
            sleep=tenacity.sleep_using_event(self._left),
            before_sleep=before_sleep,
            reraise=True,
        )
        try:
            return retrying(once)
        except _Passing as passing:
            self.report.records.append(passing.record)
            self.fleet.listener.ends(self.machine.name, passing.record)
            return None

    def _converge_once(self) -> str | None:
        """One plan to its end; the role whose facts no longer held, if one's did not."""
        wire = plan_to_wire(
            self.sections, check=self.options.check, restart=self.options.restart, empty=not self.exists
        )
        known = {key: (part.role, item) for part in self.sections for key, item in part.by_id().items()}
        session = self.session if self.exists or self.host is None else self.host.session
        stale: str | None = None
        for event in session.converge(wire):
            role, resource = known.get(event.get("id", ""), ("handlers", None))
            name = resource.name if resource else event.get("name", "")
            match event["e"]:
                case "start":
                    self._in_hand = resource
                    self.fleet.listener.begins(self.machine.name, role, name)
                case "output":
                    self.fleet.listener.says(self.machine.name, event["line"])
                case "done":
                    self._in_hand = None
                    record = Record.of(role, name, event)
                    if event.get("passing"):
                        raise _Passing(record)
                    self.report.records.append(record)
                    self.fleet.listener.ends(self.machine.name, record)
                case "stale":
                    stale = event["section"]
        return stale
