"""The copy of this package that the host and its guests see, at /srv/blackstart-sandbox."""

from __future__ import annotations

import os
import py_compile
import shutil
from pathlib import Path

_SOURCE = Path(__file__).parent
_CACHE = "__pycache__"


def refresh(share: Path, source: Path = _SOURCE) -> None:
    """Make share/NAME equal to the package, file by file, so that a running host sees the change too.

    The copies are compiled here: where they are used they cannot be written to.
    """
    target = share / source.name
    target.mkdir(parents=True, exist_ok=True)
    wanted = {path.relative_to(source) for path in source.rglob("*") if _CACHE not in path.parts}
    for relative in sorted(wanted):
        original, copy = source / relative, target / relative
        if original.is_dir():
            copy.mkdir(exist_ok=True)
            copy.chmod(0o755)
        elif _differs(original, copy):
            _replace(original, copy)
    for copy in sorted(target.rglob("*"), reverse=True):
        if not _belongs(copy.relative_to(target), wanted):
            _remove(copy)


def _replace(original: Path, copy: Path) -> None:
    """Readable for all, for a guest's root is somebody else here."""
    beside = copy.with_name(f".{copy.name}.{os.getpid()}")
    shutil.copy2(original, beside)
    beside.chmod(0o755 if original.stat().st_mode & 0o100 else 0o644)
    beside.replace(copy)
    if copy.suffix == ".py":
        py_compile.compile(str(copy))


def _differs(original: Path, copy: Path) -> bool:
    try:
        there = copy.stat()
    except FileNotFoundError:
        return True
    here = original.stat()
    executable = (here.st_mode & 0o100, there.st_mode & 0o100)
    return (here.st_size, here.st_mtime_ns) != (there.st_size, there.st_mtime_ns) or executable[0] != executable[1]


def _belongs(relative: Path, wanted: set[Path]) -> bool:
    if _CACHE not in relative.parts:
        return relative in wanted
    if relative.name == _CACHE:
        return relative.parent in wanted or relative.parent == Path()
    # __pycache__/NAME.cpython-311.pyc stands for NAME.py beside the folder.
    return relative.parent.parent / f"{relative.name.partition('.')[0]}.py" in wanted


def _remove(copy: Path) -> None:
    if copy.is_dir():
        shutil.rmtree(copy)
    else:
        copy.unlink(missing_ok=True)
