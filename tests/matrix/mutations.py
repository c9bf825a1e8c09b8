"""What people and releases do to a function: each mutation is a small file, and whether a patch must still cope with it."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .subjects import GATE, Subject

EASY = "easy"  # the state must be that of the unmutated function
HARD = "hard"  # drifted is an honest answer as well


@dataclass(frozen=True)
class Mutation:
    name: str
    files: dict[str, bytes]  # path -> content; the function stands in one of them
    home: str  # the path of that file
    kind: str = HARD
    function: str = ""  # its name, where the mutation changed it


@dataclass
class _Maker:
    subject: Subject
    made: list[Mutation] = field(default_factory=list)

    def file(self, name: str, content: str | bytes, kind: str = HARD, function: str = "") -> None:
        raw = content.encode() if isinstance(content, str) else content
        self.files(name, {self.subject.path: raw}, self.subject.path, kind, function)

    def files(self, name: str, files: dict[str, bytes], home: str, kind: str = HARD, function: str = "") -> None:
        if files != {self.subject.path: self.subject.text.encode()}:
            self.made.append(Mutation(name, files, home, kind, function or self.subject.name))

    def function(self, name: str, function: str, kind: str = HARD) -> None:
        if function != self.subject.function:
            self.file(name, self.subject.with_function(function), kind)


def mutations(subject: Subject) -> list[Mutation]:
    """At least 40 for every subject, each different from the function as released."""
    maker = _Maker(subject)
    _layout(maker)
    _encoding(maker)
    _moves(maker)
    _surroundings(maker)
    (_gate if subject.patch == GATE else _guard)(maker)
    return maker.made


# How it is written


def _layout(m: _Maker) -> None:
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


def _encoding(m: _Maker) -> None:
    text = m.subject.text
    m.file("CRLF", text.replace("\n", "\r\n").encode(), EASY)
    m.file("a byte order mark", b"\xef\xbb\xbf" + text.encode(), EASY)
    m.file("tabs", re.sub(r"(?m)^( {4})+", lambda match: "\t" * (len(match.group()) // 4), text), EASY)
    m.file("no newline at the end", text.rstrip("\n"), EASY)
    m.file("Latin-1", b"# -*- coding: latin-1 -*-\n# \xe9\n" + text.encode("ascii", "replace"))
    m.file("a syntax error below", text + "\ndef broken(:\n")
    m.file("a form feed above", "\f\n" + text, EASY)


# Where it stands


def _moves(m: _Maker) -> None:
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


# What is around it, and around its body


def _surroundings(m: _Maker) -> None:
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


# The gate


def _gate(m: _Maker) -> None:
    f = m.subject.function
    entries, start, end = membership(f)
    shown = ", ".join(f'"{entry}"' for entry in entries)

    def collection(name: str, text: str, kind: str = EASY, above: str = "", inside: str = "") -> None:
        changed = f[:start] + text + f[end:]
        if inside:
            head, body = split(changed)
            changed = head + textwrap.indent(inside, "    ") + body
        file = m.subject.with_function(changed)
        m.file(name, file.replace(m.subject.imports, f"{m.subject.imports}\n\n{above}", 1) if above else file, kind)

    collection("the list as a tuple", f"({shown},)")
    collection("the list as a set", f"{{{shown}}}")
    collection("the list as a frozenset", f"frozenset({{{shown}}})")
    collection("the list as a frozenset of a list", f"frozenset([{shown}])")
    collection("the list on one line", f"[{shown}]")
    collection("the list with single quotes", "[" + shown.replace('"', "'") + "]")
    one_a_line = ",\n            ".join(f'"{entry}"' for entry in entries)
    collection("no comma after the last entry", f"[\n            {one_a_line}\n        ]")
    collection("a comment after the last entry", f"[\n            {one_a_line},  # the last, really\n        ]")
    collection("a comment and no comma", f"[\n            {one_a_line}  # one, two, three\n        ]")
    collection("an extra entry", f'[{shown}, "somebody_elses"]')
    collection("an extra entry beyond ASCII", f'["ünïcödé", {shown}]')
    collection("a constant of the module", "KNOWN", above=f"KNOWN = [{shown}]\n")
    collection("a frozenset of the module", "KNOWN", above=f"KNOWN = frozenset({{{shown}}})\n")
    collection("a constant of the function", "known", inside=f"known = ({shown},)\n")
    collection(
        "a constant that others use",
        "KNOWN",
        HARD,
        above=f"KNOWN = [{shown}]\n\ndef other(x):\n    return x in KNOWN\n",
    )
    collection("a constant that is handed out", "KNOWN", HARD, above=f'KNOWN = [{shown}]\n__all__ = ["KNOWN"]\n')
    collection("a constant made of two", "ALL", HARD, above=f'SOME = [{shown}]\nALL = SOME + ["another"]\n')
    collection("a constant made of a call", "known()", HARD, above=f"def known():\n    return [{shown}]\n")
    collection("a dict", "{" + ", ".join(f'"{entry}": True' for entry in entries) + "}", HARD)
    collection("by hand: the entry is there", f'[{shown}, "flashinfer_cutlass"]')
    collection("by hand: the entry is there first", f'["flashinfer_cutlass", {shown}]')
    collection("by hand: misspelt", f'[{shown}, "flashinfer_cutlas"]')
    if m.subject.owner:
        owned = m.subject.with_function(f[:start] + "self._KNOWN" + f[end:])
        m.file(
            "a constant of the class",
            owned.replace(":\n", f":\n    _KNOWN = [{shown}]\n\n", 1)
            if False
            else _in_class(owned, m.subject.owner, f"_KNOWN = ({shown},)"),
            EASY,
        )
    left, negated = compared(f, start)
    word = "!=" if negated else "=="
    joint = " and " if negated else " or "
    m.function(
        "a chain of comparisons",
        f[: f.rindex(left, 0, start)] + "(" + joint.join(f'{left} {word} "{e}"' for e in entries) + ")" + f[end:],
    )
    m.function(
        "any()",
        f[: f.rindex(left, 0, start)] + f"{'not ' if negated else ''}any({left} == e for e in [{shown}])" + f[end:],
    )
    starts = f[: f.rindex(left, 0, start)] + f'{"not " if negated else ""}{left}.startswith("flashinfer_")' + f[end:]
    m.function("every flashinfer runner", starts)
    m.function(
        "a regular expression",
        f[: f.rindex(left, 0, start)] + f'{"not " if negated else ""}re.match("{"|".join(entries)}", {left})' + f[end:],
    )
    deny = '["auto", "triton", "deep_gemm", "cutlass", "marlin", "triton_kernel", "flashinfer_cutlass"]'
    m.function(
        "a list of those that may not",
        f[: f.rindex(left, 0, start)] + f"{left} {'in' if negated else 'not in'} {deny}" + f[end:],
    )
    m.function(
        "the same list with the sense turned",
        f[: f.rindex(left, 0, start)] + f"{left} {'in' if negated else 'not in'} [{shown}]" + f[end:],
    )
    head, body = split(f)
    m.function(
        "an early no for capability 12",
        head + "    if torch.cuda.get_device_capability()[0] == 12:\n        return False\n" + body,
    )
    m.function(
        "an early yes for capability 12",
        head + "    if torch.cuda.get_device_capability()[0] == 12:\n        return True\n" + body,
    )
    m.function("always yes", head + "    return True\n" + body)
    m.function("always no", head + "    return False\n" + body)
    m.function("the disable flag is ignored", re.sub(r"if [\w.()]*disable_flashinfer_autotune:", "if False:", f))
    m.function("an assertion on the runner", head + '    assert "cutlass" not in str(self), "never"\n' + body)
    first = entries[0]
    matched = f"""    match {left}:
        case {" | ".join(f'"{e}"' for e in entries)}:
            pass
        case _:
            return False
"""
    if negated:
        statement = re.search(rf"(?ms)^    if {re.escape(left)} not in \[.*?\]:\n        return False\n", f)
        if statement:
            m.function("a match statement", f[: statement.start()] + matched + f[statement.end() :])
    m.function("only the first entry is left", f[:start] + f'["{first}"]' + f[end:])


def membership(function: str) -> tuple[list[str], int, int]:
    """The entries of the collection of backends that the function compares with, and where it stands in the text."""
    for node in ast.walk(ast.parse(function)):
        if isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.List):
            display = node.comparators[0]
            entries = [e.value for e in display.elts if isinstance(e, ast.Constant)]
            if any(str(entry).startswith("flashinfer") for entry in entries):
                return (
                    [str(e) for e in entries],
                    position(function, display.lineno, display.col_offset),
                    position(function, display.end_lineno or 0, display.end_col_offset or 0),
                )
    raise AssertionError("no list of backends")


def compared(function: str, start: int) -> tuple[str, bool]:
    """What stands left of the collection, and whether it is `not in`."""
    match = re.search(r"([\w.]+) (not )?in $", function[:start])
    assert match is not None
    return match.group(1), bool(match.group(2))


def _in_class(text: str, owner: str, statement: str) -> str:
    return re.sub(rf"(?m)^class {owner}.*:\n", lambda match: f"{match.group()}    {statement}\n\n", text, count=1)


# The guard


def _guard(m: _Maker) -> None:
    f = m.subject.function
    read = re.search(r"(?m)^( +)(kv_indices) = ([\w.]+)\.page_table_1_flattened\n", f)
    assert read is not None
    indent, holder = read.group(1), read.group(3)
    args = "self, forward_batch"

    def instead(name: str, lines: str, kind: str = HARD) -> None:
        block = textwrap.indent(textwrap.dedent(lines).strip("\n"), indent) + "\n"
        m.function(name, f[: read.start()] + block + f[read.end() :], kind)

    pool = re.search(r"([\w.()]+)\.get_key_buffer", f)
    assert pool is not None and args
    buffer = f"{pool.group(1)}.get_key_buffer(self.attn_mha.layer_id)"
    table = f'getattr({holder}, "page_table_1_flattened", None)'
    fetch = "forward_batch.fetch_mha_one_shot_kv_indices()"
    raw = "self._get_mla_kv_buffer(kv_indices, torch.bfloat16, forward_batch)"
    instead("half by hand: getattr", f"kv_indices = {table}", EASY)
    instead("half by hand: getattr without default", f'kv_indices = getattr({holder}, "page_table_1_flattened")', EASY)
    instead(
        "half by hand: fallback, raw pool forgotten",
        f"kv_indices = {table}\nif kv_indices is None:\n    kv_indices = {fetch}",
        EASY,
    )
    whole = f"kv_indices = {table}\nif kv_indices is None:\n    kv_indices = {fetch}\n    if {buffer}.shape[-1] == 576:\n        return {raw}"
    instead("by hand: whole", whole)
    by_flag = whole.replace(f"{buffer}.shape[-1] == 576", f"not {pool.group(1)}.dsa_kv_cache_store_fp8")
    instead("by hand: whole, asking the pool's flag", by_flag)
    instead("by hand: always the batch's indices", f"kv_indices = {fetch}")
    instead(
        "by hand: hasattr",
        f'kv_indices = {holder}.page_table_1_flattened if hasattr({holder}, "page_table_1_flattened") else {fetch}',
    )
    instead(
        "by hand: try",
        f"try:\n    kv_indices = {holder}.page_table_1_flattened\nexcept AttributeError:\n    kv_indices = {fetch}",
    )
    instead("by hand: no indices at all", "kv_indices = None")
    instead("by hand: the wrong indices", f"kv_indices = {table}\nif kv_indices is None:\n    kv_indices = [0, 1, 2]")
    inverted = f"kv_indices = {table}\nif kv_indices is None:\n    kv_indices = {fetch}\n    if {buffer}.shape[-1] != 576:\n        return {raw}"
    instead("by hand: raw and packed mixed up", inverted)
    instead("the metadata in a variable", f"metadata = {holder}\nkv_indices = metadata.page_table_1_flattened", EASY)
    instead("read with a type", f"kv_indices: object = {holder}.page_table_1_flattened", EASY)
    instead("a comment after the read", f"kv_indices = {holder}.page_table_1_flattened  # [num_tokens], int32", EASY)
    instead("the read in brackets", f"kv_indices = (\n    {holder}.page_table_1_flattened\n)", EASY)
    instead("the read over two lines", f"kv_indices = \\\n    {holder}.page_table_1_flattened", EASY)
    instead("two statements on a line", f"note = 1; kv_indices = {holder}.page_table_1_flattened")
    instead("two names at once", f"kv_indices = table = {holder}.page_table_1_flattened")
    instead(
        "read twice",
        f"kv_indices = {holder}.page_table_1_flattened\nassert {holder}.page_table_1_flattened is kv_indices",
    )
    instead("a tuple", f"kv_indices, note = {holder}.page_table_1_flattened, 1")
    instead("a walrus", f"assert (kv_indices := {holder}.page_table_1_flattened) is not False")
    instead("another attribute", f"kv_indices = {holder}.page_table_2_flattened")
    instead("vars()", f'kv_indices = vars({holder})["page_table_1_flattened"]')
    instead("an if before the read", f"if True:\n    kv_indices = {holder}.page_table_1_flattened", EASY)
    check = re.search(r"(?ms)^ +assert \(?.*?FP8 MHA path\"\n?( +\))?\n", f)
    assert check is not None
    m.function("the assertion is gone", f[: check.start()] + f[check.end() :], EASY)
    m.function(
        "the assertion is an if",
        f[: check.start()]
        + f'{indent}if kv_indices is None:\n{indent}    raise ValueError("no table")\n'
        + f[check.end() :],
        EASY,
    )
    m.function("the pool in a variable", f.replace("kv_cache_fp8 = ", "pool = 1\n    kv_cache_fp8 = ", 1), EASY)
    m.function(
        "the buffer is read twice",
        f.replace("    kv_cache_fp8 = ", f"    again = {buffer}\n    kv_cache_fp8 = ", 1),
        EASY,
    )
    m.function("the dequantiser under another name", re.sub(r"dequantize_k_cache_paged\w*", "dequantise_rows", f))


# Tools


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
    for token in reversed(list(_tokens(text))):
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


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text).readline)


Judge = Callable[[Mutation], None]
