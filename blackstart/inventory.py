"""The inventory: machines, groups and variables from YAML, with Ansible's meaning and precedence.

all < parent groups < child groups (of one depth: by name), each with its vars in hosts.yml before its group_vars file;
then the host's own in hosts.yml < host_vars < `--set`. Every variable must be one that the engine or a role declares.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import InputError
from .machine import CONNECTION_VARIABLES, Machine, Value, require_reachable
from .yamlfile import Document, load, parse, shown

NAME = re.compile(r"\w[\w.-]*")
"""A machine's name: it stands in file names, limits and reports."""


@dataclass
class Inventory:
    """All machines, in the order of hosts.yml, and whether they stand in for real ones."""

    path: Path
    simulated: bool
    machines: dict[str, Machine]

    @property
    def name(self) -> str:
        return self.path.name

    def select(self, limit: str | None) -> list[Machine]:
        """The machines that a limit names: names, groups or patterns, comma separated; `!` takes away.

        Raises InputError for a pattern that matches nothing.
        """
        if not self.machines:
            raise InputError("the inventory has no machine", where=shown(self.path / "hosts.yml"))
        if not limit:
            return list(self.machines.values())
        patterns = [part.strip() for part in limit.split(",") if part.strip()]
        named = [self._matching(pattern) for pattern in patterns if not pattern.startswith("!")]
        # As in Ansible, what is taken away stays away, wherever in the limit it stands.
        away = [self._matching(pattern) for pattern in patterns if pattern.startswith("!")]
        chosen = (set().union(*named) if named else set(self.machines)).difference(*away)
        if not chosen or not patterns:
            raise InputError(f"the limit {limit!r} leaves no machine", where=shown(self.path))
        return [machine for machine in self.machines.values() if machine.name in chosen]

    def _matching(self, pattern: str) -> set[str]:
        """The names of the machines that a pattern means, by their own name or a group's. Raises InputError."""
        words = {machine.name: (machine.name, *machine.groups) for machine in self.machines.values()}
        bare = pattern.removeprefix("!")
        matched = {name for name in words if any(fnmatch.fnmatchcase(word, bare) for word in words[name])}
        if not matched:
            known = sorted({word for own in words.values() for word in own})
            raise InputError(
                f"the limit {pattern!r} matches nothing", where=shown(self.path), found="known: " + ", ".join(known)
            )
        return matched


@dataclass
class _Group:
    name: str
    depth: int = 0
    parents: set[str] = field(default_factory=set)
    variables: dict[str, Value] = field(default_factory=dict)


def locate(given: str | None, environment: Mapping[str, str], root: Path) -> Path:
    """`--inventory`, else BLACKSTART_INVENTORY, else inventory/site if there is one, else the sandbox.

    A name without a slash means a folder of inventory/.
    """
    named = given or environment.get("BLACKSTART_INVENTORY")
    if not named:
        site = root / "inventory" / "site"
        return site if site.exists() else root / "inventory" / "sandbox"
    by_name = root / "inventory" / named
    is_name = "/" not in named and named not in (".", "..")
    path = by_name if is_name and by_name.is_dir() else Path(named)
    if not path.is_dir():
        known = sorted(folder.parent.name for folder in (root / "inventory").glob("*/hosts.yml"))
        raise InputError(
            f"there is no inventory {named!r}",
            where="--inventory" if given else "BLACKSTART_INVENTORY",
            found="known: " + ", ".join(known),
            remedy="copy inventory/example to inventory/site and edit it",
        )
    return path


def read(path: Path, known: Collection[str], overrides: Iterable[str] = ()) -> Inventory:
    """Read and check a whole inventory. `known` are the variables that roles declare; `overrides` KEY=VALUE texts.

    Raises InputError with file and line.
    """
    hosts = load(path / "hosts.yml")
    data = _mapping(hosts, (), hosts.data)
    _only_keys(hosts, (), data, ("all", "simulated"))
    simulated = data.get("simulated", False)
    if not isinstance(simulated, bool):
        raise InputError("simulated is true or false", where=hosts.place(("simulated",)), found=repr(simulated))
    reader = _Reader(hosts, {*known, *CONNECTION_VARIABLES}, simulated)
    reader.group("all", data.get("all"), ("all",), None)
    reader.measure_depths()
    reader.files(path)
    return Inventory(path, simulated, reader.machines(list(overrides)))


class _Reader:
    def __init__(self, hosts: Document, known: Collection[str], simulated: bool) -> None:
        self.simulated = simulated
        self.hosts = hosts
        self.known = known
        self.groups: dict[str, _Group] = {}
        self.members: dict[str, set[str]] = {}
        self.host_variables: dict[str, dict[str, Value]] = {}
        self.places: dict[str, str] = {}
        self.file_variables: dict[str, dict[str, Value]] = {}

    def group(self, name: str, data: Any, keys: tuple[str | int, ...], parent: str | None) -> None:
        body = _mapping(self.hosts, keys, data)
        _only_keys(self.hosts, keys, body, ("hosts", "vars", "children"))
        group = self.groups.setdefault(name, _Group(name))
        if parent:
            group.parents.add(parent)
        group.variables.update(self._variables(self.hosts, (*keys, "vars"), body.get("vars")))
        for host, values in _mapping(self.hosts, (*keys, "hosts"), body.get("hosts")).items():
            place = (*keys, "hosts", host)
            if not NAME.fullmatch(host):
                raise InputError(
                    f"{host!r} cannot be a machine's name",
                    where=self.hosts.place(place),
                    remedy="letters, digits, dots, hyphens and underscores; name each machine, ranges are not known",
                )
            self.members.setdefault(host, set()).add(name)
            self.places.setdefault(host, self.hosts.place(place))
            self.host_variables.setdefault(host, {}).update(self._variables(self.hosts, place, values))
        for child, values in _mapping(self.hosts, (*keys, "children"), body.get("children")).items():
            self.group(child, values, (*keys, "children", child), name)

    def measure_depths(self) -> None:
        """A group is as deep as its longest way down from `all`, wherever hosts.yml names it first."""

        known: dict[str, int] = {}

        def depth(name: str, heirs: tuple[str, ...]) -> int:
            if name in heirs:
                way = " -> ".join([*heirs[heirs.index(name) :], name])
                raise InputError("a group is below itself", where=shown(self.hosts.path), found=way)
            if name not in known:
                parents = self.groups[name].parents
                known[name] = max((depth(parent, (*heirs, name)) + 1 for parent in parents), default=0)
            return known[name]

        for group in self.groups.values():
            group.depth = depth(group.name, ())

    def _variables(self, document: Document, keys: tuple[str | int, ...], data: Any) -> dict[str, Value]:
        found = {}
        for name, value in _mapping(document, keys, data).items():
            place = document.place((*keys, name))
            require_known(name, self.known, place)
            found[name] = Value(value, place)
        return found

    def files(self, path: Path) -> None:
        for kind, names in (("group_vars", self.groups), ("host_vars", self.members)):
            for file in _files_of(path / kind):
                if file.name.startswith(".") or file.name.endswith("~"):
                    continue  # an editor's, or git's
                if file.suffix not in (".yml", ".yaml"):
                    raise InputError("only .yml files belong here", where=shown(file), remedy="rename or move it")
                if file.stem not in names:
                    what = "group" if kind == "group_vars" else "host"
                    raise InputError(
                        f"hosts.yml has no {what} {file.stem!r}",
                        where=shown(file),
                        found="known: " + ", ".join(sorted(names)),
                    )
                if f"{kind}/{file.stem}" in self.file_variables:
                    raise InputError("two files set the same variables", where=shown(file), remedy="join them")
                document = load(file)
                self.file_variables[f"{kind}/{file.stem}"] = self._variables(document, (), document.data)

    def machines(self, overrides: Sequence[str]) -> dict[str, Machine]:
        extra = dict(parse_override(text, self.known) for text in overrides)
        machines = {}
        for host in self.members:
            groups = self._groups_of(host)
            merged: dict[str, Value] = {}
            for name in groups:
                merged.update(self.groups[name].variables)
                merged.update(self.file_variables.get(f"group_vars/{name}", {}))
            merged.update(self.host_variables[host])
            merged.update(self.file_variables.get(f"host_vars/{host}", {}))
            merged.update(extra)
            machines[host] = Machine(host, tuple(groups), merged, self.places[host], self.simulated)
        for machine in machines.values():
            require_reachable(machine, machines)
        return machines

    def _groups_of(self, host: str) -> list[str]:
        """All groups of a host, weakest first."""
        found, todo = {"all"}, list(self.members[host])
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.groups[name].parents
        return sorted(found, key=lambda name: (self.groups[name].depth, name))


def _files_of(folder: Path) -> list[Path]:
    """Raises InputError where what is there is no folder to look into: its variables would be missing unsaid."""
    if not folder.exists() and not folder.is_symlink():
        return []
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError("the folder cannot be read", where=shown(folder), found=str(error.strerror)) from None


def parse_override(text: str, known: Collection[str]) -> tuple[str, Value]:
    """KEY=VALUE of `--set`; the value is read as YAML, so numbers, lists and true mean what they do in a file."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError("--set takes KEY=VALUE", where="--set", found=text)
    place = f"--set {name}"
    require_known(name, known, place)
    return name, Value(parse(value, Path(place)).data, place)


def require_known(name: str, known: Collection[str], place: str) -> None:
    if name in known:
        return
    close = difflib.get_close_matches(name, sorted(known), 3, 0.6)
    raise InputError(
        f"no role has a variable {name!r}",
        where=place,
        found="close: " + ", ".join(close) if close else "",
        remedy="every variable is in a roles/*/defaults.yml",
    )


def _mapping(document: Document, keys: tuple[str | int, ...], data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError("a mapping belongs here", where=document.place(keys), found=repr(data)[:80])
    return data


def _only_keys(
    document: Document, keys: tuple[str | int, ...], data: Mapping[str, Any], allowed: Sequence[str]
) -> None:
    for name in data:
        if name not in allowed:
            raise InputError(
                f"the key {name!r} is not known here",
                where=document.place((*keys, name)),
                found="allowed: " + ", ".join(allowed),
            )
