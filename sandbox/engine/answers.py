"""The bodies of the answers, as data. Every one of them says that it is SIMULATED."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from sandbox.engine.runner import Job, Ticket
from sandbox.engine.text import Words

HEADER = {"X-Simulated": "blackstart"}
FINGERPRINT = "SIMULATED by blackstart: no model behind this answer"
DONE = b"data: [DONE]\n\n"


def sse(body: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def error(message: str, status: int = 400, kind: str = "BadRequestError") -> dict[str, Any]:
    """An error of the OpenAI endpoints."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": status}


def text_of(words: Words, ticket: Ticket, first: int, last: int) -> str:
    """Tokens `first` to `last` of a ticket, without what its stop string cuts off."""
    start = len(words.upto(first))
    return words.between(first, last)[: max(0, ticket.plan.characters - start)]


def usage(tickets: Sequence[Ticket], prompts: int | None = None) -> dict[str, Any]:
    """Token counts; `prompts` is how many prompts there were where each was answered several times."""
    ways = len(tickets) // (prompts or len(tickets))
    prompt_tokens = sum(ticket.prompt_tokens for ticket in tickets[::ways])
    completion_tokens = sum(ticket.visible for ticket in tickets)
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }


def finish(ticket: Ticket) -> dict[str, Any]:
    """How an OpenAI choice says why it ended; nulls while it has not."""
    done = ticket.complete
    return {
        "finish_reason": ticket.plan.finish_reason if done else None,
        "matched_stop": ticket.plan.matched if done else None,
    }


def envelope(job: Job, kind: str, model: str) -> dict[str, Any]:
    """What every OpenAI answer and chunk begins with."""
    return {
        "id": job.rid,
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
    }


def chunk_writer(around: dict[str, Any], choice: Callable[[str], dict[str, Any]]) -> Callable[[Ticket, str], bytes]:
    """A fast writer of the many chunks in the middle of a stream, which differ in index and text alone."""
    gap, index = "\0text\0", 2**31
    whole = {**around, "choices": [{"index": index, **choice(gap)}], "usage": None}
    before, middle_and_after = sse(whole).decode().rsplit(str(index), 1)
    middle, after = middle_and_after.split(json.dumps(gap), 1)

    def write(ticket: Ticket, text: str) -> bytes:
        return f"{before}{ticket.index}{middle}{json.dumps(text, ensure_ascii=False)}{after}".encode()

    return write


def native(words: Words, job: Job, ticket: Ticket, output_ids: list[int] | None) -> dict[str, Any]:
    """One result of /generate; its text is all that there is so far."""
    reason: dict[str, Any] | None = None
    if ticket.complete:
        reason = {"type": ticket.plan.finish_reason}
        if ticket.plan.finish_reason == "length":
            reason["length"] = ticket.output_tokens
        elif ticket.plan.matched is not None:
            reason["matched"] = ticket.plan.matched
    result: dict[str, Any] = {
        "text": text_of(words, ticket, 0, ticket.visible),
        "meta_info": {
            "id": job.rid,
            "finish_reason": reason,
            "prompt_tokens": ticket.prompt_tokens,
            "completion_tokens": ticket.visible,
            "cached_tokens": 0,
            "weight_version": "default",
            "system_fingerprint": FINGERPRINT,
        },
    }
    if output_ids is not None:
        result["output_ids"] = output_ids
    return result
