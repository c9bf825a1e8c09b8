import ast

import pytest

from sandbox.engine.values import Definition, Outside, Undecided
from tests.unit.sandbox.engine.trees import write


def value(tmp_path, expression, body="", **others):
    files = {"pkg/__init__.py": "", "pkg/main.py": body, **{f"pkg/{name}.py": text for name, text in others.items()}}
    module = write(tmp_path, files).module("pkg.main")
    return module.evaluate(ast.parse(expression, mode="eval").body)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("-3", -3),
        ("2 ** 10 * 3", 3072),
        ("['a', *('b', 'c')]", ["a", "b", "c"]),
        ("['a'] + ['b']", ["a", "b"]),
        ("{'x': 1, **{'y': 2}}", {"x": 1, "y": 2}),
        ("f'{1 + 1} of {3}'", "2 of 3"),
        ("'a' if 1 in [1] else 'b'", "a"),
        ("not (1 == 1)", False),
        ("[n.upper() for n in ['a', 'b'] if n != 'b']", ["A"]),
        ("sorted({'b', 'a'})", ["a", "b"]),
        ("list({'x': 1}.keys())", ["x"]),
        ("{'x': [1, 2]}['x'][1]", 2),
        ("(lambda a, b: a + b)(1, b=2)", 3),
    ],
)
def test_what_the_text_says(tmp_path, expression, expected):
    assert value(tmp_path, expression) == expected


def test_constants_are_followed_through_imports_within_the_tree(tmp_path):
    body = "from pkg.other import NAMES as FOUND\nfrom .third import MORE\nALL = FOUND + MORE"
    assert value(tmp_path, "ALL", body, other="NAMES = ['a']", third="MORE = ['b']") == ["a", "b"]


def test_a_registry_s_keys_are_known_where_its_values_are_not(tmp_path):
    body = "import torch\nMAP = {'a': torch.A, 'b': make()}"
    assert value(tmp_path, "list(MAP.keys())", body) == ["a", "b"]


def test_class_attributes_come_from_the_class_or_its_bases(tmp_path):
    body = "class Base:\n    x: int = 1\nclass Own(Base):\n    y = 2"
    assert value(tmp_path, "Own.x + Own.y", body) == 3


def test_members_of_an_enumeration(tmp_path):
    body = "import enum\nclass Mode(enum.Enum):\n    ONE = 1\n    TWO = 2"
    assert value(tmp_path, "[m.name.lower() for m in Mode]", body) == ["one", "two"]


def test_a_small_function_is_run_and_undecided_branches_are_not_taken(tmp_path):
    body = """
import sys
def choices():
    module = sys.modules.get("heavy")
    if module is not None:
        return list(module.NAMES)
    from pkg.other import NAMES
    return list(NAMES)
"""
    assert value(tmp_path, "choices()", body, other="NAMES = ['light']") == ["light"]


def test_field_default_factories(tmp_path):
    body = "import dataclasses\nclass C:\n    a: list = dataclasses.field(default_factory=list)\n"
    body += "    b: list = dataclasses.field(default_factory=lambda: ['x'])"
    assert value(tmp_path, "C.a + C.b", body) == ["x"]


@pytest.mark.parametrize(
    "expression",
    ["unknown_call()", "[torch.x]", "os.environ['A']", "Absent.x()", "1 if torch else 2", "'a' + 1", "{}['absent']"],
)
def test_what_the_text_does_not_say_is_undecided(tmp_path, expression):
    with pytest.raises(Undecided):
        value(tmp_path, expression, "import os\nimport torch")


def test_names_of_other_packages_stay_names(tmp_path):
    found = value(tmp_path, "argparse.BooleanOptionalAction", "import argparse")
    assert isinstance(found, Outside) and found.name == "argparse.BooleanOptionalAction"


def test_the_first_binding_under_if_and_try_counts(tmp_path):
    body = "try:\n    X = ['first']\nexcept ImportError:\n    X = ['second']\nif cuda():\n    Y = 1\nelse:\n    Y = 2"
    assert value(tmp_path, "X", body) == ["first"]
    assert value(tmp_path, "Y", body) == 1


def test_imports_in_a_circle_are_undecided(tmp_path):
    with pytest.raises(Undecided):
        value(tmp_path, "X", "from pkg.other import X", other="from pkg.main import X")


def test_a_missing_module_is_undecided(tmp_path):
    with pytest.raises(Undecided, match=r"pkg\.absent"):
        value(tmp_path, "X", "from pkg.absent import X")


def test_functions_and_classes_are_their_definitions(tmp_path):
    found = value(tmp_path, "f", "def f():\n    return open('x')")
    assert isinstance(found, Definition) and isinstance(found.node, ast.FunctionDef)
