"""docs/patches.md: what each patch does and cannot do, how to make one, and the table of the matrix."""

from __future__ import annotations

from collections.abc import Sequence

from blackstart import render

from .definition import Patch
from .matrix import Cell

TEMPLATE = "patches/page.md.j2"
MARKS = {
    "needed": "needed",
    "upstream": "upstream",
    "not-applicable": "-",
    "applied": "applied",
    "drifted": "**drifted**",
}


def page(patches: Sequence[Patch], cells: Sequence[Cell]) -> str:
    """The whole page, in Markdown."""
    names = [patch.name for patch in patches]
    rows = []
    for version in dict.fromkeys(cell.version for cell in cells):
        own = {cell.patch: cell for cell in cells if cell.version == version}
        rows.append({"version": version, "cells": [_shown(own[name]) for name in names]})
    return render.render(TEMPLATE, patches=patches, names=names, rows=rows)


def _shown(cell: Cell) -> str:
    if cell.state is None:
        return f"not tried: {cell.problem}"
    where = f" `{cell.file.removeprefix('sglang/srt/')}`" if cell.file and cell.state != "not-applicable" else ""
    return MARKS[cell.state] + where + (f" ({cell.problem})" if cell.problem else "")
