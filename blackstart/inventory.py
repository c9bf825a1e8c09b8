"""The inventory: machines, groups and variables from YAML, with Ansible's meaning and precedence.

all < parent groups < child groups (of one depth: by name), each with its vars in hosts.yml before its group_vars file;
then the host's own in hosts.yml < host_vars < `--set`. Every variable must be one that the engine or a role declares.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import InputError
from .yamlfile import Document, load, parse, shown

CONNECTION_VARIABLES = (
    "address",
    "port",
    "user",
    "identity_file",
    "known_hosts",
    "python",
    "through",
    "local",
    "sudo_password",
)


@dataclass(frozen=True)
class Value:
    """A variable's value and where it was set."""

    value: Any
    place: str


@dataclass
class Machine:
    """A machine of the inventory. `variables` are those set for it; roles' defaults are not among them."""

    name: str
    groups: tuple[str, ...]
    variables: dict[str, Value]
    place: str
    simulated: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        found = self.variables.get(name)
        return default if found is None else found.value

    @property
    def through(self) -> str | None:
        """The machine through which this one is entered; None for one that is reached by itself."""
        return self.get("through")  # type: ignore[no-any-return]


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
        if not limit:
            return list(self.machines.values())
        chosen: set[str] = set()
        patterns = [part.strip() for part in limit.split(",") if part.strip()]
        if all(part.startswith("!") for part in patterns):
            chosen = set(self.machines)
        for pattern in patterns:
            matched = {
                machine.name
                for machine in self.machines.values()
                if any(fnmatch.fnmatchcase(word, pattern.lstrip("!")) for word in (machine.name, *machine.groups))
            }
            if not matched:
                known = sorted({word for machine in self.machines.values() for word in (machine.name, *machine.groups)})
                raise InputError(
                    f"the limit {pattern!r} matches nothing", where=shown(self.path), found="known: " + ", ".join(known)
                )
            chosen = chosen - matched if pattern.startswith("!") else chosen | matched
        if not chosen or not patterns:
            raise InputError(f"the limit {limit!r} leaves no machine", where=shown(self.path))
        return [machine for machine in self.machines.values() if machine.name in chosen]


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
    path = by_name if "/" not in named and by_name.is_dir() else Path(named)
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
            self.members.setdefault(host, set()).add(name)
            self.places.setdefault(host, self.hosts.place(place))
            self.host_variables.setdefault(host, {}).update(self._variables(self.hosts, place, values))
        for child, values in _mapping(self.hosts, (*keys, "children"), body.get("children")).items():
            self.group(child, values, (*keys, "children", child), name)

    def measure_depths(self) -> None:
        """A group is as deep as its longest way down from `all`, wherever hosts.yml names it first."""

        def depth(name: str, heirs: tuple[str, ...]) -> int:
            if name in heirs:
                way = " -> ".join([*heirs[heirs.index(name) :], name])
                raise InputError("a group is below itself", where=shown(self.hosts.path), found=way)
            return max((depth(parent, (*heirs, name)) + 1 for parent in self.groups[name].parents), default=0)

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
            for file in sorted((path / kind).glob("*")):
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
            _check_connection(machine, machines)
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


def _check_connection(machine: Machine, machines: Mapping[str, Machine]) -> None:
    shapes: dict[str, tuple[type, str]] = {
        "address": (str, "a host name or an address"),
        "port": (int, "a number"),
        "user": (str, "a login name"),
        "identity_file": (str, "a path"),
        "known_hosts": (str, "a path"),
        "python": (str, "an absolute path"),
        "through": (str, "a machine's name"),
        "local": (bool, "true or false"),
    }
    for name, (shape, meaning) in shapes.items():
        found = machine.variables.get(name)
        if found is not None and (
            not isinstance(found.value, shape)
            or (shape is int and isinstance(found.value, bool))
            or (isinstance(found.value, str) and not found.value.isprintable())
        ):
            raise InputError(f"{name} is {meaning}", where=found.place, found=repr(found.value))
    for name, check in CHECKS.items():
        found = machine.variables.get(name)
        if found is not None:
            check(found)
    if machine.through is not None:
        place = machine.variables["through"].place
        outer = machines.get(machine.through)
        if outer is None:
            raise InputError(f"there is no machine {machine.through!r} to go through", where=place)
        if outer.through is not None:
            raise InputError(
                f"{outer.name} is itself reached through {outer.through}", where=place, remedy="name the host itself"
            )
    elif not machine.get("local") and not machine.get("address"):
        raise InputError(
            f"{machine.name} has no address",
            where=machine.place,
            remedy="give it address:, or through: the machine it is a container of, or local: true",
        )


def _check_address(found: Value) -> None:
    address = found.value
    for sign, key in (("@", "user"), (":", "port")):
        if address.count(sign) == 1:
            raise InputError(
                f"address has a {key} in it", where=found.place, found=address, remedy=f"{key}: is a key of its own"
            )
    try:
        address.encode("idna")
        is_name = not any(sign.isspace() or sign in "@[]/" for sign in address)
    except UnicodeError:
        is_name = False
    if not is_name:
        raise InputError("address is a host name or an address", where=found.place, found=repr(address))


def _check_port(found: Value) -> None:
    if not 1 <= found.value <= 65535:
        raise InputError("port is a number from 1 to 65535", where=found.place, found=str(found.value))


def _check_python(found: Value) -> None:
    if not found.value.startswith("/"):
        raise InputError("python is an absolute path", where=found.place, found=found.value)


def _check_reference(found: Value) -> None:
    """The value is not shown: where it is no reference, it may be the secret."""
    match found.value:
        case {"env": str()} | {"file": str()} if len(found.value) == 1:
            return
        case {"command": [*words]} if len(found.value) == 1 and words and all(isinstance(word, str) for word in words):
            return
    raise InputError(
        "sudo_password is given as a reference, never by value",
        where=found.place,
        remedy="{env: NAME}, {file: PATH} or {command: [program, argument]}",
    )


CHECKS: dict[str, Callable[[Value], None]] = {
    "address": _check_address,
    "port": _check_port,
    "python": _check_python,
    "sudo_password": _check_reference,
}
