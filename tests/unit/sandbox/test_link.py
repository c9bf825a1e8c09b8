"""The link is removed by us or by the kernel, whoever is first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sandbox import link
from sandbox.errors import SandboxError
from sandbox.paths import MACHINE_LINK


def test_a_link_that_the_kernel_removes_first_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    links = [(1, "lo"), (2, MACHINE_LINK)]
    monkeypatch.setattr(link.socket, "if_nameindex", lambda: links)

    def too_late(argv: Sequence[str], *, what: str) -> str:
        links.pop()
        raise SandboxError("Cannot find device", "")

    monkeypatch.setattr(link, "run", too_late)
    link.remove()
    assert links == [(1, "lo")]


def test_a_link_that_stays_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link.socket, "if_nameindex", lambda: [(2, MACHINE_LINK)])

    def refused(argv: Sequence[str], *, what: str) -> str:
        raise SandboxError("Operation not permitted", "")

    monkeypatch.setattr(link, "run", refused)
    with pytest.raises(SandboxError, match="not permitted"):
        link.remove(patience_s=0)
