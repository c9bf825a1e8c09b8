"""Whatever stands in an inventory, reading it ends with a valid one or with an error that says where."""

import re
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from blackstart.errors import InputError
from blackstart.inventory import Inventory, read
from blackstart.machine import CONNECTION_VARIABLES

KNOWN = {"color", "size"}
NAMES = st.sampled_from(("all", "one", "two", "web", "hosts", "children", "vars", "simulated", "x,y", "!a", "", "ünï"))
VARIABLES = st.sampled_from((*sorted(KNOWN), *CONNECTION_VARIABLES, "colour", "all"))
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.dates(), st.binary(max_size=3)
)
VALUES = st.recursive(ODD, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))
SETTINGS = st.dictionaries(VARIABLES, VALUES, max_size=3) | VALUES
# Hosts that can be reached, so that not every inventory fails for want of an address.
REACHABLE = st.fixed_dictionaries({"local": st.just(True)}, optional={"color": VALUES, "size": VALUES})
HOSTS = st.dictionaries(NAMES, REACHABLE | SETTINGS, max_size=3)


def group(children):
    body = st.fixed_dictionaries(
        {}, optional={"hosts": HOSTS | ODD, "vars": SETTINGS, "children": children, "host": HOSTS}
    )
    return st.dictionaries(NAMES, body | ODD, max_size=3)


GROUPS = st.recursive(st.none(), group, max_leaves=6)
TREES = st.fixed_dictionaries(
    {"all": st.fixed_dictionaries({}, optional={"hosts": HOSTS, "vars": SETTINGS, "children": GROUPS})},
    optional={"simulated": st.booleans() | ODD},
)
FILES = st.dictionaries(st.tuples(st.sampled_from(("group_vars", "host_vars")), NAMES), SETTINGS, max_size=2)
# What fingers do to a text: (place, characters that go, characters that come).
SLIPS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.text("\t\n :-[]{}&*!|>'\"%@`,#?abc\x00\ufeff", max_size=3)),
    max_size=3,
)


def dumped(data, slips):
    text = yaml.safe_dump(data, allow_unicode=True)
    for place, gone, come in slips:
        text = text[:place] + come + text[place + gone :]
    return text


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.soak)])
def test_reading_ends_with_an_inventory_or_an_error_with_its_place(count, seed, monkeypatch):
    folder = Path(tempfile.mkdtemp(prefix="inventory-"))
    monkeypatch.chdir(folder)

    def holds(tree, files, slips, overrides):
        shutil.rmtree(folder / "inv", ignore_errors=True)
        (folder / "inv").mkdir()
        (folder / "inv" / "hosts.yml").write_text(dumped(tree, slips))
        for (kind, name), settings in files.items():
            if name:
                (folder / "inv" / kind).mkdir(exist_ok=True)
                (folder / "inv" / kind / f"{name}.yml").write_text(dumped(settings, slips[:1]))
        try:
            inventory = read(folder / "inv", KNOWN, overrides)
        except InputError as error:
            assert re.match(r"inv/|--set", error.where), f"no place: {error}"
            return
        assert isinstance(inventory, Inventory)
        for machine in inventory.machines.values():
            assert machine.groups[0] == "all"
            assert set(machine.variables) <= KNOWN | set(CONNECTION_VARIABLES)
            assert all(value.place for value in machine.variables.values())
            assert machine.get("local") or machine.get("address") or machine.through in inventory.machines

    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
    )
    overrides = st.lists(st.sampled_from(("color=1", "size=[", "colour=1", "size", "size={a: 1, a: 2}")), max_size=1)
    given = hypothesis.given(tree=TREES, files=FILES, slips=SLIPS, overrides=overrides)
    try:
        settings(hypothesis.seed(seed)(given(holds)))()
    finally:
        shutil.rmtree(folder)
