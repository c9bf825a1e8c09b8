"""Kinds that are about paths: directory, file, link, lines, absent."""

import contextlib
import os
import stat
from typing import Iterator, Optional, Tuple

from .diffs import describe
from .kind import Kind, Refused, Verdict
from .places import Folder, held, real_place
from .store import sync_folder, write_atomically
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


class Directory(PathKind):
    """A directory with mode and owner. Missing parents are made as plain root-owned directories."""

    def check(self) -> Verdict:
        entry = self.current()
        self.require_owner()
        self.require_safe()
        if entry.kind == "absent":
            self._require_ground()
            return Verdict(True, "+ directory %s" % self.path)
        if entry.kind != "directory":
            raise Refused("%s is a %s, not a directory" % (self.path, entry.kind), "move it away")
        differing = self.attributes_differ(entry)
        return Verdict(bool(differing), "\n".join("%s: %s" % (self.path, line) for line in differing))

    def _require_ground(self) -> None:
        """The nearest thing above that is there must be a directory for the missing ones to be made in."""
        place = self.path.rstrip("/")
        while self.world.entry(place, follow=False).kind == "absent":
            place = os.path.dirname(place)
        kind = self.world.entry(place).kind
        if kind not in ("directory", "unknown"):
            what = "link that leads nowhere" if kind == "absent" else kind
            raise Refused("%s is a %s, not a directory" % (place, what), "move it away")

    def apply(self) -> None:
        ids, mode, spec = self.ids(), self.mode(), self.spec
        real = real_place(self.world, self.path)
        self.context.store.journal(
            resource=self.name, path=self.path, mode=spec.get("mode"), owner=spec.get("owner"), group=spec.get("group")
        )
        with held(real, make=True) as folder:
            if ids is not None:
                os.chown(folder.path(), *ids)
            if mode is not None:  # after chown, which may clear set-id bits
                os.chmod(folder.path(), mode)

    def predict(self) -> None:
        would_make_parents(self.world, self.path)
        self.world.would_put(self.world.real_path(self.path), self.wished_entry("directory"))


def would_make_parents(world: World, path: str) -> None:
    """Check mode: the missing directories on the way to `path`, as os.makedirs would make them."""
    parent = os.path.dirname(path.rstrip("/")) or "/"
    if world.entry(parent).kind == "absent":
        would_make_parents(world, parent)
        world.would_put(parent, Entry("directory", 0o755, "root", "root"))


class File(PathKind):
    """A file with exactly this content. The content that it replaces is kept in the store."""

    @property
    def content(self) -> bytes:
        return self.spec["content"].encode("utf-8", "surrogateescape")  # type: ignore[no-any-return]

    def check(self) -> Verdict:
        entry = self.current()
        self.require_owner()
        self.require_safe()
        if entry.kind not in ("absent", "file"):
            raise Refused("%s is a %s, not a file" % (self.path, entry.kind), "move it away")
        before = self.world.read(self.path) if entry.kind == "file" else None
        if before is None:
            self.require_parent(self.world.real_path(self.path))
        if before != self.content:
            secret = bool(self.spec.get("secret")) or is_private(entry)
            return Verdict(True, describe(self.path, before, self.content, secret))
        differing = self.attributes_differ(entry)
        return Verdict(bool(differing), "\n".join("%s: %s" % (self.path, line) for line in differing))

    def apply(self) -> None:
        with held_place(self.world, self.path) as (folder, name):
            replace_file(self, folder, name, self.content, self.mode(), self.ids(), self.path)

    def predict(self) -> None:
        self.world.would_put(self.world.real_path(self.path), self.wished_entry("file", self.content))


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


class Tree(PathKind):
    """A directory that, with all below it, belongs to an owner and a group. A link out of it is refused."""

    def _strangers(self) -> "list[str]":
        """The path and those below it that belong to somebody else."""
        wished = (self.spec.get("owner"), self.spec.get("group"))
        top = self.world.real_path(self.path)
        found = []
        for path, entry in [(top, self.current()), *self.world.below(top)]:
            if entry.kind == "link" and not _within(self.world.real_path(path), top):
                raise Refused("%s is a link that leaves %s" % (path, self.path), "remove it")
            present = (entry.owner or "root", entry.group or "root")
            if any(wish not in (None, has) for wish, has in zip(wished, present)):
                found.append(path)
        return found

    def check(self) -> Verdict:
        entry = self.current()
        self.require_owner()
        self.require_safe()
        if entry.kind == "absent":
            raise Refused("%s is not there" % self.path, "declare the directory before it")
        if entry.kind != "directory":
            raise Refused("%s is a %s, not a directory" % (self.path, entry.kind), "move it away")
        strangers = self._strangers()
        return Verdict(bool(strangers), "", "%d to be owned anew" % len(strangers) if strangers else "")

    def apply(self) -> str:
        strangers = self._strangers()
        ids = self.ids()
        assert ids is not None
        with held(real_place(self.world, self.path)) as folder:
            self.context.store.journal(resource=self.name, path=self.path, owned=len(strangers))
            owned = _own(folder, *ids)
        return "%d owned anew" % owned

    def predict(self) -> None:
        owned = {name: self.spec[name] for name in ("owner", "group") if self.spec.get(name)}
        top = self.world.real_path(self.path)
        for path, entry in [(top, self.world.entry(top)), *self.world.below(top)]:
            self.world.would_put(path, entry._replace(**owned))


def _own(top: Folder, uid: int, gid: int) -> int:
    """Give a directory and all below it to these; how many were somebody else's. No link is followed."""
    owned = 0
    for _, folders, names, handle in os.fwalk(".", dir_fd=top.handle):
        for name in [".", *folders, *names]:
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if uid not in (-1, found.st_uid) or gid not in (-1, found.st_gid):
                os.chown(name, uid, gid, dir_fd=handle, follow_symlinks=False)
                owned += 1
    return owned


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


class Link(PathKind):
    """A symbolic link. Only a link is ever replaced by it."""

    def check(self) -> Verdict:
        entry = self.current(follow=False)
        self.require_safe(follow=False)
        if entry.kind == "link":
            if entry.target == self.spec["target"]:
                return Verdict(False)
            return Verdict(True, "%s -> %s, was -> %s" % (self.path, self.spec["target"], entry.target))
        if entry.kind != "absent":
            raise Refused("%s is a %s, not a link" % (self.path, entry.kind), "move it away")
        self.require_parent(self.path)
        return Verdict(True, "+ %s -> %s" % (self.path, self.spec["target"]))

    def apply(self) -> None:
        with held_place(self.world, self.path, follow=False) as (folder, name):
            place = folder.path(name)
            temporary = place + ".blackstart-link"
            if os.path.lexists(temporary):
                os.unlink(temporary)
            before = os.readlink(place) if os.path.islink(place) else None
            self.context.store.journal(
                resource=self.name, path=self.path, before=before, after="-> " + self.spec["target"]
            )
            os.symlink(self.spec["target"], temporary)
            with contextlib.suppress(PermissionError):  # the folder may have handed its group down
                os.chown(temporary, 0, 0, follow_symlinks=False)
            os.rename(temporary, place)
            sync_folder(folder.path())

    def predict(self) -> None:
        self.world.would_put(self.path, Entry("link", target=self.spec["target"]))


class Lines(PathKind):
    """Lines that a file holds somewhere; missing ones are appended, in order, before the first line that begins
    with `before` where that is given. The file is created if absent."""

    def _found(self) -> Optional[bytes]:
        entry = self.current()
        if entry.kind not in ("absent", "file"):
            raise Refused("%s is a %s, not a file" % (self.path, entry.kind), "move it away")
        return self.world.read(self.path) if entry.kind == "file" else None

    def _completed(self, before: Optional[bytes]) -> bytes:
        """A content with the lines that it lacks."""
        # Not splitlines(), which would cut at a form feed or \r too and so lose them.
        present = (before or b"").decode("utf-8", "surrogateescape").split("\n")
        if not present[-1]:
            present.pop()
        stop = self.spec.get("before")
        end = next((i for i, line in enumerate(present) if stop and line.startswith(stop)), len(present))
        missing = [line for line in self.spec["lines"] if line not in present[:end]]
        if not missing:
            return before or b""
        text = "\n".join([*present[:end], *missing, *present[end:]]) + "\n"
        return text.encode("utf-8", "surrogateescape")

    def check(self) -> Verdict:
        self.require_safe()
        before = self._found()
        after = self._completed(before)
        if before is None:
            self.require_parent(self.world.real_path(self.path))
        if before == after:
            return Verdict(False)
        return Verdict(True, describe(self.path, before, after, is_private(self.current())))

    def apply(self) -> None:
        with held_place(self.world, self.path) as (folder, name):
            before = folder.read(name)
            mode = self.mode() if before is None else None
            # A new file without a mode is the file system's, with an owner of its choice.
            ids = None if mode is None else ROOT
            replace_file(self, folder, name, self._completed(before), mode, ids, self.path)

    def predict(self) -> None:
        after = self._completed(self._found())
        entry = self.world.entry(self.path)
        if entry.kind == "absent":
            mode = self.mode()
            entry = Entry("file") if mode is None else Entry("file", mode, "root", "root")
        self.world.would_put(self.world.real_path(self.path), entry._replace(content=after))


class Absent(PathKind):
    """Nothing at a path. A file's content is kept in the store; a tree only goes with `recursive`."""

    def check(self) -> Verdict:
        entry = self.current(follow=False)
        self.require_safe(follow=False)
        if entry.kind == "directory" and not self.spec.get("recursive"):
            raise Refused("%s is a directory" % self.path, "say recursive if the whole tree is meant to go")
        return Verdict(entry.kind != "absent", "- %s %s" % (entry.kind, self.path))

    def apply(self) -> None:
        before = None
        with held_place(self.world, self.path, follow=False) as (folder, name):
            if stat.S_ISREG(folder.lstat(name).st_mode):
                content = folder.read(name) or b""
                before = sha256(content)
                self.context.store.keep(before, content)
            self.context.store.journal(resource=self.name, path=self.path, before=before, after=None)
            remove(folder, name)
            sync_folder(folder.path())

    def predict(self) -> None:
        self.world.would_remove(self.path)
