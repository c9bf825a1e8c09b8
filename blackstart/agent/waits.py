"""What a plan verifies once its changes are made: things that become true in their own time, each with a deadline."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, Optional

from .kind import Detached, Kind, Refused, Verdict
from .run import run
from .units import RUNNING, show

POLL_S = 0.1
TELL_S = 1.0
GET_TIMEOUT_S = 30


class Wait(Kind):
    """A verification: it changes nothing. `apply` returns what was seen, for people and for JSON."""

    verifies = True

    def check(self) -> Verdict:
        return Verdict(False)

    def predict(self) -> None:
        """Nothing is made."""

    def pause(self) -> None:
        """Between two looks. Raises Detached where nobody waits with us any more: the lock must not be held for him."""
        if self.context.gone():
            raise Detached
        time.sleep(POLL_S)


class Booted(Wait):
    """systemd is up: `running`, or `degraded` by nothing but the units that `tolerates` names."""

    def apply(self) -> str:
        deadline = time.monotonic() + self.spec["deadline"]
        while True:
            state = run(["systemctl", "is-system-running"]).output.strip().splitlines()[-1:]
            if state == ["running"]:
                return "running"
            failed = self._failed() if state == ["degraded"] else []
            if state == ["degraded"] and set(failed) <= set(self.spec["tolerates"]):
                return "degraded only by " + " ".join(failed)
            if state == ["degraded"] or time.monotonic() > deadline:
                raise Refused(
                    "systemd is %s%s" % (" ".join(state) or "silent", ": " + " ".join(failed) if failed else ""),
                    "see `systemctl --failed` on this machine",
                )
            self.pause()

    def _failed(self) -> "list[str]":
        ran = run(["systemctl", "list-units", "--state=failed", "--no-legend", "--plain"])
        return [line.split()[0] for line in ran.output.splitlines() if line.strip()]


class Opens(Wait):
    """Device nodes that can really be opened, which a missing device rule or mode forbids."""

    def apply(self) -> str:
        for path in self.spec["paths"]:
            try:
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
            except OSError as error:
                raise Refused("%s cannot be opened: %s" % (path, error.strerror), self.spec.get("remedy", "")) from None
        return "%d nodes open" % len(self.spec["paths"])


class Http(Wait):
    """A URL that answers 200 before the deadline, while the unit that serves it is alive.

    With `body` it is a POST of JSON. The answer's text is what `apply` returns.
    """

    def apply(self) -> str:
        deadline = time.monotonic() + self.spec["deadline"]
        self._told = time.monotonic()
        while True:
            answer = self._ask(max(deadline - time.monotonic(), 1))
            if isinstance(answer, bytes):
                return answer.decode("utf-8", "replace")
            self._require_unit()
            self._tell()
            if time.monotonic() > deadline:
                raise Refused(
                    "%s did not answer 200 within %g s: %s" % (self.spec["url"], self.spec["deadline"], answer),
                    self.spec.get("remedy", ""),
                )
            self.pause()

    def _ask(self, patience: float) -> Any:
        """A GET is asked anew where no answer comes; a POST means work, which is worth waiting for."""
        body: Optional[Any] = self.spec.get("body")
        request = urllib.request.Request(
            self.spec["url"],
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        if body is None:
            patience = min(patience, GET_TIMEOUT_S)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=patience) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return "HTTP %d" % error.code
        except (OSError, http.client.HTTPException) as error:
            return str(getattr(error, "reason", "")) or str(error) or type(error).__name__

    def _tell(self) -> None:
        """While it waits: the last line of the unit's log, so that a long start is not a silent one."""
        if self.spec.get("unit") and time.monotonic() - self._told > TELL_S:
            self._told = time.monotonic()
            ran = run(["journalctl", "-u", self.spec["unit"], "-n", "1", "--no-pager", "-o", "cat"])
            if ran.status == 0 and ran.output.strip():
                self.context.say(ran.output.strip())

    def _require_unit(self) -> None:
        """Raises Refused where the unit has ended; that systemd does not answer for once says nothing about it."""
        unit: str = self.spec.get("unit", "")
        if not unit:
            return
        try:
            ended = show(unit)["ActiveState"] not in RUNNING
        except Refused:
            return
        if ended:
            log = run(["journalctl", "-u", unit, "-n", "12", "--no-pager", "-o", "cat"])
            raise Refused("unit %s ended while it was starting\n%s" % (unit, log.tail(12)), self.spec.get("remedy", ""))
