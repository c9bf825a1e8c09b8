"""The kind that owns a whole tree."""

import os

from .kind import Refused, Verdict
from .paths import PathKind
from .places import Folder, held, real_place


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
