import os

import pytest

from blackstart.agent.store import Store
from blackstart.agent.world import sha256
from blackstart.resources import absent, command, directory, file, lines, link
from blackstart.resources import tree as owned

from .machine import full, mode, tree

# directory


def test_a_directory_is_made_with_its_parents_and_its_own_attributes(machine, land, at):
    assert machine.apply(directory(at("a/b/c"), mode="2750", group="daemon")) == ["changed"]
    assert mode(land / "a/b/c") == 0o2750
    assert (land / "a/b/c").group() == "daemon"
    assert mode(land / "a/b") == 0o755 and (land / "a/b").owner() == "root"
    assert machine.apply(directory(at("a/b/c"), mode="2750", group="daemon")) == ["ok"]


@pytest.mark.parametrize("wish", [{"mode": "0700"}, {"owner": "daemon"}, {"group": "daemon"}])
def test_a_directorys_attributes_are_mended_and_its_contents_left_alone(machine, land, at, wish):
    (land / "d").mkdir(mode=0o755)
    (land / "d" / "f").write_text("x")
    assert machine.check(directory(at("d"), **wish)) == ["change"]
    assert machine.apply(directory(at("d"), **wish)) == ["changed"]
    assert machine.apply(directory(at("d"), **wish)) == ["ok"]
    assert (land / "d" / "f").read_text() == "x"


def test_a_directorys_diff_names_what_differs(machine, land, at):
    (land / "d").mkdir(mode=0o755)
    machine.check(directory(at("d"), mode="0700", owner="daemon"))
    assert machine.done[0]["diff"].splitlines() == [
        f"{at('d')}: mode 0755 -> 0700",
        f"{at('d')}: owner root -> daemon",
    ]
    machine.check(directory(at("new")))
    assert machine.done[0]["diff"] == f"+ directory {at('new')}"


def test_a_link_to_a_directory_is_one(machine, land, at):
    (land / "real").mkdir(mode=0o755)
    (land / "link").symlink_to("real")
    assert machine.apply(directory(at("link"))) == ["ok"]
    assert machine.apply(directory(at("link"), mode="0700")) == ["changed"]
    assert mode(land / "real") == 0o700 and (land / "link").is_symlink()


def test_what_lies_behind_a_linked_directory_is_still_seen_after_its_attributes_would_change(machine, land, at):
    (land / "real").mkdir(mode=0o755)
    (land / "real" / "f").write_text("x")
    (land / "link").symlink_to("real")
    plan = [directory(at("link"), mode="0700"), file(at("link/f"), "x"), absent(at("link/f"))]
    assert machine.check(*plan) == ["change", "ok", "change"]
    assert machine.apply(*plan) == ["changed", "ok", "changed"]


@pytest.mark.parametrize("thing", ["file", "fifo", "dangling link", "below a file", "below a dangling link"])
def test_a_directory_never_replaces_what_is_none(machine, land, at, thing):
    if thing == "fifo":
        os.mkfifo(land / "d")
    elif "link" in thing:
        (land / "d").symlink_to("nowhere")
    else:
        (land / "d").write_text("mine")
    before = tree(land)
    wish = directory(at("d/e" if "below" in thing else "d"))
    for run in (machine.check, machine.apply):
        assert run(wish) == ["failed"]
        assert "not a directory" in machine.failure
        assert machine.done[0]["remedy"]
    assert tree(land) == before


# file


def test_a_file_is_written_with_its_attributes(machine, land, at):
    wish = file(at("f"), "täxt\n", mode="0640", owner="daemon", group="daemon")
    assert machine.apply(wish) == ["changed"]
    assert (land / "f").read_bytes() == "täxt\n".encode()
    assert (mode(land / "f"), (land / "f").owner(), (land / "f").group()) == (0o640, "daemon", "daemon")
    assert machine.apply(wish) == ["ok"]
    assert [path.name for path in land.iterdir()] == ["f"]


def test_a_files_old_content_is_kept_and_the_change_is_journalled(machine, land, at):
    (land / "f").write_text("old")
    machine.apply(file(at("f"), "new"))
    assert machine.kept() == {sha256(b"old"): b"old"}
    (entry,) = machine.journal()
    assert (entry["resource"], entry["path"]) == (f"file {at('f')}", at("f"))
    assert (entry["before"], entry["after"]) == (sha256(b"old"), sha256(b"new"))
    assert entry["by"] == "tester" and entry["at"].endswith("Z")


def test_attributes_alone_keep_the_content_and_no_copy_of_it(machine, land, at):
    (land / "f").write_text("same")
    (land / "f").chmod(0o600)
    assert machine.apply(file(at("f"), "same")) == ["changed"]
    assert machine.done[0]["diff"] == f"{at('f')}: mode 0600 -> 0644"
    assert machine.kept() == {}


def test_a_file_shows_what_would_change_as_a_diff(machine, land, at):
    (land / "f").write_text("a\nb\n")
    machine.check(file(at("f"), "a\nc\n"))
    assert machine.done[0]["diff"].splitlines()[-3:] == [" a", "-b", "+c"]


def test_a_secret_file_shows_nothing_of_itself(machine, at):
    machine.apply(file(at("f"), "hunter22", secret=True))
    assert "hunter22" not in str(machine.events)
    assert machine.done[0]["diff"] == f"{at('f')}: content hidden"


def test_a_file_behind_a_link_is_changed_where_it_lies(machine, land, at):
    (land / "real").write_text("old")
    (land / "link").symlink_to("real")
    assert machine.apply(file(at("link"), "new")) == ["changed"]
    assert (land / "link").is_symlink() and (land / "real").read_text() == "new"


def test_a_file_that_a_link_names_is_made_there(machine, land, at):
    (land / "d").mkdir()
    (land / "link").symlink_to("d/f")
    for run, state in ((machine.check, "change"), (machine.apply, "changed"), (machine.apply, "ok")):
        assert run(file(at("link"), "new")) == [state]
    assert (land / "d" / "f").read_text() == "new"


@pytest.mark.parametrize("thing", ["directory", "fifo", "no parent", "a file as parent", "link without a parent"])
def test_a_file_never_replaces_what_is_none_and_needs_a_place_to_lie(machine, land, at, thing):
    path = "f"
    if thing == "directory":
        (land / "f").mkdir()
    elif thing == "fifo":
        os.mkfifo(land / "f")
    elif thing == "no parent":
        path = "none/f"
    elif thing == "link without a parent":
        (land / "f").symlink_to("none/f")
    else:
        (land / "f").write_text("x")
        path = "f/g"
    before = tree(land)
    for run in (machine.check, machine.apply):
        assert run(file(at(path), "x")) == ["failed"]
        assert machine.done[0]["remedy"] in ("move it away", "declare the directory before it")
    assert tree(land) == before


@pytest.mark.parametrize("wish", [{"owner": "no-such-user"}, {"group": "no-such-group"}])
@pytest.mark.parametrize("make", [lambda path, **wish: file(path, "x", **wish), directory])
def test_an_owner_that_is_not_there_is_said_before_anything_is_touched(machine, land, at, make, wish):
    for run in (machine.check, machine.apply):
        assert run(make(at("f"), **wish)) == ["failed"]
        assert "there is no" in machine.failure
    assert not list(land.iterdir())


def test_bytes_that_are_no_text_are_written_as_they_are(machine, land, at):
    content = b"\xff\x00\xfe".decode("utf-8", "surrogateescape")
    machine.apply(file(at("f"), content))
    assert (land / "f").read_bytes() == b"\xff\x00\xfe"


def test_attributes_left_open_are_not_compared(machine, land, at):
    (land / "f").write_text("x")
    (land / "f").chmod(0o600)
    assert machine.apply(file(at("f"), "x", mode=None, owner=None, group=None)) == ["ok"]


def test_an_owner_alone_leaves_the_group(machine, land, at):
    machine.apply(file(at("f"), "x", owner="daemon", group=None))
    assert ((land / "f").owner(), (land / "f").group()) == ("daemon", "root")


# link


def test_a_link_is_made_and_turned_without_a_gap(machine, land, at):
    assert machine.apply(link(at("l"), "one")) == ["changed"]
    assert machine.apply(link(at("l"), "one")) == ["ok"]
    assert machine.apply(link(at("l"), "two")) == ["changed"]
    assert str((land / "l").readlink()) == "two"
    assert machine.done[0]["diff"] == f"{at('l')} -> two, was -> one"
    assert machine.journal()[-1]["before"] == "one"
    assert [path.name for path in land.iterdir()] == ["l"]


def test_what_a_killed_run_left_beside_a_link_does_not_matter(machine, land, at):
    (land / "l.blackstart-link").symlink_to("half")
    assert machine.apply(link(at("l"), "whole")) == ["changed"]
    assert str((land / "l").readlink()) == "whole"
    assert [path.name for path in land.iterdir()] == ["l"]


@pytest.mark.parametrize("thing", ["file", "directory"])
def test_a_link_replaces_nothing_but_links(machine, land, at, thing):
    (land / "l").mkdir() if thing == "directory" else (land / "l").write_text("x")
    for run in (machine.check, machine.apply):
        assert run(link(at("l"), "x")) == ["failed"]
        assert machine.failure == f"{at('l')} is a {thing}, not a link"


def test_a_link_needs_a_place_to_lie(machine, at):
    for run in (machine.check, machine.apply):
        assert run(link(at("none/l"), "x")) == ["failed"]


# lines


def test_missing_lines_are_appended_in_order_and_present_ones_left_where_they_are(machine, land, at):
    (land / "f").write_text("b\nz\n")
    assert machine.apply(lines(at("f"), ["a", "b", "c"])) == ["changed"]
    assert (land / "f").read_text() == "b\nz\na\nc\n"
    assert machine.apply(lines(at("f"), ["a", "b", "c"])) == ["ok"]


def test_lines_make_their_file(machine, land, at):
    assert machine.apply(lines(at("f"), ["a"], mode="0600")) == ["changed"]
    assert (land / "f").read_text() == "a\n" and mode(land / "f") == 0o600


def test_a_file_without_a_final_newline_gets_one_first(machine, land, at):
    (land / "f").write_text("a")
    machine.apply(lines(at("f"), ["b"]))
    assert (land / "f").read_text() == "a\nb\n"


@pytest.mark.parametrize("content", ["x\r\ny\r\n", "x\x0cy\n", "x\x1dy\u2028z\n", "\r", "x\n\n\n"])
def test_every_other_byte_of_the_file_stays_as_it_is(machine, land, at, content):
    (land / "f").write_bytes(content.encode())
    assert machine.apply(lines(at("f"), ["new"])) == ["changed"]
    ended = content if content.endswith("\n") else content + "\n"
    assert (land / "f").read_bytes() == (ended + "new\n").encode()
    assert machine.apply(lines(at("f"), ["new"])) == ["ok"]


def test_lines_keep_a_files_attributes_and_its_old_content(machine, land, at):
    (land / "f").write_text("x\n")
    (land / "f").chmod(0o640)
    os.chown(land / "f", 1, 1)
    machine.apply(lines(at("f"), ["y"]))
    status = (land / "f").stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 1, 1)
    assert machine.kept() == {sha256(b"x\n"): b"x\n"}


def test_lines_belong_before_a_mark(machine, land, at):
    (land / "f").write_text("a: 1\n\n[snapshot]\nlxc.x: y\n")
    wish = lines(at("f"), ["lxc.x: y"], before="[")
    assert machine.check(wish) == ["change"]
    assert machine.apply(wish) == ["changed"]
    assert (land / "f").read_text() == "a: 1\n\nlxc.x: y\n[snapshot]\nlxc.x: y\n"
    assert machine.apply(wish) == ["ok"]


def test_no_lines_are_a_file_that_is_there(machine, land, at):
    assert machine.apply(lines(at("f"), [])) == ["changed"]
    assert (land / "f").read_bytes() == b""
    assert machine.apply(lines(at("f"), [])) == ["ok"]


def test_lines_are_put_into_files_only(machine, land, at):
    (land / "f").mkdir()
    assert machine.apply(lines(at("f"), ["x"])) == ["failed"]
    assert machine.apply(lines(at("none/f"), ["x"])) == ["failed"]


# absent


def test_a_file_goes_and_its_content_is_kept(machine, land, at):
    (land / "f").write_text("x")
    assert machine.check(absent(at("f"))) == ["change"]
    assert machine.apply(absent(at("f"))) == ["changed"]
    assert machine.apply(absent(at("f"))) == ["ok"]
    assert machine.kept() == {sha256(b"x"): b"x"}
    assert machine.journal()[0]["before"] == sha256(b"x")


def test_a_link_goes_and_what_it_leads_to_stays(machine, land, at):
    (land / "real").mkdir()
    (land / "l").symlink_to("real")
    assert machine.apply(absent(at("l"), recursive=True)) == ["changed"]
    assert [path.name for path in land.iterdir()] == ["real"]


def test_a_dangling_link_goes_too(machine, land, at):
    (land / "l").symlink_to("nowhere")
    assert machine.apply(absent(at("l"))) == ["changed"]
    assert not list(land.iterdir())


def test_a_tree_goes_only_when_it_is_meant(machine, land, at):
    (land / "d" / "e").mkdir(parents=True)
    (land / "d" / "l").symlink_to(at())
    for run in (machine.check, machine.apply):
        assert run(absent(at("d"))) == ["failed"]
    assert machine.apply(absent(at("d"), recursive=True)) == ["changed"]
    assert land.exists() and not list(land.iterdir())


def test_special_files_go_as_well(machine, land, at):
    os.mkfifo(land / "p")
    assert machine.apply(absent(at("p"))) == ["changed"]
    assert machine.done[0]["diff"] == f"- special file {at('p')}"


# one after another, seen ahead


def test_a_plan_sees_what_its_earlier_resources_would_make(machine, land, at):
    plan = [
        directory(at("d")),
        file(at("d/f"), "x"),
        link(at("l"), "d"),
        file(at("l/f"), "x"),
        lines(at("l/g"), ["a"]),
        file(at("d/g"), "a\n"),
        absent(at("d/f")),
        file(at("l/f"), "x"),
    ]
    expected = ["change", "change", "change", "ok", "change", "ok", "change", "change"]
    assert machine.check(*plan) == expected
    assert not list(land.iterdir())
    assert machine.apply(*plan) == [state.replace("change", "changed") for state in expected]


def test_a_tree_that_goes_and_comes_again_is_seen_empty(machine, land, at):
    (land / "d").mkdir()
    (land / "d" / "f").write_text("x")
    plan = [absent(at("d"), recursive=True), directory(at("d")), absent(at("d/f")), file(at("d/f"), "x")]
    assert machine.check(*plan) == ["change", "change", "ok", "change"]
    assert machine.apply(*plan) == ["changed", "changed", "ok", "changed"]


def test_what_stands_on_an_unknown_is_unknown(machine, at):
    plan = [
        command("unpack", ["true"], creates=at("made")),
        file(at("made/f"), "x"),
        absent(at("made/f")),
        lines(at("made/g"), ["x"]),
        link(at("made/l"), "x"),
        directory(at("made/d")),
        file(at("made/d/f"), "x"),
        file(at("apart"), "x"),
    ]
    # What was put over an unknown is known from then on, so the second look at made/f is sure of itself.
    assert machine.check(*plan) == [
        "change",
        "unknown",
        "unknown",
        "unknown",
        "unknown",
        "unknown",
        "unknown",
        "change",
    ]
    assert machine.done[1]["detail"] == "after unpack"


def test_nothing_is_said_to_be_ok_that_an_unknown_may_have_changed(machine, at):
    """The command makes `made/d/f`; were the directory taken for new, `absent` would be called ok."""
    make = ["sh", "-c", f"mkdir -p {at('made/d')} && touch {at('made/d/f')}"]
    plan = [command("unpack", make, creates=at("made")), directory(at("made/d")), absent(at("made/d/f"))]
    assert machine.check(*plan) == ["change", "unknown", "unknown"]
    assert machine.apply(*plan) == ["changed", "ok", "changed"]


# paths that end in a slash


@pytest.mark.parametrize(
    "wish",
    [
        lambda path: absent(path),
        lambda path: file(path, "new"),
        lambda path: lines(path, ["new"]),
        lambda path: link(path, "new"),
        lambda path: directory(path),
    ],
)
def test_a_slash_at_the_end_means_the_same_place(machine, land, at, wish):
    slashed = at("x") + "/"
    if wish("").kind in ("absent", "file", "lines"):
        (land / "x").write_text("old")
    assert machine.check(wish(slashed)) == ["change"]
    assert machine.apply(wish(slashed)) == ["changed"]
    assert machine.journal()[-1]["path"] == at("x")
    assert machine.apply(wish(slashed), wish(at("x"))) == ["ok", "ok"]
    assert (land / "x").exists() is (wish("").kind not in ("absent", "link"))


# what must not be lost, and not be shown


@pytest.mark.parametrize(
    "wish",
    [
        lambda at: file(at("f"), "new"),
        lambda at: file(at("f"), "old\n", mode="0600"),
        lambda at: lines(at("f"), ["new"]),
        lambda at: absent(at("f")),
        lambda at: absent(at("d"), recursive=True),
        lambda at: link(at("l"), "new"),
        lambda at: directory(at("new")),
        lambda at: directory(at("d"), mode="0700"),
        lambda at: owned(at("d"), owner="daemon", group="daemon"),
    ],
)
def test_a_change_that_cannot_be_written_down_does_not_take_place(machine, land, at, wish, monkeypatch):
    (land / "f").write_text("old\n")
    (land / "l").symlink_to("old")
    (land / "d" / "e").mkdir(parents=True)
    before = tree(land)
    monkeypatch.setattr(Store, "journal", full)
    assert machine.apply(wish(at)) == ["failed"]
    assert tree(land) == before


@pytest.mark.parametrize(
    "wish", [lambda path: file(path, "new"), lambda path: lines(path, ["new"]), lambda path: absent(path)]
)
def test_what_a_file_holds_that_is_its_owners_alone_is_not_shown(machine, land, at, wish):
    (land / "f").write_text("hunter22\n")
    (land / "f").chmod(0o600)
    for run in (machine.check, machine.apply):
        run(wish(at("f")))
        assert "hunter22" not in str(machine.events)
    assert machine.kept() == {sha256(b"hunter22\n"): b"hunter22\n"}


def test_a_secret_that_the_same_plan_would_write_is_not_shown_either(machine, at):
    machine.check(file(at("f"), "hunter22\n", mode="0600", secret=True), lines(at("f"), ["new"]))
    assert "hunter22" not in str(machine.events)
