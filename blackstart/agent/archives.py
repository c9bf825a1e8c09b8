"""Archives unpacked by hash."""

import contextlib
import glob
import hashlib
import os
import shutil
import tarfile
import zipfile
from typing import IO, Iterator, Tuple

from .atomic import sync_folder
from .kind import Refused, Verdict
from .paths import PathKind
from .places import Folder, disinherit, held, real_place

MODES = 0o755
"""What may be left of a member's mode: nobody but root writes, and nothing runs as somebody else."""


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
        with self._source() as (source, copy, found):
            real = real_place(self.world, self.path)
            with held(os.path.dirname(real), make=True) as folder:
                name = os.path.basename(real)
                partial = name + ".partial"
                shutil.rmtree(folder.path(partial), ignore_errors=True)
                os.mkdir(partial, 0o700, dir_fd=folder.handle)
                with folder.inner(partial) as unpacked:
                    self._require_new(unpacked)
                    disinherit(unpacked.handle)
                    self._unpack(source, copy, unpacked.path())
                    with open(unpacked.path(".sha256"), "w") as stream:
                        stream.write(found)
                    os.chmod(unpacked.path(), 0o755)
                self.context.store.journal(resource=self.name, path=self.path, after=found)
                os.rename(partial, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
                sync_folder(folder.path())

    def _require_new(self, folder: Folder) -> None:
        """Nobody but us can put anything into the folder, nor has: it is the one that was made a moment ago."""
        found = os.fstat(folder.handle)
        ours = found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if not ours or os.listdir(folder.path()):
            raise Refused(
                "what was made to unpack %s in was replaced meanwhile" % self.path, "find out what else writes there"
            )

    def _unpack(self, source: str, copy: "IO[bytes]", into: str) -> None:
        try:
            _unpack(copy, into)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
            raise Refused("%s cannot be unpacked: %s" % (source, error), "fetch it again") from None

    @contextlib.contextmanager
    def _source(self) -> "Iterator[Tuple[str, IO[bytes], str]]":
        """The archive among those that match which has one of the hashes, a copy of ours, and the hash. Raises Refused.

        What has the hash is what is unpacked, though others may write where it lies.
        """
        import tempfile  # here, because a run without changes unpacks nothing

        sources = sorted(glob.glob(self.spec["source"]))
        if not sources:
            raise Refused("%s is not on the machine" % self.spec["source"], self.spec.get("remedy", ""))
        found = ""
        for source in reversed(sources):
            with tempfile.TemporaryFile(dir=self.context.store.path()) as copy:
                found = _copy(source, copy)
                if found in self.spec["sha256"]:
                    yield source, copy, found
                    return
        raise Refused("%s has sha256 %s, which the lock does not name" % (sources[0], found), "fetch it again")

    def predict(self) -> None:
        for path in [self.path, *self.spec.get("provides", [])]:
            self.world.would_provide(path, self.name)


def _unpack(source: "IO[bytes]", into: str) -> None:
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                place = archive.extract(member, into)
                mode = (member.external_attr >> 16) & MODES
                if mode and not member.is_dir():
                    os.chmod(place, mode)
    else:
        source.seek(0)
        with tarfile.open(fileobj=source) as tar:
            tar.extractall(into, [_tamed(member, into) for member in tar])


def _tamed(member: tarfile.TarInfo, into: str) -> tarfile.TarInfo:
    """A file or a folder within, as root's, that only root may change. Raises Refused for what is no such thing."""
    place = os.path.normpath(os.path.join(into, member.name))
    leaves = os.path.isabs(member.name) or not (place + "/").startswith(into + "/")
    if leaves or not (member.isfile() or member.isdir()):
        raise Refused("the archive holds %s, which leaves its folder or is no plain file" % member.name)
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode &= MODES
    return member


def _copy(source: str, copy: "IO[bytes]") -> str:
    """Copy a file, and hash what was copied."""
    digest = hashlib.sha256()
    with open(source, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
            copy.write(block)
    copy.seek(0)
    return digest.hexdigest()
