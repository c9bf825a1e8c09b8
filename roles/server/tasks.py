"""inv server.start, stop, restart, status, logs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blackstart.errors import BlackstartError, CheckError, InputError, VerifyError
from blackstart.front import Door, Result, task

if TYPE_CHECKING:
    from blackstart.fleet import Fleet
    from blackstart.machine import Machine
    from blackstart.plan import State
    from roles.server.state import Variables

MOST_LINES = 1_000_000
NEEDLE = "sglang::"
"""What the command lines of the engine's children begin with; their short names are cut off before it tells."""


@task(previews=True, help={"profile": "name of a profile of inventory/profiles"})
def start(door: Door, profile: str = "") -> Result:
    """Start the server from its profile, and wait until it answers."""
    return _each(door, profile, _would_start if door.check else _start)


@task(previews=True)
def stop(door: Door) -> Result:
    """Stop the server: requests in flight are finished, then no process of it is left."""
    return _each(door, "", _would_stop if door.check else _stop)


@task(previews=True, help={"profile": "name of a profile of inventory/profiles"})
def restart(door: Door, profile: str = "") -> Result:
    """Stop the server and start it from a named profile; whatever would keep it from starting leaves it alone."""
    return _each(door, profile, _would_restart if door.check else _restart)


@task(machines=True)
def status(door: Door) -> Result:
    """Say what runs: unit, processes, model, readiness."""
    return _each(door, "", _status)


@task(machines=True, help={"lines": "how many of the last lines"})
def logs(door: Door, lines: int = 50) -> Result:
    """Show the server's last log lines."""
    if not 1 <= lines <= MOST_LINES:
        raise InputError(f"--lines is 1 to {MOST_LINES}", where="--lines", found=str(lines))
    return _each(door, "", lambda fleet, machine: _logs(fleet, machine, lines), show=_show_log)


Act = Callable[["Fleet", "Machine"], dict[str, Any]]


def _each(door: Door, profile: str, act: Act, show: Callable[[Door, dict[str, Any]], None] | None = None) -> Result:
    """Do it on every selected engine. All input is checked for all of them before the first is touched."""
    from roles import open_fleet
    from roles.server.state import unit_text

    if profile:
        door.options["set"] = [*door.options["set"], f"server_profile={json.dumps(profile)}"]
    engines = [machine for machine in door.machines if machine.through is not None or machine.get("local")]
    if not engines:
        raise InputError("no engine is selected", where="--limit", remedy="name a container, or leave --limit out")
    results: list[dict[str, Any]] = []
    with open_fleet(door) as fleet:
        for machine in engines:
            variables = _variables(fleet, machine)
            unit_text(variables)
            variables.port()
        if profile and not door.check:
            keep = "to keep it, set server_profile in the inventory"
            door.console.line(f"profile {profile} until the next inv up; {keep}")
        with door.console.progress():
            for machine in engines:
                result: dict[str, Any] = {"name": machine.name}
                try:
                    result |= act(fleet, machine)
                except BlackstartError as error:
                    result |= {"error": error.as_dict()}
                    door.console.line(f"error: {error}")
                else:
                    (show or _show)(door, result)
                results.append(result)
    return Result(door.document(machines=results), int(any("error" in result for result in results)))


def _show(door: Door, result: dict[str, Any]) -> None:
    mark = "  SIMULATED" if door.inventory.simulated else ""
    shown = ", ".join(
        f"{key} {_word(value)}" for key, value in result.items() if key != "name" and value not in (None, "")
    )
    door.console.line(f"{result['name']:<10} {shown}{mark}")


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _show_log(door: Door, result: dict[str, Any]) -> None:
    for line in result["lines"]:
        door.console.line(line)


def _variables(fleet: Fleet, machine: Machine) -> Variables:
    from blackstart.variables import resolve
    from roles.server.state import Variables

    return resolve(machine, fleet.defaults, Variables)


def _carry_out(
    fleet: Fleet, machine: Machine, state: State, *, check: bool = False, shows: bool = True
) -> dict[str, str]:
    """One plan of this role alone, restarting nothing; the state that each of its resources came to, by name.

    Raises VerifyError with what the machine said.
    """
    from blackstart.plan import Section, plan_to_wire
    from blackstart.report import Record

    section = Section("server", machine.name, (), "", state)
    resources = section.by_id()
    states: dict[str, str] = {}
    with fleet.session(machine, installs=not check) as session:
        for event in session.converge(plan_to_wire([section], check=check, restart=False, empty=False)):
            name = resources[event["id"]].name if event.get("id") in resources else event.get("name", "")
            if event["e"] == "start":
                fleet.listener.begins(machine.name, "server", name)
            elif event["e"] == "output":
                fleet.listener.says(machine.name, event["line"])
            elif event["e"] == "done" and event["state"] == "failed":
                raise VerifyError(name, where=machine.name, found=event["detail"], remedy=event.get("remedy", ""))
            elif event["e"] == "done":
                states[name] = event["state"]
                if shows:
                    fleet.listener.ends(machine.name, Record.of("server", name, event))
    return states


def _facts(fleet: Fleet, machine: Machine, questions: Sequence[dict[str, Any]]) -> list[Any]:
    with fleet.session(machine) as session:
        answers, _ = session.probe({"server": questions})["server"]
    return list(answers)


def _planned(fleet: Fleet, machine: Machine, variables: Variables) -> State:
    """Raises InputError where another process holds the port."""
    from roles.server.state import probes, state

    return state(variables, _facts(fleet, machine, [dict(question) for question in probes(variables)]))


def _start(fleet: Fleet, machine: Machine) -> dict[str, Any]:
    variables = _variables(fleet, machine)
    states = _carry_out(fleet, machine, _planned(fleet, machine, variables))
    return {"state": "ready", **_named(variables, states)}


def _would_start(fleet: Fleet, machine: Machine) -> dict[str, Any]:
    variables = _variables(fleet, machine)
    states = _carry_out(fleet, machine, _planned(fleet, machine, variables), check=True)
    runs = states[f"unit {variables.server_unit}"] == "ok"
    return {"state": "runs already" if runs else "would be started", **_named(variables, states)}


def _named(variables: Variables, states: Mapping[str, str]) -> dict[str, Any]:
    named = {"profile": variables.server_profile, "model": variables.served_model()}
    return {**named, "pending": "a restart: inv server.restart"} if "pending" in states.values() else named


def _restart(fleet: Fleet, machine: Machine) -> dict[str, Any]:
    """What would refuse the start is found while the old server still serves. Raises BlackstartError."""
    _require_startable(fleet, machine, shows=False)
    return {**_stop(fleet, machine), **_start(fleet, machine)}


def _would_restart(fleet: Fleet, machine: Machine) -> dict[str, Any]:
    _require_startable(fleet, machine, shows=True)
    return {"state": "would be restarted", **_named(_variables(fleet, machine), {})}


def _require_startable(fleet: Fleet, machine: Machine, *, shows: bool) -> None:
    """The gate of the unit and the whole plan are gone through, and nothing is touched. Raises BlackstartError."""
    from roles.server.state import gate_argv

    variables = _variables(fleet, machine)
    if variables.profile().patches:
        (ran,) = _facts(fleet, machine, [{"probe": "run", "argv": gate_argv(variables)}])
        if ran["status"] != 0:
            raise CheckError(
                "the sources lack a patch that the profile requires; the running server was left alone",
                where=machine.name,
                found=ran["output"].strip(),
                remedy=f"inv patch.apply --limit {machine.name}, or inv up",
            )
    start = _planned(fleet, machine, variables)
    whole = dataclasses.replace(start, resources=[*_stopped(variables).resources, *start.resources])
    _carry_out(fleet, machine, whole, check=True, shows=shows)


def _stopped(variables: Variables) -> State:
    from blackstart import resources
    from blackstart.plan import State

    unit = resources.unit(variables.server_unit, running=False)
    return State([dataclasses.replace(unit, name=f"stop {variables.server_unit}")])


def _would_stop(fleet: Fleet, machine: Machine) -> dict[str, Any]:
    states = _carry_out(fleet, machine, _stopped(_variables(fleet, machine)), check=True)
    return {"state": "would be stopped" if "change" in states.values() else "stopped already"}


def _stop(fleet: Fleet, machine: Machine) -> dict[str, Any]:
    """The unit is stopped, and nothing of the engine is left: what its unit no longer holds is looked for by name."""
    _carry_out(fleet, machine, _stopped(_variables(fleet, machine)))
    (left,) = _facts(fleet, machine, [{"probe": "processes", "needle": NEEDLE}])
    if left:
        found = "\n".join(f"pid {process['pid']}: {process['command']}" for process in left)
        raise VerifyError("processes of the engine are left", where=machine.name, found=found, remedy="end them by pid")
    return {"state": "stopped"}


def _status(fleet: Fleet, machine: Machine) -> dict[str, Any]:
    from roles.server.state import probes, profile_of

    variables = _variables(fleet, machine)
    questions: list[dict[str, Any]] = [
        {"probe": "unit", "unit": variables.server_unit},
        {"probe": "processes", "needle": NEEDLE},
        {"probe": "http", "url": variables.url("/health")},
        {"probe": "file", "path": f"/etc/systemd/system/{variables.server_unit}"},
        *(dict(question) for question in probes(variables)),
    ]
    unit, processes, health, unit_file, listener = _facts(fleet, machine, questions)
    return {
        "state": unit["ActiveState"],
        "ready": health["status"] == 200,
        "processes": len(processes),
        "port": variables.port() if listener else None,
        "profile": profile_of(unit_file["text"]) if unit_file else None,
    }


def _logs(fleet: Fleet, machine: Machine, lines: int) -> dict[str, Any]:
    variables = _variables(fleet, machine)
    argv = ["journalctl", "-u", variables.server_unit, "-n", str(lines), "--no-pager", "-o", "cat"]
    (ran,) = _facts(fleet, machine, [{"probe": "run", "argv": argv}])
    if ran["status"] != 0:
        raise CheckError("the log cannot be read", where=machine.name, found=ran["output"].strip())
    return {"lines": ran["output"].splitlines()}
