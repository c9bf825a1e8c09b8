"""The command line of `pct`: positions first or last, options as `--key value`, `-key value` or `--key=value`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.pct import schema
from sandbox.pct.failure import NO_ENTRY, FormatProblem, PctError, bad_parameters


@dataclass(frozen=True)
class Usage:
    """One subcommand: its positions, and which options it takes beside the container's own."""

    name: str
    positions: tuple[str, ...]
    line: str
    options: Mapping[str, bool] = field(default_factory=dict)
    """Name -> whether it is a switch that may stand alone."""
    container_options: bool = False
    rest: bool = False
    """Whatever follows the positions belongs to a command to run."""


@dataclass
class Parsed:
    positions: list[str]
    options: dict[str, str]
    rest: list[str]


def parse(usage: Usage, argv: Sequence[str]) -> Parsed:
    """Split a command line. Raises PctError for an unknown option or a missing position."""
    parsed = Parsed([], {}, [])
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            parsed.rest = words
            break
        if word.startswith("-") and len(word) > 1:
            _option(usage, word, words, parsed)
        elif len(parsed.positions) < len(usage.positions):
            parsed.positions.append(word)
        elif usage.rest:
            parsed.rest = [word, *words]
            break
        else:
            raise PctError(f"400 too many arguments\n{usage.line}")
    if len(parsed.positions) < len(usage.positions):
        raise PctError(f"400 not enough arguments\n{usage.line}")
    return parsed


def _option(usage: Usage, word: str, words: list[str], parsed: Parsed) -> None:
    name, equals, value = word.lstrip("-").partition("=")
    switch = usage.options.get(name)
    if switch is None and usage.container_options and schema.known(name):
        switch = name in schema.BOOLEANS
    if switch is None:
        raise PctError(f"Unknown option: {name}\n400 unable to parse option\n{usage.line}", NO_ENTRY)
    if not equals:
        stands_alone = not words or (switch and words[0].startswith("-"))
        if stands_alone and not switch:
            raise PctError(f"Option {name} requires an argument\n400 unable to parse option\n{usage.line}", NO_ENTRY)
        value = "1" if stands_alone else words.pop(0)
    parsed.options[name] = value


def check(usage: Usage, parsed: Parsed, checks: Mapping[str, Callable[[str], None]]) -> None:
    """Hold every value to its schema. Raises PctError naming each that does not fit."""
    problems: dict[str, str] = {}
    for name, value in zip(usage.positions, parsed.positions, strict=True):
        rule = schema.check_vmid if name == "vmid" else None
        _collect(problems, name, value, rule)
    for name, value in parsed.options.items():
        _collect(problems, name, value, checks.get(name) or _schema_rule(name))
    if problems:
        raise bad_parameters(problems, usage.line)


def _schema_rule(name: str) -> Callable[[str], None]:
    return lambda value: schema.check(name, value)


def _collect(problems: dict[str, str], name: str, value: str, rule: Callable[[str], None] | None) -> None:
    if rule is None:
        return
    try:
        rule(value)
    except FormatProblem as problem:
        problems[name] = str(problem)
