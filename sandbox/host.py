"""The stand-in host as a whole: bring it up, take it down, say how it stands."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox import cgroup, identity, images, link, modules, packages, share
from sandbox import preconditions as machine
from sandbox.errors import SandboxError, said
from sandbox.files import forget_disk, prepare
from sandbox.keeper import INSIDE
from sandbox.paths import ADDRESS, HOSTNAME, LOCK, Paths
from sandbox.reach import answers, on_host
from sandbox.standing import status as status  # part of what this module offers

Progress = Callable[[str, str], None]

_START_S = 30.0


@dataclass(frozen=True)
class Host:
    """How to reach the stand-in host."""

    address: str
    port: int
    user: str
    key: Path
    known_hosts: Path
    state: Path


def preconditions() -> list[str]:
    """The reasons why the sandbox cannot work on this machine; empty where it can."""
    return machine.reasons(Paths.default())


def up(progress: Progress) -> Host:
    """Create what is absent, mend what is broken, start, and wait until sshd answers.

    Args:
        progress: called with a stage ("apt", "guest image", "host image", "start") and a line of text.
    Raises:
        SandboxError: the machine cannot hold a sandbox (nothing was touched then), or a step failed.
    """
    paths = Paths.default()
    _refuse_where_impossible(paths)
    with said(), _alone(progress):
        if _running(paths) and answers(1.0):
            share.refresh(paths.share)
            return _host(paths)
        image = _built(paths, progress)
        progress("start", "starting the host")
        _halt(paths)
        prepare(paths, image, lambda text: progress("start", text))
        modules.remember(paths.modules)
        _start(paths, image)
        _wait_until_booted(paths, progress)
        return _host(paths)


def build(progress: Progress) -> Path:
    """Install and build what `up` needs, and start nothing. Returns the image's folder. Raises SandboxError."""
    paths = Paths.default()
    _refuse_where_impossible(paths)
    with said(), _alone(progress):
        return _built(paths, progress)


def _built(paths: Paths, progress: Progress) -> Path:
    missing = packages.absent()
    if missing:
        progress("apt", f"installing {', '.join(missing)}")
        packages.install(missing, lambda _: None)
    return images.build(paths, progress)


def down(progress: Progress, purge: bool = False, wipe: bool = False) -> None:
    """Stop everything; nothing of it stays on the real machine but files below the state root.

    The host's disk and guests are kept for the next `up`. `wipe` forgets them and keeps the image; `purge`
    forgets the whole state root, the image cache too.

    Raises:
        SandboxError: not root, or processes that cannot be ended.
    """
    paths = Paths.default()
    if os.geteuid() != 0:
        raise SandboxError("stopping the sandbox needs root", "run it as root")
    with said(), _alone(progress):
        foreign = link.foreign(paths)
        if foreign:
            raise SandboxError(
                f"the sandbox that runs here has its state in {foreign}, not in {paths.root}",
                f"set BLACKSTART_SANDBOX_DIR={foreign} to take that one down",
            )
        if _running(paths):
            progress("stop", "stopping the host")
        _halt(paths)
        if wipe or purge:
            forget_disk(paths)
        if purge and paths.root.exists():
            progress("stop", f"removing {paths.root}")
            _purge(paths)


def _refuse_where_impossible(paths: Paths) -> None:
    found = machine.reasons(paths)
    if found:
        raise SandboxError("the sandbox cannot work here: " + "; ".join(found), "mend that, or use a host of your own")


@contextmanager
def _alone(progress: Progress) -> Iterator[None]:
    """One `up` or `down` at a time on this machine; the kernel frees the lock when its holder dies."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("start", "waiting for another up or down to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _host(paths: Paths) -> Host:
    return Host(ADDRESS, 22, "root", paths.client_key, paths.known_hosts, paths.root)


def _running(paths: Paths) -> bool:
    return identity.load(paths.keeper) is not None


def _start(paths: Paths, image: Path) -> None:
    (paths.run / "lxc.log").unlink(missing_ok=True)
    with (
        paths.log.open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "sandbox.keeper", str(paths.root), str(image / "root")],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as maker,
    ):
        assert maker.stdin is not None and maker.stdout is not None
        said = maker.stdout.readline().strip()
        keeper = identity.Identity.of(int(said)) if said.isdigit() else None
        if keeper is None:
            raise _not_started(paths, "its namespaces could not be made")
        identity.save(keeper, paths.keeper)
        link.create(keeper.pid, paths)
        # Without this line (an error above, or the death of this process) the keeper ends by itself.
        with contextlib.suppress(BrokenPipeError):
            maker.stdin.write("go\n")
            maker.stdin.flush()
    until = time.monotonic() + _START_S
    while not answers(0.5):
        if not keeper.alive():
            raise _not_started(paths, "it ended at once")
        if time.monotonic() > until:
            raise _not_started(paths, f"sshd does not answer within {_START_S:.0f} s")
        time.sleep(0.02)


def _wait_until_booted(paths: Paths, progress: Progress) -> None:
    """Wait for the host's systemd, so that its guests are started too; a failed unit is told, not hidden."""
    found = on_host(paths, ["systemctl", "is-system-running", "--wait"])
    progress("start", f"{HOSTNAME} answers at {ADDRESS}; its systemd says {found or 'nothing'}")
    if found != "running":
        for line in on_host(paths, ["systemctl", "--failed", "--no-legend", "--plain"]).splitlines():
            progress("start", f"not started: {line}")


def _not_started(paths: Paths, why: str) -> SandboxError:
    said = [
        line
        for log in (paths.log, paths.run / "lxc.log")
        if log.exists()
        for line in log.read_text(errors="replace").splitlines()
    ]
    tail = "\n".join(f"  {line}" for line in said[-10:])
    _halt(paths)
    return SandboxError(f"the stand-in host did not start: {why}\n{tail}", f"the whole logs are in {paths.run}")


def _halt(paths: Paths) -> None:
    """End every process of the sandbox, and with them its namespaces, mounts and links."""
    keeper = identity.load(paths.keeper)
    if keeper is not None:
        _ask_to_stop(keeper)
    cgroup.remove(paths)
    link.remove()
    paths.keeper.unlink(missing_ok=True)
    modules.restore(paths.modules)


def _ask_to_stop(keeper: identity.Identity) -> None:
    """Let the host's systemd end its services; what has not ended in time is killed afterwards."""
    argv = ["nsenter", "--target", str(keeper.pid), "--all", "lxc-stop", "--lxcpath", f"{INSIDE}/lxc"]
    asked = subprocess.run(
        [*argv, "--name", HOSTNAME, "--nokill", "--timeout", "10"], capture_output=True, stdin=subprocess.DEVNULL
    )
    until = time.monotonic() + (2.0 if asked.returncode == 0 else 0.0)
    while keeper.alive() and time.monotonic() < until:
        time.sleep(0.02)


def _purge(paths: Paths) -> None:
    """Remove what the sandbox made, by name: a state root that also holds something else keeps that."""
    for path in paths.own():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if not any(paths.root.iterdir()):
        paths.root.rmdir()
