"""Role variables: defaults from roles/*/defaults.yml, overlaid by the inventory, validated by the role's own model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .errors import InputError
from .machine import Machine, Value
from .yamlfile import load

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Defaults = Mapping[str, Value]
M = TypeVar("M", bound="BaseModel")


def read_defaults(roles: Path) -> dict[str, Value]:
    """Every declared variable with its default. Each role's names begin with the role's; raises InputError."""
    found: dict[str, Value] = {}
    for path in sorted(roles.glob("*/defaults.yml")):
        document = load(path)
        if not isinstance(document.data, dict | None):
            raise InputError("a mapping belongs here", where=document.place(()), found=repr(document.data)[:80])
        for name, value in (document.data or {}).items():
            place = document.place((name,))
            if not name.startswith(path.parent.name + "_"):
                raise InputError(f"a variable of this role begins with {path.parent.name}_", where=place, found=name)
            found[name] = Value(value, place)
    return found


def resolve(machine: Machine, defaults: Defaults, model: type[M]) -> M:
    """The variables that `model` asks for, as they hold for one machine; so does what `_magic` names.

    Raises InputError with the value's place.
    """
    from pydantic import ValidationError

    merged = {**defaults, **machine.variables, **_magic(machine)}
    wanted = {name: merged[name] for name in model.model_fields if name in merged}
    try:
        return model.model_validate({name: found.value for name, found in wanted.items()})
    except ValidationError as error:
        raise _input_error(error, machine, wanted) from None


def _magic(machine: Machine) -> dict[str, Value]:
    """What every model may ask for, in Ansible's words where it has one."""
    return {
        "inventory_hostname": Value(machine.name, machine.place),
        "inventory_simulated": Value(machine.simulated, machine.place),
    }


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def _input_error(error: ValidationError, machine: Machine, wanted: Mapping[str, Value]) -> InputError:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    place = wanted[name].place if name in wanted else machine.place
    path = ".".join(str(part) for part in first["loc"])
    found = "" if first["type"] == "missing" else repr(first.get("input"))[:100]
    return InputError(f"{path}: {_uncapitalised(first['msg'])}", where=place, found=found)
