"""systemd units."""

import os
from typing import Dict, Optional

from .kind import Kind, Refused, Verdict
from .run import run
from .world import World

PROPERTIES = "LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,InvocationID,Result"
CALL_S = 180
RUNNING = ("active", "reloading", "activating")
STOPPED = ("inactive", "failed")
UNREAD = ("not-found", "error")  # `error`: the file of a failed unit went and came back
NEVER_ENABLED = ("static", "indirect", "generated")  # whatever systemctl answers, all stays as it is
UNIT_FILES = ("/etc/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd")


def has_systemd() -> bool:
    """Whether this machine was booted with systemd, as sd_booted(3) tells it."""
    return os.path.isdir("/run/systemd/system")


def show(unit: str) -> Dict[str, str]:
    """systemd's own view of a unit; LoadState is `not-found` where it has no file. Raises Refused without systemd."""
    ran = run(["systemctl", "show", "-p", PROPERTIES, "--", unit])
    if ran.status != 0:
        raise Refused("systemd does not answer: " + ran.tail(1), "is this machine booted with systemd?")
    return dict(line.split("=", 1) for line in ran.output.splitlines() if "=" in line)


def systemctl(*arguments: str, timeout: Optional[float] = CALL_S) -> None:
    ran = run(["systemctl", *arguments], timeout=timeout)
    if ran.status != 0:
        raise Refused("systemctl %s ended with %d\n%s" % (" ".join(arguments), ran.status, ran.tail()))


class Unit(Kind):
    """A unit that is enabled or not (`enabled`), and running or not (`running`); None leaves either as it is.

    A unit that runs is never restarted here: that is a handler's business. That systemd has read the unit's file
    anew is not a change: an applying run sees to it silently.
    """

    @property
    def unit(self) -> str:
        unit: str = self.spec["unit"]
        return unit

    def _found(self) -> Dict[str, str]:
        overlay = self.world.unit_overlay(self.unit)
        if self.world.is_empty:
            return dict({"ActiveState": "inactive", "UnitFileState": "disabled", "NeedDaemonReload": "no"}, **overlay)
        found = show(self.unit)
        if self.context.applying and (found["NeedDaemonReload"] == "yes" or found["LoadState"] in UNREAD):
            systemctl("daemon-reload")
            found = show(self.unit)
        if found.get("UnitFileState") == "" and _wanted_by_something(self.unit):
            found["UnitFileState"] = "enabled"  # its file went, the links that enable it stayed
        return dict(found, **overlay)

    def check(self) -> Verdict:
        found, wishes = self._found(), []
        enabled, running = self.spec.get("enabled"), self.spec.get("running")
        if enabled is not None and (found.get("UnitFileState") == "enabled") != enabled:
            self._require_switch(found, enabled)
            wishes.append("enabled" if enabled else "disabled")
        if running is not None and found["ActiveState"] not in (RUNNING if running else STOPPED):
            wishes.append("%s -> %s" % (found["ActiveState"], "active" if running else "inactive"))
        return Verdict(bool(wishes), "\n".join("unit %s: %s" % (self.unit, wish) for wish in wishes), ", ".join(wishes))

    def _require_switch(self, found: Dict[str, str], enabled: bool) -> None:
        """Raises Refused for a unit that cannot be enabled, and in a check no unit file would change before."""
        state = found.get("UnitFileState")
        if enabled and state in NEVER_ENABLED and not any(map(self.world.disturbed, UNIT_FILES)):
            remedy = "give it an [Install] section, or leave `enabled` open"
            raise Refused("%s is %s: it cannot be enabled" % (self.unit, state), remedy)

    def apply(self) -> None:
        enabled, running = self.spec.get("enabled"), self.spec.get("running")
        found = self._found()
        self.context.store.journal(resource=self.name, unit=self.unit, enabled=enabled, running=running)
        if enabled is not None and (found.get("UnitFileState") == "enabled") != enabled:
            systemctl("enable" if enabled else "disable", "--", self.unit)
        if running is True and found["ActiveState"] not in RUNNING:
            if found["ActiveState"] == "failed":
                systemctl("reset-failed", "--", self.unit)
            systemctl("start", "--no-block", "--", self.unit)
        if running is False and found["ActiveState"] not in STOPPED:
            systemctl("stop", "--", self.unit, timeout=None)  # it may take as long as the unit itself allows

    def predict(self) -> None:
        state: Dict[str, str] = {}
        if self.spec.get("enabled") is not None:
            state["UnitFileState"] = "enabled" if self.spec["enabled"] else "disabled"
        running = self.spec.get("running")
        if running is not None:
            if (self._found()["ActiveState"] in RUNNING) != running:
                state["InvocationID"] = "of " + self.spec["id"] if running else ""
            state["ActiveState"] = "active" if running else "inactive"
        self.world.would_set_unit(self.unit, state)


def _wanted_by_something(unit: str) -> bool:
    root = "/etc/systemd/system"
    return any(
        os.path.islink(os.path.join(root, folder, unit))
        for folder in os.listdir(root)
        if folder.endswith((".wants", ".requires"))
    )


def invocation(unit: str) -> Optional[str]:
    """The id of a unit's present run; None while it does not run, and where no systemd could run it."""
    if not has_systemd():
        return None
    found = show(unit)
    return found.get("InvocationID") if found["ActiveState"] in RUNNING else None


def foreseen_invocation(world: World, unit: str) -> Optional[str]:
    """As `invocation`, after all that a check has foreseen so far."""
    overlay = world.unit_overlay(unit)
    if "InvocationID" in overlay:
        return overlay["InvocationID"] or None
    return None if world.is_empty else invocation(unit)
