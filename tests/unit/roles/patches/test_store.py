"""Killed at every write: the tree is wholly stock or wholly patched, or the next run says what it found and completes it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blackstart.errors import ApplyError, CheckError, InputError
from roles.patches.apply import apply, revert
from roles.patches.definition import Patch
from roles.patches.status import status
from roles.patches.store import Store, clear_bytecode
from roles.patches.tree import STATE_FOLDER

from . import stock

WRITES = {
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "os.chown",
    "os.truncate",
    "shutil.rmtree",
}
KILLED = 137


def _killed_at(n: int, act: Callable[[], object]) -> bool:
    """Run act in a child that kills itself before its n-th change of the file system; whether it came that far."""
    child = os.fork()
    if child == 0:
        left = n

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            reading = event == "open" and not (
                isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if event in WRITES and not reading:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.addaudithook(hook)
            act()
            code = 0
        finally:
            os._exit(code)
    _, raw = os.waitpid(child, 0)
    if os.WIFSIGNALED(raw):
        return True
    assert os.WEXITSTATUS(raw) == 0, "the child failed"
    return False


@pytest.fixture
def patched(tmp_path: Path, gate: Patch, guard: Patch) -> dict[str, bytes]:
    folder = stock.install(tmp_path / "reference")
    apply(folder, [gate, guard])
    return _package(folder)


def _package(folder: Path) -> dict[str, bytes]:
    return {path: content for path, content in stock.contents(folder).items() if not path.startswith(STATE_FOLDER)}


def _states(folder: Path, patches: list[Patch]) -> set[str]:
    return {patch["state"] for patch in status(folder, patches)["patches"]}


def test_killed_at_every_write_of_an_apply(
    tmp_path: Path, gate: Patch, guard: Patch, patched: dict[str, bytes]
) -> None:
    patches, kills = [gate, guard], 0
    for n in range(1, 400):
        folder = stock.install(tmp_path / f"apply{n}")
        untouched = _package(folder)
        if not _killed_at(n, lambda where=folder: apply(where, patches)):  # type: ignore[misc]
            break
        kills += 1
        said, now = Store(folder).unfinished(), _package(folder)
        if now not in (untouched, patched):
            assert "interrupted apply" in said and " of 2 files" in said
        result = apply(folder, patches)
        assert bool(result.completed) == bool(said)
        assert {o.state for o in result.outcomes} == {"applied"} and _package(folder) == patched
        assert Store(folder).unfinished() == "" and not apply(folder, patches).change.edits
        revert(folder, [p.name for p in patches], patches)
        assert stock.contents(folder) == untouched
    assert kills >= 30


def test_killed_at_every_write_of_a_revert(
    tmp_path: Path, gate: Patch, guard: Patch, patched: dict[str, bytes]
) -> None:
    patches, names, kills = [gate, guard], [gate.name, guard.name], 0
    for n in range(1, 400):
        folder = stock.install(tmp_path / f"revert{n}")
        untouched = stock.contents(folder)
        apply(folder, patches)
        if not _killed_at(n, lambda where=folder: revert(where, names, patches)):  # type: ignore[misc]
            break
        kills += 1
        said, now = Store(folder).unfinished(), _package(folder)
        if now not in (untouched, patched):
            assert "interrupted revert" in said
        result = revert(folder, names, patches)
        assert bool(result.completed) == bool(said)
        assert stock.contents(folder) == untouched and _states(folder, patches) == {"needed"}
    assert kills >= 15


def test_an_interrupted_apply_is_completed_by_a_revert_too(tmp_path: Path, gate: Patch, guard: Patch) -> None:
    patches, names = [gate, guard], [gate.name, guard.name]
    for n in range(1, 60, 3):
        folder = stock.install(tmp_path / f"both{n}")
        untouched = stock.contents(folder)
        _killed_at(n, lambda where=folder: apply(where, patches))  # type: ignore[misc]
        revert(folder, names, patches)
        assert stock.contents(folder) == untouched


def test_a_torn_temporary_file_is_no_harm(source: Path, gate: Patch) -> None:
    before = stock.contents(source)
    file = source / stock.GATE_PATH
    file.with_name(f".{file.name}.blackstart-new").write_bytes(b"half a fi")
    apply(source, [gate])
    revert(source, [gate.name], [gate])
    assert stock.contents(source) == before


def _cut_short(source: Path, patches: list[Patch]) -> None:
    """Stop an apply between its first and its second file."""
    n = 1
    while True:
        _killed_at(n, lambda: apply(source, patches))
        if " 1 of 2 files" in Store(source).unfinished():
            return
        n += 1
        assert n < 200
        if not Store(source).unfinished() and Store(source).manifest().patches:
            revert(source, [p.name for p in patches], patches)


def test_a_file_that_something_else_changed_meanwhile_stops_the_completion(
    source: Path, gate: Patch, guard: Patch
) -> None:
    _cut_short(source, [gate, guard])
    for path in (stock.GATE_PATH, stock.GUARD_PATH):
        file = source / path
        if file.read_bytes() == stock.FILES[path]:
            file.write_bytes(file.read_bytes() + b"# mine\n")
            break
    before = stock.contents(source)
    with pytest.raises(CheckError, match="changed by something else"):
        apply(source, [gate, guard])
    assert stock.contents(source) == before


def test_a_check_does_not_complete_anything(source: Path, gate: Patch, guard: Patch) -> None:
    _cut_short(source, [gate, guard])
    before = stock.contents(source)
    with pytest.raises(CheckError, match="cut short"):
        apply(source, [gate, guard], check=True)
    assert "unfinished" in status(source, [gate, guard]) and stock.contents(source) == before


def test_tampered_new_bytes_are_not_written(source: Path, gate: Patch, guard: Patch) -> None:
    _cut_short(source, [gate, guard])
    for blob in (source / STATE_FOLDER / "new").iterdir():
        blob.write_bytes(b"evil = True\n")
    with pytest.raises(CheckError, match="tampered"):
        apply(source, [gate, guard])
    assert not any(b"evil" in content for content in _package(source).values())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"what": "apply", "files": [{"path": 1}], "manifest": {}}'])
def test_a_damaged_journal_is_said(source: Path, gate: Patch, content: bytes) -> None:
    (source / STATE_FOLDER).mkdir()
    (source / STATE_FOLDER / "journal.json").write_bytes(content)
    with pytest.raises((CheckError, InputError), match="damaged"):
        apply(source, [gate])


def test_two_at_once_are_refused(source: Path, gate: Patch) -> None:
    with Store(source).locked(), pytest.raises(CheckError, match="another run"):
        apply(source, [gate])
    assert not (source / STATE_FOLDER).exists()


def test_nothing_to_do_writes_nothing_at_all(source: Path, gate: Patch) -> None:
    apply(source, [gate])
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    apply(source, [gate])
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == before


def test_stale_bytecode_goes_and_other_bytecode_stays(source: Path, gate: Patch) -> None:
    file = source / stock.GATE_PATH
    cache = file.parent / "__pycache__"
    cache.mkdir()
    stale = [cache / f"{file.stem}.{tag}.pyc" for tag in ("cpython-312", "cpython-311.opt-1", "cpython-313.opt-2")]
    other = cache / f"{file.stem}_other.cpython-312.pyc"
    for each in (*stale, other, file.with_suffix(".pyc")):
        each.write_bytes(b"old")
    apply(source, [gate])
    assert [p.name for p in stale if p.exists()] == [] and other.exists() and not file.with_suffix(".pyc").exists()
    clear_bytecode(file)


def test_mode_is_kept_and_a_hard_link_is_broken(source: Path, tmp_path: Path, gate: Patch) -> None:
    """uv links installed files into its cache: what is patched must not change there."""
    file, cached = source / stock.GATE_PATH, tmp_path / "cached.py"
    file.chmod(0o640)
    os.link(file, cached)
    apply(source, [gate])
    assert file.stat().st_mode & 0o777 == 0o640
    assert cached.read_bytes() == stock.FILES[stock.GATE_PATH] != file.read_bytes()


def test_a_file_that_is_a_link_becomes_a_file(source: Path, tmp_path: Path, gate: Patch) -> None:
    file, cached = source / stock.GATE_PATH, tmp_path / "cached.py"
    file.rename(cached)
    file.symlink_to(cached)
    apply(source, [gate])
    assert cached.read_bytes() == stock.FILES[stock.GATE_PATH] and not file.is_symlink()


def test_a_tree_that_may_not_be_written(source: Path, gate: Patch) -> None:
    """As another user, since root may write anywhere."""
    for folder in (source, *source.rglob("*")):
        folder.chmod(0o555 if folder.is_dir() else 0o444)
    parents = [parent for parent in source.parents if parent.stat().st_uid == os.geteuid() and len(parent.parts) > 2]
    for parent in parents:
        parent.chmod(0o755)
    child = os.fork()
    if child == 0:
        code = 9
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            apply(source, [gate])
        except ApplyError as error:
            code = 0 if "cannot be written" in str(error) and "owner" in error.remedy else 8
        finally:
            os._exit(code)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0
