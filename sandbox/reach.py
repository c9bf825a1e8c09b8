"""Reaching the stand-in host from the real machine."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence

from sandbox.paths import ADDRESS, Paths


def answers(timeout_s: float) -> bool:
    """Whether an SSH server greets at the host's address."""
    try:
        with socket.create_connection((ADDRESS, 22), timeout=timeout_s) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def on_host(paths: Paths, command: Sequence[str]) -> str:
    """What a command on the host says on its standard output, whatever its exit code; empty if unreachable."""
    ssh = ["ssh", "-i", str(paths.client_key), "-o", f"UserKnownHostsFile={paths.known_hosts}"]
    ssh += ["-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=10"]
    argv = [*ssh, f"root@{ADDRESS}", *command]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout.strip()
