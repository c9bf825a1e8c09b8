"""How a function is written, where it stands, and what is around it: mutations that fit every function."""

from __future__ import annotations

import ast
import re
import textwrap

from .making import EASY, HARD, Maker
from .source_tools import commented, ruff, split, without_comments
from .subjects import GATE


def layout(m: Maker) -> None:
    text, function = m.subject.text, m.subject.function
    for width in (40, 60, 88, 100, 140, 200):
        m.file(f"reformatted by ruff at {width}", ruff(text, width), EASY)
    m.file("written again from its syntax tree", ast.unparse(ast.parse(text)) + "\n", EASY)
    m.function("comments removed", without_comments(function), EASY)
    m.function("comments added", commented(function), EASY)
    m.function("docstring gone", re.sub(r'\n\s+"""(.|\n)*?"""', "", function, count=1), EASY)
    m.function("docstring in other words", re.sub(r'"""(.|\n)*?"""', '"""Ünïcödé, 漢字."""', function, count=1), EASY)
    local = "backend_str" if m.subject.patch == GATE else "kv_indices"
    m.function("a variable renamed", re.sub(rf"\b{local}\b", "chosen", function), EASY)
    m.function("a variable renamed beyond ASCII", re.sub(rf"\b{local}\b", "größe", function), EASY)
    m.function("white space at line ends", re.sub(r"(?m)(?<=[^\s])$", "   ", function), EASY)
    m.function(
        "an unused default parameter",
        re.sub(r"\)( ->[^:]*)?:\n", r", unused=None)\1:\n", function.replace(",\n)", "\n)"), count=1),
        EASY,
    )


def encoding(m: Maker) -> None:
    text = m.subject.text
    m.file("CRLF", text.replace("\n", "\r\n").encode(), EASY)
    m.file("a byte order mark", b"\xef\xbb\xbf" + text.encode(), EASY)
    m.file("tabs", re.sub(r"(?m)^( {4})+", lambda match: "\t" * (len(match.group()) // 4), text), EASY)
    m.file("no newline at the end", text.rstrip("\n"), EASY)
    m.file("Latin-1", b"# -*- coding: latin-1 -*-\n# \xe9\n" + text.encode("ascii", "replace"))
    m.file("a syntax error below", text + "\ndef broken(:\n")
    m.file("a form feed above", "\f\n" + text, EASY)


def moves(m: Maker) -> None:
    s = m.subject
    alone = f"{s.imports}\n\n{s.function.rstrip()}\n\n{s.helpers}\n"
    inside = (
        f"{s.imports}\n\nclass Elsewhere:\n" + textwrap.indent(f"{s.function.rstrip()}\n\n{s.helpers}", "    ") + "\n"
    )
    m.file("moved out of its class" if s.owner else "the helpers moved below", alone + "\n", EASY)
    m.file("moved into another class", inside, EASY)
    home = "sglang/srt/model_executor/somewhere_else.py"
    m.files("moved to another file", {home: s.text.encode(), s.path: b"from .somewhere_else import *\n"}, home, EASY)
    copy = "sglang/srt/model_executor/second_copy.py"
    m.files("in two files", {s.path: s.text.encode(), copy: s.text.encode()}, s.path)
    guarded = f"{s.imports}\n\nif True:\n" + textwrap.indent(s.text[len(s.imports) :].strip(), "    ") + "\n"
    m.file("below an if", guarded, EASY)
    m.file("below a try", guarded.replace("if True:", "try:") + "except ImportError:\n    pass\n", EASY)
    m.file("under another name", re.sub(rf"\b{s.name}\b", "wants_it_all", s.text), HARD, "wants_it_all")
    deeper = "def factory():\n" + textwrap.indent(f"{s.function.rstrip()}\n\nreturn {s.name}\n", "    ")
    m.file("inside a function", f"{s.imports}\n\n{deeper}")


def surroundings(m: Maker) -> None:
    s = m.subject
    m.function("a decorator that changes nothing", f"@torch.no_grad()\n{s.function}", EASY)
    passing = "def passing(function):\n    return function\n"
    decorated = s.with_function(f"@passing\n{s.function}").replace(s.imports, f"{s.imports}\n\n{passing}", 1)
    m.file("a decorator of the file", decorated, EASY)
    m.file("an unknown decorator", s.with_function(f"@somebody.decorates\n{s.function}"))
    head, body = split(s.function)
    wrap = lambda opening, closing="": head + opening + textwrap.indent(body, "    ") + closing  # noqa: E731
    m.function("its body in try and finally", wrap("    try:\n", "    finally:\n        pass\n"), EASY)
    m.function("its body below if True", wrap("    if True:\n"), EASY)
    m.function("its body below with", wrap("    with torch.no_grad():\n"), EASY)
    m.function(
        "its body in try and except Exception", wrap("    try:\n", "    except Exception:\n        raise\n"), EASY
    )
    m.function("a loop without end before it", head + "    while False:\n        pass\n" + body)
    m.function("async", s.function.replace("def ", "async def ", 1))
    m.function("an early return None", head + "    return None\n" + body)
    m.function("it raises at once", head + '    raise RuntimeError("not today")\n' + body)
