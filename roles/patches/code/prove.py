"""Judging a function by what it does: a patch's proof runs it with stand-in objects and says which behaviour it shows.

A proof is Python of a patch's folder, run in the same closed namespace as the function. It defines
  observe(load, kit) -> {case: outcome}   runs the function over a table of inputs; load(names, modules) gives a Loaded
  judge(seen) -> (word, why)              word is one of WORDS
  may_change(case, before, after) -> bool whether the patch is meant to change that case in that way
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

from blackstart.errors import InputError

from .loaded import Loaded
from .source import Function, Source
from .standins import CannotRun, Record, Unknown, attempt, closed_namespace

Word = Literal["needs", "behaves", "unrelated", "unclear"]
WORDS: tuple[Word, ...] = ("needs", "behaves", "unrelated", "unclear")
Seen = Mapping[Any, Any]

_KIT = SimpleNamespace(Record=Record, Unknown=Unknown, attempt=attempt, CannotRun=CannotRun)


@dataclass(frozen=True)
class Verdict:
    """`needs` the patch, `behaves` as patched, is `unrelated` to it, or `unclear`; and why, in words for people."""

    word: Word
    why: str
    seen: Seen


class Proof:
    """A patch's proof. Raises InputError where the file is not one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        namespace = closed_namespace()
        try:
            code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError) as error:
            raise InputError("the proof cannot be read", where=str(file), found=str(error)) from None
        raised = attempt(lambda: exec(code, namespace)).raised
        if raised:
            raise InputError("the proof does not load", where=str(file), found=raised)
        self._observe = self._member(namespace, "observe")
        self._judge = self._member(namespace, "judge")
        self._may_change = self._member(namespace, "may_change")

    def _member(self, namespace: Mapping[str, Any], name: str) -> Callable[..., Any]:
        member = namespace.get(name)
        if not callable(member):
            raise InputError(
                f"the proof defines no {name}()",
                where=str(self._file),
                remedy="see docs/patches.md, “A patch of your own”",
            )
        return cast(Callable[..., Any], member)

    def verdict(self, source: Source, function: Function) -> Verdict:
        """What the function does. Raises InputError where it is the proof itself that fails."""

        def load(names: Mapping[str, Any], modules: Mapping[str, Any]) -> Loaded:
            return Loaded(source, function, names, modules)

        try:
            tried = attempt(lambda: self._observe(load, _KIT))
        except CannotRun as error:
            return Verdict("unclear", f"{function.name} is not run: {error}", {})
        if tried.raised:
            return Verdict("unclear", f"{function.name} cannot be run with stand-ins: {tried.raised}", {})
        word, why = self._asked("judge", lambda: self._judge(tried.value))
        if word not in WORDS:
            raise InputError("the proof judges with an unknown word", where=str(self._file), found=repr(word))
        return Verdict(word, str(why), tried.value)

    def regressions(self, before: Seen, after: Seen) -> list[str]:
        """The cases that came out differently although the patch is not meant to change them so."""

        def is_meant(case: object) -> bool:
            return bool(self._may_change(case, before[case], after.get(case)))

        cases = [case for case in before if before[case] != after.get(case)]
        unmeant = [case for case in cases if not self._asked("may_change", functools.partial(is_meant, case))]
        return [f"{case}: {before[case]} became {after.get(case)}" for case in unmeant]

    def _asked(self, name: str, call: Callable[[], Any]) -> Any:
        tried = attempt(call)
        if tried.raised:
            raise InputError(f"the proof's {name}() fails", where=str(self._file), found=tried.raised)
        return tried.value


@functools.cache
def load(file: Path) -> Proof:
    return Proof(file)
