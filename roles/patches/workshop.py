"""inv patch.matrix and patch.new: for whoever makes patches; no machine is asked."""

from __future__ import annotations

from pathlib import Path

from blackstart.front import Door, Result, require, task


@task(help={"document": "write the table to docs/patches.md"})
def matrix(door: Door, document: bool = False) -> Result:
    """Try every patch on every SGLang release from 0.5.4 on: state, apply, again, revert, apply."""
    from blackstart.paths import ROOT
    from roles.patches import definition, releases
    from roles.patches import document as page
    from roles.patches import matrix as trying

    patches = definition.load_all()
    with door.console.progress():
        door.console.stage("matrix", "releases from the registry, about 360 MB the first time")
        cells = trying.run(releases.fetch(releases.available(), patches), patches)
        door.console.rests("matrix")
    for cell in cells:
        state = door.console.paint((cell.state or "not tried").ljust(14), "failed" if cell.problem else "")
        door.console.line(f"{cell.version:<14} {cell.patch:<18} {state} {cell.file}  {cell.problem}".rstrip())
    if document:
        (ROOT / "docs" / "patches.md").write_text(page.page(patches, cells))
    return Result({"cells": [vars(cell) for cell in cells]}, int(any(cell.problem for cell in cells)))


@task(
    positional=["name"],
    help={
        "name": "small letters, digits and hyphens",
        "diff": "a unified diff to start from",
        "title": "in a few words",
    },
)
def new(door: Door, name: str, diff: str = "", title: str = "") -> Result:
    """Make a patch of your own from a unified diff, with a test."""
    from roles.patches import scaffold

    made = scaffold.make(name, Path(require(diff, "the diff", "give it with --diff")), title)
    for path in made:
        door.console.line(f"made {path}")
    return Result({"made": [str(path) for path in made]})
