"""The front door as people use it: `inv` as a process, against the sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox import host
from sandbox.paths import Paths

ROOT = Path(__file__).resolve().parents[3]
VMID = "200"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Inv = Callable[..., Ran]


def run_inv(*arguments: str) -> Ran:
    command = [sys.executable, "-c", "import sys; from invoke.main import program; sys.exit(program.run())", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="session")
def inv() -> Inv:
    return run_inv


@pytest.fixture(scope="session")
def served(inv: Inv) -> Ran:
    """The sandbox with its server up, as the first `inv up` leaves it."""
    ran = inv("up", "--restart", "--json")
    assert ran.code == 0, ran.out + ran.err
    return ran


@pytest.fixture(scope="session")
def in_container(served: Ran) -> Callable[..., str]:
    """Run a program in the guest, by ssh to the host and pct, without any of our own transports."""
    paths = Paths.default()

    def run(*argv: str, text: str = "") -> str:
        import shlex

        command = shlex.join(["pct", "exec", VMID, "--", *argv])
        options = ["-o", f"UserKnownHostsFile={paths.known_hosts}", "-i", str(paths.client_key), "-o", "BatchMode=yes"]
        address = host.status()["address"]
        ran = subprocess.run(
            ["ssh", *options, f"root@{address}", command], input=text, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run
