"""Owner, group and mode: what a folder hands down, and what a wish leaves open."""

import os
from pathlib import Path

import pytest

from blackstart.resources import directory, file, lines, link
from blackstart.resources import tree as owned

from .machine import mode


@pytest.fixture
def shared(land):
    """A folder whose set-id bit hands its group down."""
    (land / "shared").mkdir()
    os.chown(land / "shared", 0, 33)
    (land / "shared").chmod(0o2755)
    return str(land / "shared")


@pytest.mark.parametrize(
    "plan",
    [
        lambda shared: [directory(f"{shared}/a/b"), directory(f"{shared}/a")],
        lambda shared: [lines(f"{shared}/f", ["x"]), file(f"{shared}/f", "x\n")],
        lambda shared: [
            link(f"{shared}/l", "x"),
            directory(shared, mode="2755"),
            owned(shared, owner="root", group="root"),
        ],
    ],
)
def test_what_is_made_is_roots_whatever_the_folder_around_it_hands_down(machine, shared, plan):
    predicted = machine.check(*plan(shared))
    assert predicted[-1] == "ok"
    assert machine.apply(*plan(shared)) == [state.replace("change", "changed") for state in predicted]


def test_a_folder_that_somebody_puts_in_the_place_of_a_new_one_stays_his(machine, shared, monkeypatch):
    real = os.mkdir

    def swapped(path, *rest, **where):
        real(path, *rest, **where)
        if path == "new":
            os.chown(path, 1, 33, **where)

    monkeypatch.setattr(os, "mkdir", swapped)
    machine.apply(directory(f"{shared}/new/d"))
    assert (Path(shared) / "new").stat().st_uid == 1 and mode(Path(shared) / "new") & 0o2000


LEFT_OPEN = [
    lambda path: file(path, "x\ny\n", mode=None, owner=None, group=None),
    lambda path: lines(path, ["y"], mode=None),
]


def refused_at(folder, call):
    """The call, as a file system makes it that is mounted there and refuses."""

    def refuse(handle, *arguments):
        if Path(f"/proc/self/fd/{handle}").readlink().is_relative_to(folder):
            raise PermissionError
        call(handle, *arguments)

    return refuse


@pytest.fixture
def theirs(land):
    (land / "f").write_text("x\n")
    (land / "f").chmod(0o640)
    os.chown(land / "f", 1, 1)
    return land / "f"


@pytest.mark.parametrize("wish", LEFT_OPEN)
def test_attributes_left_open_stay_those_of_the_file_that_is_replaced(machine, theirs, wish):
    plan = [wish(str(theirs)), file(str(theirs), "x\ny\n", mode="0640", owner="daemon", group="daemon")]
    assert machine.check(*plan) == ["change", "ok"]
    assert machine.apply(*plan) == ["changed", "ok"]


@pytest.mark.parametrize("wish", LEFT_OPEN)
@pytest.mark.parametrize("new", [True, False])
def test_a_file_system_that_refuses_them_is_left_its_own(machine, theirs, wish, new, monkeypatch):
    """On /etc/pve the file system owns them and refuses every call."""
    for name in ("fchmod", "fchown"):
        monkeypatch.setattr(os, name, refused_at(theirs.parent, getattr(os, name)))
    if new:
        theirs.unlink()
    assert machine.apply(wish(str(theirs))) == ["changed"]
    assert theirs.read_text().endswith("y\n")


def test_an_attribute_that_was_wished_is_not_given_up(machine, theirs, monkeypatch):
    monkeypatch.setattr(os, "fchown", refused_at(theirs.parent, os.fchown))
    assert machine.apply(file(str(theirs), "new")) == ["failed"]
    assert theirs.read_text() == "x\n"


@pytest.mark.parametrize("wish", LEFT_OPEN)
def test_a_new_file_without_a_mode_is_not_its_writers_alone(machine, land, at, wish):
    assert machine.apply(wish(at("f"))) == ["changed"]
    assert mode(land / "f") == 0o644


def test_a_set_id_bit_does_not_go_over_to_another_owner(machine, theirs):
    theirs.chmod(0o4755)
    machine.apply(file(str(theirs), "new", mode=None))
    assert (theirs.owner(), mode(theirs)) == ("root", 0o755)
