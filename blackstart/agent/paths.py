"""What the kinds that are about paths share: where a path really lies, and how a file there is replaced."""

import contextlib
import os
import stat
from typing import Iterator, Optional, Tuple

from .atomic import write_atomically
from .kind import Kind, Refused
from .places import Folder, held, real_place
from .world import Entry, Unknown, World, sha256

ROOT = (0, 0)
NEW_FILE = 0o644


class PathKind(Kind):
    """What the kinds here share: a path, and wishes about mode and owner that may be left open (None)."""

    @property
    def path(self) -> str:
        path: str = self.spec["path"]
        return path.rstrip("/") or "/"

    def mode(self) -> Optional[int]:
        return None if self.spec.get("mode") is None else int(self.spec["mode"], 8)

    def current(self, follow: bool = True) -> Entry:
        entry = self.world.entry(self.path, follow)
        if entry.kind == "unknown":
            raise Unknown(entry.after)
        return entry

    def require_safe(self, follow: bool = True) -> None:
        real_place(self.world, self.path, follow)

    def require_parent(self, path: str) -> None:
        parent = os.path.dirname(path.rstrip("/")) or "/"
        entry = self.world.entry(parent)
        if entry.kind == "unknown":
            return
        if entry.kind != "directory":
            raise Refused("%s is not there to hold %s" % (parent, path), "declare the directory before it")

    def require_owner(self) -> None:
        owner, group = self.spec.get("owner"), self.spec.get("group")
        if owner and not self.world.knows_user(owner):
            raise Refused("there is no user %s to own %s" % (owner, self.path), "create the user first")
        if group and not self.world.knows_group(group):
            raise Refused("there is no group %s to own %s" % (group, self.path), "create the group first")

    def attributes_differ(self, entry: Entry) -> "list[str]":
        wishes = (("mode", self.mode()), ("owner", self.spec.get("owner")), ("group", self.spec.get("group")))
        return [
            "%s %s -> %s" % (what, _shown(getattr(entry, what)), _shown(wish))
            for what, wish in wishes
            if wish is not None and wish != getattr(entry, what)
        ]

    def ids(self) -> Optional[Tuple[int, int]]:
        owner, group = self.spec.get("owner"), self.spec.get("group")
        if owner is None and group is None:
            return None
        uid = self.world.uid(owner) if owner else -1
        gid = self.world.gid(group) if group else -1
        assert uid is not None and gid is not None
        return uid, gid

    def wished_entry(self, kind: str, content: Optional[bytes] = None) -> Entry:
        """What is left open stays as it is."""
        wished = Entry(kind, self.mode(), self.spec.get("owner"), self.spec.get("group"), content=content)
        present = self.world.entry(self.path)
        kept = {what: getattr(present, what) for what in ("mode", "owner", "group") if getattr(wished, what) is None}
        return wished._replace(**kept)


def _shown(value: object) -> str:
    return "0%o" % value if isinstance(value, int) else str(value)


def would_make_parents(world: World, path: str) -> None:
    """Check mode: the missing directories on the way to `path`, as os.makedirs would make them."""
    parent = os.path.dirname(path.rstrip("/")) or "/"
    if world.entry(parent).kind == "absent":
        would_make_parents(world, parent)
        world.would_put(parent, Entry("directory", 0o755, "root", "root"))


@contextlib.contextmanager
def held_place(world: World, path: str, follow: bool = True, make: bool = False) -> "Iterator[Tuple[Folder, str]]":
    """The folder in which `path` really lies, held, and the name in it."""
    folder, name = os.path.split(real_place(world, path.rstrip("/"), follow))
    with held(folder, make) as opened:
        yield opened, name


def is_private(entry: Entry) -> bool:
    """Whether a file is its owner's alone, so that what it holds is nobody's to see: it may be a secret."""
    return entry.kind == "file" and entry.mode is not None and not entry.mode & 0o077


def replace_file(
    kind: Kind,
    folder: Folder,
    name: str,
    content: bytes,
    mode: Optional[int],
    ids: Optional[Tuple[int, int]],
    path: str,
) -> None:
    """Write a file, keeping in the store and in the journal what stood there before.

    A mode that is None, and an owner or a group that is -1, is that of the file that stood there.
    """
    found = folder.look(name)
    before, present = found or (None, None)
    if before is not None and before != content and not kind.spec.get("secret"):
        kind.context.store.keep(sha256(before), before)

    def settle(handle: int) -> None:
        _dress(handle, mode, ids, present)
        # Before the file takes its name: a change that cannot be written down does not take place.
        kind.context.store.journal(
            resource=kind.name,
            path=path,
            before=None if before is None else sha256(before),
            after=sha256(content),
        )

    write_atomically(folder.path(name), content, None, None, settle)


def _dress(handle: int, mode: Optional[int], ids: Optional[Tuple[int, int]], present: Optional[os.stat_result]) -> None:
    """Give a new file its mode and owner: those wished, and else those of the file that it replaces.

    Some file systems refuse to be told (/etc/pve does); what nobody wished is left to them then.
    """
    uid, gid = ids or (-1, -1)
    if present is not None:
        with contextlib.suppress(OSError):
            os.fchown(handle, present.st_uid if uid == -1 else -1, present.st_gid if gid == -1 else -1)
    if ids is not None:
        os.fchown(handle, uid, gid)
    if mode is not None:
        os.fchmod(handle, mode)  # after chown, which may clear set-id bits
        return
    kept = NEW_FILE if present is None else stat.S_IMODE(present.st_mode)
    if present is not None and not _same_owners(os.fstat(handle), present):
        kept &= 0o777  # set-id bits were meant for those owners
    with contextlib.suppress(OSError):
        os.fchmod(handle, kept)


def _same_owners(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_uid, one.st_gid) == (other.st_uid, other.st_gid)


def remove(folder: Folder, name: str) -> None:
    """Remove what stands there, a tree whole; a link goes itself."""
    if stat.S_ISDIR(folder.lstat(name).st_mode):
        import shutil  # here, because few plans remove a tree

        shutil.rmtree(folder.path(name))
    else:
        os.unlink(name, dir_fd=folder.handle)
