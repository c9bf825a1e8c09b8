"""Patch definitions: a folder of templates/patches with patch.yml, its templates and its proof, or a unified diff."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blackstart import yamlfile
from blackstart.errors import InputError

PATCHES = Path(__file__).resolve().parents[2] / "templates" / "patches"
KINDS = ("membership", "read")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Trace:
    """What says that the code a patch is about is in a tree: a file with a needle that the pattern matches."""

    needles: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    unless: re.Pattern[bytes] | None = None


@dataclass(frozen=True)
class Prose:
    """What a patch says to people. Empty where the folder does not say."""

    title: str = ""
    why: str = ""
    changes: str = ""
    upstream: str = ""
    limits: str = ""
    without_patch: str = ""


@dataclass(frozen=True)
class Patch:
    """What every patch has, however it is written. `template_hash` changes with anything that changes what it does."""

    name: str
    folder: Path
    distribution: str
    package: str
    prose: Prose
    template_hash: str


@dataclass(frozen=True)
class StructuralPatch(Patch):
    """A patch that finds its place by the shape of the code."""

    look_in: tuple[str, ...]
    trace: Trace
    requires: tuple[bytes, ...]
    named: str
    or_reads: str
    place: Mapping[str, Any]
    template: str
    proof: Path
    upstream_sign: re.Pattern[bytes] | None
    """What the function holds where a release behaves so by itself; None where no release is known to."""


@dataclass(frozen=True)
class DiffPatch(Patch):
    """A unified diff: which of its files to take (globs; none is all), and texts that must be there afterwards."""

    diff: Path
    include: tuple[str, ...]
    expect: tuple[str, ...]


class _Fields:
    """A mapping of a YAML file, read key by key; what is left over or of the wrong type is an error with its line."""

    def __init__(self, document: yamlfile.Document, keys: tuple[str, ...] = ()) -> None:
        self._document, self._keys = document, keys
        data = document.data
        for key in keys:
            data = data[key]
        if not isinstance(data, dict):
            raise InputError("a mapping is needed here", where=document.place(keys), found=type(data).__name__)
        self._data: dict[str, Any] = data
        self._known: set[str] = set()

    def error(self, key: str, message: str, *, found: str = "", remedy: str = "") -> InputError:
        return InputError(message, where=self._document.place((*self._keys, key)), found=found, remedy=remedy)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"{key} must be text", found=repr(value))
        return value

    def texts(self, key: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        value = self._take(key, default)
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
            raise self.error(key, f"{key} must be a list of texts", found=repr(value))
        return tuple(value)

    def pattern(self, key: str, default: str | None = None) -> re.Pattern[bytes]:
        text = self.text(key, default)
        try:
            return re.compile(text.encode())
        except re.error as error:
            raise self.error(key, f"{key} is not a regular expression", found=str(error)) from None

    def choice(self, key: str, choices: Collection[str]) -> str:
        value = self.text(key)
        if value not in choices:
            raise self.error(key, f"{key} is not known", found=value, remedy="one of " + ", ".join(choices))
        return value

    def fields(self, key: str) -> _Fields:
        self._take(key, None)
        return _Fields(self._document, (*self._keys, key))

    def has(self, key: str) -> bool:
        return key in self._data

    def end(self) -> None:
        for key in self._data:
            if key not in self._known:
                known = ", ".join(sorted(self._known))
                raise self.error(key, f"there is no key {key!r} here", remedy=f"the keys are {known}")

    def _take(self, key: str, default: object) -> object:
        self._known.add(key)
        if key in self._data:
            return self._data[key]
        if default is None:
            raise InputError(f"{key} is missing", where=self._document.place(self._keys), remedy=f"add {key}:")
        return default


def load(name: str, root: Path = PATCHES) -> Patch:
    """One patch by name. Raises InputError with file, line and remedy for one that is missing or wrong."""
    folder = root / name
    if not folder.is_dir():
        raise InputError(
            f"there is no patch {name!r}",
            where=str(root),
            remedy="one of " + (", ".join(names(root)) or "(there are none)"),
        )
    if not is_name(name):
        raise InputError(
            f"{name!r} is no name for a patch", where=str(folder), remedy="small letters, digits and hyphens"
        )
    return load_folder(folder, name)


def is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def load_folder(folder: Path, name: str) -> Patch:
    """The patch in a folder, wherever it lies. Raises InputError for one that is wrong."""
    diffs = sorted([*folder.glob("*.diff"), *folder.glob("*.patch")])
    declared = folder / "patch.yml"
    if diffs:
        return _diff_patch(name, folder, diffs, declared)
    if not declared.is_file():
        raise InputError(
            "the patch has neither patch.yml nor a .diff", where=str(folder), remedy="inv patch.new NAME makes one"
        )
    return _structural(name, folder, declared)


def load_all(root: Path = PATCHES) -> list[Patch]:
    return [load(name, root) for name in names(root)]


def names(root: Path = PATCHES) -> list[str]:
    """Every folder below root, by name; what stands beside them is no patch."""
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith((".", "_")))


def _structural(name: str, folder: Path, declared: Path) -> StructuralPatch:
    fields = _Fields(yamlfile.load(declared))
    _check_name(fields, name)
    prose, distribution, package = _common(fields)
    trace_fields = fields.fields("trace")
    needles = trace_fields.texts("needles")
    trace = Trace(
        tuple(needle.encode() for needle in needles),
        trace_fields.pattern("pattern", "|".join(re.escape(needle) for needle in needles)),
        trace_fields.pattern("unless") if trace_fields.has("unless") else None,
    )
    trace_fields.end()
    function = fields.fields("function")
    named, or_reads = function.text("named"), function.text("or_reads", "")
    function.pattern("named")
    function.end()
    template, proof = fields.text("template"), fields.text("proof")
    for key, file in (("template", template), ("proof", proof)):
        if Path(file).name != file or not (folder / file).is_file():
            raise fields.error(key, f"there is no file {file} in {folder}")
    patch = StructuralPatch(
        name=name,
        folder=folder,
        distribution=distribution,
        package=package,
        prose=prose,
        template_hash=_hash(folder / template, declared),
        look_in=fields.texts("look_in", []),
        trace=trace,
        requires=tuple(text.encode() for text in fields.texts("requires", [])),
        named=named,
        or_reads=or_reads,
        place=_place(fields.fields("place")),
        template=template,
        proof=folder / proof,
        upstream_sign=fields.pattern("upstream_sign") if fields.has("upstream_sign") else None,
    )
    fields.end()
    return patch


def _place(fields: _Fields) -> dict[str, Any]:
    kind = fields.choice("kind", KINDS)
    place: dict[str, Any] = {"kind": kind}
    if kind == "membership":
        place.update(among=fields.texts("among"), entry=fields.text("entry"))
    else:
        place["attribute"] = fields.text("attribute")
        place["calls"] = {}
        if fields.has("calls"):
            calls = fields.fields("calls")
            place["calls"] = {key: calls.text(key) for key in list(calls._data)}
    fields.end()
    return place


def _diff_patch(name: str, folder: Path, diffs: list[Path], declared: Path) -> DiffPatch:
    if len(diffs) > 1:
        raise InputError(
            "the patch has more than one diff", where=str(folder), remedy="put them into one, or into two folders"
        )
    prose, distribution, package = Prose(title=f"{diffs[0].name}, a unified diff"), "sglang", "sglang"
    include: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()
    if declared.is_file():
        fields = _Fields(yamlfile.load(declared))
        _check_name(fields, name)
        prose, distribution, package = _common(fields)
        include, expect = fields.texts("include", []), fields.texts("expect", [])
        fields.end()
    hashed = _hash(diffs[0], *([declared] if declared.is_file() else []))
    return DiffPatch(name, folder, distribution, package, prose, hashed, diffs[0], include, expect)


def _check_name(fields: _Fields, name: str) -> None:
    if fields.text("name", name) != name:
        raise fields.error(
            "name", "the name is not that of the folder", found=fields.text("name"), remedy=f"name: {name}"
        )


def _common(fields: _Fields) -> tuple[Prose, str, str]:
    prose = Prose(
        title=fields.text("title"),
        **{key: fields.text(key, "").strip() for key in ("why", "changes", "upstream", "limits", "without_patch")},
    )
    distribution = fields.text("distribution", "sglang")
    return prose, distribution, fields.text("package", distribution.replace("-", "_"))


def _hash(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()
