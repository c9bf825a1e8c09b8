"""A sandbox for tests, beside the one that a person may be using: its own state root, its own network namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import cgroup, host, identity
from sandbox.paths import ADDRESS, Paths

PROJECT = Path(__file__).parents[2]
TEMPLATE = "local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst"

_CALL = """
import json, sys
from sandbox import host
from sandbox.errors import SandboxError
say = lambda stage, text: print(f"{stage}: {text}", file=sys.stderr, flush=True)
try:
    if sys.argv[1] == "up":
        host.up(say)
    elif sys.argv[1] == "down":
        host.down(say, purge="purge" in sys.argv, wipe="wipe" in sys.argv)
    print(json.dumps(host.status()))
except SandboxError as error:
    print(error.message, error.remedy, sep="\\n", file=sys.stderr)
    sys.exit(3)
"""


@dataclass(frozen=True)
class Lab:
    """Runs things where the sandbox's link is: in a network namespace held by a sleeping process."""

    paths: Paths
    holder: int

    def run(self, *argv: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        command = ["nsenter", "--target", str(self.holder), "--net", "--", *(str(part) for part in argv)]
        options: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "timeout": 120} | more
        return subprocess.run(command, **options)

    def call(self, what: str, *flags: str, root: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`up`, `down` or `status`, by a process of its own; exit code 3 for a SandboxError."""
        environment = dict(os.environ) | {"BLACKSTART_SANDBOX_DIR": str(root or self.paths.root)}
        return self.run(sys.executable, "-c", _CALL, what, *flags, env=environment, cwd=PROJECT)

    def up(self) -> subprocess.CompletedProcess[str]:
        done = self.call("up")
        assert done.returncode == 0, done.stderr
        return done

    def ssh(self, command: str, **more: Any) -> subprocess.CompletedProcess[Any]:
        return self.run(*self.ssh_command(), f"root@{ADDRESS}", command, **more)

    def ssh_command(self) -> list[str]:
        files = ["-i", str(self.paths.client_key), "-o", f"UserKnownHostsFile={self.paths.known_hosts}"]
        return ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", *files]

    def ok(self, command: str) -> str:
        """What a command on the host prints, once it has ended well."""
        done = self.ssh(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return str(done.stdout)

    def keeper(self) -> identity.Identity | None:
        return identity.load(self.paths.keeper)

    def group(self) -> Path:
        group = cgroup.ours(self.paths)
        assert group is not None
        return group


def eventually(condition: Callable[[], bool], what: str, deadline_s: float = 20.0) -> None:
    until = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, f"not within {deadline_s:.0f} s: {what}"
        time.sleep(0.05)


@contextmanager
def lab() -> Iterator[Lab]:
    image = host.build(lambda *_: None)
    root = Path(tempfile.mkdtemp(prefix="blackstart-lab-", dir="/var/tmp"))
    # Linked, not copied: an image is never written to.
    (root / "images").mkdir()
    subprocess.run(["cp", "--archive", "--link", str(image), str(root / "images")], check=True)
    script = "ip link set lo up && echo ready && exec sleep infinity"
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
    made = Lab(Paths(root), holder.pid)
    try:
        yield made
    finally:
        done = made.call("down", "purge")
        holder.kill()
        holder.wait()
        holder.stdout.close()
        assert done.returncode == 0, done.stderr
        shutil.rmtree(root, ignore_errors=True)
