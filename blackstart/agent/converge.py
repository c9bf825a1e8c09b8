"""Carrying out a plan: its sections in order, then the handlers that are owed, then what it verifies."""

import importlib
import json
import time
from typing import Any, Dict, List, Optional, Tuple

from . import filesets, units
from .kind import Context, Detached, Kind, Refused, Verdict
from .probes import places, probe
from .run import run
from .store import Damaged, Store, now
from .wire import Wire
from .world import Unknown, World, sha256

# A kind's module and class, imported on first use: every exec pays for its imports, and most plans need few of these.
KINDS: Dict[str, Tuple[str, str]] = {
    "directory": ("files", "Directory"),
    "file": ("files", "File"),
    "tree": ("trees", "Tree"),
    "link": ("files", "Link"),
    "lines": ("files", "Lines"),
    "absent": ("files", "Absent"),
    "fileset": ("filesets", "FileSet"),
    "apt": ("packages", "Apt"),
    "group": ("accounts", "Group"),
    "user": ("accounts", "User"),
    "command": ("commands", "Command"),
    "job": ("jobs", "Job"),
    "undecided": ("commands", "Undecided"),
    "archive": ("archives", "Archive"),
    "unit": ("units", "Unit"),
    "booted": ("waits", "Booted"),
    "opens": ("waits", "Opens"),
    "http": ("waits", "Http"),
}

# Of a line that a program says; so long that a secret in it, which the controller blots out, is seldom cut.
MAX_LINE = 4096

# The outcomes of which the controller need not hear at once: nothing was done to the machine.
UNTOUCHED = ("ok", "change", "unknown")


class Stop(Exception):
    """The run ends here; what follows is skipped."""


def facts_digest(answers: List[Any]) -> str:
    """The hash that a plan carries of the facts it was built on."""
    return sha256(json.dumps(answers, sort_keys=True, separators=(",", ":")).encode())


class Run:
    """One plan on one machine. `check` leaves the machine as it is; `restart` lets disruptive handlers run."""

    def __init__(self, plan: Dict[str, Any], wire: Wire, store: Store) -> None:
        self.plan = plan
        self.wire = wire
        self.store = store
        self.check: bool = plan["check"]
        self.world = World(empty=plan.get("empty", False))
        self.foreseen = False  # check mode: something would have changed by now
        self.current = ""
        self.unsure = ""  # check mode: after what the section at hand would be planned anew, maybe otherwise
        self.would_owe: Dict[str, Optional[str]] = {}  # check mode: handler -> the unit's run
        self.maybe_notified: Dict[str, str] = {}  # handlers of such sections: after what

    def say(self, line: str) -> None:
        self.wire.emit("output", id=self.current, line=line[:MAX_LINE])

    def context(self) -> Context:
        return Context(self.world, self.store, self.say, self.wire.controller_is_gone, not self.check)

    def _kind(self, spec: Dict[str, Any]) -> Kind:
        module, name = KINDS[spec["kind"]]
        kind: Kind = getattr(importlib.import_module("." + module, __package__), name)(spec, self.context())
        return kind

    def execute(self) -> None:
        """Raises Held where another controller works on this machine; Damaged and Refused outside of a resource."""
        if not self.check:
            self.store.lock()
            self._sweep_credentials()
        if not self.world.is_empty:
            self._finish_interrupted()
        try:
            for section in self.plan["sections"]:
                if not self._facts_hold(section):
                    self.wire.emit("stale", section=section["role"])
                    break
                for spec in section["resources"]:
                    self._resource(spec)
            else:
                self._all_handlers()
                for section in self.plan["sections"]:
                    for spec in section["verify"]:
                        self._verify(spec)
        except Stop:
            return
        finally:
            self.wire.flush()

    def _sweep_credentials(self) -> None:
        if self.store.jobs_with_credentials():
            from . import jobs  # here, because most runs find none

            jobs.sweep(self.context())

    def _finish_interrupted(self) -> None:
        for left, intent in filesets.unfinished(self.context()):
            started = time.monotonic()
            spec, name = {"id": "interrupted"}, "interrupted change of %s" % left.name
            if self.check:
                self.foreseen = True
                filesets.foresee(left)
                self._done(spec, "change", started, name=name)
                continue
            said = filesets.finish(left, intent)
            self.store.journal(resource=left.name, interrupted=said)
            self._done(spec, "changed", started, name=name, detail=said)

    def _facts_hold(self, section: Dict[str, Any]) -> bool:
        """A plan is only good for the facts it was built on."""
        self.unsure = ""
        if not section["probes"]:
            return True
        if self.foreseen:
            # Nothing was really changed. What would be planned on what would be there then, nobody knows.
            looked_at = [place for question in section["probes"] for place in places(question)]
            self.unsure = next(filter(None, map(self.world.disturbed, looked_at)), "")
            if self.unsure:
                self.maybe_notified.update(dict.fromkeys(section["handlers"], self.unsure))
            return True
        built_on: str = section["facts"]
        return facts_digest([probe(self.world, question) for question in section["probes"]]) == built_on

    def _done(self, spec: Dict[str, Any], state: str, started: float, **fields: Any) -> None:
        tell = self.wire.note if state in UNTOUCHED else self.wire.emit
        tell("done", id=spec["id"], state=state, seconds=round(time.monotonic() - started, 3), **fields)

    def _resource(self, spec: Dict[str, Any]) -> None:
        if self.wire.controller_is_gone():
            raise Stop
        started = time.monotonic()
        self.current = spec["id"]
        kind = self._kind(spec)
        if kind.verifies:
            self._verify(spec)
            return
        self.wire.note("start", id=spec["id"])
        try:
            verdict = kind.check()
            if not verdict.changes and self.unsure:
                raise Unknown(self.unsure)
            if not verdict.changes:
                self._done(spec, "ok", started, detail=verdict.detail)
            elif self.check:
                self._foresee(spec)
                kind.predict()
                self._done(spec, "change", started, diff=verdict.diff, detail=verdict.detail)
            else:
                self._change(spec, kind, verdict, started)
        except Unknown as unknown:
            self._foresee(spec)
            self._predict_unknown(kind)
            self._done(spec, "unknown", started, detail="after " + unknown.after)
        except Damaged as damaged:
            self._fail(spec, started, damaged.message, damaged.remedy)
        except Refused as refused:
            if self.unsure:
                self._foresee(spec)
                self._done(spec, "unknown", started, detail="after " + self.unsure)
                return
            self._fail(spec, started, refused.message, refused.remedy, refused.passing)
        except Detached:
            raise Stop from None
        except OSError as error:
            self._fail(spec, started, str(error), "see that the file system is there, writable and has room")

    def _predict_unknown(self, kind: Kind) -> None:
        """Even where it is not known whether a resource acts, what it would leave is what follows must see."""
        try:
            kind.predict()
        except Unknown:
            path = kind.spec.get("path")
            if path:
                self.world.would_provide(path, kind.name)

    def _change(self, spec: Dict[str, Any], kind: Kind, verdict: Verdict, started: float) -> None:
        self._owe(spec.get("notify", []))
        self.wire.flush()
        detail = kind.apply()
        self._done(spec, "changed", started, diff=verdict.diff, detail=detail or verdict.detail)

    def _fail(self, spec: Dict[str, Any], started: float, message: str, remedy: str, passing: bool = False) -> None:
        self._done(spec, "failed", started, detail=message, remedy=remedy, passing=passing)
        raise Stop

    # handlers

    def _owe(self, names: List[str]) -> None:
        """Write down what is about to be notified before the change is made, so that no death loses a handler.

        A debt to an earlier run of the unit is replaced: what runs now has not seen the change either.
        """
        if not names:
            return
        owed = self.store.owed()
        for name in names:
            handler = self.plan["handlers"][name]
            present = units.invocation(handler["unit"])
            if name not in owed or owed[name]["run"] != present:
                owed[name] = {"handler": handler, "since": now(), "run": present}
        self.store.set_owed(owed)

    def _foresee(self, spec: Dict[str, Any]) -> None:
        """Something would change, and `_owe` would write down the run of each unit that has not seen it."""
        self.foreseen = True
        for name in spec.get("notify", []):
            self.would_owe[name] = units.foreseen_invocation(self.world, self.plan["handlers"][name]["unit"])

    def _all_handlers(self) -> None:
        started = time.monotonic()
        try:
            self._handlers()
        except (Damaged, Refused) as error:
            spec = {"id": "handlers"}
            self._done(spec, "failed", started, name="handlers", detail=error.message, remedy=error.remedy)
            raise Stop from None

    def _handlers(self) -> None:
        owed = {} if self.world.is_empty else self.store.owed()
        if self.check:
            self._predict_handlers(owed)
            return
        for name, debt in list(owed.items()):
            started = time.monotonic()
            spec = {"id": "handler:" + name}
            handler = debt["handler"]
            present = units.invocation(handler["unit"])
            if present is None or present != debt["run"]:
                del owed[name]  # it does not run, or was started anew since: nothing is owed any more
            elif not self.plan["restart"]:
                self._done(spec, "pending", started, name=name, detail="since %s" % debt["since"])
                continue
            else:
                self.wire.emit("start", id=spec["id"], name=name)
                self.store.journal(resource=name, unit=handler["unit"], restarted=True)
                ran = run(["systemctl", "restart", "--", handler["unit"]])
                if ran.status != 0:
                    self._done(spec, "failed", started, name=name, detail=ran.tail(), remedy="see the unit's journal")
                    raise Stop
                del owed[name]
                self._done(spec, "changed", started, name=name)
            self.store.set_owed(owed)

    def _predict_handlers(self, owed: Dict[str, Any]) -> None:
        debts = dict({name: debt["run"] for name, debt in owed.items()}, **self.would_owe)
        for name in dict.fromkeys([*debts, *self.maybe_notified]):
            unit = self.plan["handlers"].get(name, owed.get(name, {}).get("handler", {}))["unit"]
            present = units.foreseen_invocation(self.world, unit)
            if present is None:
                continue
            state, detail = "change" if self.plan["restart"] else "pending", ""
            if debts.get(name) != present:
                if name not in self.maybe_notified:
                    continue
                state, detail = "unknown", "after " + self.maybe_notified[name]
            self.wire.emit("done", id="handler:" + name, name=name, state=state, detail=detail, seconds=0)

    # verifications

    def _verify(self, spec: Dict[str, Any]) -> None:
        if self.check:
            return
        if self.wire.controller_is_gone():
            raise Stop
        started = time.monotonic()
        self.current = spec["id"]
        self.wire.emit("start", id=spec["id"])
        kind = self._kind(spec)
        try:
            self._done(spec, "verified", started, detail=kind.apply() or "")
        except Detached:
            raise Stop from None
        except Refused as refused:
            self._done(spec, "failed", started, detail=refused.message, remedy=refused.remedy, verify=True)
            raise Stop from None
