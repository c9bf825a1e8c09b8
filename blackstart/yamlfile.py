"""YAML with places: every value knows its file and line, so that an error can point at it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from .errors import InputError

KeyPath = tuple[str | int, ...]
MOST_VALUES = 200_000
MERGE = "tag:yaml.org,2002:merge"


@dataclass
class Document:
    """A parsed file: its data, and the line (from 1) of each value by the keys that lead to it."""

    path: Path
    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)

    @functools.cached_property
    def name(self) -> str:
        """The file as errors call it."""
        return shown(self.path)

    def place(self, keys: KeyPath) -> str:
        """`file:line` of a value, or of the nearest thing around it that has one."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return f"{self.name}:{self.lines.get(keys, 1)}"


def shown(path: Path) -> str:
    """A path as a person would type it: relative where it lies below the working directory."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):  # elsewhere, or nowhere: a circle of links
        return str(path)


def load(path: Path) -> Document:
    """Parse one file. Raises InputError for what is no YAML, a key given twice, or a key that is no text."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("the file cannot be read", where=shown(path), found=str(error)) from None
    return parse(text, path)


def parse(text: str, path: Path) -> Document:
    try:
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError("this is not valid YAML", where=f"{shown(path)}:{line}", found=str(error.problem)) from None
    except (yaml.YAMLError, RecursionError, UnicodeEncodeError) as error:
        # The last where a command line holds bytes that are no text.
        raise InputError("this is not valid YAML", where=shown(path), found=str(error)) from None
    document = Document(path)
    if node is not None:
        try:
            document.data = _build(node, (), document, set())
        except RecursionError:
            raise InputError("this is nested too deep", where=shown(path)) from None
    return document


def _build(node: yaml.Node, keys: KeyPath, document: Document, above: set[int]) -> Any:
    document.lines[keys] = node.start_mark.line + 1
    if id(node) in above:
        raise InputError("an alias holds itself", where=document.place(keys))
    if len(document.lines) > MOST_VALUES:  # a few lines of aliases can stand for billions of values
        raise InputError(f"this stands for more than {MOST_VALUES} values", where=document.place(keys))
    above = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == MERGE:
                raise InputError(
                    "the merge key << is not known here",
                    where=f"{document.name}:{line}",
                    remedy="write the keys out, or give them to a group's vars",
                )
            key = _scalar(key_node, document)
            if not isinstance(key, str):
                raise InputError(
                    "a key must be text",
                    where=f"{document.name}:{line}",
                    found=repr(key),
                    remedy="put it in quotes",
                )
            if key in mapping:
                raise InputError(f"the key {key!r} is given twice", where=f"{document.name}:{line}")
            mapping[key] = _build(value_node, (*keys, key), document, above)
            document.lines[(*keys, key)] = line
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*keys, n), document, above) for n, item in enumerate(node.value)]
    return _scalar(node, document)


def _scalar(node: yaml.Node, document: Document) -> Any:
    place = f"{document.name}:{node.start_mark.line + 1}"
    if not isinstance(node, yaml.ScalarNode):
        raise InputError("a key must be text", where=place)
    try:
        return SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # A tag that does not fit its value (!!bool maybe) makes PyYAML stumble over itself.
        raise InputError("this value cannot be read", where=place, found=(str(error).splitlines() or [""])[0]) from None
