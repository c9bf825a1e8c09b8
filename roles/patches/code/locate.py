"""Where in a parsed file a patch goes: the function it is about, then the place in it.

A place is what a template needs to know, and how its text is spliced in. `Unplaceable` says which shape was found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .source import Function, Source, Splice


class Unplaceable(Exception):
    """The code is there in a shape the patch does not know; the message says which."""


@dataclass(frozen=True)
class Place:
    """Variables for the template, the line for people, and `fill`: rendered text -> splices.

    `constant` is the module's name for what would change, "" where it is the function's own: other files may import it.
    """

    line: int
    variables: Mapping[str, Any]
    fill: Callable[[str], list[Splice]]
    constant: str = ""


def functions(source: Source, named: str, or_reads: str = "") -> list[Function]:
    """The functions called `named` (a regular expression); without one, those that read the attribute `or_reads`."""
    found = [f for f in source.functions if re.fullmatch(named, f.name)]
    if found or not or_reads:
        return found
    reading = [f for f in source.functions if reads(f.node, or_reads)]
    # The innermost one: a function around it reads the attribute only because the inner one does.
    return [f for f in reading if not any(f.node in other.around for other in reading)]


def reads(node: ast.AST, attribute: str) -> list[ast.expr]:
    """Every read of `x.attribute` or `getattr(x, "attribute", …)` below a node."""
    return [
        inner for inner in ast.walk(node) if isinstance(inner, ast.expr) and holder_of(inner, attribute) is not None
    ]


def holder_of(node: ast.expr, attribute: str) -> ast.expr | None:
    """x, for `x.attribute` being read and for `getattr(x, "attribute")` with or without a default; else None."""
    if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load):
        return node.value
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) in (2, 3)
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value == attribute
    ):
        return node.args[0]
    return None


def alone_on_its_lines(source: Source, node: ast.stmt) -> bool:
    """Nothing but white space before the statement, and nothing but a comment after it."""
    _, end = source.span(node)
    rest = re.match(rb"[^\r\n]*", source.content[end:])
    assert rest is not None
    return not source.before_on_line(node).strip() and (
        not rest.group().strip() or rest.group().strip().startswith(b"#")
    )
