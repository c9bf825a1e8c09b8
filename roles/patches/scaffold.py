"""A patch of one's own: its folder, its words, its diff, and a test that holds it to them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from blackstart.errors import InputError
from blackstart.paths import ROOT
from blackstart.render import render
from blackstart.yamlfile import shown

from . import definition, unified
from .definition import PATCHES, DiffPatch

TESTS = ROOT / "tests" / "patches"


def make(name: str, diff: Path, title: str = "", patches: Path = PATCHES, tests: Path = TESTS) -> list[Path]:
    """The files made. Raises InputError for a name that is taken or no name, and for a diff that cannot be used."""
    folder = patches / name
    if not definition.is_name(name):
        raise InputError(f"{name!r} is no name for a patch", where="NAME", remedy="small letters, digits and hyphens")
    if folder.exists():
        raise InputError(f"there is a patch {name!r} already", where=shown(folder))
    test = tests / f"test_{name.replace('-', '_')}.py"
    if test.exists():
        raise InputError(f"there is a test of a patch {name!r} already", where=shown(test), remedy="move it away")
    if not diff.is_file():
        raise InputError("there is no such file", where="--diff", found=str(diff))
    beside = patches / f".{name}.new"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        shutil.copyfile(diff, beside / f"{name}.diff")
        words = title or f"{diff.name}, a unified diff"
        (beside / "patch.yml").write_text(render("patches/new.yml.j2", name=name, title=words))
        paths = _paths(beside, name, diff)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    test.parent.mkdir(parents=True, exist_ok=True)
    test.write_text(render("patches/new_test.py.j2", name=name, paths=paths))
    return [folder / f"{name}.diff", folder / "patch.yml", test]


def _paths(folder: Path, name: str, given: Path) -> list[str]:
    """The files that the diff changes; raises InputError, with the file that was given, for one that cannot be used."""
    patch = definition.load_folder(folder, name)
    assert isinstance(patch, DiffPatch)
    return [found.path for found in unified.chosen(replace(patch, diff=given))]
