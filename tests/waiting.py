"""Waiting in a test: for a condition, until a deadline, and a failure says for what."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

DEADLINE_S = 60.0
"""Long for a busy machine: only a test that fails waits for so long."""
POLL_S = 0.005


def wait_for(condition: Callable[[], Found], what: str, deadline_s: float = DEADLINE_S) -> Found:
    """The first true value of `condition`. Raises AssertionError after `deadline_s` seconds."""
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s:g} s: {what}")
        time.sleep(POLL_S)
    return found
