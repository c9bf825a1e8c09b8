"""Profiles: a named, dated set of flags and environment, with the releases it is known good on and the evidence."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from blackstart.errors import InputError
from blackstart.paths import INVENTORY
from blackstart.yamlfile import Document, load, shown

T = TypeVar("T")
PROFILES = INVENTORY / "profiles"

Flag = bool | int | float | str | list[Any] | dict[str, Any] | None
"""A flag's value: true for a switch, null to take out what an extended profile sets, a mapping for a JSON value."""

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""A variable's name; systemd passes over an assignment to any other, with a warning in its journal alone."""


class Evidence(BaseModel):
    """Why the profile is believed to be good."""

    model_config = ConfigDict(extra="forbid")
    date: datetime.date | None = None
    source: str
    what: str


class Gpus(BaseModel):
    """The cards a profile is made for."""

    model_config = ConfigDict(extra="forbid")
    kind: str
    count: int = Field(ge=1)


class Profile(BaseModel):
    """One file of inventory/profiles."""

    model_config = ConfigDict(extra="forbid")
    description: str
    date: datetime.date
    model: str
    releases: list[str]
    gpus: Gpus
    extends: str | None = None
    patches: list[str] = []
    flags: dict[str, Flag] = {}
    environment: dict[VariableName, str | None] = {}
    evidence: list[Evidence] = []


def names(folder: Path = PROFILES) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yml"))


def read(name: str, folder: Path = PROFILES, _heirs: tuple[str, ...] = ()) -> Profile:
    """A profile with what it extends merged in. Raises InputError that names the known ones, or file and line."""
    path = folder / f"{name}.yml"
    if "/" in name or not path.is_file():
        known = ", ".join(names(folder)) or "none"
        raise InputError(f"there is no profile {name!r}", where=shown(folder), found=f"known: {known}")
    if name in _heirs:
        raise InputError("a profile extends itself", where=shown(path), found=" -> ".join([*_heirs, name]))
    document = load(path)
    profile = _validated(document)
    if profile.extends is None:
        return profile
    base = read(profile.extends, folder, (*_heirs, name))
    return profile.model_copy(
        update={
            "flags": _overlaid(base.flags, profile.flags),
            "environment": _overlaid(base.environment, profile.environment),
            "patches": list(dict.fromkeys([*base.patches, *profile.patches])),
        }
    )


def _validated(document: Document) -> Profile:
    try:
        return Profile.model_validate(document.data if document.data is not None else {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = document.place(tuple(part for part in first["loc"] if isinstance(part, str | int)))
        path = ".".join(str(part) for part in first["loc"])
        found = "" if first["type"] == "missing" else repr(first.get("input"))[:100]
        raise InputError(f"{path}: {first['msg'].lower()}", where=place, found=found) from None


def _overlaid(base: Mapping[str, T | None], over: Mapping[str, T | None]) -> dict[str, T]:
    return {key: value for key, value in {**base, **over}.items() if value is not None}


def arguments(flags: Mapping[str, Flag]) -> list[str]:
    """The engine's argv: each flag once, JSON values as one word, lists as several.

    `{"tp-size": 8, "trust-remote-code": True, "cuda-graph-bs": [1, 2]}` gives
    `--tp-size 8 --trust-remote-code --cuda-graph-bs 1 2`. False and None leave a flag out.
    """
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        if value is True:
            continue
        values = value if isinstance(value, list) else [value]
        words += [json.dumps(item) if isinstance(item, dict | list) else str(item) for item in values]
    return words


def merged(profile: Profile, flags: Mapping[str, Flag], environment: Mapping[str, str | None]) -> Profile:
    """A profile with what belongs to the place laid over it."""
    return profile.model_copy(
        update={
            "flags": _overlaid(profile.flags, flags),
            "environment": _overlaid(profile.environment, environment),
        }
    )
