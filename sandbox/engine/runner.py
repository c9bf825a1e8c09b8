"""Drives the schedule in scaled time and wakes the requests that got tokens.

When the machine cannot keep up, the requests get several tokens at once instead of falling behind: the
simulated time stays right, and a slow client only sees coarser chunks.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from sandbox.engine.schedule import Schedule, Sequence, Step
from sandbox.engine.text import Plan


@dataclass(eq=False)
class Ticket(Sequence):
    """A sequence under way for a client. `visible` is how many of its tokens the client may see by now."""

    plan: Plan = field(default_factory=lambda: Plan(0, 0, "length"))
    index: int = 0
    visible: int = 0
    sent: int = 0
    job: Job | None = None

    @property
    def complete(self) -> bool:
        return self.visible >= self.output_tokens


@dataclass(eq=False)
class Job:
    """One client's request: one or more tickets that are answered together."""

    tickets: list[Ticket]
    rid: str = field(default_factory=lambda: uuid.uuid4().hex)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def complete(self) -> bool:
        return all(ticket.complete for ticket in self.tickets)

    async def news(self) -> list[Ticket]:
        """Wait until at least one ticket has tokens that were not sent, and return those that have."""
        while True:
            fresh = [ticket for ticket in self.tickets if ticket.visible > ticket.sent]
            if fresh:
                return fresh
            self.changed.clear()
            await self.changed.wait()

    async def finished(self) -> None:
        while not self.complete:
            self.changed.clear()
            await self.changed.wait()


@dataclass
class Totals:
    """Counted since the start; the throughput is of the last decode step, in tokens a simulated second."""

    requests: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    throughput: float = 0.0


class Runner:
    """The one engine of the server. `observe` is told of every step, with the schedule as it is after it."""

    def __init__(self, schedule: Schedule, time_scale: float, observe: Callable[[Step], None]) -> None:
        self.schedule = schedule
        self.totals = Totals()
        self.jobs: dict[str, Job] = {}
        self._scale = time_scale
        self._observe = observe
        self._work = asyncio.Event()

    def submit(self, requests: Iterable[tuple[int, Plan]]) -> Job:
        """Queue one ticket for each (prompt tokens, plan)."""
        tickets = [
            Ticket(prompt_tokens, max(1, plan.tokens), plan=plan, index=index)
            for index, (prompt_tokens, plan) in enumerate(requests)
        ]
        job = Job(tickets)
        for ticket in tickets:
            ticket.job = job
            self.schedule.add(ticket)
        self.jobs[job.rid] = job
        self._work.set()
        return job

    def close(self, job: Job) -> None:
        """The client has its answer, or went away."""
        for ticket in job.tickets:
            if not ticket.finished:
                self.schedule.drop(ticket)
        if self.jobs.pop(job.rid, None):
            self.totals.requests += 1
            self.totals.prompt_tokens += sum(ticket.prompt_tokens for ticket in job.tickets)

    async def run(self) -> NoReturn:
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            if self.schedule.idle:
                self._work.clear()
                await self._work.wait()
                due = clock()
            advanced: dict[Sequence, None] = {}
            while not self.schedule.idle:
                step = self.schedule.step()
                due += step.seconds / self._scale
                advanced |= dict.fromkeys(step.advanced)
                self._account(step)
                if due > clock():
                    break
            await asyncio.sleep(max(0.0, due - clock()))
            self._publish(advanced)

    def _account(self, step: Step) -> None:
        self.totals.generated_tokens += len(step.advanced)
        if not step.is_prefill:
            self.totals.throughput = len(step.advanced) / step.seconds
        self._observe(step)

    def _publish(self, advanced: Iterable[Sequence]) -> None:
        for ticket in advanced:
            assert isinstance(ticket, Ticket) and ticket.job is not None
            ticket.visible = ticket.produced
            ticket.job.changed.set()
