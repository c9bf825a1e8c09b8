"""/v1/completions and /v1/chat/completions."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from sandbox.engine import answers
from sandbox.engine.frontend import Frontend, read
from sandbox.engine.requests import BadRequest, ChatRequest, CompletionRequest
from sandbox.engine.runner import Job, Ticket


async def completions(request: web.Request) -> web.StreamResponse:
    frontend = request.app[Frontend.KEY]
    asked = await read(request, CompletionRequest)
    prompts = [prompt for prompt in asked.prompts() for _ in range(asked.n)]
    echoes = [prompt if asked.echo and isinstance(prompt, str) else "" for prompt in prompts]
    job = frontend.start([(prompt, asked.max_tokens, asked.stops) for prompt in prompts])
    return await _answer(request, asked, job, _CompletionShape(echoes), len(prompts) // asked.n)


async def chat_completions(request: web.Request) -> web.StreamResponse:
    frontend = request.app[Frontend.KEY]
    asked = await read(request, ChatRequest)
    try:
        prompt = frontend.prompts.chat(asked.messages)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    job = frontend.start([(prompt, asked.limit, asked.stops)] * asked.n)
    return await _answer(request, asked, job, _ChatShape(), 1)


class _CompletionShape:
    whole = chunk = "text_completion"
    finish_apart = False

    def __init__(self, echoes: list[str]) -> None:
        self.echoes = echoes

    def opening(self, ticket: Ticket) -> dict[str, Any] | None:
        return None

    def lead(self, ticket: Ticket) -> str:
        return self.echoes[ticket.index]

    def piece(self, text: str) -> dict[str, Any]:
        return {"text": text, "logprobs": None, "finish_reason": None, "matched_stop": None}

    def complete(self, text: str) -> dict[str, Any]:
        return {"text": text, "logprobs": None}


class _ChatShape:
    whole, chunk = "chat.completion", "chat.completion.chunk"
    finish_apart = True

    def opening(self, ticket: Ticket) -> dict[str, Any] | None:
        return self._delta("assistant", "")

    def lead(self, ticket: Ticket) -> str:
        return ""

    def piece(self, text: str) -> dict[str, Any]:
        return self._delta(None, text)

    def complete(self, text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        return {"message": message, "logprobs": None}

    def _delta(self, role: str | None, content: str) -> dict[str, Any]:
        delta = {"role": role, "content": content, "reasoning_content": None, "tool_calls": None}
        return {"delta": delta, "logprobs": None, "finish_reason": None, "matched_stop": None}


_Shape = _CompletionShape | _ChatShape


async def _answer(
    request: web.Request, asked: CompletionRequest | ChatRequest, job: Job, shape: _Shape, prompts: int
) -> web.StreamResponse:
    frontend = request.app[Frontend.KEY]
    try:
        if asked.stream:
            return await _stream(request, frontend, asked, job, shape, prompts)
        await job.finished()
        choices = [
            {
                "index": ticket.index,
                **shape.complete(shape.lead(ticket) + frontend.text(ticket, 0, ticket.visible)),
                **answers.finish(ticket),
            }
            for ticket in job.tickets
        ]
        around = answers.envelope(job, shape.whole, asked.model)
        metadata = {"weight_version": "default", "simulated": True}
        body = {**around, "choices": choices, "usage": answers.usage(job.tickets, prompts), "metadata": metadata}
        return web.json_response(body)
    finally:
        frontend.runner.close(job)


async def _stream(
    request: web.Request,
    frontend: Frontend,
    asked: CompletionRequest | ChatRequest,
    job: Job,
    shape: _Shape,
    prompts: int,
) -> web.StreamResponse:
    response = await frontend.open_stream(request)
    around = answers.envelope(job, shape.chunk, asked.model)
    write = answers.chunk_writer(around, shape.piece)
    while not all(ticket.sent >= ticket.output_tokens for ticket in job.tickets):
        for ticket in await job.news():
            out = b""
            opening = shape.opening(ticket) if ticket.sent == 0 else None
            if opening:
                out += answers.sse({**around, "choices": [{"index": ticket.index, **opening}], "usage": None})
            text = (shape.lead(ticket) if ticket.sent == 0 else "") + frontend.text(ticket, ticket.sent, ticket.visible)
            last = ticket.complete
            ticket.sent = ticket.visible
            if asked.wants_usage_in_chunks or (last and not shape.finish_apart):
                ending = answers.finish(ticket) if not shape.finish_apart else {}
                choice = {"index": ticket.index, **shape.piece(text), **ending}
                counts = answers.usage([ticket]) if asked.wants_usage_in_chunks else None
                out += answers.sse({**around, "choices": [choice], "usage": counts})
            else:
                out += write(ticket, text)
            if last and shape.finish_apart:
                choice = {"index": ticket.index, **_ChatShape().piece(""), **answers.finish(ticket)}
                choice["delta"] = dict.fromkeys(choice["delta"])
                out += answers.sse({**around, "choices": [choice], "usage": None})
            await response.write(out)
    if asked.wants_final_usage:
        counts = answers.usage(job.tickets, prompts)
        await response.write(answers.sse({**around, "choices": [], "usage": counts}))
    await response.write(answers.DONE)
    await response.write_eof()
    return response
