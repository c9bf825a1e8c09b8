"""Lift one definition out of a source tree and run it here, with stand-ins for what it reaches for.

Whatever it names in its own module comes with it; the standard library is the real one; everything else
is asked of `stand_in`. Nothing outside the standard library is ever imported.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import logging
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.engine.values import Definition, Scope, Undecided

StandIn = Callable[[str], Any]


def transplant(definition: Definition, stand_in: StandIn | None = None) -> Any:
    """The function or class itself, usable here.

    `stand_in(name)` gives the object for a name that comes from outside the module; without it such a name
    is left undefined and using it is a NameError.
    """
    body = _Body(definition.module, stand_in)
    assert not isinstance(definition.node, ast.Lambda)
    return body.define(definition.node)


class _Body:
    """The globals that the lifted definitions of one module share."""

    def __init__(self, module: Scope, stand_in: StandIn | None) -> None:
        self.module = module
        self.stand_in = stand_in
        self.names: dict[str, Any] = {
            "__name__": module.name,
            "__builtins__": {**vars(builtins), "__import__": self._import},
        }

    def define(self, node: ast.FunctionDef | ast.ClassDef) -> Any:
        if node.name in self.names:
            return self.names[node.name]
        alone = ast.parse(ast.unparse(_without_annotations(node))).body
        self.names[node.name] = None  # a definition that names itself
        for name in _names_loaded(node):
            self._provide(name)
        code = compile(ast.Module(alone, []), f"<{self.module.name}>", "exec")
        exec(code, self.names)
        return self.names[node.name]

    def _provide(self, name: str) -> None:
        if name in self.names or hasattr(builtins, name):
            return
        statement = self.module.bound.get(name)
        match statement:
            case None:
                return
            case ast.FunctionDef() | ast.ClassDef():
                self.define(statement)
            case ast.Import(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name.split(".")[0]) == name)
                self._place(name, self._outer(alias.name if alias.asname else alias.name.split(".")[0], name))
            case ast.ImportFrom(module=source, names=aliases):
                original = next(a.name for a in aliases if (a.asname or a.name) == name)
                self._place(name, self._member(source or "", original, name))
            case _ if name == "logger":
                self.names[name] = logging.getLogger(self.module.name)
            case _:
                self._constant(name)

    def _constant(self, name: str) -> None:
        try:
            self.names[name] = self.module.lookup(name)
        except Undecided:
            self._place(name, self.stand_in(name) if self.stand_in else None)

    def _place(self, name: str, value: Any) -> None:
        if value is not None:
            self.names[name] = value

    def _outer(self, module: str, name: str) -> Any:
        if module.split(".")[0] in sys.stdlib_module_names:
            return importlib.import_module(module)
        return self.stand_in(name) if self.stand_in else None

    def _member(self, module: str, original: str, name: str) -> Any:
        if module.split(".")[0] in sys.stdlib_module_names:
            return getattr(importlib.import_module(module), original)
        return self.stand_in(original) if self.stand_in else None

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> Any:
        """`import` inside a lifted function."""
        if not level and name.split(".")[0] in sys.stdlib_module_names:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        if self.stand_in is None:
            raise ImportError(f"{name} is not part of what was lifted out of {self.module.name}")
        stood_in = types.ModuleType(name)
        for member in fromlist or ():
            setattr(stood_in, member, self.stand_in(member))
        return stood_in


def _names_loaded(node: ast.AST) -> list[str]:
    loaded = (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load))
    return list(dict.fromkeys(loaded))


def _without_annotations(node: ast.FunctionDef | ast.ClassDef) -> ast.FunctionDef | ast.ClassDef:
    """The definition without annotations and decorators: they name types that are not lifted."""
    copy = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(copy, ast.FunctionDef | ast.ClassDef)
    copy.decorator_list = []
    for inner in ast.walk(copy):
        if isinstance(inner, ast.FunctionDef):
            inner.returns = None
        if isinstance(inner, ast.arg):
            inner.annotation = None
    return copy
