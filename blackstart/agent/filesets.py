"""Files that change together: a set in which each file carries the hash of what it replaces."""

import contextlib
import glob
import json
import os
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from .atomic import write_atomically
from .diffs import describe
from .kind import Context, Kind, Refused, Verdict
from .paths import NEW_FILE, ROOT, held_place, is_private, remove, replace_file, would_make_parents
from .places import held, real_place
from .store import read_json
from .world import Entry, Unknown, sha256


class FileSet(Kind):
    """Existing files get new contents, all or none.

    Each item is {path, content, replaces}: `replaces` is the sha256 of the content that may be replaced, or None
    where the file may not exist yet. Nothing is written unless every file holds either that or the new content
    already, so that another program's change is never overwritten and a half-done set is completed. The last item is
    written last: a manifest stands there. `stale` are globs of what was derived from the files (bytecode, builds),
    which goes before the writing.
    """

    @property
    def items(self) -> List[Dict[str, Any]]:
        items: List[Dict[str, Any]] = self.spec["files"]
        return items

    def _pending(self) -> List[Dict[str, Any]]:
        pending = []
        for item in self.items:
            before = self._before(item)
            found = None if before is None else sha256(before)
            if before == _content(item):
                continue
            if found != item["replaces"]:
                raise Refused(
                    "%s is not what it was when the change was decided" % item["path"],
                    "another program writes there; run again to decide anew",
                )
            pending.append(item)
        return pending

    def _before(self, item: Dict[str, Any]) -> Optional[bytes]:
        entry = self.world.entry(item["path"])
        if entry.kind == "unknown":
            raise Unknown(entry.after)
        real_place(self.world, item["path"])
        if entry.kind not in ("absent", "file"):
            raise Refused("%s is a %s, not a file" % (item["path"], entry.kind), "move it away")
        return self.world.read(item["path"])

    def _derived(self) -> List[Tuple[str, Set[str]]]:
        """What the patterns of `stale` match: folders by their real path, and the names in each. Raises Refused."""
        found: Dict[str, Set[str]] = {}
        for pattern in [] if self.world.is_empty else self.spec.get("stale", []):
            for path in glob.glob(pattern):
                folder, name = os.path.split(path.rstrip("/"))
                found.setdefault(folder, set()).add(name)
        return [(real_place(self.world, folder), names) for folder, names in found.items()]

    def check(self) -> Verdict:
        pending = self._pending()
        if pending:
            self._derived()
        diff = "\n".join(self._diff(item) for item in pending if not item.get("quiet"))
        return Verdict(bool(pending), diff, self.spec.get("detail", ""))

    def _diff(self, item: Dict[str, Any]) -> str:
        secret = is_private(self.world.entry(item["path"]))
        return describe(item["path"], self._before(item), _content(item), secret)

    def apply(self) -> str:
        """The whole set is written down first, so that whoever comes after a death can finish it (see `unfinished`)."""
        self._pending()
        intent = self.context.store.path("intents", sha256(json.dumps(self.spec, sort_keys=True).encode()))
        os.makedirs(os.path.dirname(intent), mode=0o700, exist_ok=True)
        write_atomically(intent, json.dumps(self.spec).encode(), 0o600, None)
        detail = self._write()
        os.unlink(intent)
        return detail

    def _write(self) -> str:
        pending = self._pending()
        for place, names in self._derived():
            with held(place) as folder:
                for name in names:
                    with contextlib.suppress(FileNotFoundError):  # whoever derived it may remove it, too
                        remove(folder, name)
        for item in pending:
            with held_place(self.world, item["path"], make=True) as (folder, name):
                mode, ids = (None, None) if os.path.lexists(folder.path(name)) else (NEW_FILE, ROOT)
                replace_file(self, folder, name, _content(item), mode, ids, item["path"])
        detail: str = self.spec.get("detail", "")
        return detail

    def predict(self) -> None:
        for item in self.items:
            would_make_parents(self.world, item["path"])
            entry = self.world.entry(item["path"])
            made = entry if entry.kind == "file" else Entry("file", NEW_FILE, "root", "root")
            self.world.would_put(self.world.real_path(item["path"]), made._replace(content=_content(item)))


def unfinished(context: Context) -> Iterator["Tuple[FileSet, str]"]:
    """The sets that a killed run left half-written, each with the file that says so."""
    folder = context.store.path("intents")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        if name.startswith("."):
            if context.applying:
                os.unlink(path)  # it died while writing it down: nothing of the set was begun
            continue
        yield FileSet(read_json(path), context), path


def finish(left: FileSet, intent: str) -> str:
    """Complete a half-written set. One whose files were changed since by something else is set aside, not forced."""
    done = sum(left.world.read(item["path"]) == _content(item) for item in left.items)
    try:
        left._write()
        said = "%d of %d files had been written; completed" % (done, len(left.items))
    except Refused as refused:
        said = "%d of %d files had been written; set aside: %s" % (done, len(left.items), refused.message)
    os.unlink(intent)
    return said


def foresee(left: FileSet) -> None:
    """Check mode: what `finish` would make of a half-written set; one that it would set aside stays as it is."""
    with contextlib.suppress(Refused):
        left.check()
        left.predict()


def _content(item: Dict[str, Any]) -> bytes:
    content: bytes = item["content"].encode("utf-8", "surrogateescape")
    return content
