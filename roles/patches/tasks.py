"""inv patch.list, show, status, verify, apply, revert, adopt: on machines, or with --source on a folder of source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from blackstart.errors import BlackstartError, CheckError, InputError
from blackstart.front import Door, Result, task

from .workshop import matrix as matrix
from .workshop import new as new

T = TypeVar("T")

if TYPE_CHECKING:
    from blackstart.fleet import Fleet
    from blackstart.machine import Machine
    from roles.patches.changes import Change
    from roles.patches.decide import Edit, Outcome
    from roles.patches.definition import Patch
    from roles.patches.facts import Installed

SOURCE = "a folder that holds sglang/, such as an unpacked wheel; no machine is asked then"
PATCH = "names of patches, comma separated; all of them if left out"
BAD = ("needed", "drifted")


@task(name="list")
def list_(door: Door) -> Result:
    """Name the patches there are, each with what it is for."""
    from roles.patches import definition

    found = [{"name": patch.name, "title": patch.prose.title} for patch in definition.load_all()]
    for patch in found:
        door.console.line(f"{patch['name']:<18} {patch['title']}")
    return Result({"patches": found})


@task(machines=True, positional=["name"], help={"name": "the patch", "source": SOURCE})
def show(door: Door, name: str, source: str = "") -> Result:
    """Say what a patch changes, why, since when and what it cannot do; with its difference for this release."""
    from roles.patches import definition

    patch = definition.load(name)
    prose = {key: value for key, value in vars(patch.prose).items() if value}
    for key, value in prose.items():
        door.console.line(f"{key.replace('_', ' ')}:")
        for line in str(value).rstrip().splitlines():
            door.console.line(f"  {line}")
    document: dict[str, Any] = {"name": name, **prose}
    if source:
        document["installed"] = _on_source(door, source, [patch], "apply", dry=True, always_diff=True)
    return Result(document)


@task(machines=True, help={"source": SOURCE, "patch": PATCH})
def status(door: Door, source: str = "", patch: str = "") -> Result:
    """Say of each patch whether it is needed, applied, upstream, not-applicable or drifted. Changes nothing."""
    patches = _named(patch)
    if source:
        from roles.patches.status import status as states

        found = states(_folder(source), patches)
        _show(door, found)
        return Result(found)

    def look(fleet: Fleet, machine: Machine) -> dict[str, Any]:
        from roles.patches.decide import decide_all

        def decide(own: Sequence[Patch], found: Installed) -> list[dict[str, str]]:
            return [outcome.as_dict() for outcome in decide_all(own, found.tree, found.manifest)]

        version, states = _decided(fleet, machine, patches, decide)
        return {"sglang_version": version, "patches": states}

    return _each_machine(door, look)


@task(machines=True, help={"source": SOURCE, "patch": PATCH})
def verify(door: Door, source: str = "", patch: str = "") -> Result:
    """Prove each patch anew on what is installed, manifest or not; ends with 1 while one is needed or drifted."""
    from roles.patches.decide import decide_unrecorded

    patches = _named(patch)
    if source:
        from roles.patches.tree import FolderTree

        folder = _folder(source)
        outcomes = [decide_unrecorded(one, FolderTree(folder, one.distribution, one.package)) for one in patches]
        found = {"sglang_version": FolderTree(folder).version(), "patches": [_proved(one) for one in outcomes]}
        _show(door, found)
        return Result(found, _code("apply", found))

    def look(fleet: Fleet, machine: Machine) -> dict[str, Any]:
        def decide(own: Sequence[Patch], found: Installed) -> list[dict[str, str]]:
            return [_proved(decide_unrecorded(one, found.tree)) for one in own]

        version, states = _decided(fleet, machine, patches, decide)
        return {"sglang_version": version, "patches": states}

    return _each_machine(door, look, "apply")


def _proved(outcome: Outcome) -> dict[str, str]:
    """Who put it there is not what is asked."""
    return {**outcome.as_dict(), "detail": outcome.detail.removeprefix("by hand: ")}


@task(changes=True, help={"source": SOURCE, "patch": PATCH})
def apply(door: Door, source: str = "", patch: str = "") -> Result:
    """Apply what is needed; a drifted patch is never forced. Ends with 1 while one is needed or drifted."""
    return _change(door, source, patch, "apply")


@task(changes=True, help={"source": SOURCE, "patch": PATCH})
def revert(door: Door, source: str = "", patch: str = "") -> Result:
    """Take patches out again, to the byte."""
    return _change(door, source, patch, "revert")


@task(changes=True, help={"source": SOURCE, "patch": PATCH})
def adopt(door: Door, source: str = "", patch: str = "") -> Result:
    """Record what was applied by hand, so that a later change of it is noticed."""
    return _change(door, source, patch, "adopt")


def _named(text: str) -> list[Patch]:
    """Raises InputError where names are given and none is left: that is an empty variable, and not every patch."""
    from roles.patches import definition

    names = [part.strip() for part in text.split(",") if part.strip()]
    if text and not names:
        raise InputError("no patch is named", where="--patch", found=repr(text))
    return [definition.load(name) for name in dict.fromkeys(names)] if names else definition.load_all()


def _folder(source: str) -> Path:
    path = Path(source)
    if not path.is_dir():
        raise InputError("there is no such folder", where="--source", found=source)
    return path


def _show(door: Door, found: dict[str, Any]) -> None:
    where = f"{found['name']}: " if "name" in found else ""
    door.console.line(f"{where}sglang {found['sglang_version']}")
    for patch in found["patches"]:
        paint = {"applied": "ok", "upstream": "ok", "needed": "changed", "drifted": "failed"}.get(patch["state"], "")
        place = f"  {patch['file']}" if patch["file"] else ""
        door.console.line(f"  {patch['name']:<18} {door.console.paint(patch['state'].ljust(14), paint)}{place}")
        if patch["detail"]:
            door.console.line(f"  {'':<18} {patch['detail']}")
    for key in ("changed", "would_change"):
        if key in found:
            for path in found[key] or ["nothing"]:
                door.console.line(f"  {key.replace('_', ' ')} {path}")
    if found.get("unfinished") or found.get("completed"):
        door.console.line(f"  {found.get('unfinished') or found.get('completed')}")


def _show_edits(door: Door, edits: Sequence[Edit]) -> None:
    from blackstart.agent.diffs import describe

    for edit in edits:
        for line in describe(edit.path, edit.before, edit.after).splitlines():
            door.console.line("    " + door.console.paint(line, {"+": "ok", "-": "failed"}.get(line[:1], "")))


def _change(door: Door, source: str, patch: str, what: str) -> Result:
    patches = _named(patch)
    if source:
        found = _on_source(door, source, patches, what, dry=door.check, always_diff=False)
        return Result(found, 0 if door.check else _code(what, found))
    door.confirm_restart()
    return _each_machine(door, lambda fleet, machine: _on_machine(door, fleet, machine, patches, what), what)


def _code(what: str, found: dict[str, Any]) -> int:
    return int(what == "apply" and any(patch["state"] in BAD for patch in found["patches"]))


def _on_source(
    door: Door, source: str, patches: Sequence[Patch], what: str, *, dry: bool, always_diff: bool
) -> dict[str, Any]:
    from roles.patches import apply as changing
    from roles.patches import definition
    from roles.patches.status import status as states

    folder, known = _folder(source), definition.load_all()
    if what == "apply":
        result = changing.apply(folder, patches, known, check=dry)
    elif what == "revert":
        result = changing.revert(folder, [patch.name for patch in patches], known, check=dry)
    elif dry:
        raise InputError("adopting has no dry run", where="--check", remedy="patch.status says what it would adopt")
    else:
        result = changing.adopt(folder, patches)
    edits = result.change.edits
    found = {**states(folder, patches), "would_change": [edit.path for edit in edits]} if dry else result.as_dict()
    _show(door, found)
    if door.options.get("diff") or always_diff:
        _show_edits(door, edits)
    return found


def _each_machine(door: Door, act: Callable[[Fleet, Machine], dict[str, Any]], what: str = "status") -> Result:
    from roles import open_fleet

    results, code = [], 0
    engines = [machine for machine in door.machines if machine.through is not None or machine.get("local")]
    if not engines:
        raise InputError("no engine is selected", where="--limit", remedy="name a container, or leave --limit out")
    with open_fleet(door) as fleet, door.console.progress():
        for machine in engines:
            result: dict[str, Any] = {"name": machine.name}
            try:
                result |= act(fleet, machine)
                _show(door, result)
                code = max(code, 0 if door.check else _code(what, result))
            except BlackstartError as error:
                result["error"] = error.as_dict()
                door.console.line(f"error: {error}")
                code = max(code, error.code if len(engines) == 1 else 1)  # others may have been changed
            results.append(result)
    return Result(door.document(machines=results), code)


def _decided(
    fleet: Fleet, machine: Machine, patches: Sequence[Patch], decide: Callable[[Sequence[Patch], Installed], list[T]]
) -> tuple[str, list[T]]:
    """The release and what `decide` says of each installed distribution's patches, on facts fetched in one exec."""
    from roles.patches import facts

    link = _environment(fleet, machine)
    with fleet.session(machine) as session:
        answers, _ = session.probe({"patches": facts.probes(link, patches)})["patches"]
    installed = _installed(machine, facts.read(answers, patches), patches, link)
    decided = [
        item
        for name, found in installed.items()
        for item in decide([patch for patch in patches if patch.distribution == name], found)
    ]
    return _version(installed), decided


def _version(installed: dict[str, Installed]) -> str:
    return next(iter(installed.values())).tree.version()


def _environment(fleet: Fleet, machine: Machine) -> str:
    from blackstart.variables import resolve
    from roles.patches.state import Variables

    return resolve(machine, fleet.defaults, Variables).ml_env_link


def _installed(
    machine: Machine, found: dict[str, Installed], patches: Sequence[Patch], link: str
) -> dict[str, Installed]:
    for patch in patches:
        if patch.distribution not in found:
            what = f"{patch.distribution} is not installed in {link}"
            raise CheckError(what, where=machine.name, remedy="inv up --tags ml_env")
    return found


def _on_machine(door: Door, fleet: Fleet, machine: Machine, patches: Sequence[Patch], what: str) -> dict[str, Any]:
    """Decide on the controller, apply as one fileset; a serving engine is restarted only with --restart."""
    from blackstart.plan import Section, State, plan_to_wire
    from blackstart.resources import Restart
    from blackstart.variables import resolve
    from roles.patches import committed, facts, state

    variables = resolve(machine, fleet.defaults, state.Variables)
    questions = facts.probes(variables.ml_env_link, patches)
    restart = f"restart {variables.server_unit}"
    with fleet.session(machine, installs=not door.check) as session:
        answers, digest = session.probe({"patches": questions})["patches"]
        installed = _installed(machine, facts.read(answers, patches), patches, variables.ml_env_link)
        planned = committed.plan_each(patches, installed, lambda own, found: _planned(what, own, found))
        wanted = State(
            [committed.fileset(planned, variables.environment(), (restart,))], {restart: Restart(variables.server_unit)}
        )
        section = Section("patches", machine.name, questions, digest, wanted)
        wire = plan_to_wire([section], check=door.check, restart=bool(door.options["restart"]), empty=False)
        for event in session.converge(wire):
            _follow(door, machine, event)
    outcomes = [
        outcome.as_dict() for found, change in planned for outcome in _states(patches, found, change, door.check)
    ]
    changed = [edit.path for _, change in planned for edit in change.edits]
    if door.options.get("diff"):
        _show_edits(door, [edit for _, change in planned for edit in change.edits])
    return {
        "sglang_version": _version(installed),
        "patches": outcomes,
        "would_change" if door.check else "changed": changed,
    }


def _states(patches: Sequence[Patch], found: Installed, change: Change, dry: bool) -> Sequence[Outcome]:
    """The states afterwards; in a dry run, where there is no afterwards, those now."""
    from roles.patches.decide import decide_all

    own = [patch for patch in patches if patch.distribution == found.tree.distribution]
    return decide_all(own, found.tree, found.manifest) if dry else change.outcomes


def _planned(what: str, patches: Sequence[Patch], found: Installed) -> Change:
    from roles.patches import changes, definition, state

    if what == "apply":
        return state.plan_apply(patches, found)
    if what == "adopt":
        return changes.plan_adopt(patches, found.tree, found.manifest, state.today())
    names = [patch.name for patch in patches]
    return changes.plan_revert(names, found.tree, found.manifest, found.stock.get, definition.load_all())


def _follow(door: Door, machine: Machine, event: dict[str, Any]) -> None:
    if event["e"] == "stale":
        raise CheckError("the sources changed while the patch was decided", where=machine.name, remedy="run again")
    if event["e"] != "done":
        return
    if event["state"] == "failed":
        raise CheckError(event["detail"], where=machine.name, remedy=event.get("remedy", ""))
    if event["state"] == "pending":
        door.console.line(f"{machine.name}: pending restart: {event['name']}; add --restart to do it")
