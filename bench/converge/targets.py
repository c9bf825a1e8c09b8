"""What is to be reached, as a table, and whether it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .results import Case, Results

OURS, FLOOR = "blackstart", "floor-paramiko"
FLEET, LARGE_FLEET = 32, 100

Value = Callable[[Results], float | None]


@dataclass(frozen=True)
class Target:
    """A measure with its bound: at most that much, or at least where `at_least` is set."""

    measure: str
    bound: float
    value: Value
    unit: str = "x"
    at_least: bool = False

    @property
    def goal(self) -> str:
        return f"at {'least' if self.at_least else 'most'} {self.bound:g} {self.unit}"

    def reached(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True)
class Verdict:
    """`reached` is None where it was not measured."""

    target: Target
    value: float | None

    @property
    def reached(self) -> bool | None:
        return None if self.value is None else self.target.reached(self.value)


def _ratio(mode: str, hosts: int, above: str, below: str) -> Value:
    return lambda results: results.ratio(Case(above, mode, hosts), Case(below, mode, hosts))


def _of(mode: str, hosts: int, name: str) -> Value:
    return lambda results: results.median(Case(OURS, mode, hosts), name)


def _growth(results: Results) -> float | None:
    return results.ratio(Case(OURS, "noop", LARGE_FLEET), Case(OURS, "noop", FLEET))


def _memory_a_host(results: Results) -> float | None:
    one = results.median(Case(OURS, "noop", 1), "peak_rss_mb")
    many = results.median(Case(OURS, "noop", LARGE_FLEET), "peak_rss_mb")
    return None if one is None or many is None else (many - one) / (LARGE_FLEET - 1)


TARGETS = (
    Target("no-op, one host, over the floor", 1.3, _ratio("noop", 1, OURS, FLOOR)),
    Target("no-op, one host, pyinfra over blackstart", 6, _ratio("noop", 1, "pyinfra", OURS), at_least=True),
    Target("no-op, one host, Ansible over blackstart", 20, _ratio("noop", 1, "ansible-pipe", OURS), at_least=True),
    Target("first run, one host, pyinfra over blackstart", 6, _ratio("first", 1, "pyinfra", OURS), at_least=True),
    Target("check, one host, over the floor", 1.3, _ratio("check", 1, OURS, FLOOR)),
    Target("no-op, 32 hosts, over the floor", 1.5, _ratio("noop", FLEET, OURS, FLOOR)),
    Target("no-op, 32 hosts, pyinfra over blackstart", 8, _ratio("noop", FLEET, "pyinfra", OURS), at_least=True),
    Target("no-op, 100 hosts over 32 hosts", 3.5, _growth),
    Target("exec channels a host, no-op", 1, _of("noop", 1, "execs"), "channel"),
    Target("exec channels a host, first run", 2, _of("first", 1, "execs"), "channels"),
    Target("connections a host, no-op", 1, _of("noop", 1, "connections"), "connection"),
    Target("no-op through 20 ms, one host, over the floor", 1.3, _ratio("delayed", 1, OURS, FLOOR)),
    Target("controller's peak memory, one host", 80, _of("noop", 1, "peak_rss_mb"), "MB"),
    Target("controller's peak memory, each further host", 1.5, _memory_a_host, "MB"),
    Target("inv --list", 0.2, _of("list", 0, "wall_s"), "s"),
    Target("heavy imports of inv --list", 0, _of("list", 0, "changed"), "modules"),
)


def judge(results: Results) -> list[Verdict]:
    return [Verdict(target, target.value(results)) for target in TARGETS]
