"""What the endpoints share: the engine behind them, the model's words, and the checks on a request."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from sandbox.engine import answers
from sandbox.engine.requests import BadRequest, TokenIds
from sandbox.engine.runner import Job, Runner, Ticket
from sandbox.engine.settings import Settings
from sandbox.engine.text import Plan, Words, plan

if TYPE_CHECKING:
    from sandbox.engine.prompts import Prompts

Model = TypeVar("Model", bound=BaseModel)
Wanted = tuple[str | TokenIds, int | None, Sequence[str]]


class Status(Enum):
    STARTING = "Starting"
    UP = "Up"


class InvalidRequest(Exception):
    """The request's body does not have the shape that the endpoint takes."""


@dataclass
class Frontend:
    """The state of the HTTP side. `on_first_request` is called once, before the first generation."""

    KEY: ClassVar[web.AppKey[Frontend]]

    settings: Settings
    runner: Runner
    prompts: Prompts
    on_first_request: Callable[[], None]
    words: Words = field(default_factory=Words)
    status: Status = Status.STARTING
    draining: bool = False
    _asked: bool = False

    def start(self, wanted: Sequence[Wanted]) -> Job:
        """Queue the generation of each (prompt, limit, stop strings). Raises BadRequest for what cannot fit."""
        counted: dict[str, int] = {}
        planned: list[tuple[int, Plan]] = []
        for prompt, limit, stops in wanted:
            if isinstance(prompt, str):
                tokens = counted.get(prompt) or counted.setdefault(prompt, self.prompts.count(prompt))
            else:
                tokens = len(prompt)
            self._check(tokens, limit)
            planned.append((tokens, plan(self.words, limit, stops)))
        if not self._asked:
            self._asked = True
            self.on_first_request()
        return self.runner.submit(planned)

    def text(self, ticket: Ticket, first: int, last: int) -> str:
        return answers.text_of(self.words, ticket, first, last)

    async def open_stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        return response

    def _check(self, prompt_tokens: int, limit: int | None) -> None:
        context = self.settings.context_len
        if prompt_tokens >= context:
            raise BadRequest(
                f"The input ({prompt_tokens} tokens) is longer than the model's context length ({context} tokens)."
            )
        if prompt_tokens + (limit or 0) > context:
            raise BadRequest(
                f"Requested token count exceeds the model's maximum context length of {context} tokens. "
                f"You requested a total of {prompt_tokens + (limit or 0)} tokens: {prompt_tokens} tokens from "
                f"the input messages and {limit} tokens for the completion. Please reduce the number of tokens "
                "in the input messages or the completion to fit within the limit."
            )


Frontend.KEY = web.AppKey("frontend", Frontend)


async def read(request: web.Request, shape: type[Model]) -> Model:
    """The request's body in that shape. Raises InvalidRequest."""
    media_type = request.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if request.path.startswith("/v1/") and media_type != "application/json":
        raise InvalidRequest("Unsupported Media Type: Only 'application/json' is allowed")
    try:
        raw = await request.read()
        body: Any = json.loads(raw)
        if b"\\u" in raw:
            json.dumps(body, ensure_ascii=False).encode()  # half a character, such as \\ud800, has no answer
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"JSON decode error: {error}") from error
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'body'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise InvalidRequest(f"{error.error_count()} validation errors: {problems}") from error
