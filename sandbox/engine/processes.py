"""The server's child processes: real ones, with the real titles, that do nothing but live and die with it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import setproctitle

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Child:
    pid: int
    title: str


def start(titles: Sequence[str]) -> list[Child]:
    """Fork one child a title. Call it before any thread or event loop exists."""
    return [_start(title) for title in titles]


def _start(title: str) -> Child:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(title, parent)
    return Child(pid, title)


def _live(title: str, parent: int) -> NoReturn:
    """Wait to be killed: by a signal of someone's, or by the kernel when the server is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    setproctitle.setproctitle(title)
    while os.getppid() == parent:
        signal.pause()
    os._exit(1)


def kill(children: Sequence[Child]) -> None:
    """Kill and reap what is left of them."""
    for child in children:
        try:
            os.kill(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for child in children:
        try:
            os.waitpid(child.pid, 0)
        except ChildProcessError:
            continue


def exit_code(pid: int) -> int:
    """Reap a child that has ended; -N where signal N ended it, as Python's multiprocessing counts."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(status)


def kill_tree(children: Sequence[Child]) -> NoReturn:
    """End as the real server does when it ends itself: children first, then SIGKILL for this process."""
    for child in children:
        try:
            os.kill(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.kill(os.getpid(), signal.SIGKILL)
    while True:
        signal.pause()
