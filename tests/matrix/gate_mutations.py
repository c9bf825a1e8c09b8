"""What may become of the autotune gate: other collections, other comparisons, and edits by hand."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass

from .making import EASY, HARD, Maker
from .source_tools import position, split
from .subjects import Subject

CAPABILITY = "torch.cuda.get_device_capability()[0]"


def gate(m: Maker) -> None:
    test = Membership.of(m.subject.function)
    _collections(m, test)
    _constants(m, test)
    _comparisons(m, test)
    _by_hand(m, test)


@dataclass(frozen=True)
class Membership:
    """`left in [entries]` or `left not in [entries]`, and where it stands in the function's text."""

    function: str
    entries: tuple[str, ...]
    left: str
    negated: bool
    start: int  # of left
    listed: int  # of the list
    end: int

    @classmethod
    def of(cls, function: str) -> Membership:
        for node in ast.walk(ast.parse(function)):
            if isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.List):
                listed = node.comparators[0]
                entries = tuple(
                    e.value for e in listed.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)
                )
                if any(entry.startswith("flashinfer") for entry in entries):
                    start = position(function, node.lineno, node.col_offset)
                    at = position(function, listed.lineno, listed.col_offset)
                    end = position(function, listed.end_lineno or 0, listed.end_col_offset or 0)
                    left = ast.unparse(node.left)
                    return cls(function, entries, left, isinstance(node.ops[0], ast.NotIn), start, at, end)
        raise AssertionError("no list of backends")

    @property
    def shown(self) -> str:
        return ", ".join(f'"{entry}"' for entry in self.entries)

    def listing(self, text: str) -> str:
        """The function with another collection."""
        return self.function[: self.listed] + text + self.function[self.end :]

    def asking(self, condition: str) -> str:
        """The function with another condition for being one of the entries."""
        turned = f"not ({condition})" if self.negated else condition
        return self.function[: self.start] + turned + self.function[self.end :]

    def refusing(self, condition: str) -> str:
        """The function with another condition for not being one of them."""
        turned = condition if self.negated else f"not ({condition})"
        return self.function[: self.start] + turned + self.function[self.end :]


def _collections(m: Maker, test: Membership) -> None:
    one_a_line = ",\n            ".join(f'"{entry}"' for entry in test.entries)
    written = {
        "the list as a tuple": f"({test.shown},)",
        "the list as a set": f"{{{test.shown}}}",
        "the list as a frozenset": f"frozenset({{{test.shown}}})",
        "the list as a frozenset of a list": f"frozenset([{test.shown}])",
        "the list on one line": f"[{test.shown}]",
        "the list with single quotes": f"[{test.shown}]".replace('"', "'"),
        "no comma after the last entry": f"[\n            {one_a_line}\n        ]",
        "a comment after the last entry": f"[\n            {one_a_line},  # the last, really\n        ]",
        "a comment and no comma": f"[\n            {one_a_line}  # one, two, three\n        ]",
        "the last entry beside the bracket": f"[\n            {one_a_line}]",
        "an extra entry": f'[{test.shown}, "somebody_elses"]',
        "an extra entry beyond ASCII": f'["ünïcödé", {test.shown}]',
        "an entry from elsewhere": f"[{test.shown}, *()]",
        "only the first entry is left": f'["{test.entries[0]}"]',
    }
    for name, text in written.items():
        m.function(name, test.listing(text), EASY)
    m.function("a dict", test.listing("{" + ", ".join(f'"{entry}": True' for entry in test.entries) + "}"))


def _constants(m: Maker, test: Membership) -> None:
    def named(name: str, constant: str, above: str, kind: str = EASY) -> None:
        imports = m.subject.imports
        file = m.subject.with_function(test.listing(constant)).replace(imports, f"{imports}\n\n{above}\n", 1)
        m.file(name, file, kind)

    shown = test.shown
    named("a constant of the module", "KNOWN", f"KNOWN = [{shown}]")
    named("a frozenset of the module", "KNOWN", f"KNOWN: frozenset[str] = frozenset({{{shown}}})")
    named("a constant that others use", "KNOWN", f"KNOWN = [{shown}]\n\ndef other(x):\n    return x in KNOWN", HARD)
    named("a constant that is handed out", "KNOWN", f'KNOWN = [{shown}]\n__all__ = ["KNOWN"]', HARD)
    named("a constant made of two", "ALL", f'SOME = [{shown}]\nALL = SOME + ["another"]', HARD)
    named("a constant made by a call", "known()", f"def known():\n    return [{shown}]", HARD)
    head, body = split(test.listing("known"))
    m.function("a constant of the function", f"{head}    known = ({shown},)\n{body}", EASY)
    if m.subject.owner:
        owned = m.subject.with_function(test.listing("self._KNOWN"))
        m.file("a constant of the class", _in_class(owned, m.subject, f"_KNOWN = ({shown},)"), EASY)


def _comparisons(m: Maker, test: Membership) -> None:
    left, shown = test.left, test.shown
    m.function("a chain of comparisons", test.asking(" or ".join(f'{left} == "{e}"' for e in test.entries)))
    m.function("any()", test.asking(f"any({left} == e for e in [{shown}])"))
    m.function("every flashinfer runner", test.asking(f'{left}.startswith("flashinfer_")'))
    m.function("a regular expression", test.asking(f're.match("{"|".join(test.entries)}", {left})'))
    m.function("the set's own method", test.asking(f"{{{shown}}}.__contains__({left})"))
    denied = '["auto", "triton", "deep_gemm", "cutlass", "marlin", "triton_kernel", "flashinfer_cutlass"]'
    m.function("a list of those that may not", test.refusing(f"{left} in {denied}"))
    m.function("the same list with the sense turned", test.refusing(f"{left} in [{shown}]"))
    cases = " | ".join(f'"{entry}"' for entry in test.entries)
    matching = f"""\
    match {left}:
        case {cases}:
            listed = True
        case _:
            listed = False
"""
    line = test.function.rindex("\n", 0, test.start) + 1
    matched = test.asking("listed")
    m.function("a match statement", matched[:line] + matching + matched[line:])


def _by_hand(m: Maker, test: Membership) -> None:
    head, body = split(test.function)
    m.function("by hand: the entry is there", test.listing(f'[{test.shown}, "flashinfer_cutlass"]'), EASY)
    m.function("by hand: the entry is there first", test.listing(f'["flashinfer_cutlass", {test.shown}]'), EASY)
    m.function("by hand: misspelt", test.listing(f'[{test.shown}, "flashinfer_cutlas"]'), EASY)
    extra = f'{test.left} == "flashinfer_cutlass" or {test.left} in [{test.shown}]'
    m.function("by hand: an or beside the list", test.asking(extra), EASY)
    on_twelve = f"    if {CAPABILITY} == 12:\n        return {{}}\n"
    m.function("an early no for capability 12", head + on_twelve.format(False) + body)
    m.function("an early yes for capability 12", head + on_twelve.format(True) + body)
    only = f'    if {CAPABILITY} == 12 and "cutlass" in {{}}.moe_runner_backend:\n        return False\n'
    m.function("an early no for cutlass on 12", head + only.format(_flags(test.function)) + body)
    m.function("always yes", f"{head}    return True\n{body}")
    m.function("always no", f"{head}    return False\n{body}")
    m.function(
        "the disable flag is ignored", re.sub(r"if [\w.()]*disable_flashinfer_autotune:", "if False:", test.function)
    )
    m.function("a name that is not there", f"{head}    assert nowhere\n{body}")


def _flags(function: str) -> str:
    """How the function writes what holds moe_runner_backend."""
    found = re.search(r"([\w.()]+)\.moe_runner_backend", function)
    return found.group(1) if found else "self.server_args"


def _in_class(text: str, subject: Subject, statement: str) -> str:
    opening = f"class {subject.owner}:\n"
    assert opening in text
    return text.replace(opening, opening + textwrap.indent(statement, "    ") + "\n\n", 1)
