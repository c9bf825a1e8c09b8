"""Guarded commands."""

from typing import Dict

from .kind import Kind, Refused, Verdict
from .run import run
from .world import Unknown

SHOWN = 100


class Command(Kind):
    """A program that runs only while its guard says so.

    Guards, all of which may be given: `creates` (a path that is there afterwards), `line` ({path, line, before}: a
    line that a file holds afterwards, looked for up to the first line that begins with `before`). Without a guard it
    runs each time and counts as a change. `provides` names further paths that it makes.
    """

    def _guards_hold(self) -> bool:
        guards = []
        if self.spec.get("creates"):
            guards.append(self.world.exists(self.spec["creates"]))
        if self.spec.get("line"):
            guards.append(self._has_line(self.spec["line"]))
        return bool(guards) and all(guards)

    def _has_line(self, wanted: Dict[str, str]) -> bool:
        entry = self.world.entry(wanted["path"])
        if entry.kind == "unknown":
            raise Unknown(entry.after)
        content = self.world.read(wanted["path"]) or b""
        for line in content.decode("utf-8", "replace").splitlines():
            if wanted.get("before") and line.startswith(wanted["before"]):
                return False
            if line == wanted["line"]:
                return True
        return False

    def check(self) -> Verdict:
        if self._guards_hold():
            return Verdict(False)
        text = " ".join(self.spec["argv"])
        return Verdict(True, "$ " + (text if len(text) <= SHOWN else text[:SHOWN] + "…"))

    def apply(self) -> str:
        from .running import forget, noted  # here, because a run without changes runs no command

        spec, note = self.spec, self.context.store.path("running")
        self.context.store.journal(resource=self.name, command=spec["argv"][0])
        ran = run(
            noted(spec["argv"], note),
            spec.get("env"),
            spec.get("cwd", "/"),
            spec.get("stdin", ""),
            spec.get("timeout"),
            self.context.say,
        )
        forget(note)
        if ran.status != 0:
            raise Refused("%s ended with %d\n%s" % (spec["argv"][0], ran.status, ran.tail()), spec.get("remedy", ""))
        if (spec.get("creates") or spec.get("line")) and not self._guards_hold():
            raise Refused(
                "%s ended well, yet what it should bring about is not there" % spec["argv"][0],
                "its guard is wrong, or the program did something else",
            )
        return ran.output if spec.get("capture") else ""

    def predict(self) -> None:
        for path in [self.spec.get("creates"), *self.spec.get("provides", [])]:
            if path:
                self.world.would_provide(path, self.name)
        if self.spec.get("line"):
            # It may rewrite the file as it likes: what else stands in it is not known.
            self.world.would_provide(self.spec["line"]["path"], self.name)


class Undecided(Kind):
    """What cannot be decided before an earlier resource (`after`) was applied; by then it must have been replaced."""

    def check(self) -> Verdict:
        if self.context.applying:
            raise Refused(self.spec["problem"], self.spec.get("remedy", ""))
        raise Unknown(self.spec["after"])

    def predict(self) -> None:
        """Nothing is known."""
