"""A place at the statement that reads one attribute into a variable."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from .locate import Place, Unplaceable, alone_on_its_lines, holder_of, reads
from .source import Function, Source, Splice


def find(source: Source, function: Function, attribute: str, calls: Mapping[str, str]) -> Place:
    """The one assignment of `x.attribute` (or `getattr(x, "attribute", …)`) to a plain variable, to be replaced.

    Template variables: `target`, `holder` (the source of x; where that is `y.z`, also `holder_base` y and
    `holder_attribute` z), `arguments` (the function's parameter names), and for each
    `calls` entry name -> method the source of the function's one call of that method.
    Raises Unplaceable where there is no such assignment, more than one read, or a line shared with other code.
    """
    found = reads(function.node, attribute)
    if len(found) != 1:
        lines = ", ".join(str(node.lineno) for node in found) or "none"
        raise Unplaceable(
            f"{function.name} (line {function.node.lineno}) reads {attribute} {len(found)} times ({lines})"
        )
    statement = next((n for n in ast.walk(function.node) if isinstance(n, ast.stmt) and _value(n) is found[0]), None)
    if statement is None or (target := _target(statement)) is None:
        raise Unplaceable(f"line {found[0].lineno} reads {attribute}, but not into a variable of its own")
    if not alone_on_its_lines(source, statement):
        raise Unplaceable(f"line {statement.lineno} holds more than the one statement that reads {attribute}")
    holder = holder_of(found[0], attribute)
    assert holder is not None
    variables = {
        "target": target,
        "holder": ast.unparse(holder),
        "holder_base": ast.unparse(holder.value) if isinstance(holder, ast.Attribute) else "",
        "holder_attribute": holder.attr if isinstance(holder, ast.Attribute) else "",
        "arguments": [argument.arg for argument in function.node.args.args],
        **{name: _call(function, method) for name, method in calls.items()},
    }
    start, end = source.span(statement)
    indent = source.before_on_line(statement)
    comment = re.compile(rb"[^\r\n]*").match(source.content, end)
    assert comment is not None
    kept = comment.group().decode("utf-8").rstrip()

    def fill(text: str) -> list[Splice]:
        first, *rest = text.rstrip("\n").split("\n")
        lines = [first + kept, *(indent + line if line else line for line in rest)]
        return [Splice(start, comment.end(), source.newline.join(lines).encode())]

    return Place(statement.lineno, variables, fill)


def _value(node: ast.stmt) -> ast.expr | None:
    return node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None


def _target(node: ast.stmt) -> str | None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _call(function: Function, method: str) -> str:
    made = {
        ast.unparse(node)
        for node in ast.walk(function.node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
    }
    if len(made) != 1:
        raise Unplaceable(f"{function.name} (line {function.node.lineno}) calls {method} in {len(made)} ways")
    return made.pop()
