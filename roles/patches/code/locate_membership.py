"""A place inside a collection of names that a function compares with `in` or `not in`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from .locate import Place, Unplaceable
from .source import Function, Source, Splice

Display = ast.List | ast.Tuple | ast.Set


def find(source: Source, function: Function, among: Collection[str], entry: str) -> Place:
    """After the last element of the one collection that holds a name of `among`.

    The collection may be a list, tuple, set or frozenset, written in place or held by a constant of the function, the
    class or the module. Template variables: `entry`, and `own_line` (true where each element has its own line).
    Raises Unplaceable where there is none, more than one, or one that something else uses as well.
    """
    found = list({id(d): d for d in _displays(source, function) if _strings(d) & set(among)}.values())
    if not found:
        raise Unplaceable(
            f"{function.name} (line {function.node.lineno}) compares with no collection of {_some(among)}"
        )
    if len(found) > 1:
        lines = ", ".join(str(display.lineno) for display in found)
        raise Unplaceable(f"{function.name} compares with {len(found)} collections of {_some(among)} (lines {lines})")
    display = found[0]
    if entry in _strings(display):
        raise Unplaceable(f"the collection at line {display.lineno} holds {entry} already, and that is not enough")
    return replace(_after_last(source, display, entry), constant=_module_name_of(source, display))


def _module_name_of(source: Source, display: Display) -> str:
    """The module's constant that holds the collection, "" if none does."""
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and any(node is display for node in ast.walk(statement)):
            return min(_targets(statement), default="")
    return ""


def _displays(source: Source, function: Function) -> Iterator[Display]:
    for node in ast.walk(function.node):
        if isinstance(node, ast.Compare):
            for operator, right in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.In | ast.NotIn):
                    display = _display(source, function, right)
                    if display is not None:
                        yield display


def _display(source: Source, function: Function, node: ast.expr) -> Display | None:
    if isinstance(node, Display):
        return node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        return (
            _display(source, function, node.args[0]) if node.func.id in ("frozenset", "set", "tuple", "list") else None
        )
    if isinstance(node, ast.Name):
        return _constant(source, function, node.id, [function.node, source.tree])
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and function.owner is not None:
        own = {argument.arg for argument in function.node.args.args[:1]} | {function.owner.name}
        return _constant(source, function, node.attr, [function.owner]) if node.value.id in own else None
    return None


def _constant(source: Source, function: Function, name: str, scopes: list[ast.AST]) -> Display | None:
    for scope in scopes:
        made = [n for n in ast.walk(scope) if isinstance(n, ast.Assign | ast.AnnAssign) and name in _targets(n)]
        if not made:
            continue
        if len(made) > 1 or made[0].value is None:
            return None
        uses = [n for n in ast.walk(source.tree) if isinstance(n, ast.expr) and _is_use(n, name)]
        if len(uses) > 1:
            lines = ", ".join(str(use.lineno) for use in uses)
            raise Unplaceable(
                f"{name} is used in more than one place (lines {lines}): a new entry would change them all"
            )
        return _display(source, function, made[0].value)
    return None


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _is_use(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Attribute):
        return node.attr == name
    # `__all__` and the like: the name is handed out to other files.
    return isinstance(node, ast.Constant) and node.value == name


def _strings(display: Display) -> set[str]:
    return {e.value for e in display.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)}


def _some(names: Collection[str]) -> str:
    return " or ".join(sorted(names)[:2])


def _after_last(source: Source, display: Display, entry: str) -> Place:
    last = display.elts[-1]
    _, end = source.span(last)
    _, close = source.span(display)
    comma = _comma(source.content, end, close - 1)
    indent = source.before_on_line(last)
    after = end if comma is None else comma + 1
    # A new line needs the rest of this one for comments: the bracket has to stand on a later line.
    own_line = not indent.strip() and re.search(rb"[\r\n]", source.content[after : close - 1]) is not None

    def fill(text: str) -> list[Splice]:
        line = text.rstrip("\r\n")
        if not own_line:
            return [Splice(end, end, f", {line}".encode())]
        ending = re.compile(rb"[^\r\n]*").match(source.content, after)
        assert ending is not None
        added = Splice(ending.end(), ending.end(), f"{source.newline}{indent}{line}".encode())
        return [added] if comma is not None else [Splice(end, end, b","), added]

    return Place(last.lineno, {"entry": entry, "own_line": own_line}, fill)


def _comma(content: bytes, start: int, close: int) -> int | None:
    """Offset of the comma after the last element, None without one. Only comments may stand there besides."""
    at, comma = start, None
    while at < close:
        if content[at : at + 1] == b"#":
            at = next((n for n in range(at, close) if content[n : n + 1] in (b"\r", b"\n")), close)
        elif content[at : at + 1] == b"," and comma is None:
            comma, at = at, at + 1
        elif content[at : at + 1].isspace():
            at += 1
        else:
            raise Unplaceable("the end of the collection is written in an unusual way")
    return comma
