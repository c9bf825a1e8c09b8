"""Writing a file so that a kill or a power cut leaves the old one or the new one."""

import os
from typing import Callable, Optional

TEMPORARY = ".blackstart-tmp"


def write_atomically(
    path: str,
    content: bytes,
    mode: Optional[int],
    ids: Optional["tuple[int, int]"],
    settle: Optional[Callable[[int], None]] = None,
) -> None:
    """Old or new, never between: a temporary file beside it, fsync, mode and owner, rename, fsync of the folder.

    What a killed run left beside the file is removed first. Mode and owner that are None are not touched at all:
    some file systems own them. `settle` is given the whole file before it takes its name; where it raises, the old
    content stays.
    """
    import tempfile  # here, because a run without changes writes nothing

    folder, name = os.path.split(path)
    for stale in os.listdir(folder):
        if stale.startswith(".%s." % name) and stale.endswith(TEMPORARY):
            os.unlink(os.path.join(folder, stale))
    handle, temporary = tempfile.mkstemp(prefix=".%s." % name, suffix=TEMPORARY, dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            if ids is not None:
                os.fchown(stream.fileno(), *ids)
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            if settle is not None:
                settle(stream.fileno())
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(folder)


def sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
