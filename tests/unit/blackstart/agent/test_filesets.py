import json
import os

import pytest

from blackstart.agent import filesets
from blackstart.agent.store import Store
from blackstart.agent.world import sha256
from blackstart.resources import Replacement, command, directory, file, fileset

from .machine import full, tree


@pytest.fixture
def files(land):
    """Two files with stock contents, and the set that changes both and writes a manifest last."""
    (land / "a.py").write_text("stock a\n")
    (land / "b.py").write_text("stock b\n")
    return [
        Replacement(f"{land}/a.py", b"new a\n", sha256(b"stock a\n")),
        Replacement(f"{land}/b.py", b"new b\n", sha256(b"stock b\n")),
        Replacement(f"{land}/meta/manifest", b"{}", None, quiet=True),
    ]


def test_all_files_change_and_the_stock_contents_are_kept(machine, land, files):
    wish = fileset("patch", files, detail="2 files")
    assert machine.check(wish) == ["change"]
    assert (land / "a.py").read_text() == "stock a\n"
    assert machine.apply(wish) == ["changed"]
    assert machine.done[0]["detail"] == "2 files"
    assert [(land / name).read_text() for name in ("a.py", "b.py", "meta/manifest")] == ["new a\n", "new b\n", "{}"]
    assert machine.kept() == {sha256(b"stock a\n"): b"stock a\n", sha256(b"stock b\n"): b"stock b\n"}
    assert machine.apply(wish) == ["ok"]


def test_the_last_file_is_written_last(machine, files):
    machine.apply(fileset("patch", files))
    assert [entry["path"].rsplit("/", 1)[1] for entry in machine.journal()] == ["a.py", "b.py", "manifest"]


def test_the_diff_leaves_quiet_files_out(machine, files):
    machine.check(fileset("patch", files))
    assert "+new a" in machine.done[0]["diff"] and "+new b" in machine.done[0]["diff"]
    assert "manifest" not in machine.done[0]["diff"]


@pytest.mark.parametrize("done", [1, 2])
def test_a_set_that_was_killed_half_way_is_finished(machine, land, files, done):
    for item in files[:done]:
        (land / item.path.rsplit("/", 1)[1]).write_bytes(item.content)
    assert machine.apply(fileset("patch", files)) == ["changed"]
    assert machine.apply(fileset("patch", files)) == ["ok"]
    assert (land / "a.py").read_text() == "new a\n" and (land / "b.py").read_text() == "new b\n"


def test_a_file_that_another_program_changed_is_never_overwritten_nor_are_the_others(machine, land, files):
    (land / "b.py").write_text("edited by hand\n")
    before = tree(land)
    for run in (machine.check, machine.apply):
        assert run(fileset("patch", files)) == ["failed"]
        assert "b.py is not what it was" in machine.failure
    assert tree(land) == before


def test_a_file_that_is_not_there_is_no_stock_file(machine, land, files):
    (land / "b.py").unlink()
    assert machine.apply(fileset("patch", files)) == ["failed"]
    assert (land / "a.py").read_text() == "stock a\n"


def test_a_file_may_be_new(machine, land):
    wish = fileset("new", [Replacement(f"{land}/d/new", b"x", None)])
    assert machine.apply(wish) == ["changed"]
    assert (land / "d" / "new").read_bytes() == b"x"


def test_a_directory_in_the_way_is_refused(machine, land):
    (land / "a").mkdir()
    assert machine.apply(fileset("new", [Replacement(f"{land}/a", b"x", None)])) == ["failed"]
    assert "is a directory, not a file" in machine.failure


def test_mode_and_owner_of_a_file_stay_as_they_were(machine, land, files):
    os.chown(land / "a.py", 1, 1)
    (land / "a.py").chmod(0o640)
    machine.apply(fileset("patch", files))
    status = (land / "a.py").stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 1, 1)


def test_a_file_that_others_share_by_hard_link_changes_only_here(machine, land, files):
    (land / "cache").hardlink_to(land / "a.py")
    machine.apply(fileset("patch", files))
    assert (land / "cache").read_text() == "stock a\n"


def test_stale_files_go_when_the_set_changes_and_only_then(machine, land, files):
    stale = [f"{land}/__pycache__/a.*.pyc"]
    (land / "__pycache__").mkdir()
    for name in ("a.cpython-311.pyc", "other.cpython-311.pyc"):
        (land / "__pycache__" / name).write_bytes(b"old")
    machine.check(fileset("patch", files, stale=stale))
    assert len(list((land / "__pycache__").iterdir())) == 2
    machine.apply(fileset("patch", files, stale=stale))
    assert [path.name for path in (land / "__pycache__").iterdir()] == ["other.cpython-311.pyc"]
    (land / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"fresh")
    assert machine.apply(fileset("patch", files, stale=stale)) == ["ok"]
    assert (land / "__pycache__" / "a.cpython-311.pyc").exists()


def test_a_set_is_seen_ahead(machine, land, files):
    plan = [fileset("patch", files), fileset("patch", files)]
    assert machine.check(*plan) == ["change", "ok"]


def test_a_set_below_an_unknown_is_unknown(machine, land, files):
    make = command("reinstall", ["true"], creates=f"{land}/marker", provides=[str(land)])
    assert machine.check(make, fileset("patch", files)) == ["change", "unknown"]


def test_bytes_that_are_no_text_survive(machine, land):
    machine.apply(fileset("new", [Replacement(f"{land}/f", b"\xff\x00\r\n", None)]))
    assert (land / "f").read_bytes() == b"\xff\x00\r\n"


# what was derived, in folders of others


@pytest.fixture
def trap(land):
    """A folder of somebody else's, in which a link of his leads to root's files."""
    (land / "precious" / "tree").mkdir(parents=True)
    (land / "precious" / "f.pyc").write_text("root's\n")
    (land / "home").mkdir()
    (land / "home" / "cache").symlink_to(land / "precious")
    for path in (land / "home", land / "home" / "cache"):
        os.chown(path, 1, 1, follow_symlinks=False)
    return land / "home"


def test_stale_files_behind_a_link_that_somebody_placed_stay_and_nothing_is_written(machine, land, files, trap):
    before = tree(land)
    for run in (machine.check, machine.apply):
        assert run(fileset("patch", files, stale=[f"{trap}/cache/*"])) == ["failed"]
        assert "cache is a link that daemon placed" in machine.failure
    assert tree(land) == before
    assert not (machine.state / "intents").exists()


def test_a_stale_link_goes_itself(machine, land, files, trap):
    assert machine.apply(fileset("patch", files, stale=[f"{trap}/*"])) == ["changed"]
    assert not list(trap.iterdir())
    assert sorted(path.name for path in (land / "precious").iterdir()) == ["f.pyc", "tree"]


def test_a_folder_that_is_swapped_for_a_link_after_it_was_looked_at_is_not_entered(
    machine, land, files, trap, monkeypatch
):
    (trap / "cache").unlink()
    (trap / "cache").mkdir()
    (trap / "cache" / "f.pyc").touch()
    real = filesets.real_place

    def swap(world, path, follow=True):
        found = real(world, path, follow)
        if path.endswith("cache") and (land / "a.py").exists() and (machine.state / "intents").exists():
            (trap / "cache").rename(trap / "away")
            (trap / "cache").symlink_to(land / "precious")
        return found

    monkeypatch.setattr(filesets, "real_place", swap)
    assert machine.apply(fileset("patch", files, stale=[f"{trap}/cache/*"])) == ["failed"]
    assert sorted(path.name for path in (land / "precious").iterdir()) == ["f.pyc", "tree"]


def test_stale_folders_go_with_what_is_in_them(machine, land, files):
    (land / "build" / "deep" / "er").mkdir(parents=True)
    (land / "build" / "file").touch()
    assert machine.apply(fileset("patch", files, stale=[f"{land}/build/*", f"{land}/build/d*/", f"{land}/none/*"])) == [
        "changed"
    ]
    assert not list((land / "build").iterdir())


def test_stale_files_of_a_machine_that_is_not_there_are_not_looked_for_here(machine, land, trap):
    wish = fileset("new", [Replacement("/srv/f", b"x", None)], stale=[f"{trap}/cache/*"])
    assert machine.check(wish, empty=True) == ["change"]


# what a check foresees


def test_new_folders_and_files_are_roots_whatever_the_folder_around_them_hands_down(machine, land):
    os.chown(land, 0, 33)
    land.chmod(0o2755)
    plan = [
        fileset("new", [Replacement(f"{land}/d/e/f", b"x", None)]),
        directory(f"{land}/d"),
        directory(f"{land}/d/e"),
        file(f"{land}/d/e/f", "x"),
    ]
    assert machine.check(*plan) == ["change", "ok", "ok", "ok"]
    assert machine.apply(*plan) == ["changed", "ok", "ok", "ok"]


def interrupted(machine, land, files):
    """A run that died after the first file of the set."""
    (machine.state / "intents").mkdir(parents=True)
    (machine.state / "intents" / "set").write_text(json.dumps(fileset("patch", files).to_wire("x")))
    (land / "a.py").write_text("new a\n")


def test_a_half_written_set_is_foreseen_completed(machine, land, files):
    interrupted(machine, land, files)
    (land / "b.py").chmod(0o644)
    plan = [file(f"{land}/b.py", "new b\n")]
    assert machine.check(*plan) == ["change", "ok"]
    assert machine.apply(*plan) == ["changed", "ok"]


def test_a_half_written_set_that_will_be_set_aside_is_not_foreseen_completed(machine, land, files):
    interrupted(machine, land, files)
    (land / "b.py").write_text("edited by hand\n")
    plan = [file(f"{land}/b.py", "new b\n")]
    assert machine.check(*plan) == ["change", "change"]
    assert machine.apply(*plan) == ["changed", "changed"]
    assert "set aside" in machine.done[0]["detail"]


# what must not be lost, and not be shown


def test_a_set_that_cannot_be_written_down_changes_nothing(machine, land, files, monkeypatch):
    before = tree(land)
    monkeypatch.setattr(Store, "journal", full)
    assert machine.apply(fileset("patch", files[:2])) == ["failed"]
    assert tree(land) == before


def test_the_diff_of_a_file_that_is_its_owners_alone_is_hidden(machine, land, files):
    (land / "a.py").chmod(0o600)
    machine.check(fileset("patch", files))
    assert "stock a" not in str(machine.events) and "+new b" in machine.done[0]["diff"]
