"""/generate, SGLang's own endpoint."""

from __future__ import annotations

from aiohttp import web

from sandbox.engine import answers
from sandbox.engine.frontend import Frontend, read
from sandbox.engine.requests import GenerateRequest
from sandbox.engine.runner import Job


async def generate(request: web.Request) -> web.StreamResponse:
    frontend = request.app[Frontend.KEY]
    asked = await read(request, GenerateRequest)
    prompts = asked.prompts()
    wanted = [
        (prompt, parameters.max_new_tokens, parameters.stops)
        for prompt, parameters in zip(prompts, asked.parameters(len(prompts)), strict=True)
        for _ in range(parameters.n)
    ]
    job = frontend.start(wanted)
    several = asked.is_batch or len(wanted) > 1
    try:
        if asked.stream:
            return await _stream(request, frontend, job, several)
        await job.finished()
        results = [
            answers.native(frontend.words, job, ticket, frontend.prompts.ids(frontend.text(ticket, 0, ticket.visible)))
            for ticket in job.tickets
        ]
        return web.json_response(results if several else results[0])
    finally:
        frontend.runner.close(job)


async def _stream(request: web.Request, frontend: Frontend, job: Job, several: bool) -> web.StreamResponse:
    response = await frontend.open_stream(request)
    while not all(ticket.sent >= ticket.output_tokens for ticket in job.tickets):
        for ticket in await job.news():
            ticket.sent = ticket.visible
            result = answers.native(frontend.words, job, ticket, None)
            await response.write(answers.sse({**result, "index": ticket.index} if several else result))
    await response.write(answers.DONE)
    await response.write_eof()
    return response
