"""The configuration files of all containers: find, lock, read and write them."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.pct import conf
from sandbox.pct.failure import DIED, NO_ENTRY, PctError

NODE = "pve1"
FOLDER = Path("/etc/pve/lxc")
_LOCKS = Path("/run/lock/lxc")


def warn(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def path(vmid: int) -> Path:
    return FOLDER / f"{vmid}.conf"


def ids() -> list[int]:
    return sorted(int(file.stem) for file in FOLDER.glob("*.conf") if file.stem.isdigit())


def load(vmid: int, code: int = NO_ENTRY) -> conf.Conf:
    """Raises PctError, with this exit code, where there is no such container."""
    try:
        text = path(vmid).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise PctError(f"Configuration file 'nodes/{NODE}/lxc/{vmid}.conf' does not exist", code) from error
    return conf.parse(text, vmid, warn)


def save(vmid: int, config: conf.Conf) -> None:
    """Old or new, never between."""
    beside = FOLDER / f"{vmid}.conf.tmp.{os.getpid()}"
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(config.text())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path(vmid))
    finally:
        beside.unlink(missing_ok=True)


def reserve(vmid: int) -> None:
    """Take the id with a configuration that says `lock: create`, so that a killed create is seen as one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with path(vmid).open("x", encoding="utf-8") as file:
            file.write("lock: create\n")
    except FileExistsError as error:
        raise PctError(f"CT {vmid} already exists on node '{NODE}'", NO_ENTRY) from error


def remove(vmid: int) -> None:
    path(vmid).unlink(missing_ok=True)


def refuse_locked(config: conf.Conf) -> None:
    name = config.current.options.get("lock")
    if name:
        raise PctError(f"CT is locked ({name})", DIED)


@contextmanager
def alone(vmid: int, patience_s: float = 10.0) -> Iterator[None]:
    """Hold the container's lock file. Raises PctError where another command does not let go of it in time."""
    _LOCKS.mkdir(parents=True, exist_ok=True)
    name = _LOCKS / f"pve-config-{vmid}.lock"
    until = time.monotonic() + patience_s
    with name.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise PctError(f"can't lock file '{name}' - got timeout") from error
                time.sleep(0.05)
        yield
