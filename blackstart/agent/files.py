"""Kinds that are about paths: directory, file, link, lines, absent."""

import contextlib
import os
import stat
from typing import Optional

from .atomic import sync_folder
from .diffs import describe
from .kind import Refused, Verdict
from .paths import ROOT, PathKind, held_place, is_private, remove, replace_file, would_make_parents
from .places import held, real_place
from .world import Entry, sha256


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
