"""Running programs on the machine, with their output passed on line by line."""

import contextlib
import os
import subprocess
import threading
from typing import IO, Callable, Dict, List, NamedTuple, Optional

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEPT_OUTPUT = 256 * 1024


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
    """Run to the end. A program that is not there ends with 127, one that ran past `timeout` seconds with 124."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict({"PATH": PATH, "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8"}, **(env or {})),
            start_new_session=True,
        )
    except OSError as error:
        return Ran(127, "%s: %s" % (argv[0], error.strerror))
    assert process.stdout is not None
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)

    timer = threading.Timer(timeout, expire) if timeout else None
    if timer:
        timer.start()
    if process.stdin is not None:
        # Beside the reading: a program that talks before it has read all would otherwise wait for us and we for it.
        threading.Thread(target=_feed, args=(process.stdin, stdin.encode()), daemon=True).start()
    kept = bytearray()
    try:
        with process.stdout:
            for line in process.stdout:
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


def _feed(pipe: IO[bytes], data: bytes) -> None:
    """A program that does not want its input says with its exit status whether that was an error."""
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(data)
