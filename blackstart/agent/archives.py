"""Archives unpacked by hash."""

import glob
import hashlib
import os
import shutil
import tarfile
import zipfile
from typing import Tuple

from .files import PathKind
from .kind import Refused, Verdict
from .places import held, real_place
from .store import sync_folder


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
        self.require_safe()
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
        source, found = self._source()
        real = real_place(self.world, self.path.rstrip("/"))
        with held(os.path.dirname(real), make=True) as folder:
            name = os.path.basename(real)
            partial = folder.path(name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            os.mkdir(partial)
            with folder.inner(name + ".partial") as unpacked:
                self._unpack(source, unpacked.path())
                with open(unpacked.path(".sha256"), "w") as stream:
                    stream.write(found)
            os.rename(partial, folder.path(name))
            sync_folder(folder.path())
        self.context.store.journal(resource=self.name, path=self.path, after=found)

    def _unpack(self, source: str, into: str) -> None:
        try:
            _unpack(source, into)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
            raise Refused("%s cannot be unpacked: %s" % (source, error), "fetch it again") from None

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
