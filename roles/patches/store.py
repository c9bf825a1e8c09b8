"""Committing a change to a folder: wholly stock or wholly patched, whenever the run is cut short.

<folder>/.blackstart-patches/ holds manifest.json, stock/<sha256>, and while a change is under way journal.json with the
new bytes under new/<sha256>. Everything a change needs is on disk before the first file of the package is touched, so
whoever comes next can finish it without templates.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blackstart.errors import ApplyError, CheckError, InputError

from . import manifest as manifests
from .changes import Change
from .manifest import Manifest
from .tree import STATE_FOLDER, sha256


@dataclass(frozen=True)
class _Step:
    path: str
    before: str
    after: str


class Store:
    """The folder's patch state, and the only writer of its package's files."""

    def __init__(self, folder: Path) -> None:
        self._root = Path(folder)
        self._home = self._root / STATE_FOLDER

    def manifest(self) -> Manifest:
        """What is recorded; an empty manifest where there is none. Raises InputError for a damaged one."""
        file = self._home / "manifest.json"
        content = _read(file)
        return Manifest() if content is None else manifests.parse(content, str(file))

    def stock(self, digest: str) -> bytes | None:
        """Raises InputError for a copy that may not be read."""
        return _read(self._home / "stock" / digest)

    def unfinished(self) -> str:
        """What a run that was cut short left behind, in words; "" where there is nothing."""
        journal = self._journal()
        if journal is None:
            return ""
        what, steps, _ = journal
        done = sum(1 for step in steps if self._digest(step.path) == step.after)
        return f"an interrupted {what} has written {done} of {len(steps)} files; the next apply or revert completes it"

    def leftovers(self) -> bool:
        """Whether a run that was cut short before or after its writing left something to tidy."""
        recorded = (self._home / "manifest.json").exists()
        return self._home.exists() and (not recorded or (self._home / "new").exists())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time; the kernel frees the lock of one that dies. Raises CheckError where one is at work."""
        handle = self._lock()
        try:
            yield
        finally:
            try:
                self._tidy()
            finally:
                os.close(handle)

    def _lock(self) -> int:
        file = self._home / "lock"
        while True:
            try:
                self._home.mkdir(exist_ok=True)
                handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise _unwritable(self._home, error) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                raise CheckError("another run is patching this folder", where=str(self._root)) from None
            if file.exists() and file.stat().st_ino == os.fstat(handle).st_ino:
                return handle
            # Whoever held it has just removed it with the folder: what is locked is no longer what others will lock.
            os.close(handle)

    def finish(self) -> str:
        """Complete what a run that was cut short began. Says what was found; "" where there was nothing to complete.

        Raises CheckError, and changes nothing more, where a file is neither as it was nor as it should become.
        """
        found = self.unfinished()
        journal = self._journal()
        if journal is None:
            return ""
        _, steps, manifest = journal
        self._check_targets(steps)
        for step in steps:
            try:
                self._write_file(step)
            except OSError as error:
                raise ApplyError(
                    "the file cannot be written; what was begun is kept",
                    where=str(self._root / step.path),
                    found=str(error.strerror),
                    remedy="see to that and run again: the next apply or revert completes it first",
                ) from None
        self._record(manifest)
        (self._home / "journal.json").unlink()
        return found.replace("; the next apply or revert completes it", "; completed")

    def commit(self, change: Change, what: str) -> None:
        """Make the change; `what` names it for whoever finds it unfinished. Raises any BlackstartError."""
        steps = [_Step(edit.path, sha256(edit.before), sha256(edit.after)) for edit in change.edits]
        self._check_targets(steps)
        for digest, content in change.stock.items():
            self._put(f"stock/{digest}", content)
        if not steps:
            self._record(change.manifest)
            return
        for edit, step in zip(change.edits, steps, strict=True):
            self._put(f"new/{step.after}", edit.after)
        journal = {"what": what, "files": [vars(step) for step in steps], "manifest": change.manifest.as_dict()}
        self._put("journal.json", (json.dumps(journal, indent=1) + "\n").encode())
        self.finish()

    def _record(self, manifest: Manifest) -> None:
        if manifest.patches:
            self._put("manifest.json", manifest.as_json())
        else:
            (self._home / "manifest.json").unlink(missing_ok=True)

    def _check_targets(self, steps: list[_Step]) -> None:
        for step in steps:
            file = self._root / step.path
            for parent in list(file.parents)[: len(Path(step.path).parents) - 1]:
                if parent.is_symlink():
                    raise InputError(
                        "the package is a link to another place, which others may use as well",
                        where=str(parent),
                        found=f"-> {parent.resolve()}",
                        remedy="give the folder that really holds the package",
                    )
            _refuse_if_kept_from(file)
            if self._digest(step.path) not in (step.before, step.after):
                raise CheckError(
                    "the file was changed by something else meanwhile; nothing more is written",
                    where=str(file),
                    remedy="reinstall the package, then apply again" if self._journal() else "run again",
                )

    def _write_file(self, step: _Step) -> None:
        file = self._root / step.path
        temporary = file.with_name(f".{file.name}.blackstart-new")
        if self._digest(step.path) != step.after:
            content = (self._home / "new" / step.after).read_bytes()
            if sha256(content) != step.after:
                raise CheckError("the new bytes were tampered with", where=f"{self._home}/new/{step.after}")
            _write(temporary, content, like=file)
            temporary.replace(file)
            _sync_folder(file.parent)
        temporary.unlink(missing_ok=True)
        clear_bytecode(file)

    def _digest(self, path: str) -> str:
        try:
            return sha256((self._root / path).read_bytes())
        except OSError:
            return "missing"

    def _journal(self) -> tuple[str, list[_Step], Manifest] | None:
        file = self._home / "journal.json"
        content = _read(file)
        if content is None:
            return None
        try:
            data: dict[str, Any] = json.loads(content)
            steps = [_Step(**step) for step in data["files"]]
            return str(data["what"]), steps, manifests.parse(json.dumps(data["manifest"]).encode(), str(file))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckError(
                "the journal of an interrupted run is damaged", where=str(file), found=str(error)
            ) from None

    def _put(self, name: str, content: bytes) -> None:
        """Old or new, never between."""
        file = self._home / name
        temporary = file.with_name(file.name + ".blackstart-new")
        try:
            file.parent.mkdir(exist_ok=True)
            _write(temporary, content)
            temporary.replace(file)
            _sync_folder(file.parent)
        except OSError as error:
            raise _unwritable(file, error) from None

    def _tidy(self) -> None:
        """Leave what the manifest refers to, and no folder at all where nothing is recorded or under way."""
        if (self._home / "journal.json").exists():
            return
        if not (self._home / "manifest.json").exists():
            shutil.rmtree(self._home)
            return
        kept = {record.before for record in self.manifest().files.values()}
        for blob in (self._home / "stock").glob("*"):
            if blob.name not in kept:
                blob.unlink()
        if (self._home / "new").exists():
            shutil.rmtree(self._home / "new")


def clear_bytecode(file: Path) -> None:
    """Remove the compiled forms of a module, of every Python and optimisation level: one may not check its source."""
    for stale in _bytecode(file):
        stale.unlink(missing_ok=True)


def _bytecode(file: Path) -> list[Path]:
    return [*(file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"), file.with_suffix(".pyc")]


def _refuse_if_kept_from(file: Path) -> None:
    """Raises ApplyError where the file, its owner or its stale bytecode would stop a change half-way."""
    for folder in dict.fromkeys([file.parent, *(stale.parent for stale in _bytecode(file) if stale.exists())]):
        if not os.access(folder, os.W_OK):
            raise ApplyError("the folder cannot be written", where=str(folder), remedy="run as its owner")
    if os.geteuid() == 0 or not file.exists():
        return
    old = file.stat()
    if old.st_uid != os.geteuid() or old.st_gid not in (os.getegid(), *os.getgroups()):
        raise ApplyError("the file's owner and group could not be kept", where=str(file), remedy="run as its owner")


def _read(file: Path) -> bytes | None:
    """A part of the patch state; None where there is none. Raises InputError where it is there and cannot be read."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            "the patch state cannot be read",
            where=str(file),
            found=str(error.strerror),
            remedy="run as the owner of the folder",
        ) from None


def _write(file: Path, content: bytes, like: Path | None = None) -> None:
    with file.open("wb") as handle:
        handle.write(content)
        if like is not None:
            old = like.stat()
            os.fchmod(handle.fileno(), stat.S_IMODE(old.st_mode))
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(handle.fileno(), old.st_uid, old.st_gid)
        handle.flush()
        os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(file: Path, error: OSError) -> ApplyError:
    return ApplyError(
        "the patch state cannot be written",
        where=str(file),
        found=str(error.strerror),
        remedy="run as the owner of the folder",
    )
