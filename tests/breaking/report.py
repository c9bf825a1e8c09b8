"""docs/reliability.md, made of the figures of the full runs: python -m tests.breaking.report"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .figures import place

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"

HEAD = """\
# Reliability: proof by breaking
What is claimed of the engine is tried on machines that are being broken: hosts made of mount and PID namespaces over
this machine's own root, each with a real sshd, a real dpkg and real users (`tests/breaking`). Stand-ins answer for
systemctl and systemd-run, since nothing is booted, and for pct where the roles' own plans are checked.

These are the figures of the full runs, made in parts, the last on {date}; {machine}, seed {seed}. To repeat
them, as root:

    inv test --soak

then `python -m tests.breaking.report` writes this page anew. `inv test` runs a sample of each, drawn by the same
seed; `BLACKSTART_SEED=N` draws another.

| What is done | How often | What came of it | Seconds |
|---|---|---|---|
"""

WORDS = """
After each disturbance the same is asked: every file is old or new, in content, mode and owner; the next run goes
through, says what it completed, and leaves no temporary file; the whole tree of what was written to the host is that of
an undisturbed run, dpkg's records and the accounts included; nothing is owed any more, and the unit that was to be
restarted was started with the last content; a check finds nothing left to do.

*Agent killed* means SIGKILL; *with all it started* also kills the programs that it ran, all at one blow, as a power cut
would. Moments are spread evenly over the resources, since by time alone nearly all would fall into apt. *Before a
call* kills the agent's interpreter right before each single call by which it would change the machine, one round for
each: `tests/breaking/dying_python.py` counts them from outside, by an audit hook.

A proxy on loopback does the cutting: by reset, by a plain end, or by a stall, after which nothing arrives any more.
A stall is noticed by silence; the machine's sshd notices it by TCP's own limits or by `ClientAliveInterval`. Until then
the lock of such a controller is held, and whoever comes is told by whom.

Tests that are not counted in rounds, all passed:

| | Tests |
|---|---|
"""

MEANINGS = {
    "test_check.py": "checks of plans in which later resources stand on what earlier ones would make",
    "test_check_roles.py": "checks of every role's plan",
    "test_controllers.py": "locks of dead controllers and dead agents",
    "test_inventories.py": "aliases that multiply",
    "test_journal.py": "the journal and what it keeps",
    "test_kill.py": "samples of the rounds above, and half-made accounts",
    "test_cut.py": "samples of the cuts above",
    "test_links.py": "links that an unprivileged user laid where root writes",
    "test_machines.py": "disk full, read-only, no permission, sudo, clocks, banners, locales, no Python",
    "test_secrets.py": "secrets, looked for in all that a run leaves on both ends",
}


def page(found: dict[str, Any]) -> str:
    """The text of the page."""
    figures = sorted(found["figures"].values(), key=lambda figure: (figure["test"].split("::")[0], figure["what"]))
    rows = [f"| {f['what']} | {f['times']} | {f['outcome']} | {f['seconds']:.0f} |" for f in figures]
    seconds = sum(figure["seconds"] for figure in figures)
    rows.append(f"| in all | | | {seconds:.0f} |")
    tests = [f"| {MEANINGS.get(file, file)} | {count} |" for file, count in sorted(found["passed"].items())]
    return HEAD.format(**found) + "\n".join(rows) + "\n" + WORDS + "\n".join(tests) + "\n"


def main() -> int:
    if not place().exists():
        print("there are no figures: run inv test --soak first", file=sys.stderr)
        return 1
    PAGE.write_text(page(json.loads(place().read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
