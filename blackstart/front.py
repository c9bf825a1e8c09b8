"""The one way to make a task of the front door: shared options, errors as messages and codes, JSON."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import inspect
import io
import json as jsonlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task
from invoke.tasks import task as make_task

from .console import Console, Timer, unwritable
from .errors import BlackstartError, InputError, Interrupted
from .options import FrontTask
from .paths import ROLES, ROOT
from .secrets import mask, mask_data

if TYPE_CHECKING:
    from .inventory import Inventory
    from .machine import Machine
    from .variables import Defaults

# The interpreter would look through all that was imported for garbage, several times, only to end.
atexit.register(gc.freeze)

BROKEN_PIPE = 141

MACHINE_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "inventory": ("", "inventory folder, or a name below inventory/ (else BLACKSTART_INVENTORY, site, sandbox)"),
    "limit": ("", "only these machines: names, groups, patterns, comma separated; ! takes away"),
    "set": ([], "KEY=VALUE over every other source of that variable; may be repeated"),
}
PREVIEW_OPTIONS: Mapping[str, tuple[Any, str]] = {
    **MACHINE_OPTIONS,
    "check": (False, "change nothing; say what would change"),
    "diff": (False, "show the differences"),
}
CHANGE_OPTIONS: Mapping[str, tuple[Any, str]] = {
    **PREVIEW_OPTIONS,
    "restart": (False, "allow what runs to be restarted"),
    "yes": (False, "do not ask before a restart"),
}
CONVERGE_OPTIONS: Mapping[str, tuple[Any, str]] = {
    **CHANGE_OPTIONS,
    "tags": ("", "only these roles: names, patterns, comma separated"),
    "serial": (0, "so many hosts at a time; 0: all"),
    "max_fail": (0, "begin no further host after so many failed; 0: no bound"),
}
COMMON_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "json": (False, "print one JSON document and nothing else"),
    "verbose": (False, "show what is as it should be, too"),
}


@dataclass
class Door:
    """What a task's body works with: its options, the console, the inventory."""

    options: dict[str, Any]
    console: Console
    timings: list[tuple[str, float]] = field(default_factory=list)

    @property
    def check(self) -> bool:
        return bool(self.options.get("check"))

    @property
    def tags(self) -> tuple[str, ...]:
        """Raises InputError where tags are given and none is left."""
        given = self.options.get("tags", "")
        tags = tuple(part.strip() for part in given.split(",") if part.strip())
        if given and not tags:
            raise InputError("no tag is named", where="--tags", found=repr(given))
        return tags

    @functools.cached_property
    def defaults(self) -> Defaults:
        from .variables import read_defaults

        return read_defaults(ROLES)

    @functools.cached_property
    def inventory(self) -> Inventory:
        """The inventory that this run is about; reading it announces it, so that nobody works on the wrong one."""
        from .inventory import locate, read

        path = locate(self.options.get("inventory") or None, os.environ, ROOT)
        inventory = read(path, self.defaults, self.options.get("set", ()))
        mark = "  SIMULATED: stand-ins for GPUs, Proxmox and the model engine" if inventory.simulated else ""
        self.console.line(f"inventory: {inventory.name}{mark}")
        return inventory

    @property
    def machines(self) -> list[Machine]:
        return self.inventory.select(self.options.get("limit") or None)

    def count(self, name: str) -> int:
        """An option that is a number of machines. Raises InputError for one below 0."""
        value = int(self.options[name])
        if value < 0:
            raise InputError("a number of machines is 0 or more", where=f"--{name.replace('_', '-')}", found=str(value))
        return value

    def confirm(self, question: str) -> None:
        """Ask the person at the terminal; machines, JSON, --yes and the sandbox are not asked. Raises InputError."""
        asked = sys.stdin.isatty() and sys.stdout.isatty() and not self.options["json"]
        if not asked or self.options["yes"] or self.inventory.simulated:
            return
        try:
            answer = input(f"{question} [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            raise InputError("not confirmed; nothing was touched", remedy="say yes, or give --yes")

    def confirm_restart(self) -> None:
        """Ask before a run that may restart what runs. Raises InputError."""
        if self.options["restart"] and not self.check:
            self.confirm(f"Restart what runs on {', '.join(machine.name for machine in self.machines)}, if need be?")

    def timed(self, name: str) -> _Timed:
        """A step whose share of the time the report shows."""
        return _Timed(self, name)

    def document(self, **fields: Any) -> dict[str, Any]:
        """A JSON document that names its inventory first."""
        return {"inventory": {"name": self.inventory.name, "simulated": self.inventory.simulated}, **fields}


class _Timed(Timer):
    def __init__(self, door: Door, name: str) -> None:
        super().__init__()
        self._door = door
        self._name = name

    def __exit__(self, *ending: Any) -> None:
        super().__exit__(*ending)
        self._door.timings.append((self._name, self.seconds))


@dataclass(frozen=True)
class Result:
    """What a task ends with: the JSON document and the exit code."""

    document: Any
    code: int = 0


Body = Callable[..., Result]


def task(
    *,
    machines: bool = False,
    previews: bool = False,
    changes: bool = False,
    converges: bool = False,
    help: Mapping[str, str] | None = None,
    positional: Sequence[str] = (),
    name: str | None = None,
    default: bool = False,
) -> Callable[[Body], Task[Any]]:
    """Make a task of `body(door, **its own parameters) -> Result`.

    `machines` adds the options that choose machines. Each of the following adds those of the one before it and more:
    `previews` to see first what would be done, `changes` to restart what runs, `converges` those of a whole run.
    """
    shared = {
        **(MACHINE_OPTIONS if machines else {}),
        **(PREVIEW_OPTIONS if previews else {}),
        **(CHANGE_OPTIONS if changes else {}),
        **(CONVERGE_OPTIONS if converges else {}),
        **COMMON_OPTIONS,
    }

    def decorate(body: Body) -> Task[Any]:
        own = list(inspect.signature(body).parameters.values())[1:]

        @functools.wraps(body)
        def run(context: Context, **given: Any) -> None:
            options = {option: given.pop(option) for option in shared}
            code = _run(_refuse_dry if context.config.run.dry else body, options, given)
            if code:
                raise Exit(code=code)

        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        extra = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=value)
            for option, (value, _) in shared.items()
        ]
        run.__signature__ = inspect.Signature([context, *_as_keywords(own), *extra])  # type: ignore[attr-defined]
        texts = {option: text for option, (_, text) in shared.items()} | dict(help or {})
        return cast(
            "Task[Any]",
            make_task(
                run,
                name=name,
                default=default,
                help=texts,
                positional=list(positional),
                iterable=["set"] if "set" in shared else [],
                klass=FrontTask,
            ),
        )

    return decorate


def _refuse_dry(door: Door, **own: Any) -> Result:
    """Invoke's own --dry only knows of the commands that Invoke runs, and ours are not among them."""
    raise InputError("--dry has no meaning here; nothing was touched", where="inv --dry", remedy="use --check")


def _as_keywords(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]


def _run(body: Body, options: dict[str, Any], own: dict[str, Any]) -> int:
    """Run a body; what it raises becomes a message and a code. Anything unforeseen is a fault of ours, said so."""
    _prepare_streams()
    as_json = options["json"]
    door = Door(options, Console(silent=as_json, diff=bool(options.get("diff")), verbose=options["verbose"]))
    try:
        result = body(door, **own)
    except KeyboardInterrupt:
        result = _left(Interrupted(), as_json)
    except Interrupted as interrupted:
        result = _left(interrupted, as_json)
    except BlackstartError as error:
        result = Result({"error": error.as_dict()}, error.code)
        if not as_json:
            print(mask(f"error: {error}"), file=sys.stderr)
    except BrokenPipeError:
        return _nobody_reads()
    except Exception:  # noqa: BLE001  the last line of defence: a fault of ours must not reach people as a traceback
        result = _fault(as_json)
    try:
        if as_json:
            sys.stdout.write(jsonlib.dumps(mask_data(result.document), indent=2, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    except OSError as error:
        _nobody_reads()
        if as_json:  # lines for people were flushed one by one, so this was said
            print(f"error: {unwritable(error)}", file=sys.stderr)
        return max(result.code, 1)
    return result.code


def _prepare_streams() -> None:
    """A closed stream is an empty one, and no text is too odd for a terminal's or a file's encoding."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  lives as long as the process
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _left(interrupted: Interrupted, as_json: bool) -> Result:
    """Say how to come back."""
    interrupted.remedy = "to come back: " + shlex.join(["inv", *sys.argv[1:]])
    if not as_json:
        print(mask(str(interrupted)), file=sys.stderr)
    return Result({"error": interrupted.as_dict()}, interrupted.code)


def _fault(as_json: bool) -> Result:
    """Keep the trace for whoever mends it, and say where it is."""
    import tempfile
    import traceback

    trace = mask(traceback.format_exc())
    try:
        with tempfile.NamedTemporaryFile("w", prefix="blackstart-fault-", suffix=".txt", delete=False) as stream:
            stream.write(trace)
        message = f"blackstart met a fault of its own; please report it with {stream.name}"
    except OSError:
        message = f"blackstart met a fault of its own; please report it with this trace:\n{trace}"
    if not as_json:
        print(f"error: {message}", file=sys.stderr)
    return Result({"error": {"stage": "fault", "message": message}}, 1)


def _nobody_reads() -> int:
    """`inv … | head` is no error of ours; what else is written while ending must not raise again."""
    with contextlib.suppress(OSError):  # a stand-in for stdout has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def require(value: str, what: str, remedy: str) -> str:
    """A text that a person must give. Raises InputError."""
    if not value:
        raise InputError(f"{what} is missing", remedy=remedy)
    return value
