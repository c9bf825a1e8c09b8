"""What the text of a source tree says a value is, without importing anything of it.

An expression is followed through module constants, imports within the tree, class attributes and small
functions. What depends on the machine or on code outside the tree is Undecided, never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sandbox.engine.evaluation import Evaluation, truth
from sandbox.engine.values import Definition, Outside, Undecided, bindings


@dataclass(eq=False)
class Tree:
    """The modules below `root`, parsed when they are first asked for."""

    root: Path
    _modules: dict[str, Module] = field(default_factory=dict)

    def module(self, name: str) -> Module:
        if name not in self._modules:
            path = self.root.joinpath(*name.split("."))
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            try:
                text = file.read_text(encoding="utf-8")
            except FileNotFoundError:
                raise Undecided(f"no module {name} below {self.root}") from None
            try:
                body = ast.parse(text, str(file))
            except SyntaxError as error:
                raise Undecided(f"{file} does not parse: {error}") from error
            self._modules[name] = Module(self, name, body, path.is_dir())
        return self._modules[name]

    def holds(self, name: str) -> bool:
        return (self.root / name.split(".")[0]).is_dir()


@dataclass(eq=False)
class Module:
    tree: Tree
    name: str
    body: ast.Module
    is_package: bool

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        """The statement that first binds each name at the module's level."""
        found: dict[str, ast.stmt] = {}
        for statement in _flat(self.body.body):
            for name in _names_bound(statement):
                found.setdefault(name, statement)
        return found

    def lookup(self, name: str) -> Any:
        statement = self.bound.get(name)
        match statement:
            case None:
                return Outside(name)
            case ast.FunctionDef() | ast.ClassDef():
                return Definition(self, statement)
            case ast.ImportFrom():
                return self._imported(statement, name)
            case ast.Import():
                return Outside(name)
            case _:
                return self.evaluate(dict(bindings(statement))[name])

    def _imported(self, statement: ast.ImportFrom, name: str) -> Any:
        source = self._absolute(statement)
        original = next(alias.name for alias in statement.names if (alias.asname or alias.name) == name)
        if not self.tree.holds(source):
            return Outside(f"{source}.{original}")
        try:
            return self.tree.module(source).lookup(original)
        except RecursionError:
            raise Undecided(f"{source}.{original} is imported in a circle") from None

    def _absolute(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = self.name.split(".")
        keep = len(parts) - statement.level + (1 if self.is_package else 0)
        return ".".join([*parts[:keep], *([statement.module] if statement.module else [])])

    def evaluate(self, expression: ast.expr, local: Mapping[str, Any] | None = None) -> Any:
        """The value of `expression` in this module. Raises Undecided."""
        return Evaluation(self, local or {}).value(expression)

    def run(self, body: list[ast.stmt], local: dict[str, Any]) -> Any:
        """Run a simple function body and return what it returns.

        A name whose value is undecided stays unbound, and a branch whose test is undecided is not taken.
        """
        for statement in body:
            match statement:
                case ast.Return(value=ast.expr() as value):
                    return self.evaluate(value, local)
                case ast.Assign() | ast.AnnAssign():
                    for name, value in bindings(statement):
                        try:
                            local[name] = self.evaluate(value, local)
                        except Undecided:
                            local.pop(name, None)
                case ast.ImportFrom():
                    for name in _names_bound(statement):
                        try:
                            local[name] = self._imported(statement, name)
                        except Undecided:
                            local.pop(name, None)
                case ast.If(test=test, body=taken, orelse=otherwise):
                    try:
                        returned = self.run(taken if truth(self.evaluate(test, local)) else otherwise, local)
                    except Undecided:
                        continue
                    if returned is not None:
                        return returned
        return None


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module's level, those inside `if` and `try` after the branch that comes first."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _flat(statement.body)
            yield from _flat(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _flat(statement.body)
            for handler in statement.handlers:
                yield from _flat(handler.body)
        else:
            yield statement


def _names_bound(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ImportFrom(names=names) | ast.Import(names=names):
            return [alias.asname or alias.name.split(".")[0] for alias in names]
    return [name for name, _ in bindings(statement)]
