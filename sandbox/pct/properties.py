"""Property strings, such as `name=eth0,bridge=vmbr0`, and the checks of single values."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sandbox.pct.failure import FormatProblem

Check = Callable[[str], None]

_DNS_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?"
_TRUE_FALSE = ("1", "0", "yes", "no", "true", "false", "on", "off")


def anything(value: str) -> None:
    """No rule."""


def integer(minimum: int | None = None, maximum: int | None = None) -> Check:
    def check(value: str) -> None:
        if not re.fullmatch(r"[+-]?\d+", value):
            raise FormatProblem(f"type check ('integer') failed - got '{value}'")
        if minimum is not None and int(value) < minimum:
            raise FormatProblem(f"value must have a minimum value of {minimum}")
        if maximum is not None and int(value) > maximum:
            raise FormatProblem(f"value must have a maximum value of {maximum}")

    return check


def number(minimum: float, maximum: float) -> Check:
    def check(value: str) -> None:
        if not re.fullmatch(r"\d+(\.\d+)?", value):
            raise FormatProblem(f"type check ('number') failed - got '{value}'")
        if float(value) < minimum:
            raise FormatProblem(f"value must have a minimum value of {minimum:g}")
        if float(value) > maximum:
            raise FormatProblem(f"value must have a maximum value of {maximum:g}")

    return check


def boolean(value: str) -> None:
    if value.lower() not in _TRUE_FALSE:
        raise FormatProblem(f"type check ('boolean') failed - got '{value}'")


def is_true(value: str | None) -> bool:
    return (value or "0").lower() in ("1", "yes", "true", "on")


def one_of(*choices: str) -> Check:
    def check(value: str) -> None:
        if value not in choices:
            raise FormatProblem(f"value '{value}' does not have a value in the enumeration '{', '.join(choices)}'")

    return check


def pattern(expression: str) -> Check:
    def check(value: str) -> None:
        if not re.fullmatch(expression, value):
            raise FormatProblem("value does not match the regex pattern")

    return check


def looks_like(expression: str, what: str) -> Check:
    """A named format; its problems end with a newline of their own, as the real ones do."""

    def check(value: str) -> None:
        if not re.fullmatch(expression, value):
            raise FormatProblem(f"invalid format - {what.format(value=value)}\n")

    return check


dns_name = looks_like(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*", "value does not look like a valid DNS name")
startup = looks_like(
    r"(?:order=)?\d+(?:,(?:up|down)=\d+)*|(?:up|down)=\d+(?:,(?:up|down)=\d+)*", "unable to parse startup options"
)
tags = looks_like(r"[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*(?:[;, ]+[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*)*", "invalid characters in tag")


def device_path(value: str) -> None:
    if not re.fullmatch(r"/dev/.+", value) or "/./" in value or "/../" in value or value.endswith(("/..", "/.")):
        raise FormatProblem(f"invalid format - {value} is not a valid device path\n")


def ipv4_config(value: str) -> None:
    if value in ("dhcp", "manual"):
        return
    try:
        ipaddress.IPv4Interface(value)
    except ValueError:
        value = ""
    if "/" not in value:
        raise FormatProblem("invalid format - value does not look like a valid ipv4 network configuration\n")


def ipv4(value: str) -> None:
    try:
        ipaddress.IPv4Address(value)
    except ValueError as error:
        raise FormatProblem("invalid format - value does not look like a valid ipv4 address\n") from error


@dataclass(frozen=True)
class Properties:
    """The schema of a property string."""

    keys: Mapping[str, Check]
    default: str = ""
    required: tuple[str, ...] = ()

    def parse(self, value: str, name: str = "") -> dict[str, str]:
        """The string's parts. Raises FormatProblem with every problem found; name: what to call the whole."""
        parts: dict[str, str] = {}
        problems: dict[str, str] = {}
        for part in value.split(","):
            key, equals, text = part.partition("=")
            if not equals and self.default:
                key, text = self.default, part
            elif not equals:
                raise FormatProblem("invalid format - value without key, but schema does not define a default key\n")
            if key in parts:
                raise FormatProblem(f"invalid format - duplicate key in comma-separated list property: {key}\n")
            parts[key] = text
        for key, text in parts.items():
            if key not in self.keys:
                problems[key] = "property is not defined in schema and the schema does not allow additional properties"
                continue
            try:
                self.keys[key](text)
            except FormatProblem as problem:
                problems[key] = str(problem)
        for key in self.required:
            if key not in parts:
                problems[key] = "property is missing and it is not optional"
        if problems:
            prefix = f"{name}." if name else ""
            listed = "".join(f"{prefix}{key}: {text}\n" for key, text in sorted(problems.items()))
            raise FormatProblem(f"invalid format - format error\n{listed}")
        return parts

    def render(self, parts: Mapping[str, str]) -> str:
        """Default key first (bare), then the required ones, then the others by name."""
        first = [parts[self.default]] if self.default in parts else []
        required = [key for key in self.required if key in parts and key != self.default]
        others = sorted(key for key in parts if key not in required and key != self.default)
        return ",".join(first + [f"{key}={parts[key]}" for key in required + others])
