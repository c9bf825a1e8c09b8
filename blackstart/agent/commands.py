"""Guarded commands, and archives unpacked by hash."""

import glob
import hashlib
import os
import shutil
import tarfile
import zipfile
from typing import Dict, Tuple

from .files import PathKind
from .kind import Kind, Refused, Verdict
from .run import run
from .store import sync_folder
from .world import Unknown

SHOWN = 100


class Command(Kind):
    """A program that runs only while its guard says so.

    Guards, all of which may be given: `creates` (a path that is there afterwards), `line` ({path, line, before}: a
    line that a file holds afterwards, looked for up to the first line that begins with `before`). Without a guard it
    runs each time and counts as a change. `provides` names further paths that it makes.
    """

    def _guards_hold(self) -> bool:
        guards = []
        if self.spec.get("creates"):
            guards.append(self.world.exists(self.spec["creates"]))
        if self.spec.get("line"):
            guards.append(self._has_line(self.spec["line"]))
        return bool(guards) and all(guards)

    def _has_line(self, wanted: Dict[str, str]) -> bool:
        entry = self.world.entry(wanted["path"])
        if entry.kind == "unknown":
            raise Unknown(entry.after)
        content = self.world.read(wanted["path"]) or b""
        for line in content.decode("utf-8", "replace").splitlines():
            if wanted.get("before") and line.startswith(wanted["before"]):
                return False
            if line == wanted["line"]:
                return True
        return False

    def check(self) -> Verdict:
        if self._guards_hold():
            return Verdict(False)
        text = " ".join(self.spec["argv"])
        return Verdict(True, "$ " + (text if len(text) <= SHOWN else text[:SHOWN] + "…"))

    def apply(self) -> str:
        spec = self.spec
        self.context.store.journal(resource=self.name, command=spec["argv"][0])
        ran = run(
            spec["argv"],
            spec.get("env"),
            spec.get("cwd", "/"),
            spec.get("stdin", ""),
            spec.get("timeout"),
            self.context.say,
        )
        if ran.status != 0:
            raise Refused("%s ended with %d\n%s" % (spec["argv"][0], ran.status, ran.tail()), spec.get("remedy", ""))
        if (spec.get("creates") or spec.get("line")) and not self._guards_hold():
            raise Refused(
                "%s ended well, yet what it should bring about is not there" % spec["argv"][0],
                "its guard is wrong, or the program did something else",
            )
        return ran.output if spec.get("capture") else ""

    def predict(self) -> None:
        for path in [self.spec.get("creates"), *self.spec.get("provides", [])]:
            if path:
                self.world.would_provide(path, self.name)
        if self.spec.get("line"):
            # It may rewrite the file as it likes: what else stands in it is not known.
            self.world.would_provide(self.spec["line"]["path"], self.name)


class Undecided(Kind):
    """What cannot be decided before an earlier resource (`after`) was applied; by then it must have been replaced."""

    def check(self) -> Verdict:
        if self.context.applying:
            raise Refused(self.spec["problem"], self.spec.get("remedy", ""))
        raise Unknown(self.spec["after"])

    def predict(self) -> None:
        """Nothing is known."""


class Archive(PathKind):
    """A wheel, zip or tar on the machine, with one of these hashes, unpacked at `path`.

    `source` is a path or a pattern: a lock names one hash for each architecture, a wheelhouse holds the one that fits.

    It is unpacked beside and renamed, so `path` is whole or absent; a marker inside names the hash.
    """

    @property
    def _marker(self) -> str:
        return os.path.join(self.path, ".sha256")

    def check(self) -> Verdict:
        entry = self.current()
        if entry.kind not in ("absent", "directory"):
            raise Refused("%s is a %s, not a directory" % (self.path, entry.kind), "move it away")
        if (self.world.read(self._marker) or b"").decode("ascii", "replace") in self.spec["sha256"]:
            return Verdict(False)
        if entry.kind == "directory":
            raise Refused(
                "%s is there, but was not unpacked from this archive" % self.path,
                "move it away, then run again",
            )
        return Verdict(True, "+ %s from %s" % (self.path, os.path.basename(self.spec["source"])))

    def apply(self) -> None:
        partial = self.path + ".partial"
        source, found = self._source()
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(partial)
        try:
            _unpack(source, partial)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
            raise Refused("%s cannot be unpacked: %s" % (source, error), "fetch it again") from None
        with open(os.path.join(partial, ".sha256"), "w") as stream:
            stream.write(found)
        os.rename(partial, self.path)
        sync_folder(os.path.dirname(self.path))
        self.context.store.journal(resource=self.name, path=self.path, after=found)

    def _source(self) -> Tuple[str, str]:
        """The archive among those that match which has one of the hashes, and its hash. Raises Refused."""
        sources = sorted(glob.glob(self.spec["source"]))
        if not sources:
            raise Refused("%s is not on the machine" % self.spec["source"], self.spec.get("remedy", ""))
        found = ""
        for source in reversed(sources):
            found = _sha256_of(source)
            if found in self.spec["sha256"]:
                return source, found
        raise Refused("%s has sha256 %s, which the lock does not name" % (sources[0], found), "fetch it again")

    def predict(self) -> None:
        for path in [self.path, *self.spec.get("provides", [])]:
            self.world.would_provide(path, self.name)


def _unpack(source: str, into: str) -> None:
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                place = archive.extract(member, into)
                mode = (member.external_attr >> 16) & 0o777
                if mode and not member.is_dir():
                    os.chmod(place, mode)
    else:
        with tarfile.open(source) as tar:
            _extract_safely(tar, into)


def _extract_safely(tar: tarfile.TarFile, into: str) -> None:
    for member in tar.getmembers():
        place = os.path.normpath(os.path.join(into, member.name))
        leaves = os.path.isabs(member.name) or not (place + "/").startswith(into + "/")
        if leaves or member.isdev() or member.islnk() or member.issym():
            raise Refused("the archive holds %s, which leaves its folder or is no plain file" % member.name)
    tar.extractall(into)


def _sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
