from __future__ import annotations

from typing import Any

import pytest

from roles.patches.code.loaded import Loaded
from roles.patches.code.source import Source
from roles.patches.code.standins import CannotRun, Record, Unknown, attempt


def _load(
    text: str, name: str = "f", given: dict[str, Any] | None = None, modules: dict[str, Any] | None = None
) -> Loaded:
    source = Source("x.py", text.encode())
    (function,) = (f for f in source.functions if f.name == name)
    return Loaded(source, function, given or {}, modules or {})


@pytest.mark.parametrize(
    "body",
    ["open('/etc/passwd')", "eval('1')", "exec('1')", "__import__('os').system('true')", "compile('1', '', 'eval')",
     "globals()", "input()", "vars()"],
)  # fmt: skip
def test_nothing_outside_is_within_reach(body: str) -> None:
    tried = attempt(_load(f"def f():\n    return {body}\n").call)
    assert tried.raised.startswith(("NameError", "ImportError")) or isinstance(tried.value, Unknown)


def test_an_import_gives_a_stand_in_and_runs_nothing() -> None:
    loaded = _load("def f():\n    import os\n    from sys import exit\n    return os.getpid(), exit(3)\n")
    assert all(isinstance(value, Unknown) for value in loaded.call())


@pytest.mark.parametrize("body", ["while True: pass", "yield 1", "global x"])
def test_what_may_not_end_is_not_run(body: str) -> None:
    with pytest.raises(CannotRun, match="f holds a"):
        _load(f"def f():\n    {body}\n")


def test_async_is_not_run() -> None:
    with pytest.raises(CannotRun, match="async"):
        _load("async def f():\n    pass\n")


@pytest.mark.parametrize(
    "constant", ["X = [1, 2]", "X = frozenset({1, 2})", "Y = (1,)\nX = Y + (2,)", "X: tuple = (1, 2)", "X = {1} | {2}"]
)
def test_constants_of_the_file_are_worked_out(constant: str) -> None:
    assert sorted(_load(f"{constant}\ndef f():\n    return X\n").call()) == [1, 2]


def test_what_is_no_constant_is_unknown_and_false() -> None:
    assert not _load("X = detect()\ndef f():\n    return bool(X) or X.more().deeper[3] or 1 in X\n").call()


def test_a_name_that_the_file_does_not_bind_is_missing_even_if_given() -> None:
    assert attempt(_load("def f():\n    return torch\n", given={"torch": 1}).call).raised.startswith("NameError")
    assert _load("import torch\ndef f():\n    return torch\n", given={"torch": 1}).call() == 1


def test_functions_of_the_file_are_run_as_they_are() -> None:
    assert _load("def helper(x):\n    return x + 1\ndef f():\n    return helper(1)\n").call() == 2


def test_methods_of_the_class_are_bound_to_the_stand_in() -> None:
    loaded = _load(
        "class A:\n    def g(self, x):\n        return self.base + x\n    def f(self):\n        return self.g(1)\n"
    )
    self = Record("self", base=41)
    loaded.bind_methods(self)
    assert loaded.call(self) == 42


@pytest.mark.parametrize("decorator", ["@staticmethod", "@torch.no_grad()", "@functools.lru_cache(None)", "@own"])
def test_decorators_that_are_known(decorator: str) -> None:
    assert (
        _load(f"import torch, functools\ndef own(g):\n    return g\n{decorator}\ndef f():\n    return 1\n").call() == 1
    )


def test_a_decorator_that_is_not_known() -> None:
    with pytest.raises(CannotRun, match=r"decorated by somebody\.wraps"):
        _load("@somebody.wraps\ndef f():\n    return 1\n")


def test_a_decorator_of_the_file_takes_part() -> None:
    text = "def turned(g):\n    def h():\n        return not g()\n    return h\n@turned\ndef f():\n    return True\n"
    assert _load(text).call() is False


def test_whatever_is_raised_is_the_observation() -> None:
    tried = attempt(_load("def f():\n    raise ValueError('so')\n").call)
    assert tried == (None, "ValueError: so")


def test_annotations_and_types_are_not_looked_at() -> None:
    assert _load("def f(x: Nowhere = 1) -> Gone:\n    y: Lost = x\n    return y\n").call() == 1


def test_isinstance_of_an_unknown_type_is_false() -> None:
    assert _load("from a import B\ndef f():\n    return isinstance(1, B), isinstance(1, (B, int))\n").call() == (
        False,
        True,
    )


def test_a_loop_that_would_take_for_ever_is_not_run() -> None:
    with pytest.raises(CannotRun, match="loops over"):
        attempt(_load("def f():\n    for n in range(10**18):\n        pass\n").call)
    assert _load("def f():\n    return sum(range(4)) + len(range(9, 3, -2)) + len(range(0))\n").call() == 9


def test_endless_recursion_is_an_observation() -> None:
    assert attempt(_load("def f():\n    return f()\n").call).raised.startswith("RecursionError")
