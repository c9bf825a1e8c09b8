"""inv up: everything, from nothing to a served model; or what has come to differ since."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blackstart.front import Door, Result, task

if TYPE_CHECKING:
    from blackstart.report import MachineReport


@task(converges=True)
def up(door: Door) -> Result:
    """Converge host, container, environment, patches and server; ends with one completion."""
    from blackstart.converge import converge, require_input
    from blackstart.fleet import Options
    from roles import open_fleet

    options = Options(
        check=door.check,
        restart=bool(door.options["restart"]),
        tags=door.tags,
        serial=door.count("serial"),
        max_fail=door.count("max_fail"),
    )
    machines = door.machines
    door.confirm_restart()
    with door.console.progress(), open_fleet(door) as fleet:
        if door.inventory.simulated and not door.check:
            from roles.stand_in import make

            require_input(fleet, machines, options)
            make.ensure(door)
        reports = converge(fleet, machines, options)
    door.console.recap(reports, check=door.check)
    answers = [] if door.check else [_epilogue(door, report) for report in reports]
    _say_times(door, reports)
    document = door.document(
        check=door.check,
        machines=[report.as_dict() for report in reports],
        completions=[answer for answer in answers if answer],
    )
    return Result(document, int(any(report.failed for report in reports)))


def _epilogue(door: Door, report: MachineReport) -> dict[str, Any] | None:
    """Patch states, the profile, and what the served model said."""
    from roles.patches.committed import PATCHES
    from roles.server.state import COMPLETION, Variables

    if report.failed:
        return None
    for record in report.records:
        if record.role == "patches" and record.name == PATCHES:
            door.console.line(f"patches    {record.detail}")
    completion = next(
        (record for record in report.records if record.name == COMPLETION and record.state == "verified"), None
    )
    if completion is None:
        return None
    from blackstart.variables import resolve

    variables = resolve(door.inventory.machines[report.name], door.defaults, Variables)
    answer = json.loads(completion.detail)
    text: str = answer["choices"][0]["text"]
    mark = " SIMULATED" if door.inventory.simulated else ""
    door.console.line(f"profile    {variables.server_profile}, model {variables.served_model()}")
    door.console.line(f"completion{mark} {variables.server_probe_prompt!r} -> {text.strip()!r}")
    return {"machine": report.name, "profile": variables.server_profile, "text": text, "answer": answer}


def _say_times(door: Door, reports: Sequence[MachineReport]) -> None:
    """Where the time went, where there is something to say."""
    parts = [(name, seconds) for name, seconds in door.timings if seconds >= 1]
    parts += [(report.name, report.seconds) for report in reports if report.seconds >= 1]
    if parts:
        door.console.line("time       " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in parts))
