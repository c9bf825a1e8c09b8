"""Files that change together: a set in which each file carries the hash of what it replaces."""

import glob
import os
from typing import Any, Dict, List, Optional

from .diffs import describe
from .files import replace_file
from .kind import Kind, Refused, Verdict
from .world import Entry, Unknown, sha256


class FileSet(Kind):
    """Existing files get new contents, all or none.

    Each item is {path, content, replaces}: `replaces` is the sha256 of the content that may be replaced, or None
    where the file may not exist yet. Nothing is written unless every file holds either that or the new content
    already, so that another program's change is never overwritten and a half-done set is completed. The last item is
    written last: a manifest stands there. `stale` are globs of derived files (bytecode) that go before the writing.
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
        if entry.kind not in ("absent", "file"):
            raise Refused("%s is a %s, not a file" % (item["path"], entry.kind), "move it away")
        return self.world.read(item["path"])

    def check(self) -> Verdict:
        pending = self._pending()
        diff = "\n".join(
            describe(item["path"], self._before(item), _content(item)) for item in pending if not item.get("quiet")
        )
        return Verdict(bool(pending), diff, self.spec.get("detail", "") if pending else "")

    def apply(self) -> str:
        pending = self._pending()
        for pattern in self.spec.get("stale", []):
            for path in glob.glob(pattern):
                os.unlink(path)
        for item in pending:
            os.makedirs(os.path.dirname(item["path"]), exist_ok=True)
            entry = self.world.entry(item["path"])
            mode = 0o644 if entry.mode is None else entry.mode
            replace_file(self, self.world.real_path(item["path"]), _content(item), mode, None)
        detail: str = self.spec.get("detail", "")
        return detail

    def predict(self) -> None:
        for item in self.items:
            self.world.would_put(
                self.world.real_path(item["path"]),
                Entry("file", 0o644, "root", "root", content=_content(item)),
            )


def _content(item: Dict[str, Any]) -> bytes:
    content: bytes = item["content"].encode("utf-8", "surrogateescape")
    return content
