"""Running programs on the machine, with their output passed on line by line."""

import contextlib
import os
import select
import subprocess
import threading
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEPT_OUTPUT = 256 * 1024
POLL_S = 0.2


class Ran(NamedTuple):
    """A program's end: exit status and the last 256 KiB of stdout and stderr together, as text."""

    status: int
    output: str

    def tail(self, lines: int = 8) -> str:
        return "\n".join(self.output.rstrip().splitlines()[-lines:])


def run(
    argv: List[str],
    env: Optional[Dict[str, str]] = None,
    cwd: str = "/",
    stdin: str = "",
    timeout: Optional[float] = None,
    on_line: Optional[Callable[[str], None]] = None,
) -> Ran:
    """Run to the program's own end, whatever it leaves running.

    A program that is not there ends with 127, one that ran past `timeout` seconds with 124.
    """
    whole = _whole(stdin) if stdin else subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv,
            stdin=whole,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict({"PATH": PATH, "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8"}, **(env or {})),
            start_new_session=True,
        )
    except OSError as error:
        return Ran(127, "%s: %s" % (argv[0], error.strerror))
    finally:
        if stdin:
            os.close(whole)
    assert process.stdout is not None
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)

    timer = threading.Timer(timeout, expire) if timeout else None
    if timer:
        timer.start()
    kept = bytearray()
    try:
        with process.stdout:
            for line in _lines(process, process.stdout.fileno()):
                kept += line
                if len(kept) > 2 * KEPT_OUTPUT:
                    del kept[:-KEPT_OUTPUT]
                if on_line:
                    on_line(line.decode("utf-8", "replace").rstrip("\n"))
        status = process.wait()
    finally:
        if timer:
            timer.cancel()
    text = kept[-KEPT_OUTPUT:].decode("utf-8", "replace")
    if expired.is_set():
        return Ran(124, text + "\nstopped after %g s" % (timeout or 0))
    return Ran(128 - status if status < 0 else status, text)


def _lines(process: "subprocess.Popen[bytes]", handle: int) -> Iterator[bytes]:
    """What a program says until it has ended; what it left running may hold the pipe for ever."""
    rest = b""
    while True:
        if not select.select([handle], [], [], POLL_S)[0]:
            if process.poll() is not None:
                break
            continue
        part = os.read(handle, 65536)
        if not part:
            break
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _whole(text: str) -> int:
    """A program's input as a file in memory. From a pipe it would take what had come for all there is, if we died."""
    handle = os.memfd_create("stdin")
    with os.fdopen(handle, "wb", closefd=False) as stream:
        stream.write(text.encode())
    os.lseek(handle, 0, os.SEEK_SET)
    return handle
