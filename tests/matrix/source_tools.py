"""Cutting and rewriting a function's text."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize


def split(function: str) -> tuple[str, str]:
    """The function up to its first statement, and the rest; an opening docstring stays with the head."""
    node = ast.parse(function).body[0]
    assert isinstance(node, ast.FunctionDef)
    first = node.body[1] if ast.get_docstring(node) is not None else node.body[0]
    at = position(function, first.lineno, 0)
    # Comments above the first statement go with it.
    return function[:at], function[at:]


def position(text: str, line: int, column: int) -> int:
    """Index of an ast position in text; columns count bytes."""
    lines = text.splitlines(keepends=True)
    return sum(len(each) for each in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())


def ruff(text: str, width: int) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(width), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def without_comments(text: str) -> str:
    lines = text.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            rest = lines[row - 1][:column].rstrip()
            lines[row - 1] = rest + "\n" if rest else ""
    return "".join(lines)


def commented(text: str) -> str:
    """A comment with commas, brackets and quotes above every statement."""
    starts = {n.lineno: n.col_offset for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)}
    lines = text.splitlines(keepends=True)
    out = []
    for number, line in enumerate(lines, 1):
        if number in starts and number > 1 and not line.lstrip().startswith(("else", "elif", "except", "finally")):
            out.append(" " * starts[number] + "# é, ], ), } and \"quotes', page_table and flashinfer_cutlass\n")
        out.append(line)
    return "".join(out)
