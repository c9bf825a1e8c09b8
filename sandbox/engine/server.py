"""One server's life: start, warm-up, serving, draining, end. The thin edge that acts."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from sandbox.engine import lifecycle, logs, processes
from sandbox.engine.batchlog import BatchLog
from sandbox.engine.frontend import Frontend, Status
from sandbox.engine.latency import Latency
from sandbox.engine.logtext import LogText, NoSuchLine
from sandbox.engine.processes import Child
from sandbox.engine.prompts import Prompts
from sandbox.engine.runner import Runner
from sandbox.engine.schedule import Schedule
from sandbox.engine.settings import Settings
from sandbox.engine.surface import application

BACKLOG = 2048
KEEP_ALIVE_S = 5
OPEN_FILES = 65535
# The real server looks for a SIGTERM, and for what is left to drain, this often.
DRAIN_POLL_S = 5.0
WARMUP_DELAY_S = 1.0
WARMUP_TOKENS = 8
WARMUP_TIMEOUT_S = 600


@dataclass
class Server:
    settings: Settings
    text: LogText
    prompts: Prompts
    children: Sequence[Child] = ()
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        """Serve until a signal ends it; the exit code, where the release ends by exiting."""
        self._watch_children()
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, self._child_failed_at_launch)
        await self._start()
        settings = self.settings
        schedule = Schedule(
            Latency(tuned=settings.autotune),
            settings.max_running_requests,
            settings.chunked_prefill_size,
            settings.kv_tokens,
        )
        rank = lifecycle.ranks(settings)[0]
        runner = Runner(schedule, settings.time_scale, BatchLog(settings, schedule, rank).observe)
        frontend = Frontend(settings, runner, self.prompts, self._install_signal_handlers)
        web_runner = web.AppRunner(
            application(frontend),
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=KEEP_ALIVE_S,
            shutdown_timeout=1,
        )
        engine = asyncio.create_task(runner.run())
        try:
            if not await self._listen(web_runner):
                return 1
            await self._warm_up(frontend)
            await self._stopping.wait()
            await self._drain(frontend)
        finally:
            engine.cancel()
        if not self._ends_by_exiting():
            processes.kill_tree(self.children)
        await web_runner.cleanup()
        return 0

    async def _start(self) -> None:
        try:
            for line in lifecycle.startup(self.settings, self.text):
                await asyncio.sleep(line.after / self.settings.time_scale)
                logs.say(line.text, line.rank)
        except lifecycle.StartFailure as failure:
            logs.engine.error("Scheduler hit an exception: %s", failure)
            self._child_failed_at_launch()

    async def _listen(self, runner: web.AppRunner) -> bool:
        settings = self.settings
        logs.uvicorn(f"Started server process [{os.getpid()}]")
        logs.uvicorn("Waiting for application startup.")
        logs.uvicorn("Application startup complete.")
        await runner.setup()
        site = web.TCPSite(runner, settings.host, settings.port, backlog=BACKLOG)
        try:
            await site.start()
        except OSError as error:
            logs.uvicorn(str(error), logging.ERROR)
            return False
        logs.uvicorn(f"Uvicorn running on http://{settings.host}:{settings.port} (Press CTRL+C to quit)")
        return True

    async def _warm_up(self, frontend: Frontend) -> None:
        if not self.settings.skip_server_warmup:
            await asyncio.sleep(WARMUP_DELAY_S / self.settings.time_scale)
            try:
                await self._request_warmup()
            except (aiohttp.ClientError, TimeoutError) as error:
                logs.engine.error("Initialization failed. warmup error: %s: %s", type(error).__name__, error)
                processes.kill_tree(self.children)
        frontend.status = Status.UP
        logs.say("The server is fired up and ready to roll!")

    async def _request_warmup(self) -> None:
        settings = self.settings
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        body = {
            "sampling_params": {"temperature": 0, "max_new_tokens": WARMUP_TOKENS},
            "text": "The capital city of France is",
        }
        limit = aiohttp.ClientTimeout(total=WARMUP_TIMEOUT_S)
        async with aiohttp.ClientSession(settings.url, headers=headers, timeout=limit) as client:
            async with client.get("/model_info", raise_for_status=True):
                pass
            async with client.post("/generate", json=body, raise_for_status=True):
                pass

    async def _drain(self, frontend: Frontend) -> None:
        frontend.draining = True
        pause = DRAIN_POLL_S / self.settings.time_scale
        forced = os.environ.get("SGL_FORCE_SHUTDOWN", "").lower() in ("1", "true")
        await asyncio.sleep(pause)
        if forced:
            logs.engine.error("Signal SIGTERM received while force shutdown flag set. Force exiting.")
            return
        while True:
            remaining = list(frontend.runner.jobs)
            logs.say(
                f"Gracefully exiting... Remaining number of requests {len(remaining)}. "
                f"Remaining requests remaining_rids={remaining}."
            )
            if not remaining:
                return
            await asyncio.sleep(pause)

    def _install_signal_handlers(self) -> None:
        """With the first request, as the real server does: before it, SIGTERM just ends the process."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._sigterm)
        loop.add_signal_handler(signal.SIGQUIT, self._child_failed)

    def _sigterm(self) -> None:
        logs.engine.warning("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self._stopping.set()

    def _child_failed_at_launch(self) -> None:
        logs.engine.error("Received sigquit from a child process. It usually means the child failed.")
        processes.kill_tree(self.children)

    def _child_failed(self) -> None:
        logs.engine.error("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        processes.kill_tree(self.children)

    def _watch_children(self) -> None:
        loop = asyncio.get_running_loop()
        for child in self.children:
            loop.add_reader(os.pidfd_open(child.pid), self._child_ended, child)

    def _child_ended(self, child: Child) -> None:
        """Real schedulers send SIGQUIT when they fail; newer releases also watch for a child that is gone."""
        code = processes.exit_code(child.pid)
        name = child.title.removeprefix("sglang::")
        values = {"Subprocess": name, "pid=": child.pid, "exit code": code}
        try:
            logs.engine.error(self.text.line("Subprocess ", values, holding="crashed"))
        except NoSuchLine:
            logs.engine.error("Scheduler hit an exception: %s ended with exit code %d", name, code)
        os.kill(os.getpid(), signal.SIGQUIT)

    def _ends_by_exiting(self) -> bool:
        """Releases up to 0.5.18 end by killing themselves; the later ones kill only their children."""
        source = self.text.release.read("sglang/srt/managers/tokenizer_manager.py")
        _, _, watchdog = source.partition("def sigterm_watchdog(")
        return "include_parent=False" in watchdog.partition("\n    def ")[0].partition("\n    async def ")[0]


def raise_open_files() -> None:
    """A connection is a file: 1024 clients do not fit into the usual limit of 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
