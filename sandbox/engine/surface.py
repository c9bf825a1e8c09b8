"""The HTTP surface: routes, health, information, metrics, and what every answer has in common."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from sandbox.engine import answers, logs, metrics, native, openai
from sandbox.engine.frontend import Frontend, InvalidRequest, Status
from sandbox.engine.requests import BadRequest
from sandbox.engine.text import Plan

LARGEST_BODY = 1 << 28
OPEN_PATHS = ("/health", "/health_generate", "/metrics")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(frontend: Frontend) -> web.Application:
    app = web.Application(middlewares=[_errors, _authorization], client_max_size=LARGEST_BODY)
    app[Frontend.KEY] = frontend
    app.on_response_prepare.append(_finish_headers)
    for path in ("/health", "/health_generate"):
        app.router.add_get(path, health)
    for path in ("/get_server_info", "/server_info"):
        app.router.add_get(path, server_info)
    for path in ("/get_model_info", "/model_info"):
        app.router.add_get(path, model_info)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/v1/models/{model:.+}", one_model)
    app.router.add_get("/ping", ping)
    for method in ("GET", "POST"):
        app.router.add_route(method, "/flush_cache", flush_cache)
    for method in ("POST", "PUT"):
        app.router.add_route(method, "/generate", native.generate)
    app.router.add_post("/v1/completions", openai.completions)
    app.router.add_post("/v1/chat/completions", openai.chat_completions)
    if frontend.settings.values.get("enable_metrics"):
        app.router.add_get("/metrics", show_metrics)
    return app


async def health(request: web.Request) -> web.Response:
    """Ready means that a token comes back; 503 while starting and while draining."""
    frontend = request.app[Frontend.KEY]
    if frontend.draining:
        logs.say("Health check request received during shutdown. Returning 503.")
        return web.Response(status=503)
    if frontend.status is Status.STARTING:
        return web.Response(status=503)
    if not frontend.runner.jobs:
        job = frontend.runner.submit([(1, Plan(1, 0, "length"))])
        try:
            await job.finished()
        finally:
            frontend.runner.close(job)
    return web.Response()


async def ping(request: web.Request) -> web.Response:
    return web.Response()


async def server_info(request: web.Request) -> web.Response:
    frontend = request.app[Frontend.KEY]
    settings = frontend.settings
    state = {
        "last_gen_throughput": frontend.runner.totals.throughput,
        "effective_max_running_requests_per_dp": settings.max_running_requests,
        "memory_usage": {"kvcache": round(settings.kv_gb, 2), "token_capacity": settings.kv_tokens},
    }
    return _json(
        {
            **settings.values,
            "status": "ready",
            "max_total_num_tokens": settings.kv_tokens,
            "max_req_input_len": settings.context_len - 6,
            "internal_states": [state],
            "version": settings.release.version,
            "simulated": True,
            "simulated_time_scale": settings.time_scale,
            "simulated_autotune": settings.autotune,
        }
    )


async def model_info(request: web.Request) -> web.Response:
    settings = request.app[Frontend.KEY].settings
    return _json(
        {
            "model_path": settings.model_path,
            "tokenizer_path": settings.tokenizer_path,
            "is_generation": True,
            "preferred_sampling_params": settings.values.get("preferred_sampling_params"),
            "weight_version": settings.values.get("weight_version", "default"),
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "architectures": [settings.architecture],
            "simulated": True,
        }
    )


async def models(request: web.Request) -> web.Response:
    return _json({"object": "list", "data": [_card(request.app[Frontend.KEY])]})


async def one_model(request: web.Request) -> web.Response:
    frontend, asked = request.app[Frontend.KEY], request.match_info["model"]
    if asked != frontend.settings.served_model_name:
        problem = {
            "message": f"The model '{asked}' does not exist",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
        return web.json_response({"error": problem}, status=404)
    return _json(_card(frontend))


def _card(frontend: Frontend) -> dict[str, Any]:
    name = frontend.settings.served_model_name
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": frontend.settings.context_len,
        "simulated": True,
    }


async def flush_cache(request: web.Request) -> web.Response:
    busy = bool(request.app[Frontend.KEY].runner.jobs)
    if busy:
        logs.say("Cache not flushed because there are pending requests.")
    else:
        logs.say("Cache flushed successfully!")
    return web.Response(
        text="Cache flushed.\nPlease check backend logs for more details. "
        "(When there are running or waiting requests, the operation will not be performed.)\n",
        status=400 if busy else 200,
    )


async def show_metrics(request: web.Request) -> web.Response:
    frontend = request.app[Frontend.KEY]
    body = metrics.exposition(frontend.settings.served_model_name, frontend.runner, frontend.settings.kv_tokens)
    return web.Response(body=body.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except InvalidRequest as error:
        return web.json_response(answers.error(str(error), 400, "Bad Request"), status=400)
    except BadRequest as error:
        if request.path.startswith("/v1/"):
            return web.json_response(answers.error(str(error), 400, "BadRequest"), status=400)
        return web.json_response({"error": {"message": str(error)}}, status=400)
    except web.HTTPNotFound:
        return web.json_response({"detail": "Not Found"}, status=404)
    except web.HTTPMethodNotAllowed:
        return web.json_response({"detail": "Method Not Allowed"}, status=405)
    except web.HTTPRequestEntityTooLarge as error:
        return web.json_response(answers.error(error.reason, 413, "Payload Too Large"), status=413)
    except ConnectionResetError:  # the client went away in the middle of its stream
        raise asyncio.CancelledError from None


@web.middleware
async def _authorization(request: web.Request, handler: Handler) -> web.StreamResponse:
    key = request.app[Frontend.KEY].settings.values.get("api_key")
    if key and request.path not in OPEN_PATHS and request.headers.get("Authorization") != f"Bearer {key}":
        return web.json_response({"error": "Unauthorized"}, status=401)
    return await handler(request)


async def _finish_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(answers.HEADER)
    response.headers["Server"] = "uvicorn"
    peer = request.transport.get_extra_info("peername") if request.transport else None
    client = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "-"
    logs.answered(client, f"{request.method} {request.path_qs} HTTP/1.1", response.status, response.reason or "")


def _json(body: object) -> web.Response:
    return web.json_response(body, dumps=lambda value: json.dumps(value, default=str))
