"""Python source with exact bytes: ast says where things are, bytes say what they are."""

from __future__ import annotations

import ast
import copy
import io
import re
import threading
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Unparsable(Exception):
    """The source cannot be read as Python here; the message says why."""


@dataclass(frozen=True)
class Function:
    """A function and what it stands in: the classes and functions around it, outermost first."""

    node: FunctionNode
    around: tuple[ast.ClassDef | FunctionNode, ...]

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def owner(self) -> ast.ClassDef | None:
        return self.around[-1] if self.around and isinstance(self.around[-1], ast.ClassDef) else None


@dataclass
class Source:
    """One parsed file. Raises Unparsable on construction where this Python cannot parse it byte for byte."""

    path: str
    content: bytes
    tree: ast.Module = field(init=False)
    functions: tuple[Function, ...] = field(init=False)
    _starts: list[int] = field(init=False)
    _bound: frozenset[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self.content).readline)
            if encoding not in ("utf-8", "utf-8-sig"):
                raise Unparsable(f"it is encoded as {encoding}; only UTF-8 is spliced")
        except SyntaxError as error:
            raise Unparsable(f"line {error.lineno or '?'}: {error.msg}") from None
        self.tree = _parsed(self.content)
        # Python ends a line at \n, \r\n and a lone \r, and at nothing else.
        self._starts = [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", self.content))]
        self._bom = 3 if self.content.startswith(b"\xef\xbb\xbf") else 0
        self.functions = tuple(_functions(self.tree, ()))

    def offset(self, line: int, column: int) -> int:
        """Byte offset of an ast position: line from 1, column in UTF-8 bytes from 0."""
        return self._starts[line - 1] + column + (self._bom if line == 1 else 0)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.content[start:end].decode("utf-8")

    def before_on_line(self, node: ast.expr | ast.stmt) -> str:
        """What stands before the node on its first line."""
        start, _ = self.span(node)
        return self.content[self.offset(node.lineno, 0) : start].decode("utf-8")

    @property
    def newline(self) -> str:
        """The file's line ending: that of its first line."""
        first = re.search(rb"\r\n|\r|\n", self.content)
        return first.group().decode("ascii") if first else "\n"

    def binds(self, name: str) -> bool:
        """Whether the module binds the name, by an import, an assignment, a def or a class; `import *` may bind any."""
        if self._bound is None:
            self._bound = frozenset(_bound(self.tree.body))
        return name in self._bound or "*" in self._bound

    def with_function(self, function: Function, after: bytes) -> tuple[Source, Function] | None:
        """The file as `after` and the function in it, if nothing but the function's text differs; else None.

        Only the function is parsed again: whole files take most of the time. Raises Unparsable as a whole file does.
        """
        first = min([function.node.lineno, *(decorator.lineno for decorator in function.node.decorator_list)])
        start, end = self.offset(first, 0), self.span(function.node)[1]
        tail = len(self.content) - end
        if after[:start] != self.content[:start] or after[len(after) - tail :] != self.content[end:]:
            return None
        text = after[start : len(after) - tail]
        indented = text[:1] in (b" ", b"\t")
        statement = _parsed(b"if True:\n" + text if indented else text).body[0]
        node = statement.body[0] if isinstance(statement, ast.If) else statement
        if not isinstance(node, FunctionNode):
            return None
        changed = copy.copy(self)
        changed.content = after
        twin = Function(node, function.around)
        changed.functions = tuple(twin if each is function else each for each in self.functions)
        return changed, twin

    def body_sources(self, name: str) -> Iterator[Function]:
        return (function for function in self.functions if function.name == name)


# Machines are planned in threads, and CPython 3.11 counts the depth of all trees that it builds in one place: where
# garbage collection lets another thread in, both end in a SystemError ("AST constructor recursion depth mismatch").
_one_at_a_time = threading.Lock()


def _parsed(content: bytes) -> ast.Module:
    try:
        with _one_at_a_time:
            return ast.parse(content)
    except SyntaxError as error:
        raise Unparsable(f"line {error.lineno or '?'}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unparsable(str(error)) from None


def _functions(node: ast.AST, around: tuple[ast.ClassDef | FunctionNode, ...]) -> Iterator[Function]:
    # Only statements hold function statements: the expressions of a file, most of it, need not be walked.
    for block in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, block, ()):
            if isinstance(child, FunctionNode):
                yield Function(child, around)
                yield from _functions(child, (*around, child))
            elif isinstance(child, ast.ClassDef):
                yield from _functions(child, (*around, child))
            elif hasattr(child, "body"):
                yield from _functions(child, around)


def _bound(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Names bound at this level, also below if, try, with and for; not inside functions and classes."""
    for statement in statements:
        if isinstance(statement, FunctionNode | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    yield from _bound([inner])
                elif isinstance(inner, ast.ExceptHandler | ast.match_case):
                    yield from _bound(inner.body)
                else:
                    names = (node for node in ast.walk(inner) if isinstance(node, ast.Name))
                    yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


@dataclass(frozen=True)
class Splice:
    """Replace content[start:end] by text."""

    start: int
    end: int
    text: bytes


def splice(content: bytes, changes: list[Splice]) -> bytes:
    """Every other byte stays. Raises ValueError for changes that overlap."""
    out, at = [], 0
    for change in sorted(changes, key=lambda change: (change.start, change.end)):
        if change.start < at:
            raise ValueError("two changes overlap")
        out += [content[at : change.start], change.text]
        at = change.end
    out.append(content[at:])
    return b"".join(out)
