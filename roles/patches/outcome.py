"""What deciding comes to: a patch's state on a tree, and the edits that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .definition import Patch

State = Literal["needed", "applied", "upstream", "not-applicable", "drifted"]


@dataclass(frozen=True)
class Edit:
    """One file, before and after."""

    path: str
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Outcome:
    """A patch's state on one tree. `file` is the path it is about, "" where there is none; `detail` is for people.

    `by` says who applied it: "manifest", "hand", or "" where it is not applied.
    """

    patch: Patch
    state: State
    detail: str
    file: str = ""
    edits: tuple[Edit, ...] = ()
    by: str = ""

    def as_dict(self) -> dict[str, str]:
        return {"name": self.patch.name, "state": self.state, "file": self.file, "detail": self.detail}
