"""The distinct functions that the patches are about, cut out of the releases, in files small enough to mutate often."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

GATE, GUARD = "sm120-autotune", "nsa-guard"
NAMES = {GATE: r"_?should_run_flashinfer_autotune", GUARD: r"_get_mla_kv_buffer_from_fp8\w*"}
HELPERS = {"_get_mla_kv_buffer", "_serves_block_fp8_as_mxfp8_on_flashinfer"}


@dataclass(frozen=True)
class Subject:
    """One distinct function, where it stands in its first release, and what its file needs around it."""

    patch: str
    version: str
    path: str
    name: str
    owner: str  # its class, "" for a function of the module
    imports: str
    helpers: str  # functions of the same class or module that it may call
    function: str  # without indentation
    seen_in: tuple[str, ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        return self.with_function(self.function)

    def with_function(self, function: str) -> str:
        """The small file, with this as the function."""
        body = f"{function.rstrip()}\n\n{self.helpers}".rstrip() + "\n"
        if self.owner:
            body = f"class {self.owner}:\n" + textwrap.indent(body, "    ")
        return f"{self.imports}\n\n{body}"


def subjects(folders: dict[str, Path], patch: str) -> list[Subject]:
    """The functions of all releases that differ by ast.dump, oldest first."""
    found: dict[str, tuple[Subject, list[str]]] = {}
    for version, folder in folders.items():
        for path in sorted(folder.glob("sglang/srt/**/*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(rf"def {NAMES[patch]}\(", text):
                for node, owner in _functions(ast.parse(text), NAMES[patch]):
                    subject = _cut(text, node, owner, patch, version, str(path.relative_to(folder)))
                    found.setdefault(ast.dump(node), (subject, []))[1].append(version)
    return [Subject(**{**vars(subject), "seen_in": tuple(versions)}) for subject, versions in found.values()]


def _functions(tree: ast.Module, name: str) -> list[tuple[ast.FunctionDef, ast.ClassDef | None]]:
    found: list[tuple[ast.FunctionDef, ast.ClassDef | None]] = []
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef) and re.fullmatch(name, inner.name):
                found.append((inner, node if isinstance(node, ast.ClassDef) else None))
    return found


def _cut(text: str, node: ast.FunctionDef, owner: ast.ClassDef | None, patch: str, version: str, path: str) -> Subject:
    tree = ast.parse(text)
    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    kept = [
        n
        for n in tree.body
        if isinstance(n, ast.Import | ast.ImportFrom)
        or _is_flag(n)
        or (owner is not None and isinstance(n, ast.FunctionDef) and n.name in read)
    ]
    beside = owner.body if owner is not None else tree.body
    helpers = [n for n in beside if isinstance(n, ast.FunctionDef) and n.name in HELPERS]
    return Subject(
        patch,
        version,
        path,
        node.name,
        owner.name if owner is not None else "",
        "\n".join(ast.unparse(n) for n in kept),
        "\n\n".join(_source(text, n) for n in helpers),
        _source(text, node),
    )


def _is_flag(node: ast.stmt) -> bool:
    """`_is_cuda = is_cuda()` and the like."""
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.startswith("_")


def _source(text: str, node: ast.FunctionDef) -> str:
    """The function as written, comments and all, without its indentation."""
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    lines = text.splitlines(keepends=True)[first - 1 : node.end_lineno]
    return textwrap.dedent("".join(lines))
