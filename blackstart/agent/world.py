"""The one view of a machine that checks may use: the machine itself, plus an overlay of what earlier resources
would have made. In an applying run the overlay stays empty and every answer comes from the machine."""

import errno
import grp
import os
import pwd
import stat
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

MAX_LINKS = 40


class Unknown(Exception):
    """What is asked for depends on something that an earlier resource would make in ways it does not declare."""

    def __init__(self, after: str) -> None:
        Exception.__init__(self, after)
        self.after = after


class Entry(NamedTuple):
    """What stands at a path. `content` is set only where the overlay changes it; `after` names who makes an unknown."""

    kind: str  # absent | file | directory | link | special file | unknown
    mode: Optional[int] = None
    owner: Optional[str] = None
    group: Optional[str] = None
    target: str = ""
    content: Optional[bytes] = None
    after: str = ""


ABSENT = Entry("absent")

# What any freshly installed machine has, for checks against one that does not exist yet.
FRESH_MACHINE = frozenset(
    """
    / /etc /etc/systemd /etc/systemd/system /home /opt /root /srv /tmp
    /usr /usr/local /usr/local/bin /usr/local/sbin /var /var/lib /var/log
    """.split()  # noqa: SIM905  a table reads better than fifteen quoted words
)


def sha256(data: bytes) -> str:
    import hashlib  # here, because a run without changes often hashes nothing

    return hashlib.sha256(data).hexdigest()


class World:
    """A machine as checks see it. `empty` stands for a machine that does not exist yet."""

    def __init__(self, empty: bool = False) -> None:
        self._empty = empty
        self._overlay: Dict[str, Entry] = {}
        self._fresh: Set[str] = set()  # directories that would be new, so hold only what the overlay puts there
        self._users: Dict[str, str] = {}
        self._groups: Dict[str, str] = {}
        self._packages: Set[str] = set()
        self._packages_by = ""
        self._units: Dict[str, Dict[str, str]] = {}

    @property
    def me(self) -> str:
        """The user that the agent runs as."""
        return user_name(os.geteuid())

    # paths

    def entry(self, path: str, follow: bool = True) -> Entry:
        """What stands at `path`; a final symbolic link is followed unless `follow` is False."""
        if not self._overlay and not self._empty:
            return _read_entry(path, follow)
        return self._resolve(path, follow)[1]

    def real_path(self, path: str) -> str:
        """`path` with every symbolic link in it followed, overlay included."""
        if not self._overlay and not self._empty:
            return os.path.realpath(path)
        return self._resolve(path, True)[0]

    def way(self, path: str, follow: bool = True) -> "Tuple[str, List[Tuple[str, Entry]]]":
        """`path` with links followed, the last one if `follow`; and those links, each with its place."""
        links: List[Tuple[str, Entry]] = []
        return self._resolve(path, follow, links)[0], links

    def _at(self, path: str) -> Entry:
        """The entry at a path whose parents are known to be plain directories."""
        if path in self._overlay:
            return self._overlay[path]
        if os.path.dirname(path) in self._fresh:
            return ABSENT
        if self._empty:
            return Entry("directory", 0o755, "root", "root") if path in FRESH_MACHINE else ABSENT
        return _read_entry(path, False)

    def _resolve(self, path: str, follow: bool, links: "Optional[List[Tuple[str, Entry]]]" = None) -> Tuple[str, Entry]:
        """The real path and what stands there; `links` is given those that were followed."""
        links = [] if links is None else links
        todo = [part for part in path.split("/") if part]
        done: List[str] = []
        while todo:
            part = todo.pop(0)
            if part == "..":
                done = done[:-1]
                continue
            if part == ".":
                continue
            here = "/" + "/".join([*done, part])
            entry = self._at(here)
            if entry.kind == "unknown":
                return "/".join([here, *todo]), entry
            if entry.kind == "link" and (todo or follow):
                links.append((here, entry))
                if len(links) > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = [piece for piece in entry.target.split("/") if piece]
                todo = target + todo
                if entry.target.startswith("/"):
                    done = []
                continue
            if todo and entry.kind != "directory":
                return "/".join([here, *todo]), ABSENT
            done.append(part)
        final = "/" + "/".join(done)
        return final, self._at(final)

    def read(self, path: str) -> Optional[bytes]:
        """A file's bytes, None where there is no file. Raises Unknown, and OSError as the machine says."""
        entry = self.entry(path)
        if entry.kind == "unknown":
            raise Unknown(entry.after)
        if entry.kind != "file":
            return None
        if entry.content is not None:
            return entry.content
        with open(self.real_path(path), "rb") as stream:
            return stream.read()

    def below(self, path: str) -> Iterator[Tuple[str, Entry]]:
        """Everything below a directory, links not followed. Raises Unknown where a part of it is not known."""
        here, found = self._resolve(path, True)
        if found.kind == "unknown":
            raise Unknown(found.after)
        names: Set[str] = set()
        if not self._empty and here not in self._fresh:
            names.update(os.listdir(here))
        names.update(os.path.basename(known) for known in self._overlay if os.path.dirname(known) == here)
        for name in sorted(names):
            place = os.path.join(here, name)
            entry = self._at(place)
            if entry.kind == "unknown":
                raise Unknown(entry.after)
            if entry.kind != "absent":
                yield place, entry
            if entry.kind == "directory":
                yield from self.below(place)

    def disturbed(self, path: str) -> str:
        """Check mode: whose work makes a place, or one below it, read otherwise than it did; "" where nobody's does."""
        if not self._overlay:
            return ""
        here, found = self._resolve(path, True)
        if found.kind == "unknown":
            return found.after
        disturbing = [
            entry for place, entry in self._overlay.items() if (place + "/").startswith(here.rstrip("/") + "/")
        ]
        return next((entry.after or "an earlier change" for entry in disturbing), "")

    def exists(self, path: str) -> bool:
        entry = self.entry(path)
        if entry.kind == "unknown":
            raise Unknown(entry.after)
        return entry.kind != "absent"

    def would_put(self, path: str, entry: Entry) -> None:
        """Check mode: from here on `path` reads as `entry`. An unknown that is made a directory may hold anything."""
        place = self._place(path)
        if entry.kind == "directory":
            before = self._at(place).kind
            if before == "unknown":
                return
            if before != "directory":
                self._fresh.add(place)
        self._overlay[place] = entry

    def _place(self, path: str) -> str:
        """`path` with the links on the way to it followed, but not itself."""
        parent, name = os.path.split(path.rstrip("/"))
        return os.path.join(self._resolve(parent, True)[0], name)

    def would_remove(self, path: str) -> None:
        """Check mode: `path` and all below it read as absent from here on."""
        place = self._place(path)
        self._fresh = {known for known in self._fresh if not (known + "/").startswith(place + "/")}
        for known in [known for known in self._overlay if known.startswith(place + "/")]:
            del self._overlay[known]
        self.would_put(place, ABSENT)

    def would_provide(self, path: str, after: str) -> None:
        """Check mode: `path` and all below it are whatever the resource `after` makes of them, missing parents too."""
        path = path.rstrip("/")
        while self.entry(os.path.dirname(path) or "/").kind == "absent":
            path = os.path.dirname(path)
        self.would_put(path, Entry("unknown", after=after))

    # users and groups

    def uid(self, name: str) -> Optional[int]:
        """A user's id; None where the machine has none of that name. Raises Unknown."""
        if name in self._users:
            raise Unknown(self._users[name])
        try:
            return None if self._empty else pwd.getpwnam(name).pw_uid
        except KeyError:
            return None

    def gid(self, name: str) -> Optional[int]:
        if name in self._groups:
            raise Unknown(self._groups[name])
        try:
            return None if self._empty else grp.getgrnam(name).gr_gid
        except KeyError:
            return None

    def would_add_user(self, name: str, after: str) -> None:
        self._users[name] = after

    def would_add_group(self, name: str, after: str) -> None:
        self._groups[name] = after

    def would_have_user(self, name: str) -> bool:
        return name in self._users

    def knows_user(self, name: str) -> bool:
        return name in self._users or name == "root" or self.uid(name) is not None

    def knows_group(self, name: str) -> bool:
        return name in self._groups or name == "root" or self.gid(name) is not None

    # packages and units

    @property
    def is_empty(self) -> bool:
        return self._empty

    def would_install(self, packages: List[str]) -> None:
        self._packages.update(packages)

    def would_have(self, package: str) -> bool:
        return package in self._packages

    def would_set_unit(self, unit: str, state: Dict[str, str]) -> None:
        self._units[unit] = dict(self._units.get(unit, {}), **state)

    def unit_overlay(self, unit: str) -> Dict[str, str]:
        return self._units.get(unit, {})


def _read_entry(path: str, follow: bool) -> Entry:
    target = ""
    try:
        found = os.stat(path) if follow else os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            found, target = _read_link(path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    mode = stat.S_IMODE(found.st_mode)
    owner, group = user_name(found.st_uid), group_name(found.st_gid)
    if stat.S_ISREG(found.st_mode):
        return Entry("file", mode, owner, group)
    if stat.S_ISDIR(found.st_mode):
        return Entry("directory", mode, owner, group)
    if stat.S_ISLNK(found.st_mode):
        return Entry("link", mode, owner, group, target)
    return Entry("special file", mode, owner, group)


def _read_link(path: str) -> "Tuple[os.stat_result, str]":
    """Status and target of one and the same link, though somebody may put something else in its place meanwhile."""
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        return found, os.readlink("", dir_fd=handle) if stat.S_ISLNK(found.st_mode) else ""
    finally:
        os.close(handle)


def user_name(uid: int) -> str:
    if uid == 0:
        return "root"  # most of what is looked at; each question to the name service reads a file or asks a daemon
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    if gid == 0:
        return "root"
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
