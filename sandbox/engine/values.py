"""What an expression of a source tree can stand for, beside plain Python values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Scope(Protocol):
    """A module of the tree, as its expressions see it. Whatever looks for a value raises Undecided."""

    @property
    def name(self) -> str: ...

    @property
    def bound(self) -> Mapping[str, ast.stmt]:
        """The statement that first binds each name at the module's level."""

    def lookup(self, name: str) -> Any: ...

    def evaluate(self, expression: ast.expr, local: Mapping[str, Any] | None = None) -> Any: ...

    def run(self, body: list[ast.stmt], local: dict[str, Any]) -> Any: ...


class Undecided(Exception):
    """The text alone does not say what this value is."""


@dataclass(frozen=True, eq=False)
class Outside:
    """A name that the tree does not define: a builtin, or something of another package, by dotted name."""

    name: str


@dataclass(frozen=True, eq=False)
class Definition:
    """A function, lambda or class of the tree, as its text."""

    module: Scope
    node: ast.FunctionDef | ast.ClassDef | ast.Lambda

    def attribute(self, name: str) -> Any:
        """The value that a class body, or the nearest base of it in the tree, gives to `name`."""
        assert isinstance(self.node, ast.ClassDef)
        for statement in self.node.body:
            for target, value in bindings(statement):
                if target == name:
                    return self.module.evaluate(value)
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return Definition(self.module, statement)
        for base in self.bases():
            try:
                return base.attribute(name)
            except Undecided:
                continue
        raise Undecided(f"{self.node.name}.{name}")

    def bases(self) -> Iterator[Definition]:
        assert isinstance(self.node, ast.ClassDef)
        for expression in self.node.bases:
            try:
                base = self.module.evaluate(expression)
            except Undecided:
                continue
            if isinstance(base, Definition) and isinstance(base.node, ast.ClassDef):
                yield base

    def members(self) -> list[Member]:
        """The members of an enumeration, in order."""
        assert isinstance(self.node, ast.ClassDef)
        return [Member(name) for statement in self.node.body for name, _ in bindings(statement)]


@dataclass(frozen=True)
class Member:
    """A member of an enumeration; only its name is known."""

    name: str


def bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that an assignment binds, each with its expression."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
