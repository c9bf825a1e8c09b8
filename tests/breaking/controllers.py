"""Controllers as people start them: `inv` processes of their own, with an inventory of YAML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .hosts import HERE, Host

ROOT = HERE.parents[1]
INV = (sys.executable, "-c", "import sys; from invoke.main import program; sys.exit(program.run())")
PATIENCE_S = 180.0

_started: list[subprocess.Popen[str]] = []


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def machines(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.out)["machines"]
        return found

    @property
    def machine(self) -> dict[str, Any]:
        (one,) = self.machines
        return one


def write_inventory(folder: Path, machines: Mapping[str, Mapping[str, Any]]) -> Path:
    """hosts.yml, as JSON, which is YAML."""
    folder.mkdir()
    (folder / "hosts.yml").write_text(json.dumps({"all": {"hosts": machines}}, indent=1))
    return folder


def variables(host: Host, **over: Any) -> dict[str, Any]:
    return {
        "address": host.address,
        "port": host.port,
        "identity_file": str(host.keys.login),
        "known_hosts": str(host.keys.known_hosts),
        **over,
    }


def start(
    inventory: Path, *options: str, task: str = "up", env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    argv = [*INV, "-r", str(HERE / "front"), task, "--inventory", str(inventory), *options]
    controller = subprocess.Popen(
        argv,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    _started.append(controller)
    return controller


def end_all() -> None:
    """What a failed test leaves running."""
    while _started:
        controller = _started.pop()
        controller.kill()
        controller.communicate()


def finish(controller: subprocess.Popen[str]) -> Ran:
    try:
        out, err = controller.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        controller.kill()
        out, err = controller.communicate()
        raise AssertionError(f"the controller still ran after {PATIENCE_S:g} s: {out}{err}") from None
    return Ran(controller.returncode, out, err)


def up(inventory: Path, *options: str, task: str = "up", env: Mapping[str, str] | None = None) -> Ran:
    return finish(start(inventory, *options, task=task, env=env))
