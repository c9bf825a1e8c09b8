"""Root and folders that belong to others: trees are owned whole, and a link that somebody placed is not followed."""

import os

import pytest

from blackstart.resources import command, directory, file, lines, link
from blackstart.resources import tree as owned

from .machine import tree

DAEMON = 1


@pytest.fixture
def home(land):
    """A folder of daemon's, with things of several owners in it."""
    home = land / "home"
    (home / "sub").mkdir(parents=True)
    (home / "sub" / "file").write_text("x")
    (home / "inner").symlink_to("sub")
    os.chown(home, DAEMON, DAEMON)
    return home


def owners(folder):
    return {(path.lstat().st_uid, path.lstat().st_gid) for path in [folder, *folder.rglob("*")]}


def test_a_tree_is_owned_whole_links_within_it_too(machine, home):
    wish = owned(str(home), owner="daemon", group="daemon")
    assert machine.check(wish) == ["change"]
    assert machine.done[0]["detail"] == "3 to be owned anew"
    assert owners(home) != {(DAEMON, DAEMON)}
    assert machine.apply(wish) == ["changed"]
    assert machine.done[0]["detail"] == "3 owned anew"
    assert owners(home) == {(DAEMON, DAEMON)}
    assert machine.apply(wish) == ["ok"]
    assert machine.journal()[-1]["owned"] == 3


def test_contents_and_modes_of_a_tree_stay(machine, home):
    (home / "sub" / "file").chmod(0o640)
    machine.apply(owned(str(home), owner="daemon", group="daemon"))
    assert (home / "sub" / "file").read_text() == "x"
    assert (home / "sub" / "file").stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("target", ["/etc/passwd", "../..", "../../other", "/", "../../home2"])
def test_a_tree_with_a_link_that_leaves_it_is_refused_whole(machine, land, home, target):
    (land / "other").write_text("x")
    (home / "sub" / "way out").symlink_to(target)
    before = tree(land)
    for run in (machine.check, machine.apply):
        assert run(owned(str(home), owner="daemon", group="daemon")) == ["failed"]
        assert "way out is a link that leaves" in machine.failure
    assert tree(land) == before


def test_a_link_to_a_folder_beside_with_a_longer_name_leaves_the_tree(machine, land, home):
    (land / "home2").mkdir()
    (home / "out").symlink_to(land / "home2")
    assert machine.apply(owned(str(home), owner="daemon", group="daemon")) == ["failed"]


@pytest.mark.parametrize("thing", ["absent", "file"])
def test_only_a_directory_is_a_tree(machine, land, thing):
    if thing == "file":
        (land / "t").write_text("x")
    for run in (machine.check, machine.apply):
        assert run(owned(f"{land}/t", owner="daemon", group="daemon")) == ["failed"]


def test_a_future_tree_is_seen_ahead(machine, land):
    (land / "old").mkdir()
    plan = [
        directory(f"{land}/d"),
        file(f"{land}/d/f", "x"),
        owned(f"{land}/d", owner="daemon", group="daemon"),
        file(f"{land}/d/f", "x", owner="daemon", group="daemon"),
        link(f"{land}/old/l", "."),
        owned(f"{land}/old", owner="daemon", group="daemon"),
        owned(f"{land}/old", owner="daemon", group="daemon"),
        link(f"{land}/d/out", "/etc"),
        owned(f"{land}/d", owner="daemon", group="daemon"),
    ]
    expected = ["change", "change", "change", "ok", "change", "change", "ok", "change", "failed"]
    assert machine.check(*plan) == expected
    assert machine.apply(*plan) == [state.replace("change", "changed") for state in expected]


def test_a_tree_with_something_unknown_in_it_is_unknown(machine, land):
    make = command("make", ["true"], creates=f"{land}/d/made")
    assert machine.check(directory(f"{land}/d"), make, owned(f"{land}/d", owner="daemon", group="daemon")) == [
        "change",
        "change",
        "unknown",
    ]


def test_a_tree_of_an_empty_machine_is_not_looked_up_on_this_one(machine):
    assert machine.check(owned("/etc", owner="daemon", group="root"), empty=True) == ["failed"]
    assert machine.check(owned("/etc", owner="root", group="root"), empty=True) == ["ok"]


@pytest.fixture
def trap(land):
    """A link in daemon's folder that leads to a file of root's; daemon placed it."""
    (land / "precious").mkdir()
    (land / "precious" / "f").write_text("root's\n")
    (land / "home").mkdir()
    os.chown(land / "home", DAEMON, DAEMON)
    (land / "home" / "trap").symlink_to(land / "precious")
    (land / "home" / "file trap").symlink_to(land / "precious" / "f")
    for name in ("trap", "file trap"):
        os.chown(land / "home" / name, DAEMON, DAEMON, follow_symlinks=False)
    return land / "home"


@pytest.mark.parametrize(
    "wish",
    [
        lambda home: file(f"{home}/trap/f", "evil\n"),
        lambda home: file(f"{home}/trap/new", "evil\n"),
        lambda home: file(f"{home}/file trap", "evil\n"),
        lambda home: lines(f"{home}/trap/f", ["evil"]),
        lambda home: directory(f"{home}/trap", mode="0777"),
        lambda home: directory(f"{home}/trap/new"),
    ],
)
def test_a_link_that_somebody_else_placed_is_not_followed(machine, land, trap, wish):
    before = tree(land)
    for run in (machine.check, machine.apply):
        assert run(wish(trap)) == ["failed"]
        assert "is a link that daemon placed, and is not followed" in machine.failure
    assert tree(land) == before


def test_a_link_of_roots_is_followed(machine, land, trap):
    (land / "good").symlink_to(land / "precious")
    assert machine.apply(file(f"{land}/good/f", "new\n")) == ["changed"]
    assert (land / "precious" / "f").read_text() == "new\n"


def test_a_link_may_replace_one_that_somebody_placed(machine, trap):
    assert machine.apply(link(f"{trap}/trap", "sub")) == ["changed"]
    assert str((trap / "trap").readlink()) == "sub"
