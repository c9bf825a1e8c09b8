from __future__ import annotations

import ast
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.patches.code.source import Source, Splice, Unparsable, splice


def _constant(source: Source) -> ast.Constant:
    return next(node for node in ast.walk(source.tree) if isinstance(node, ast.Constant))


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_spans_are_bytes_whatever_stands_before(newline: bytes, bom: bytes) -> None:
    lines = ["größe = 1; é = [", "  '漢字', x]  # ü"]
    content = bom + newline.join(line.encode() for line in lines) + newline
    source = Source("x.py", content)
    texts = [content[slice(*source.span(n))].decode() for n in ast.walk(source.tree) if isinstance(n, ast.Constant)]
    assert texts == ["1", "'漢字'"]


def test_a_form_feed_ends_no_line() -> None:
    source = Source("x.py", b"\x0cx = 1\n\x0cy = 2\n")
    assert [source.text(node) for node in source.tree.body] == ["x = 1", "y = 2"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"def broken(:\n", "line 1"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "iso-8859-1"),
        (b"x = '\xff'\n", "encoding"),
        (b"x = 1\0\n", "null"),
        (b"(" * 5000 + b")" * 5000, ""),
    ],
)
def test_what_cannot_be_read_says_why(content: bytes, why: str) -> None:
    with pytest.raises(Unparsable, match=f"(?i){why}"):
        Source("x.py", content)


def test_functions_know_what_is_around_them() -> None:
    text = "if True:\n class A:\n  try:\n   def f(self):\n    def g(): pass\n  except E: pass\n"
    found = {f.name: [around.name for around in f.around] for f in Source("x.py", text.encode()).functions}
    assert found == {"f": ["A"], "g": ["A", "f"]}


@pytest.mark.parametrize(
    "text",
    ["import name", "from a import b as name", "name = 1", "name: int = 1", "def name(): pass", "class name: pass",
     "try:\n import x as name\nexcept E:\n pass", "if x:\n name = 1", "for name in x: pass", "with x as name: pass",
     "from a import *", "import name.inner", "try:\n pass\nexcept E:\n name = 2"],
)  # fmt: skip
def test_names_that_a_module_binds(text: str) -> None:
    assert Source("x.py", text.encode()).binds("name")


@pytest.mark.parametrize("text", ["other = name", "def f():\n name = 1", "class A:\n name = 1", "import x.name"])
def test_names_that_a_module_does_not_bind(text: str) -> None:
    assert not Source("x.py", text.encode()).binds("name")


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=4))
def test_splicing_a_text_by_itself_changes_nothing(content: bytes, ranges: list[tuple[int, int]]) -> None:
    at, changes = 0, []
    for start, length in sorted(ranges):
        start, end = max(at, min(start, len(content))), min(max(at, start) + length, len(content))
        if start <= end:
            changes.append(Splice(start, end, content[start:end]))
            at = end
    assert splice(content, changes) == content


def test_overlapping_changes_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        splice(b"abcdef", [Splice(0, 3, b"x"), Splice(2, 4, b"y")])


class Straggler:
    """Garbage whose end lets other threads in, wherever it is collected; there is always one more of it."""

    left = 2000

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        Straggler.left -= 1
        if Straggler.left > 0:
            time.sleep(0.0001)
            Straggler()


def test_threads_that_parse_at_once_do_not_disturb_each_other() -> None:
    content = b"def f(x):\n    return [a.b(c, d=1)[0] for a in x if a]\n" * 200
    before = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    try:
        for _ in range(4):
            Straggler()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda number: len(Source(f"{number}.py", content).functions), range(64)))
    finally:
        gc.set_threshold(*before)
        Straggler.left = 0
        gc.collect()
    assert found == [200] * 64
