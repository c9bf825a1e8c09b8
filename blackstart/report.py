"""What happened, as data: one record a resource, one report a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import BlackstartError

FAILED = "failed"
DONE = ("ok", "changed", "verified")


@dataclass
class Record:
    """One resource's outcome. `state` is ok, changed, change, unknown, pending, verified or failed."""

    role: str
    name: str
    state: str
    detail: str = ""
    diff: str = ""
    remedy: str = ""
    seconds: float = 0.0
    verify: bool = False

    @classmethod
    def of(cls, role: str, name: str, event: Mapping[str, Any]) -> Record:
        """What the agent's `done` event says of a resource."""
        told = ("state", "detail", "diff", "remedy", "seconds", "verify")
        return cls(role=role, name=name, **{key: event[key] for key in told if key in event})

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value not in ("", False) or name == "seconds"}


@dataclass
class MachineReport:
    """One machine's run. `error` is what ended it before or between resources."""

    name: str
    records: list[Record] = field(default_factory=list)
    execs: int = 0
    seconds: float = 0.0
    retries: int = 0
    error: BlackstartError | None = None

    @property
    def counts(self) -> Counter[str]:
        """How many records of each state; what was verified is ok."""
        return Counter("ok" if record.state == "verified" else record.state for record in self.records)

    @property
    def failure(self) -> Record | None:
        return next((record for record in self.records if record.state == FAILED), None)

    @property
    def failed(self) -> bool:
        return self.error is not None or self.failure is not None

    def as_dict(self) -> dict[str, Any]:
        counts = self.counts
        result: dict[str, Any] = {
            "name": self.name,
            "ok": counts["ok"],
            "changed": counts["changed"],
            "failed": counts[FAILED] + (self.error is not None),
            "change": counts["change"],
            "unknown": counts["unknown"],
            "pending": [record.name for record in self.records if record.state == "pending"],
            "execs": self.execs,
            "seconds": round(self.seconds, 3),
            "retries": self.retries,
            "resources": [record.as_dict() for record in self.records],
        }
        if self.error:
            result["error"] = self.error.as_dict()
        return result
