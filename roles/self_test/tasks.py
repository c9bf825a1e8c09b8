"""inv test, inv lint."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from blackstart.errors import InputError
from blackstart.front import Door, Result, task
from blackstart.paths import ROOT


@task(
    help={
        "soak": "the full counts of the randomised and destructive tests",
        "fast": "only what needs neither the sandbox nor a download",
        "only": "only tests whose name matches, as pytest's -k",
    }
)
def test(door: Door, soak: bool = False, fast: bool = False, only: str = "") -> Result:
    """Run the project's tests: rules, units, then real sshd and real LXC in the sandbox."""
    _require("pytest")
    marks = ["soak or not soak" if soak else "not soak"]
    marks += ["not sandbox and not wheels"] if fast else []
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    argv += ["-m", " and ".join(f"({mark})" for mark in marks)]
    argv += ["-k", only] if only else []
    codes = {"lint": _lint() if not only else 0, "pytest": subprocess.run(argv, cwd=ROOT).returncode}
    return Result(codes, int(any(codes.values())))


@task()
def lint(door: Door) -> Result:
    """Hold the code to its rules: ruff (rules and layout), mypy strict."""
    _require("ruff")
    code = _lint()
    return Result({"lint": code}, int(bool(code)))


def _lint() -> int:
    commands = (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"])
    return max(subprocess.run([sys.executable, "-m", *command], cwd=ROOT).returncode for command in commands)


def _require(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise InputError("the test extra is not installed", remedy="pip install -e '.[test]'")
