"""One function of somebody's source, ready to be run.

Nothing of the source's package is imported and nothing is reached outside: builtins are a short list, imports give
stand-ins, and loops without a bound are refused.
"""

from __future__ import annotations
import __future__

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from .source import Function, Source
from .standins import CannotRun, Record, Unknown, attempt, closed_namespace

# Decorators that do not change what a call returns.
_TRANSPARENT = frozenset(
    [
        "staticmethod",
        "classmethod",
        "lru_cache",
        "cache",
        "no_grad",
        "inference_mode",
        "override",
        "final",
        "nvtx_annotate",
    ]
)


class Loaded:
    """A function of somebody's source, compiled into a closed namespace."""

    def __init__(
        self, source: Source, function: Function, given: Mapping[str, Any], modules: Mapping[str, Any]
    ) -> None:
        self._source = source
        self._given = dict(given)
        self._modules = modules
        self._globals = closed_namespace(self._import)
        self._compiled: set[str] = set()
        self._owner = function.owner
        self._node = function.node
        self._methods: dict[str, Callable[..., Any]] | None = None
        self.call: Callable[..., Any] = self._compile(function)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the function's parameters."""
        given = self._node.args
        return frozenset(a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs))

    def bind_methods(self, stand_in: Record) -> None:
        """Give a stand-in for `self` the methods of the file that the function calls on its first parameter."""
        for name, method in self._called_methods().items():
            setattr(stand_in, name, functools.partial(method, stand_in))

    def _called_methods(self) -> dict[str, Callable[..., Any]]:
        if self._methods is None:
            self._methods = {}
            first = self._node.args.args[0].arg if self._node.args.args else ""
            for node in ast.walk(self._node):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == first:
                    method = self.method(node.attr)
                    if method is not None:
                        self._methods[node.attr] = method
        return self._methods

    def method(self, name: str) -> Callable[..., Any] | None:
        """A method beside the function in its class, else a function of the file by that name; None if neither."""
        found = [f for f in self._source.body_sources(name) if f.owner is self._owner and self._owner is not None]
        found = found or list(self._source.body_sources(name))
        return self._compile(found[0]) if found else None

    def class_constants(self) -> dict[str, Any]:
        """The literal constants of the function's class, by name."""
        constants: dict[str, Any] = {}
        for statement in self._owner.body if self._owner is not None else ():
            for name, value in _assignments(statement):
                try:
                    constants[name] = self._value(value)
                except CannotRun:
                    continue
        return constants

    def _import(
        self, name: str, _globals: object = None, _locals: object = None, names: object = (), _level: int = 0
    ) -> Any:
        if name in self._modules:
            return self._modules[name]
        if names:
            return Record(name)
        top = name.partition(".")[0]
        return self._modules.get(top, Record(top))

    def _compile(self, function: Function) -> Callable[..., Any]:
        node = function.node
        if isinstance(node, ast.AsyncFunctionDef):
            raise CannotRun(f"{node.name} is async")
        for inner in ast.walk(node):
            if isinstance(inner, ast.While | ast.Yield | ast.YieldFrom | ast.Await | ast.Global | ast.Nonlocal):
                raise CannotRun(f"{node.name} holds a {type(inner).__name__.lower()}, which is not run here")
        for name in _free_names(node):
            self._provide(name)
        bare = ast.FunctionDef(
            name=node.name,
            args=node.args,
            body=node.body,
            decorator_list=[d for d in node.decorator_list if not self._is_transparent(d)],
            returns=None,
            type_comment=None,
            lineno=node.lineno,
            col_offset=node.col_offset,
        )
        compiled: Callable[..., Any] = self._run(bare, node.name)
        return compiled

    def _is_transparent(self, decorator: ast.expr) -> bool:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
        if name in _TRANSPARENT:
            return True
        if isinstance(target, ast.Name) and any(self._source.body_sources(target.id)):
            self._provide(target.id)
            return False
        raise CannotRun(f"it is decorated by {ast.unparse(decorator)}, whose effect is not known")

    def _run(self, statement: ast.stmt, name: str) -> Any:
        module = ast.Module(body=[statement], type_ignores=[])
        code: CodeType = compile(
            module, self._source.path, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True
        )
        raised = attempt(lambda: exec(code, self._globals)).raised
        if raised:
            raise CannotRun(f"defining {name} raises {raised}")
        return self._globals[name]

    def _provide(self, name: str) -> None:
        """A name that the function reads, if the file binds it: as given, as the file defines it, else an unknown.

        A name that the file does not bind stays missing: reading it raises NameError here as it would there.
        """
        if name in self._compiled or name in self._globals or not self._source.binds(name):
            return
        self._compiled.add(name)
        if name in self._given:
            self._globals[name] = self._given[name]
            return
        for statement in self._source.tree.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                self._globals[name] = self._compile(Function(statement, ()))
                return
            for target, value in _assignments(statement):
                if target == name:
                    try:
                        self._globals[name] = self._value(value)
                    except CannotRun:
                        self._globals[name] = Unknown(name)
                    return
        self._globals[name] = self._modules.get(name, Unknown(name))

    def _value(self, node: ast.expr) -> Any:
        """A constant made of literals, collections of them, and names of such constants."""
        if isinstance(node, ast.Name):
            self._provide(node.id)
            return self._globals.get(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            maker = {"frozenset": frozenset, "set": set, "tuple": tuple, "list": list}.get(node.func.id)
            if maker is not None and len(node.args) <= 1:
                return maker(*(self._value(argument) for argument in node.args))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitOr):
            left, right = self._value(node.left), self._value(node.right)
            try:
                return left + right if isinstance(node.op, ast.Add) else left | right
            except TypeError as error:
                raise CannotRun(str(error)) from None
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            raise CannotRun(f"{ast.unparse(node)} is no constant") from None


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value


def _free_names(node: ast.FunctionDef) -> set[str]:
    """Every name that is read in the function and its defaults; what it binds itself does no harm here."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)}
