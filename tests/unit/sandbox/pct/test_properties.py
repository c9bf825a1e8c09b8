"""Property strings and single values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.pct import properties, schema
from sandbox.pct.failure import FormatProblem


def problem(name: str, value: str) -> str:
    with pytest.raises(FormatProblem) as caught:
        schema.check(name, value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dev0", "/dev/nvidia0"),
        ("dev255", "/dev/nvidia-caps/nvidia-cap1,uid=0,gid=44,mode=0440,deny-write=1"),
        ("net0", "name=eth0,bridge=vmbr0,ip=dhcp"),
        ("net0", "name=eth0,hwaddr=BC:24:11:54:B4:CA,ip=192.0.2.50/24,gw=192.0.2.1,firewall=0"),
        ("mp3", "/srv/models,mp=/models,ro=1,backup=0"),
        ("rootfs", "local:8"),
        ("features", "nesting=1,keyctl=1"),
        ("hostname", "a-1.example"),
        ("startup", "order=5,up=10,down=120"),
        ("startup", "7"),
        ("tags", "gpu;prod"),
        ("memory", "16"),
        ("onboot", "yes"),
    ],
)
def test_good_values_pass(name: str, value: str) -> None:
    schema.check(name, value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("dev0", "/dev/../etc/passwd", "dev0.path: invalid format - /dev/../etc/passwd is not a valid device path"),
        ("dev0", "/dev/nvidia0,mode=0866", "dev0.mode: value does not match the regex pattern"),
        ("dev0", "/dev/nvidia0,uid=x", "dev0.uid: type check ('integer') failed - got 'x'"),
        ("dev0", "mode=0666", "dev0.path: property is missing and it is not optional"),
        ("dev0", "/dev/a,/dev/b", "duplicate key in comma-separated list property: path"),
        ("net0", "eth0", "value without key, but schema does not define a default key"),
        ("net0", "name=eth0,hwaddr=03:00:00:00:00:00", "net0.hwaddr: invalid format"),
        ("mp0", "/srv/models", "mp0.mp: property is missing and it is not optional"),
        ("memory", "15", "value must have a minimum value of 16"),
        ("memory", "1.5", "type check ('integer') failed - got '1.5'"),
        ("ostype", "windows", "does not have a value in the enumeration"),
        ("hostname", "-a", "value does not look like a valid DNS name"),
    ],
)
def test_bad_values_are_named(name: str, value: str, text: str) -> None:
    assert text in problem(name, value)


def test_every_problem_of_a_property_string_is_told_at_once() -> None:
    text = problem("dev0", "/dev/nvidia0,mode=9,foo=1")
    assert "dev0.mode: " in text and "dev0.foo: " in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [("dev0", ("dev", 0)), ("dev255", ("dev", 255)), ("dev256", None), ("net32", None), ("dev01", None), ("dev", None)],
)
def test_numbers_of_options(name: str, expected: tuple[str, int] | None) -> None:
    assert schema.split_index(name) == expected
    assert schema.known(name) == (expected is not None)


@given(st.dictionaries(st.sampled_from(["uid", "gid"]), st.integers(0, 65535).map(str)))
def test_rendering_and_parsing_agree(parts: dict[str, str]) -> None:
    whole = {"path": "/dev/nvidia0", **parts}
    assert schema.DEVICE.parse(schema.DEVICE.render(whole)) == whole


def test_the_default_key_comes_first_and_bare_then_the_required_ones() -> None:
    assert (
        schema.NETWORK.render({"type": "veth", "bridge": "vmbr0", "name": "eth0"}) == "name=eth0,bridge=vmbr0,type=veth"
    )
    assert schema.MOUNT.render({"ro": "1", "mp": "/m", "volume": "/v"}) == "/v,mp=/m,ro=1"


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("on", True), ("0", False), ("", False), (None, False)])
def test_truth(value: str | None, expected: bool) -> None:
    assert properties.is_true(value) is expected
