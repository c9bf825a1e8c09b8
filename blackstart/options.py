"""The options of the front door as Invoke takes them: the same short letters everywhere, numbers that are numbers."""

from __future__ import annotations

from typing import Any

from invoke.exceptions import ParseError
from invoke.parser.argument import Argument
from invoke.tasks import Task

SHORT = {
    "inventory": ("i",),
    "limit": ("l",),
    "tags": ("t",),
    # -e is what Ansible's users type.
    "set": ("s", "e"),
    "check": ("c",),
    "diff": ("d",),
    "restart": ("r",),
    "yes": ("y",),
    "json": ("j",),
    "verbose": ("v",),
}
"""A letter means the same in every task; whatever is not here has none."""


class FrontArgument(Argument):
    """An argument that says what is wrong with its value; Invoke lets a ValueError through as a traceback."""

    def set_value(self, value: Any, cast: bool = True) -> None:
        try:
            super().set_value(value, cast)
        except ValueError:
            raise ParseError(f"--{self.names[0]} takes a number, not {value!r}") from None


class FrontTask(Task[Any]):
    """A task whose options have the letters of SHORT and no others."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        for argument in arguments:
            name = argument.names[0]
            argument.names = (name, *SHORT.get(argument.attr_name or name, ()))
            argument.__class__ = FrontArgument  # Invoke offers no other way to have a kind of one's own
        return arguments
