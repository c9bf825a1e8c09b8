"""inv exec, inv probe, inv journal."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from blackstart.errors import BlackstartError, InputError
from blackstart.front import Door, Result, task

if TYPE_CHECKING:
    from blackstart.session import Session

JOURNAL = "/var/lib/blackstart/journal.jsonl"


@task(machines=True, name="exec", help={"timeout": "seconds that the command may take"})
def exec_(door: Door, timeout: float = 600.0) -> Result:
    """Run a command as root on the selected machines: inv exec --limit H -- COMMAND."""
    command = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    if not command:
        raise InputError("no command is given", where="inv exec", remedy="it comes last: inv exec --limit H -- COMMAND")
    if not 0 < timeout < math.inf:
        raise InputError("--timeout is a number of seconds above 0", where="--timeout", found=str(timeout))
    question = {"probe": "run", "argv": command, "timeout": timeout}

    def show(name: str, answers: Sequence[Any]) -> dict[str, Any]:
        (ran,) = answers
        door.console.line(f"{name}: {shlex.join(command)} ended with {ran['status']}")
        for line in ran["output"].splitlines():
            door.console.line(f"  {line}")
        return {"status": ran["status"], "output": ran["output"]}

    return _ask_all(door, [question], show, failed=lambda found: found["status"] != 0, installs=True)


@task(machines=True)
def probe(door: Door) -> Result:
    """Reach every selected machine and say what it is."""
    questions: list[dict[str, Any]] = [
        {"probe": "file", "path": "/etc/os-release"},
        {"probe": "run", "argv": ["uname", "-r", "-m"]},
    ]

    def show(name: str, answers: Sequence[Any]) -> dict[str, Any]:
        release, kernel = answers
        fields = dict(line.split("=", 1) for line in (release or {"text": ""})["text"].splitlines() if "=" in line)
        found = {"os": fields.get("PRETTY_NAME", "unknown").strip('"'), "kernel": kernel["output"].strip()}
        door.console.line(f"{name:<10} {found['os']}, kernel {found['kernel']}")
        return found

    return _ask_all(door, questions, show)


@task(machines=True, help={"host": "the machine, as --limit names it", "lines": "how many of the last entries"})
def journal(door: Door, host: str = "", lines: int = 50) -> Result:
    """Show who changed what on a machine, and when, with the hashes before and after."""
    from blackstart.agent.probes import MAX_LINES

    if not 1 <= lines <= MAX_LINES:
        raise InputError(f"--lines is 1 to {MAX_LINES}", where="--lines", found=str(lines))
    if host:
        door.options["limit"] = host

    def show(name: str, answers: Sequence[Any]) -> dict[str, Any]:
        entries = [_entry(line) for line in answers[0]]
        for entry in entries:
            said = f"{entry['at']}  {entry['by']}  {_told(entry)}" if "at" in entry else f"unreadable: {entry['torn']}"
            door.console.line(f"{name:<10} {said}")
        return {"entries": entries}

    return _ask_all(door, [{"probe": "tail", "path": JOURNAL, "lines": lines}], show)


def _entry(line: str) -> dict[str, Any]:
    """A line of the journal; one that a full disk or a power cut tore is shown as it is."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    return entry if isinstance(entry, dict) and {"at", "by"} <= entry.keys() else {"torn": line}


def _told(entry: dict[str, Any]) -> str:
    what = str(entry.get("resource", ""))
    if "after" in entry:
        place = "" if entry.get("path", "") in what else f"  {entry['path']}"
        return f"{what}{place}  {_short(entry.get('before'))} -> {_short(entry['after'])}"
    rest = ", ".join(f"{key} {value}" for key, value in entry.items() if key not in ("at", "by", "resource"))
    return f"{what}  {rest}"


def _short(digest: str | None) -> str:
    if digest is None:
        return "absent"
    return digest[:12] if len(digest) == 64 else digest


def _ask_all(
    door: Door,
    questions: Sequence[dict[str, Any]],
    show: Callable[[str, Sequence[Any]], dict[str, Any]],
    failed: Callable[[dict[str, Any]], bool] = lambda found: False,
    installs: bool = False,
) -> Result:
    """Ask every machine at once; show in the inventory's order. One that fails does not hide the others."""
    from blackstart.ask import leave
    from blackstart.converge import POOL
    from roles import open_fleet

    def ask(session: Session) -> Sequence[Any] | BlackstartError:
        try:
            with session:
                return session.probe({"asked": questions})["asked"][0]
        except BlackstartError as error:
            return error

    results, code = [], 0
    with open_fleet(door) as fleet, ThreadPoolExecutor(POOL) as pool:
        sessions = {machine.name: fleet.session(machine, installs=installs) for machine in door.machines}
        try:
            for name, answer in zip(sessions, pool.map(ask, sessions.values()), strict=True):
                if isinstance(answer, BlackstartError):
                    door.console.line(f"error: {answer}")
                    results.append({"name": name, "error": answer.as_dict()})
                    code = 1  # even where it was the input: others may have been asked
                    continue
                found = show(name, answer)
                results.append({"name": name, **found})
                code = max(code, int(failed(found)))
        except KeyboardInterrupt:
            leave()
            for session in sessions.values():
                session.hang_up()
            raise
    return Result(door.document(machines=results), code)
