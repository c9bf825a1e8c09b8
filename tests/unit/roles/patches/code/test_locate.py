from __future__ import annotations

import ast

import pytest

from roles.patches.code import locate, locate_membership, locate_read
from roles.patches.code.locate import Place, Unplaceable
from roles.patches.code.source import Source, splice

ENTRY = '"new"'


def _source(text: str) -> Source:
    return Source("x.py", text.encode())


def _membership(text: str, name: str = "f") -> tuple[Source, Place]:
    source = _source(text)
    (function,) = locate.functions(source, name)
    return source, locate_membership.find(source, function, ["a"], "new")


def _added(text: str) -> str:
    source, place = _membership(text)
    entry = ENTRY + (",  # mark" if place.variables["own_line"] else "")
    after = splice(source.content, place.fill(entry)).decode()
    compile(after, "x.py", "exec")
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('["a", "b"]', '["a", "b", "new"]'),
        ('["a", "b",]', '["a", "b", "new",]'),
        ('("a",)', '("a", "new",)'),
        ('{"a"}', '{"a", "new"}'),
        ('frozenset({"a"})', 'frozenset({"a", "new"})'),
        ('set(["a"])', 'set(["a", "new"])'),
        ('[\n  "a",\n ]', '[\n  "a",\n  "new",  # mark\n ]'),
        ('[\n  "a"\n ]', '[\n  "a",\n  "new",  # mark\n ]'),
        ('[\n  "a",  # one, two\n ]', '[\n  "a",  # one, two\n  "new",  # mark\n ]'),
        ('[\n  "a"  # one, ]\n ]', '[\n  "a",  # one, ]\n  "new",  # mark\n ]'),
        ('[\n  "a"  # one\n  , ]', '[\n  "a", "new"  # one\n  , ]'),
        ('[\n  "a", ]', '[\n  "a", "new", ]'),
        ('[\n  "a"]', '[\n  "a", "new"]'),
        ('[\n  "é漢", "a",\n ]', '[\n  "é漢", "a", "new",\n ]'),
        ('[\n  "a",\n  # "new",\n ]', '[\n  "a",\n  "new",  # mark\n  # "new",\n ]'),
    ],
)
def test_the_entry_goes_after_the_last_one(before: str, after: str) -> None:
    head = "def f(x):\n é = 1; return x in "
    assert _added(head + before + "\n") == head + after + "\n"


def test_line_endings_are_kept() -> None:
    source = Source("x.py", b'def f(x):\r\n return x in [\r\n  "a",\r\n ]\r\n')
    (function,) = locate.functions(source, "f")
    place = locate_membership.find(source, function, ["a"], "new")
    assert (
        splice(source.content, place.fill('"new",')) == b'def f(x):\r\n return x in [\r\n  "a",\r\n  "new",\r\n ]\r\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        'K = ["a"]\ndef f(x):\n return x in K\n',
        'K: list[str] = ["a"]\ndef f(x):\n return x not in K\n',
        'def f(x):\n k = ("a", "b")\n return x in k\n',
        'class C:\n K = frozenset(["a"])\n def f(self, x):\n  return x in self.K\n',
        'class C:\n K = ["a"]\n def f(self, x):\n  return x in C.K\n',
    ],
)
def test_constants_are_followed(text: str) -> None:
    assert ENTRY in _added(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('def f(x):\n return x == "a"\n', "no collection"),
        ('def f(x):\n return x in ["b"]\n', "no collection"),
        ('def f(x):\n return x in ["a"] or x in ["a", "c"]\n', "2 collections"),
        ('def f(x):\n return x in ["a", "new"]\n', "holds new already"),
        ('K = ["a"]\ndef f(x):\n return x in K\ndef g(x):\n return x in K\n', "more than one place"),
        ('K = ["a"]\n__all__ = ["K"]\ndef f(x):\n return x in K\n', "more than one place"),
        ('K = ["a"]\nK = ["a"]\ndef f(x):\n return x in K\n', "no collection"),
        ('def f(x):\n return x in [("a")]\n', "unusual"),
    ],
)
def test_unknown_shapes_say_which(text: str, why: str) -> None:
    with pytest.raises(Unplaceable, match=why):
        _membership(text)


def test_functions_by_name_else_by_what_they_read() -> None:
    source = _source("def f():\n def g():\n  return x.flag\n return g\ndef h():\n return getattr(x, 'flag', None)\n")
    assert [f.name for f in locate.functions(source, "f", "flag")] == ["f"]
    assert [f.name for f in locate.functions(source, "nothing", "flag")] == ["g", "h"]
    assert locate.functions(source, "nothing") == []


def _read(text: str) -> tuple[Source, Place]:
    source = _source(text)
    (function,) = locate.functions(source, "f")
    return source, locate_read.find(source, function, "table", {"buffer": "get"})


@pytest.mark.parametrize(
    ("statement", "holder"),
    [
        ("t = a.b.table", "a.b"),
        ("t: int = a.b.table", "a.b"),
        ("t = getattr(a.b, 'table')", "a.b"),
        ("t = getattr(a.b, 'table', None)", "a.b"),
        ("t = (\n    a.table\n )", "a"),
        ("t = \\\n   a.table", "a"),
    ],
)
def test_the_read_is_found_and_replaced(statement: str, holder: str) -> None:
    source, place = _read(f"def f(self, batch):\n {statement}  # é\n return batch.pool.get(self.n)\n")
    assert place.variables["holder"] == holder and place.variables["target"] == "t"
    assert place.variables["arguments"] == ["self", "batch"] and place.variables["buffer"] == "batch.pool.get(self.n)"
    after = splice(source.content, place.fill("one\n\ntwo\n")).decode()
    assert after == "def f(self, batch):\n one  # é\n\n two\n return batch.pool.get(self.n)\n"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("t = a.table; u = 1", "more than the one statement"),
        ("t = u = a.table", "not into a variable of its own"),
        ("t, u = a.table, 1", "not into a variable"),
        ("return a.table", "not into a variable"),
        ("t = a.table\n u = a.table", "2 times"),
        ("t = 1", "0 times"),
        ("a.t = a.table", "not into a variable"),
    ],
)
def test_reads_of_unknown_shape_say_which(body: str, why: str) -> None:
    with pytest.raises(Unplaceable, match=why):
        _read(f"def f(self, batch):\n {body}\n batch.pool.get(self.n)\n")


@pytest.mark.parametrize("calls", ["pass", "x.get(1); x.get(2)"])
def test_a_call_that_the_template_needs_has_to_be_one(calls: str) -> None:
    with pytest.raises(Unplaceable, match="calls get in"):
        _read(f"def f(self):\n t = a.table\n {calls}\n")


def test_writing_an_attribute_is_no_read() -> None:
    assert locate.reads(ast.parse("a.table = 1"), "table") == []
