"""Random inventories, well-formed and not: a valid one, or a typed error that says where. Never anything else."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from blackstart.errors import InputError
from blackstart.inventory import Inventory, read
from blackstart.machine import CONNECTION_VARIABLES
from blackstart.paths import ROLES
from blackstart.variables import read_defaults, resolve
from roles import in_order

from .conftest import SEED, Recorder

DEFAULTS = read_defaults(ROLES)
VARIABLES = sorted({*DEFAULTS, *CONNECTION_VARIABLES})

NAMES = st.sampled_from(("all", "host1", "host2", "web", "db", "hosts", "vars", "ungrouped", "a b", "é", "1", ""))
HOST_NAMES = st.sampled_from(("host1", "host2", "web", "db-1.example", "vars", "é", "1", "a b", ""))
ODD_NAMES = st.one_of(NAMES, st.text(max_size=5), st.integers(), st.none(), st.booleans(), st.floats())
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.dates(),
    st.datetimes(),
    st.binary(max_size=8),
    st.sampled_from(("127.0.0.1", "host1", "root", "/usr/bin/python3", "~/.ssh/id", "22", "{{ x }}", "\u2028", "\x85")),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(ODD_NAMES, inner, max_size=3)),
    max_leaves=8,
)
# Mostly what belongs there, so that examples get beyond the first mistake.
FITTING = {
    "address": st.sampled_from(("127.0.0.1", "pve.example")),
    "port": st.integers(1, 65535),
    "user": st.sampled_from(("root", "joe")),
    "through": st.sampled_from(("host1", "host2", "nobody")),
    "local": st.booleans(),
    "sudo_password": st.sampled_from(({"env": "PASSWORD"}, {"file": "~/.sudo"}, {"command": ["pass"]})),
    "python": st.sampled_from(("/usr/bin/python3", "/opt/python/bin/python3")),
    "identity_file": st.just("~/.ssh/id"),
    "known_hosts": st.just("~/.ssh/known"),
}
REACHED = {"container_vmid": 200, "ml_env_lock": "a-lock", "server_profile": "a-profile"}
"""What a machine needs to be whole, beside an address."""


def rarely(draw: st.DrawFn, most: int) -> bool:
    """Once in so many draws; hypothesis likes the ends of a range better than its middle."""
    return draw(st.integers(0, most)) == most // 2 + 1


@st.composite
def variables(draw: st.DrawFn) -> Any:
    if rarely(draw, 40):
        return draw(VALUES)
    found: dict[Any, Any] = {}
    for name in draw(st.lists(st.sampled_from(("address", "local", *VARIABLES)), max_size=4)):
        fits = not rarely(draw, 20)
        default = st.just(DEFAULTS[name].value) if name in DEFAULTS else VALUES
        found[name] = draw(FITTING.get(name, default) if fits else VALUES)
    if rarely(draw, 40):
        found[draw(ODD_NAMES)] = draw(VALUES)
    return found


@st.composite
def group(draw: st.DrawFn, depth: int = 0) -> Any:
    if rarely(draw, 20):
        return draw(VALUES)
    body: dict[Any, Any] = {}
    if depth == 0 or draw(st.booleans()):
        names = st.sampled_from(("host1", "host2", "web")) if not rarely(draw, 9) else HOST_NAMES
        hosts = {name: draw(variables()) for name in draw(st.lists(names, max_size=3))}
        reached = not rarely(draw, 9)
        body["hosts"] = {
            name: {**REACHED, "address": name, **found} if reached and isinstance(found, dict) else found
            for name, found in hosts.items()
        }
    if draw(st.booleans()):
        body["vars"] = draw(variables())
    if depth < 3 and draw(st.booleans()):
        body["children"] = {name: draw(group(depth + 1)) for name in draw(st.lists(NAMES, max_size=3))}
    if rarely(draw, 20):
        body[draw(ODD_NAMES)] = draw(VALUES)
    return body


@st.composite
def documents(draw: st.DrawFn) -> str:
    """The text of a hosts.yml: an inventory as data, at times with a part cut out, doubled or replaced."""
    data: dict[Any, Any] = {"all": draw(group())}
    if draw(st.booleans()):
        data["simulated"] = draw(VALUES) if rarely(draw, 10) else draw(st.booleans())
    text = yaml.safe_dump(data, allow_unicode=True, default_flow_style=draw(st.sampled_from((None, True, False))))
    if rarely(draw, 3):
        begin, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        middle = draw(st.one_of(st.just(""), st.just(text[begin:end] * 2), GARBAGE))
        text = text[:begin] + middle + text[end:]
    return text


PIECES = (
    "&a ", "*a", "!!binary x", "!!python/object:os.system ", "!!int maybe", "!!timestamp 2026-99-99", "!!set {a, b}",
    "<<: *a", "<<: {x: 1}", "? ", ": ", "- ", "[", "]", "{", "}", "|", ">", "%YAML 9.9\n", "---\n", "...\n", "\t", "\n",
    "# ", "'", '"', "\\x", "@", "`", "\ufeff", "\0", "\ud800", "1e999", ".inf", "0o9", "0x", "12:30:45", "=", "~",
    "all:\n", "  hosts:\n", "    h: {address: a}\n", "  vars: {port: 1}\n", "yes", "2026-11-29", "null",
)  # fmt: skip
GARBAGE = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=12).map("".join)
FILE_NAMES = st.sampled_from(("all.yml", "host1.yml", "host1.yaml", "web.yml", "web.txt", ".yml", "é.yml", "x/y.yml"))
FILES: st.SearchStrategy[dict[tuple[str, str], str]] = st.just({}) | st.dictionaries(
    st.tuples(st.sampled_from(("group_vars", "host_vars")), FILE_NAMES),
    st.one_of(variables().map(lambda data: yaml.safe_dump(data, allow_unicode=True)), GARBAGE),
    max_size=3,
)
OVERRIDES: st.SearchStrategy[list[str]] = st.just([]) | st.lists(
    st.one_of(
        st.tuples(st.sampled_from(VARIABLES), GARBAGE).map("=".join),
        st.sampled_from(("port=22", "address=127.0.0.1", "=", "port", "port=[", "local=true", "port=!!int x")),
    ),
    max_size=2,
)
LIMITS = (
    st.none()
    | st.none()
    | st.one_of(st.sampled_from(("all", "host1", "host*,!web", "!*", ",", "[", "web,db", "")), st.text())
)


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="inventories-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield folder / "inventory"
    shutil.rmtree(folder)


def write(place: Path, hosts: str, files: dict[tuple[str, str], str]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "hosts.yml").write_bytes(hosts.encode("utf-8", "surrogatepass"))
    for (kind, name), text in files.items():
        (place / kind / name).parent.mkdir(parents=True, exist_ok=True)
        (place / kind / name).write_bytes(text.encode("utf-8", "surrogatepass"))


def look_at(inventory: Inventory, limit: str | None) -> None:
    """All that a run asks of an inventory before it touches a machine."""
    roles, entrance = in_order()
    for machine in inventory.select(limit):
        for role in (*roles, entrance.role):
            resolve(machine, DEFAULTS, role.variables())


def is_placed(error: InputError) -> bool:
    return bool(error.message and error.where) and "\n" not in error.message


@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.soak)])
def test_a_random_inventory_is_valid_or_its_error_has_a_place(place: Path, record: Recorder, count: int) -> None:
    print(f"repeat with BLACKSTART_SEED={SEED}")
    tally: Counter[str] = Counter()

    @with_seed(SEED)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        hosts=st.one_of(documents(), documents(), documents(), GARBAGE), files=FILES, overrides=OVERRIDES, limit=LIMITS
    )
    def holds(hosts: str, files: dict[tuple[str, str], str], overrides: list[str], limit: str | None) -> None:
        write(place, hosts, files)
        try:
            inventory = read(place, DEFAULTS, overrides)
            look_at(inventory, limit)
        except InputError as error:
            tally[error.message.split("'")[0]] += 1
            assert is_placed(error), error.as_dict()
        else:
            tally["valid"] += 1
            assert all(isinstance(name, str) and machine.name == name for name, machine in inventory.machines.items())

    holds()
    ways = f"{tally['valid']} valid, the others refused in {len(tally) - 1} ways, each with its place"
    record("random inventories, whole, altered and garbage", str(count), ways)
    assert tally["valid"] >= count // 20, f"the examples are too wild to show anything: {tally}"


def test_aliases_that_multiply_are_refused_in_time(place: Path) -> None:
    """A few lines of YAML can stand for billions of values."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    write(place, "\n".join(lines), {})
    started = time.monotonic()
    with pytest.raises(InputError) as caught:
        read(place, DEFAULTS)
    assert is_placed(caught.value)
    assert time.monotonic() - started < 10
