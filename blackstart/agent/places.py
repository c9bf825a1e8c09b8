"""Places where root writes. The way there is looked at link by link and then held open, so that no user of the
machine chooses where the writing goes, not even by swapping a folder for a link at the right moment."""

import contextlib
import os
import stat
from typing import Iterator, Optional, Tuple

from .kind import Refused
from .world import World

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def real_place(world: World, path: str, follow: bool = True) -> str:
    """`path` with the links on the way followed, the last one if `follow`. Raises Refused.

    Root never follows a link that somebody else placed: it could lead to any file of the machine.
    """
    real, links = world.way(path, follow)
    for place, link in links:
        if link.owner not in (None, "root", world.me):
            raise Refused(
                "%s is a link that %s placed, and is not followed" % (place, link.owner),
                "replace it by what it should be, or name the place it leads to",
            )
    return real


class Folder:
    """A directory that is held open: paths below it lead there whatever is renamed meanwhile."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def path(self, name: str = "") -> str:
        here = "/proc/self/fd/%d" % self.handle
        return os.path.join(here, name) if name else here

    def read(self, name: str) -> Optional[bytes]:
        """The bytes of a file in it that is no link; None where there is none."""
        found = self.look(name)
        return found[0] if found else None

    def look(self, name: str) -> Optional[Tuple[bytes, os.stat_result]]:
        """Bytes and status of one and the same file in it, that is no link; None where there is none."""
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.handle)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as stream:
            return stream.read(), os.fstat(handle)

    def lstat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self.handle, follow_symlinks=False)

    @contextlib.contextmanager
    def inner(self, name: str) -> "Iterator[Folder]":
        """Hold a directory in it. Raises NotADirectoryError for a link, too."""
        handle = os.open(name, FOLDER, dir_fd=self.handle)
        try:
            yield Folder(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def held(folder: str, make: bool = False) -> Iterator[Folder]:
    """Hold a directory, given by its real path; with `make`, those that are missing are made, as root's.

    Raises Refused.
    """
    handle = os.open("/", FOLDER)
    try:
        for part in filter(None, folder.split("/")):
            made = False
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
                    made = True
            try:
                inner = os.open(part, FOLDER, dir_fd=handle)
            except NotADirectoryError:
                raise Refused(
                    "the way to %s changed while it was worked on" % folder, "find out what else writes there"
                ) from None
            os.close(handle)
            handle = inner
            if made:
                disinherit(handle)
        yield Folder(handle)
    finally:
        os.close(handle)


def disinherit(handle: int) -> None:
    """Take from a new directory the group and the set-id bit that the one around it handed down."""
    found = os.fstat(handle)
    handed_down = found.st_gid != 0 or found.st_mode & stat.S_ISGID
    if handed_down and found.st_uid == os.geteuid():  # or somebody put his own in its place
        place = Folder(handle).path()
        with contextlib.suppress(PermissionError):  # a file system that has its own owners, as /etc/pve
            os.chown(place, 0, 0)
            os.chmod(place, found.st_mode & 0o777)
