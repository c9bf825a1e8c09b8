"""Continuous batching as a pure state machine: prefill first, in chunks; else one token for everyone running.

It knows no clock. Each step says how long it takes in simulated seconds and who got a token, and whoever
drives it waits, or does not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol


class StepTimes(Protocol):
    def decode_step(self, running: int) -> float: ...
    def prefill_step(self, tokens: int) -> float: ...


@dataclass(eq=False)
class Sequence:
    """One prompt and the completion it gets, both counted in tokens."""

    prompt_tokens: int
    output_tokens: int
    prefilled: int = 0
    produced: int = 0

    @property
    def finished(self) -> bool:
        return self.produced >= self.output_tokens

    @property
    def held_at_end(self) -> int:
        """The tokens of KV cache that it comes to hold."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class Step:
    """What one step did. `seconds` is simulated time."""

    seconds: float
    advanced: list[Sequence]
    new_sequences: int = 0
    new_tokens: int = 0
    pending_tokens: int = 0
    running: int = 0
    queued: int = 0

    @property
    def is_prefill(self) -> bool:
        return self.new_tokens > 0


@dataclass
class Schedule:
    """The running batch and the queue of one engine.

    `max_running` bounds the batch (--max-running-requests), `chunk` the tokens of one prefill step
    (--chunked-prefill-size), `kv_tokens` the tokens that fit into the KV cache. A sequence joins only when
    all that it will hold fits beside the others, so nothing is ever retracted.
    """

    times: StepTimes
    max_running: int
    chunk: int
    kv_tokens: int
    running: list[Sequence] = field(default_factory=list)
    waiting: deque[Sequence] = field(default_factory=deque)
    used_tokens: int = 0

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Forget a sequence whose client went away; no error where it is finished already."""
        if sequence in self.running:
            self._leave(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    @property
    def idle(self) -> bool:
        return not self.running and not self.waiting

    def step(self) -> Step:
        """Advance by one step. The schedule must not be idle."""
        return self._prefill() or self._decode()

    def _prefill(self) -> Step | None:
        before = len(self.running)
        joined: list[Sequence] = []
        budget, new = self.chunk, 0
        while budget > 0 and self.waiting and before + len(joined) < self.max_running:
            sequence = self.waiting[0]
            if sequence.prefilled == 0:
                if not self._fits(sequence, joined):
                    break
                new += 1
            part = min(budget, max(1, sequence.prompt_tokens) - sequence.prefilled)
            sequence.prefilled += part
            budget -= part
            if sequence.prefilled < sequence.prompt_tokens:
                break
            joined.append(self.waiting.popleft())
        tokens = self.chunk - budget
        if not tokens:
            return None
        self.running += joined
        self.used_tokens += sum(sequence.prompt_tokens for sequence in joined)
        pending = self.waiting[0] if self.waiting and self.waiting[0].prefilled else None
        step = Step(
            seconds=self.times.prefill_step(tokens),
            advanced=joined,
            new_sequences=new,
            new_tokens=tokens,
            pending_tokens=pending.prompt_tokens - pending.prefilled if pending else 0,
            running=before,
            queued=len(self.waiting),
        )
        self._give_token(joined)
        return step

    def _decode(self) -> Step:
        batch = list(self.running)
        step = Step(self.times.decode_step(len(batch)), batch, running=len(batch), queued=len(self.waiting))
        self._give_token(batch)
        return step

    def _fits(self, sequence: Sequence, joined: list[Sequence]) -> bool:
        """Whether all that it will hold fits beside the others. One that is alone always joins."""
        held = sum(other.held_at_end for other in (*self.running, *joined))
        return held == 0 or held + sequence.held_at_end <= self.kv_tokens

    def _give_token(self, batch: list[Sequence]) -> None:
        self.used_tokens += len(batch)
        for sequence in batch:
            sequence.produced += 1
        finished = [sequence for sequence in batch if sequence.finished]
        for sequence in finished:
            self.used_tokens -= sequence.prompt_tokens + sequence.produced
        if finished:
            self.running = [sequence for sequence in self.running if not sequence.finished]

    def _leave(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.used_tokens -= sequence.prompt_tokens + sequence.produced
