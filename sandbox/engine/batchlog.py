"""The scheduler's running commentary: "Prefill batch, ..." and "Decode batch, ..." in the release's wording."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.engine import logs
from sandbox.engine.schedule import Schedule, Step
from sandbox.engine.settings import Settings

REPORTERS = (
    "sglang/srt/managers/scheduler_metrics_mixin.py",
    "sglang/srt/observability/scheduler_metrics_mixin.py",
)


@dataclass
class BatchLog:
    """Told of every step; logs each prefill, and each `decode_log_interval`th decode step."""

    settings: Settings
    schedule: Schedule
    rank: str
    _decodes: int = 0
    _tokens: int = 0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        source = "".join(self.settings.release.read(path) for path in REPORTERS)
        self._says_pending = "#pending-token" in source
        self._interval = self.settings.values.get("decode_log_interval") or 40

    def observe(self, step: Step) -> None:
        if step.is_prefill:
            logs.say(self.prefill_line(step), self.rank)
            return
        self._decodes += 1
        self._tokens += len(step.advanced)
        self._seconds += step.seconds
        if self._decodes % self._interval == 0:
            logs.say(self.decode_line(step), self.rank)
            self._tokens, self._seconds = 0, 0.0

    def prefill_line(self, step: Step) -> str:
        pending = f"#pending-token: {step.pending_tokens}, " if self._says_pending else ""
        throughput = f"input throughput (token/s): {step.new_tokens / step.seconds:.2f}"
        graph = "cuda graph: False"
        return (
            f"Prefill batch, #new-seq: {step.new_sequences}, #new-token: {step.new_tokens}, #cached-token: 0, "
            f"{self._usage()}#running-req: {step.running}, #queue-req: {step.queued}, {pending}"
            + (f"{graph}, {throughput}" if self._says_pending else f"{throughput}, {graph}")
        )

    def decode_line(self, step: Step) -> str:
        return (
            f"Decode batch, #running-req: {step.running}, #token: {self.schedule.used_tokens}, {self._usage()}"
            f"cuda graph: {self.settings.uses_graphs}, "
            f"gen throughput (token/s): {self._tokens / self._seconds:.2f}, #queue-req: {step.queued}"
        )

    def _usage(self) -> str:
        return f"token usage: {self.schedule.used_tokens / self.settings.kv_tokens:.2f}, "
