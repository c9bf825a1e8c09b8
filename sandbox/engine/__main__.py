"""`python -m sandbox.engine <the flags of sglang.launch_server>`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from sandbox.engine import arguments, lifecycle, logs, processes, release, server, settings
from sandbox.engine.logtext import LogText
from sandbox.engine.prompts import Prompts
from sandbox.engine.source import Tree
from sandbox.errors import SandboxError


def main(argv: Sequence[str]) -> int:
    try:
        installed = release.installed()
        scale = settings.time_scale(os.environ)
        tree = Tree(installed.root)
        settled = settings.settle(installed, tree, arguments.parse(tree, argv), scale)
        prompts = Prompts(settled.model_folder, settled.values.get("chat_template"))
    except SandboxError as error:
        print(f"SIMULATED engine: {error.message}\n  {error.remedy}", file=sys.stderr)
        return 1
    server.raise_open_files()
    logs.configure(settled.log_level, settled.values.get("log_level_http"))
    logs.say(lifecycle.banner(settled))
    logs.say(f"server_args={settled.as_server_args()}")
    children = processes.start(lifecycle.titles(settled))
    try:
        return asyncio.run(server.Server(settled, LogText.of(installed), prompts, children).run())
    except KeyboardInterrupt:
        logs.uvicorn("Shutting down")
        return 0
    finally:
        processes.kill(children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
