"""Running programs: one place that turns a failure into an error that a person can act on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.errors import SandboxError


def run(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, what: str = "") -> str:
    """Run a program to its end and return its standard output.

    Raises:
        SandboxError: it is absent or fails; the message carries the end of what it said.
    """
    command = [str(part) for part in argv]
    try:
        done = subprocess.run(
            command, env=_environment(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except FileNotFoundError as error:
        raise SandboxError(f"{what or command[0]}: there is no program {command[0]!r}", "install it") from error
    if done.returncode != 0:
        raise _failed(what or command[0], done.returncode, (done.stderr or done.stdout).splitlines())
    return done.stdout


def follow(
    argv: Sequence[str | Path], line: Callable[[str], None], *, env: Mapping[str, str] | None = None, what: str
) -> None:
    """Run a program and hand on each line that it says, while it says it.

    Raises:
        SandboxError: it fails; the message carries its last lines.
    """
    command = [str(part) for part in argv]
    said: list[str] = []
    with subprocess.Popen(
        command,
        env=_environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            said.append(text.rstrip())
            line(said[-1])
    if process.returncode != 0:
        raise _failed(what, process.returncode, said)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    base = dict(os.environ)
    # Programs of the system are looked for where root has them, whatever shell started this.
    base["PATH"] = f"{base.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
    base["LC_ALL"] = "C.UTF-8"
    return base | dict(extra or {})


def _failed(what: str, code: int, said: Sequence[str]) -> SandboxError:
    tail = "\n".join(f"  {text}" for text in said[-12:])
    return SandboxError(f"{what} failed (exit {code})\n{tail}", "see the lines above; then run it again")
