import ast

import pytest

from sandbox.engine.transplant import transplant
from tests.unit.sandbox.engine.trees import write


def lift(tmp_path, name, body, stand_in=None, **others):
    files = {"sglang/main.py": body, **{f"sglang/{key}.py": text for key, text in others.items()}}
    return transplant(write(tmp_path, files).module("sglang.main").lookup(name), stand_in)


def test_a_function_brings_what_it_names_in_its_module(tmp_path):
    body = "import re\nLIMIT = 3\ndef helper(x):\n    return x * LIMIT\n"
    body += "def f(x: Absent) -> Absent:\n    return helper(x), bool(re.match('a', 'abc'))\n"
    assert lift(tmp_path, "f", body)(2) == (6, True)


def test_a_class_may_name_itself(tmp_path):
    body = "class A(dict):\n    def __init__(self):\n        super(A, self).__init__(x=1)\n"
    assert lift(tmp_path, "A", body)() == {"x": 1}


def test_names_from_outside_are_asked_of_the_stand_in(tmp_path):
    body = "import torch\nfrom sglang.other import thing as it\ndef f():\n    return torch, it\n"
    assert lift(tmp_path, "f", body, lambda name: f"<{name}>")() == ("<torch>", "<thing>")


def test_imports_inside_a_function_never_reach_the_real_package(tmp_path):
    body = "def f():\n    from sglang.other import thing\n    import json\n    return thing, json.dumps(1)\n"
    lifted = lift(tmp_path, "f", body, lambda name: f"<{name}>", other="raise RuntimeError('imported')")
    assert lifted() == ("<thing>", "1")


def test_without_a_stand_in_what_is_outside_is_not_there(tmp_path):
    body = "import torch\ndef f():\n    return torch\ndef g():\n    import torch\n    return torch\n"
    with pytest.raises(NameError):
        lift(tmp_path, "f", body)()
    with pytest.raises(ImportError):
        lift(tmp_path, "g", body)()


def test_the_source_is_left_as_it_was(tmp_path):
    tree = write(tmp_path, {"sglang/main.py": "@deco\ndef f(x: int) -> int:\n    return x\n"})
    definition = tree.module("sglang.main").lookup("f")
    before = ast.dump(definition.node)
    assert transplant(definition)(1) == 1
    assert ast.dump(definition.node) == before
