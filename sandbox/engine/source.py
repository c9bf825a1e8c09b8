"""What the text of a source tree says a value is, without importing anything of it.

An expression is followed through module constants, imports within the tree, class attributes and small
functions. What depends on the machine or on code outside the tree is Undecided, never guessed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any


class Undecided(Exception):
    """The text alone does not say what this value is."""


@dataclass(frozen=True, eq=False)
class Outside:
    """A name that the tree does not define: a builtin, or something of another package, by dotted name."""

    name: str


@dataclass(frozen=True, eq=False)
class Definition:
    """A function, lambda or class of the tree, as its text."""

    module: Module
    node: ast.FunctionDef | ast.ClassDef | ast.Lambda

    def attribute(self, name: str) -> Any:
        """The value that a class body, or the nearest base of it in the tree, gives to `name`."""
        assert isinstance(self.node, ast.ClassDef)
        for statement in self.node.body:
            for target, value in _bindings(statement):
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
        return [Member(name) for statement in self.node.body for name, _ in _bindings(statement)]


@dataclass(frozen=True)
class Member:
    """A member of an enumeration; only its name is known."""

    name: str


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
                return self.evaluate(dict(_bindings(statement))[name])

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
        return _Evaluation(self, local or {}).value(expression)

    def run(self, body: list[ast.stmt], local: dict[str, Any]) -> Any:
        """Run a simple function body and return what it returns.

        A name whose value is undecided stays unbound, and a branch whose test is undecided is not taken.
        """
        for statement in body:
            match statement:
                case ast.Return(value=ast.expr() as value):
                    return self.evaluate(value, local)
                case ast.Assign() | ast.AnnAssign():
                    for name, value in _bindings(statement):
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
                        returned = self.run(taken if _truth(self.evaluate(test, local)) else otherwise, local)
                    except Undecided:
                        continue
                    if returned is not None:
                        return returned
        return None


_PLAIN_CALLS: dict[str, Callable[..., Any]] = {
    "dict": dict,
    "frozenset": frozenset,
    "len": len,
    "list": list,
    "set": set,
    "sorted": sorted,
    "str": str,
    "tuple": tuple,
}
_PLAIN_METHODS = {"copy", "format", "items", "join", "keys", "lower", "replace", "strip", "union", "upper", "values"}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.BitOr: operator.or_,
    ast.Div: operator.truediv,
    ast.LShift: operator.lshift,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Sub: operator.sub,
}


@dataclass
class _Evaluation:
    module: Module
    local: Mapping[str, Any]

    def value(self, expression: ast.expr) -> Any:
        try:
            return self._value(expression)
        except (TypeError, KeyError, IndexError, ValueError, AttributeError, RecursionError) as error:
            raise Undecided(f"{ast.unparse(expression)}: {error}") from error

    def _value(self, expression: ast.expr) -> Any:
        match expression:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.local[name] if name in self.local else self.module.lookup(name)
            case ast.List(elts=items):
                return [*self._items(items)]
            case ast.Tuple(elts=items):
                return (*self._items(items),)
            case ast.Set(elts=items):
                return {*self._items(items)}
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values)
            case ast.JoinedStr(values=parts):
                return "".join(str(_decided(self.value(part))) for part in parts)
            case ast.FormattedValue(value=inner):
                return self.value(inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not _truth(self.value(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _compare(op, self.value(left), self.value(right))
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self.value(body if _truth(self.value(test)) else otherwise)
            case ast.Lambda():
                return Definition(self.module, expression)
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(self.value(owner), name)
            case ast.Subscript(value=owner, slice=key):
                return self.value(owner)[self.value(key)]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(expression)
            case ast.Call():
                return self._call(expression)
        raise Undecided(ast.unparse(expression))

    def _items(self, items: list[ast.expr]) -> Iterator[Any]:
        for item in items:
            if isinstance(item, ast.Starred):
                yield from self.value(item.value)
            else:
                yield _decided(self.value(item))

    def _dict(self, keys: list[ast.expr | None], values: list[ast.expr]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:
                found |= self.value(value)
                continue
            try:
                found[self.value(key)] = self.value(value)
            except Undecided:  # a registry's keys are known even where what they name is not
                found[self.value(key)] = Outside(ast.unparse(value))
        return found

    def _attribute(self, owner: Any, name: str) -> Any:
        match owner:
            case Outside(name=base):
                return Outside(f"{base}.{name}")
            case Definition(node=ast.ClassDef()):
                return owner.attribute(name)
            case Member() if name == "name":
                return owner.name
        if name in _PLAIN_METHODS and isinstance(owner, str | list | tuple | dict | set | frozenset):
            return getattr(owner, name)
        raise Undecided(f".{name}")

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Any:
        (loop,) = node.generators
        if not isinstance(loop.target, ast.Name):
            raise Undecided(ast.unparse(node))
        source = self.value(loop.iter)
        found = []
        for item in source.members() if isinstance(source, Definition) else source:
            inner = _Evaluation(self.module, {**self.local, loop.target.id: item})
            if all(_truth(inner.value(test)) for test in loop.ifs):
                found.append(_decided(inner.value(node.elt)))
        return set(found) if isinstance(node, ast.SetComp) else found

    def _call(self, call: ast.Call) -> Any:
        called = self.value(call.func)
        if isinstance(called, Outside) and called.name.split(".")[-1] == "field":
            return self._field(call)
        if isinstance(called, Definition) and not isinstance(called.node, ast.ClassDef):
            return self._call_definition(called, call)
        if isinstance(called, Outside) and called.name in _PLAIN_CALLS:
            called = _PLAIN_CALLS[called.name]
        if isinstance(called, Outside | Definition):
            raise Undecided(ast.unparse(call))
        arguments = [self.value(argument) for argument in call.args]
        arguments = [item.members() if _is_class(item) else item for item in arguments]
        return called(*arguments, **{word.arg or "": self.value(word.value) for word in call.keywords})

    def _field(self, call: ast.Call) -> Any:
        given = {word.arg: word.value for word in call.keywords}
        if "default" in given:
            return self.value(given["default"])
        factory = self.value(given["default_factory"])
        if isinstance(factory, Outside):
            return _PLAIN_CALLS[factory.name]()
        return self._call_definition(factory, ast.Call(given["default_factory"], [], []))

    def _call_definition(self, called: Definition, call: ast.Call) -> Any:
        assert isinstance(called.node, ast.FunctionDef | ast.Lambda)
        names = [argument.arg for argument in called.node.args.args]
        local = dict(zip(names, map(self.value, call.args), strict=False))
        local |= {word.arg: self.value(word.value) for word in call.keywords if word.arg}
        if isinstance(called.node, ast.Lambda):
            return called.module.evaluate(called.node.body, local)
        returned = called.module.run(called.node.body, local)
        if returned is None:
            raise Undecided(ast.unparse(call))
        return returned


def _decided(value: Any) -> Any:
    if isinstance(value, Outside):
        raise Undecided(value.name)
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, Outside | Definition):
        raise Undecided("a test on something that the text does not define")
    return bool(value)


def _is_class(value: Any) -> bool:
    return isinstance(value, Definition) and isinstance(value.node, ast.ClassDef)


def _compare(op: ast.cmpop, left: Any, right: Any) -> bool:
    for side in (left, right):
        _decided(side)
    match op:
        case ast.Eq():
            return bool(left == right)
        case ast.NotEq():
            return bool(left != right)
        case ast.In():
            return left in right
        case ast.NotIn():
            return left not in right
        case ast.Is():
            return left is right
        case ast.IsNot():
            return left is not right
    raise Undecided(type(op).__name__)


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
    return [name for name, _ in _bindings(statement)]


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
