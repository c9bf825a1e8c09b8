"""Killed at every write, the tree is wholly stock or wholly patched, or the next run says so and completes it."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blackstart.errors import ApplyError, CheckError, InputError
from roles.patches import store
from roles.patches.apply import apply, revert
from roles.patches.changes import Change
from roles.patches.definition import Patch
from roles.patches.manifest import FileRecord, Manifest, PatchRecord
from roles.patches.outcome import Edit
from roles.patches.status import status
from roles.patches.store import Store, clear_bytecode
from roles.patches.tree import STATE_FOLDER, sha256

from . import stock

WRITES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "shutil.rmtree"}


def _killed_at(n: int, act: Callable[[], object]) -> bool:
    """Run act in a child that kills itself before its n-th change of the file system; whether it came that far."""
    child = os.fork()
    if child == 0:
        left = n

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            flags = arguments[2] if event == "open" else os.O_WRONLY
            if event in WRITES and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
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


def _package(folder: Path) -> dict[str, bytes]:
    return {path: content for path, content in stock.contents(folder).items() if not path.startswith(STATE_FOLDER)}


def _tree(folder: Path, files: int) -> dict[str, bytes]:
    for n in range(files):
        (folder / "sglang").mkdir(parents=True, exist_ok=True)
        (folder / "sglang" / f"f{n}.py").write_bytes(f"stock = {n}\n".encode())
    return stock.contents(folder)


def _patching(before: dict[str, bytes]) -> Change:
    edits = tuple(Edit(path, content, content + b"patched = True\n") for path, content in before.items())
    files = {edit.path: FileRecord(sha256(edit.before), sha256(edit.after)) for edit in edits}
    record = PatchRecord("sglang", "0.5.9", "0" * 64, "2026-01-01T00:00:00Z", tuple(files))
    return Change(edits, {sha256(edit.before): edit.before for edit in edits}, Manifest({"one": record}, files))


def _undoing(change: Change) -> Change:
    return Change(tuple(Edit(edit.path, edit.after, edit.before) for edit in change.edits))


def _commit(folder: Path, change: Change, what: str) -> str:
    """As a run does: finish what was begun, then do one's own unless it is done."""
    store = Store(folder)
    with store.locked():
        completed = store.finish()
        if change.manifest != store.manifest():
            store.commit(change, what)
    return completed


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it has written: waiting for the disk would only take time here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.parametrize(
    ("trees", "at_least"), [((2,), 40), pytest.param((1, 2, 3, 5), 200, marks=pytest.mark.soak)], ids=["some", "all"]
)
def test_killed_at_every_write(tmp_path: Path, trees: tuple[int, ...], at_least: int) -> None:
    """`trees`: how many files each tree has."""
    kills = 0
    for files in trees:
        for what in ("apply", "revert"):
            for n in range(1, 500):
                folder = tmp_path / f"{what}{files}-{n}"
                before = _tree(folder, files)
                forth = _patching(before)
                back = _undoing(forth)
                change = forth
                if what == "revert":
                    _commit(folder, forth, "apply")
                    change = back
                if not _killed_at(n, lambda f=folder, c=change, w=what: _commit(f, c, w)):  # type: ignore[misc]
                    break
                kills += 1
                _check_after_kill(folder, before, change, back, what)
    assert kills >= at_least


def _check_after_kill(folder: Path, before: dict[str, bytes], change: Change, back: Change, what: str) -> None:
    patched = {path: content + b"patched = True\n" for path, content in before.items()}
    now, said = {p: c for p, c in _package(folder).items() if not p.endswith("-new")}, Store(folder).unfinished()
    if now not in (before, patched):
        assert f"interrupted {what}" in said and f"of {len(before)} files" in said
    assert bool(_commit(folder, change, what)) == bool(said)
    assert _package(folder) == (patched if what == "apply" else before)
    assert Store(folder).unfinished() == "" and Store(folder).manifest() == change.manifest
    _commit(folder, back, "revert")
    with Store(folder).locked():
        pass
    assert stock.contents(folder) == before


@pytest.mark.soak
def test_killed_at_every_write_of_a_whole_apply_and_revert(tmp_path: Path, gate: Patch, guard: Patch) -> None:
    patches, names = [gate, guard], [gate.name, guard.name]
    kills = 0
    for what in ("apply", "revert"):
        for n in range(1, 400):
            folder = stock.install(tmp_path / f"{what}{n}")
            untouched = stock.contents(folder)
            act = lambda where=folder: apply(where, patches)  # noqa: E731
            if what == "revert":
                apply(folder, patches)
                act = lambda where=folder: revert(where, names, patches)  # noqa: E731
            if not _killed_at(n, act):
                break
            kills += 1
            said = Store(folder).unfinished()
            result = apply(folder, patches) if what == "apply" else revert(folder, names, patches)
            assert bool(result.completed) == bool(said)
            assert {o.state for o in result.outcomes} == {"applied" if what == "apply" else "needed"}
            assert not apply(folder, patches).change.edits or what == "revert"
            revert(folder, names, patches)
            assert stock.contents(folder) == untouched
    assert kills >= 50


def test_a_torn_temporary_file_is_no_harm(source: Path, gate: Patch) -> None:
    before = stock.contents(source)
    file = source / stock.GATE_PATH
    file.with_name(f".{file.name}.blackstart-new").write_bytes(b"half a fi")
    apply(source, [gate])
    revert(source, [gate.name], [gate])
    assert stock.contents(source) == before


def _cut_short(source: Path, patches: list[Patch]) -> None:
    """Stop an apply between its first and its second file."""
    change = apply(source, patches, check=True).change
    for n in range(1, 200):
        _killed_at(n, lambda: _commit(source, change, "apply"))
        if " 1 of 2 files" in Store(source).unfinished():
            return
        with Store(source).locked():
            Store(source).finish()
        revert(source, [p.name for p in patches], patches)
    raise AssertionError("it was never stopped between the two")


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


@pytest.mark.parametrize("name", ["manifest.json", "journal.json"])
def test_state_that_cannot_be_read_is_said(source: Path, gate: Patch, name: str) -> None:
    (source / STATE_FOLDER / name).mkdir(parents=True)
    for act in (
        lambda: apply(source, [gate]),
        lambda: revert(source, [gate.name], [gate]),
        lambda: status(source, [gate]),
    ):
        with pytest.raises(InputError, match="cannot be read"):
            act()


def test_what_would_stop_a_change_half_way_is_seen_before(
    source: Path, gate: Patch, guard: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stock.contents(source)
    cache = (source / stock.GATE_PATH).parent / "__pycache__"
    with monkeypatch.context() as patching:
        patching.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(ApplyError, match="owner"):
            apply(source, [gate, guard])
    cache.mkdir()
    (cache / f"{Path(stock.GATE_PATH).stem}.cpython-311.pyc").touch()
    with monkeypatch.context() as patching:
        patching.setattr(os, "access", lambda path, mode: path != cache)
        with pytest.raises(ApplyError, match="__pycache__"):
            apply(source, [gate, guard])
    after = stock.contents(source)
    assert {path: content for path, content in after.items() if "__pycache__" not in path} == before


def test_a_disk_that_is_full_half_way_is_said_and_completed_later(
    source: Path, gate: Patch, guard: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patching:
        patching.setattr(store, "_sync_folder", _full_once_a_file_is_written(source))
        with pytest.raises(ApplyError, match="No space left") as raised:
            apply(source, [gate, guard])
    assert "completes" in raised.value.remedy and "1 of 2 files" in status(source, [gate, guard])["unfinished"]
    assert [outcome.state for outcome in apply(source, [gate, guard]).outcomes] == ["applied", "applied"]


def _full_once_a_file_is_written(source: Path) -> Callable[[Path], None]:
    def sync(folder: Path) -> None:
        if STATE_FOLDER not in folder.relative_to(source).parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return sync


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
    """Reported by users: a patched file beside bytecode of the old one."""
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


def respect_modes() -> None:
    """Give up CAP_DAC_OVERRIDE: to another user the project itself might be out of reach, in root's home."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    sets[0] &= ~(1 << 1)  # of the effective ones
    assert libc.capset(header, sets) == 0


def test_a_tree_that_may_not_be_written(source: Path, gate: Patch) -> None:
    """Without root's power to write anywhere."""
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
                respect_modes()
            apply(source, [gate])
        except ApplyError as error:
            code = 0 if "cannot be written" in str(error) and "owner" in error.remedy else 8
        finally:
            os._exit(code)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0
