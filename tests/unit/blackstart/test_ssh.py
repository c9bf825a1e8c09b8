"""An SSH channel whose connection is gone already."""

from __future__ import annotations

from typing import Any

from blackstart.ssh import SSHChannel


class Gone:
    """A paramiko channel after the other end has vanished."""

    def settimeout(self, seconds: float) -> None: ...

    def shutdown_write(self) -> None:
        raise EOFError

    def close(self) -> None:
        raise EOFError


def test_closing_what_is_gone_already_is_an_end_and_no_fault() -> None:
    gone: Any = Gone()
    assert SSHChannel(gone, "box").close() == (-1, "")
    SSHChannel(gone, "box").hang_up()
