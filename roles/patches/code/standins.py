"""Stand-in objects, and a closed namespace that reaches nothing outside.

What nothing is known about is an `Unknown`: false, empty, callable.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

_FUNCTIONS = (
    "abs all any bool bytes callable classmethod dict divmod enumerate filter float frozenset getattr hasattr hash id "
    "int issubclass iter len list map max min next object property range repr reversed round set setattr slice sorted "
    "staticmethod str sum super tuple type zip __build_class__ NotImplemented Ellipsis"
)
_ERRORS = (
    "ArithmeticError AssertionError AttributeError BaseException Exception ImportError IndexError KeyError LookupError "
    "ModuleNotFoundError NameError NotImplementedError RuntimeError StopIteration TypeError ValueError "
    "ZeroDivisionError"
)
BUILTINS = frozenset(f"{_FUNCTIONS} {_ERRORS} isinstance print".split())


class CannotRun(Exception):
    """The function cannot be judged by running it; the message says why."""


class Unknown:
    """Something nothing is known about: false, empty, and whatever is asked of it is unknown as well."""

    def __init__(self, name: str = "?") -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self._name}.{name}")

    def __setattr__(self, name: str, value: object) -> None:
        """Nothing is kept: an unknown stays unknown."""

    def __call__(self, *args: object, **kwargs: object) -> Unknown:
        return Unknown(f"{self._name}()")

    def __getitem__(self, key: object) -> Unknown:
        return Unknown(f"{self._name}[]")

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, item: object) -> bool:
        return False

    def __enter__(self) -> Unknown:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<unknown {self._name}>"


class Record(SimpleNamespace):
    """Attributes that are given; every other attribute is Unknown."""

    def __init__(self, _name: str = "record", /, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._label = _name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self._label}.{name}")

    __hash__ = object.__hash__  # type: ignore[assignment]


class Attempt(NamedTuple):
    """What a call came to: its value, or the name and text of what it raised."""

    value: Any
    raised: str = ""


def attempt(call: Callable[[], Any]) -> Attempt:
    """Run somebody else's code. Whatever it raises is the observation."""
    try:
        return Attempt(call())
    except CannotRun:
        raise
    except Exception as error:  # noqa: BLE001 - the one boundary to code that may raise anything; nothing is lost
        return Attempt(None, f"{type(error).__name__}: {error}")


def _range(*bounds: int) -> range:
    """No loop of a function that is judged goes round more often than any that decides something would."""
    made = range(*bounds)
    if made and abs(made[-1] - made[0]) // abs(made.step) > 100_000:
        raise CannotRun(f"it loops over {made}")
    return made


def _isinstance(value: object, kinds: object) -> bool:
    if isinstance(kinds, type):
        return isinstance(value, kinds)
    known = kinds if isinstance(kinds, tuple) else (kinds,)
    return isinstance(value, tuple(kind for kind in known if isinstance(kind, type)))


def closed_namespace(imports: Callable[..., Any] | None = None) -> dict[str, Any]:
    """Globals that reach nothing outside: a short list of builtins, and `imports` for import statements."""
    allowed = {name: getattr(builtins, name) for name in BUILTINS}
    closed = {**allowed, "isinstance": _isinstance, "print": _silent, "range": _range}
    return {"__name__": "stand_in", "__builtins__": {**closed, **({"__import__": imports} if imports else {})}}


def _silent(*_: object, **__: object) -> None:
    """What a function prints while it is judged is nobody's business."""
