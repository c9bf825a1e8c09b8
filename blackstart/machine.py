"""A machine of the inventory: its variables, each with its place, and how it is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import InputError
from .secrets import HOW, is_reference

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


def require_reachable(machine: Machine, machines: Mapping[str, Machine]) -> None:
    """Raises InputError, with the place, for connection variables that cannot be meant."""
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
    if not is_reference(found.value):
        raise InputError("sudo_password is given as a reference, never by value", where=found.place, remedy=HOW)


CHECKS: dict[str, Callable[[Value], None]] = {
    "address": _check_address,
    "port": _check_port,
    "python": _check_python,
    "sudo_password": _check_reference,
}
