"""inv bench.ladder."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blackstart.errors import CheckError, InputError, VerifyError
from blackstart.front import Door, Result, task

if TYPE_CHECKING:
    from blackstart.fleet import Fleet
    from blackstart.machine import Machine
    from roles.bench.state import Level, Variables


@task(
    machines=True,
    help={
        "levels": "numbers of prompts, comma separated; all of bench_levels if left out",
        "series": "name under which the records are kept; the date and time if left out",
    },
)
def ladder(door: Door, levels: str = "", series: str = "") -> Result:
    """Climb the ladder on one engine and hold it against the recorded series."""
    from blackstart.variables import resolve
    from roles import open_fleet
    from roles.bench.state import Variables, chosen_levels, recorded, series_file

    engines = [machine for machine in door.machines if machine.through is not None or machine.get("local")]
    if len(engines) != 1:
        names = ", ".join(machine.name for machine in engines) or "none"
        raise InputError("a ladder climbs on one engine", where="--limit", found=names, remedy="name one with --limit")
    (machine,) = engines
    variables = resolve(machine, door.defaults, Variables)
    chosen = chosen_levels(variables, levels)
    name = series or datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M%SZ")
    if "/" in name:
        raise InputError("a series' name is a file name", where="--series", found=name)
    beside = {level.prompts: recorded(variables.bench_baseline, level) for level in chosen}
    path = series_file(door.inventory.path, name)
    _require_room_for_records(path)
    records: list[dict[str, Any]] = []
    with open_fleet(door) as fleet, door.console.progress():
        scale = _time_scale(fleet, machine, variables)
        for level in chosen:
            record = _climb(fleet, machine, variables, name, level)
            record |= {"series": name, "machine": machine.name, "profile": variables.server_profile}
            record |= {"simulated": scale is not None, "simulated_time_scale": scale}
            records.append(record)
            _keep(path, record)
    _show(door, records, beside, scale)
    door.console.line(f"kept in {path}")
    return Result(door.document(series=name, levels=records, recorded=beside))


def _require_room_for_records(path: Path) -> None:
    """A level may take an hour: that its record cannot be kept is found before. Raises InputError."""
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("a"):
            pass
        if path.stat().st_size == 0:
            path.unlink()
    except (OSError, ValueError) as error:
        remedy = "see that the folder can be written to, or name another --series"
        raise InputError("the records cannot be kept", where=str(path), found=str(error), remedy=remedy) from None


def _keep(path: Path, record: dict[str, Any]) -> None:
    """Raises CheckError with the whole record, which is what the time was spent on."""
    try:
        with path.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
    except OSError as error:
        what = f"the record cannot be kept: {error.strerror}"
        raise CheckError(what, where=str(path), found=json.dumps(record), remedy="make room, and keep it") from None


def _climb(fleet: Fleet, machine: Machine, variables: Variables, series: str, level: Level) -> dict[str, Any]:
    """One level, and the proof that the server outlived it. Raises VerifyError."""
    from blackstart import resources
    from blackstart.plan import Section, State, plan_to_wire
    from roles.bench.state import level_resource, output_file, result_of

    made = resources.directory(variables.bench_folder)
    # bench_serving appends: what an earlier run left, perhaps half a line, is not to be taken for this one's.
    fresh = resources.absent(output_file(variables, series, level))
    command = level_resource(variables, series, level)
    alive = resources.http("alive afterwards", variables.url("/health"), deadline=30, unit=variables.server_unit)
    section = Section("bench", machine.name, (), "", State([made, fresh, command], verify=[alive]))
    fleet.listener.begins(machine.name, "bench", command.name)
    with fleet.session(machine) as session:
        for event in session.converge(plan_to_wire([section], check=False, restart=False, empty=False)):
            if event["e"] == "output":
                fleet.listener.says(machine.name, event["line"])
            if event["e"] == "done" and event["state"] == "failed":
                what = f"level {level.prompts} did not hold"
                raise VerifyError(what, where=machine.name, found=event["detail"], remedy=event.get("remedy", ""))
        question = {"probe": "file", "path": output_file(variables, series, level)}
        (answer,), _ = session.probe({"bench": [question]})["bench"]
    return result_of(answer["text"] if answer else "", level, machine.name)


def _time_scale(fleet: Fleet, machine: Machine, variables: Variables) -> float | None:
    """By how much the simulated engine divides its times; None for a real one."""
    question = {"probe": "http", "url": variables.url("/get_server_info")}
    with fleet.session(machine) as session:
        (answer,), _ = session.probe({"bench": [question]})["bench"]
    if answer["status"] != 200:
        what, found = "the server does not answer", f"HTTP {answer['status']} {answer['body'][:100]}"
        raise VerifyError(what, where=machine.name, found=found, remedy="inv server.start")
    scale: float | None = json.loads(answer["body"]).get("simulated_time_scale")
    return scale


def _show(door: Door, records: list[dict[str, Any]], beside: dict[int, dict[str, Any]], scale: float | None) -> None:
    mark = f"  SIMULATED, times divided by {scale:g}: no GPU was measured" if scale else ""
    door.console.line(f"bench_serving, tokens a second{mark}")
    door.console.line(
        f"{'prompts':>8} {'output tokens':>14} {'output':>10} {'total':>10} {'TPOT ms':>9}   recorded total"
    )
    for record in records:
        known = ", ".join(f"{name} {level['total_throughput']:g}" for name, level in beside[record["prompts"]].items())
        door.console.line(
            f"{record['prompts']:>8} {record['total_output_tokens']:>14} {_figure(record, 'output_throughput'):>10} "
            f"{_figure(record, 'total_throughput'):>10} {_figure(record, 'mean_tpot_ms'):>9}   {known or '-'}"
        )


def _figure(record: dict[str, Any], name: str) -> str:
    """A measured number; NaN and Infinity stand in a record as words."""
    value = record[name]
    return value if isinstance(value, str) else f"{value:.1f}"
