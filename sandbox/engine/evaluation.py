"""The value of one expression, as far as its text decides it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.engine.values import Definition, Member, Outside, Scope, Undecided

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
class Evaluation:
    module: Scope
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
                return not truth(self.value(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _compare(op, self.value(left), self.value(right))
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self.value(body if truth(self.value(test)) else otherwise)
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
            inner = Evaluation(self.module, {**self.local, loop.target.id: item})
            if all(truth(inner.value(test)) for test in loop.ifs):
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


def truth(value: Any) -> bool:
    """Whether a test holds. Raises Undecided for a name that the text does not define."""
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
