"""The one error that the sandbox shows to its user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SandboxError(Exception):
    """Something the sandbox cannot do here.

    `message` says what was being done and what was found; `remedy` says what to do next.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@contextmanager
def said() -> Iterator[None]:
    """What the machine refuses (a full disk, a read-only file system, …), in words and with its place."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise SandboxError(
            f"the machine refuses: {error.strerror or error}{where}", "mend that, then run it again"
        ) from error
