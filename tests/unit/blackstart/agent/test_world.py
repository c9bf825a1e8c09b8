import os
import socket

import pytest

from blackstart.agent.world import ABSENT, Entry, Unknown, World, group_name, user_name

DIRECTORY = Entry("directory", 0o755, "root", "root")


def file(content=b"new"):
    return Entry("file", 0o644, "root", "root", content=content)


@pytest.fixture
def world():
    return World()


# the machine as it is


def test_each_kind_of_thing_is_told_apart(world, tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    assert world.entry(f"{tmp_path}/file") == Entry("file", 0o640, "root", "root")
    assert world.entry(f"{tmp_path}").kind == "directory"
    assert world.entry(f"{tmp_path}/fifo").kind == "special file"
    assert world.entry(f"{tmp_path}/none") == ABSENT
    assert world.entry(f"{tmp_path}/file/below") == ABSENT
    assert world.entry(f"{tmp_path}/link").kind == "file"
    assert world.entry(f"{tmp_path}/link", follow=False)[:1] + world.entry(f"{tmp_path}/link", follow=False)[4:5] == (
        "link",
        "file",
    )


def test_a_link_that_leads_nowhere_is_absent_but_for_its_own_sake(world, tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    assert not world.exists(f"{tmp_path}/link")
    assert world.entry(f"{tmp_path}/link", follow=False).kind == "link"


def test_bytes_are_read_as_they_are_and_only_from_files(world, tmp_path):
    (tmp_path / "file").write_bytes(b"\xff\r\n")
    assert world.read(f"{tmp_path}/file") == b"\xff\r\n"
    assert world.read(f"{tmp_path}/none") is None
    assert world.read(str(tmp_path)) is None


def test_names_of_owners_fall_back_to_numbers():
    assert (user_name(0), group_name(0)) == ("root", "root")
    assert (user_name(54321), group_name(54321)) == ("54321", "54321")


# the overlay


def test_what_would_be_put_is_there(world, tmp_path):
    world.would_put(f"{tmp_path}/a", file(b"one"))
    assert world.read(f"{tmp_path}/a") == b"one"
    assert world.exists(f"{tmp_path}/a")
    assert not (tmp_path / "a").exists()


def test_what_would_be_put_hides_what_is_there(world, tmp_path):
    (tmp_path / "a").write_text("old")
    world.would_put(f"{tmp_path}/a", file(b"new"))
    assert world.read(f"{tmp_path}/a") == b"new"
    assert world.entry(f"{tmp_path}/a").mode == 0o644


def test_beside_the_overlay_the_machine_shines_through(world, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").write_text("old")
    world.would_put(f"{tmp_path}/d/new", file())
    assert world.read(f"{tmp_path}/d/old") == b"old"


def test_a_directory_that_changes_only_its_mode_keeps_what_it_holds(world, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").write_text("old")
    world.would_put(f"{tmp_path}/d", DIRECTORY._replace(mode=0o700))
    assert world.entry(f"{tmp_path}/d").mode == 0o700
    assert world.read(f"{tmp_path}/d/old") == b"old"


def test_what_would_be_removed_is_gone_with_all_below_it(world, tmp_path):
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("x")
    world.would_remove(f"{tmp_path}/d")
    for path in ("d", "d/e", "d/e/f"):
        assert not world.exists(f"{tmp_path}/{path}")
    assert world.read(f"{tmp_path}/d/e/f") is None


def test_a_directory_made_anew_is_empty_whatever_stood_there(world, tmp_path):
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "f").write_text("x")
    world.would_remove(f"{tmp_path}/d")
    world.would_put(f"{tmp_path}/d", DIRECTORY)
    assert world.exists(f"{tmp_path}/d")
    assert not world.exists(f"{tmp_path}/d/f")
    assert not world.exists(f"{tmp_path}/d/e")
    world.would_put(f"{tmp_path}/d/e", DIRECTORY)
    assert world.exists(f"{tmp_path}/d/e")


def test_what_was_put_and_removed_again_does_not_come_back_with_its_directory(world, tmp_path):
    world.would_put(f"{tmp_path}/d", DIRECTORY)
    world.would_put(f"{tmp_path}/d/f", file())
    world.would_remove(f"{tmp_path}/d")
    world.would_put(f"{tmp_path}/d", DIRECTORY)
    assert not world.exists(f"{tmp_path}/d/f")


def test_removing_a_sibling_with_a_longer_name_removes_only_that(world, tmp_path):
    for name in ("d", "dd"):
        world.would_put(f"{tmp_path}/{name}", DIRECTORY)
        world.would_put(f"{tmp_path}/{name}/f", file())
    world.would_remove(f"{tmp_path}/d")
    assert world.exists(f"{tmp_path}/dd/f")


def test_a_trailing_slash_makes_no_difference(world, tmp_path):
    world.would_put(f"{tmp_path}/d/", DIRECTORY)
    assert world.entry(f"{tmp_path}/d").kind == "directory"
    world.would_remove(f"{tmp_path}/d/")
    assert not world.exists(f"{tmp_path}/d")


# symbolic links


def test_a_future_link_leads_on_into_the_machine(world, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("x")
    world.would_put(f"{tmp_path}/link", Entry("link", target=f"{tmp_path}/real"))
    assert world.read(f"{tmp_path}/link/f") == b"x"
    assert world.real_path(f"{tmp_path}/link/f") == f"{tmp_path}/real/f"


def test_a_future_relative_link_starts_from_its_own_folder(world, tmp_path):
    world.would_put(f"{tmp_path}/real", DIRECTORY)
    world.would_put(f"{tmp_path}/real/f", file(b"x"))
    world.would_put(f"{tmp_path}/d", DIRECTORY)
    world.would_put(f"{tmp_path}/d/link", Entry("link", target="../real"))
    assert world.read(f"{tmp_path}/d/link/f") == b"x"


def test_a_link_on_disk_leads_into_the_overlay(world, tmp_path):
    (tmp_path / "link").symlink_to("future")
    assert not world.exists(f"{tmp_path}/link")
    world.would_put(f"{tmp_path}/future", DIRECTORY)
    world.would_put(f"{tmp_path}/future/f", file(b"x"))
    assert world.read(f"{tmp_path}/link/f") == b"x"


def test_what_is_put_through_a_link_is_found_behind_it(world, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    world.would_put(f"{tmp_path}/link/f", file(b"x"))
    assert world.read(f"{tmp_path}/real/f") == b"x"


def test_what_is_removed_through_a_link_is_gone_behind_it(world, tmp_path):
    (tmp_path / "link").symlink_to("real")
    world.would_put(f"{tmp_path}/real", DIRECTORY)
    world.would_put(f"{tmp_path}/real/sub", DIRECTORY)
    world.would_put(f"{tmp_path}/real/sub/f", file())
    world.would_remove(f"{tmp_path}/link/sub")
    world.would_put(f"{tmp_path}/real/sub", DIRECTORY)
    assert not world.exists(f"{tmp_path}/real/sub/f")


def test_removing_a_link_leaves_what_it_led_to(world, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("x")
    (tmp_path / "link").symlink_to("real")
    world.would_remove(f"{tmp_path}/link")
    assert world.entry(f"{tmp_path}/link", follow=False) == ABSENT
    assert world.read(f"{tmp_path}/real/f") == b"x"


@pytest.mark.parametrize("overlay", [False, True])
def test_links_in_a_circle_are_the_same_error_with_and_without_an_overlay(world, tmp_path, overlay):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    if overlay:
        world.would_put(f"{tmp_path}/other", file())
    with pytest.raises(OSError, match="Too many levels"):
        world.entry(f"{tmp_path}/a")
    assert world.entry(f"{tmp_path}/a", follow=False).kind == "link"


@pytest.mark.parametrize("overlay", [False, True])
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("d/../f", "file"),
        ("d/./f", "absent"),
        ("./f", "file"),
        ("d//../f", "file"),
        ("none/../f", "absent"),
        ("link/../f", "file"),
        ("f/..", "absent"),
        ("far/../d", "absent"),
    ],
)
def test_dots_mean_with_an_overlay_what_they_mean_to_the_kernel(world, tmp_path, overlay, path, kind):
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("x")
    (tmp_path / "link").symlink_to("d")
    (tmp_path / "far").symlink_to("/")
    if overlay:
        world.would_put(f"{tmp_path}/other", file())
    assert world.entry(f"{tmp_path}/{path}").kind == kind


# what is not known


def test_what_a_command_would_make_is_unknown_with_all_below_it(world, tmp_path):
    world.would_provide(f"{tmp_path}/d", "the command")
    for ask in (world.exists, world.read):
        for path in (f"{tmp_path}/d", f"{tmp_path}/d/e/f"):
            with pytest.raises(Unknown) as caught:
                ask(path)
            assert caught.value.after == "the command"


def test_an_unknown_behind_a_link_is_unknown(world, tmp_path):
    (tmp_path / "link").symlink_to("d")
    world.would_provide(f"{tmp_path}/d", "the command")
    with pytest.raises(Unknown):
        world.exists(f"{tmp_path}/link/f")


def test_a_file_put_over_an_unknown_is_known(world, tmp_path):
    world.would_provide(f"{tmp_path}/d", "the command")
    world.would_put(f"{tmp_path}/d", file(b"x"))
    assert world.read(f"{tmp_path}/d") == b"x"


def test_a_directory_put_over_an_unknown_may_hold_anything(world, tmp_path):
    """Were what is below it taken for absent, `absent` would be called ok and then delete something."""
    world.would_provide(f"{tmp_path}/d", "the command")
    world.would_put(f"{tmp_path}/d", DIRECTORY)
    with pytest.raises(Unknown):
        world.exists(f"{tmp_path}/d/f")


def test_what_is_removed_is_known_to_be_gone(world, tmp_path):
    world.would_provide(f"{tmp_path}/d", "the command")
    world.would_remove(f"{tmp_path}/d")
    assert not world.exists(f"{tmp_path}/d")


# accounts, packages, units


def test_accounts_are_those_of_the_machine(world):
    assert (world.uid("root"), world.gid("root")) == (0, 0)
    assert world.uid("nobody-of-that-name") is None and world.gid("nobody-of-that-name") is None
    assert world.knows_user("root") and world.knows_group("root")
    assert not world.knows_user("nobody-of-that-name") and not world.knows_group("nobody-of-that-name")


def test_a_future_account_is_known_but_its_number_is_not(world):
    world.would_add_user("svc", "user svc")
    world.would_add_group("svc", "group svc")
    assert world.knows_user("svc") and world.knows_group("svc") and world.would_have_user("svc")
    with pytest.raises(Unknown, match="user svc"):
        world.uid("svc")
    with pytest.raises(Unknown, match="group svc"):
        world.gid("svc")


def test_future_packages_and_units(world):
    assert not world.would_have("rsync") and world.unit_overlay("a.service") == {}
    world.would_install(["rsync"])
    world.would_set_unit("a.service", {"ActiveState": "active"})
    world.would_set_unit("a.service", {"UnitFileState": "enabled"})
    assert world.would_have("rsync")
    assert world.unit_overlay("a.service") == {"ActiveState": "active", "UnitFileState": "enabled"}


# a machine that does not exist yet


def test_an_empty_machine_has_what_every_fresh_one_has_and_nothing_of_this_one():
    world = World(empty=True)
    assert world.is_empty
    assert world.entry("/etc/systemd/system").kind == "directory"
    assert not world.exists("/etc/passwd") and not world.exists(os.path.realpath(__file__))
    assert world.uid("root") is None and world.knows_user("root") and world.knows_group("root")
    assert not world.knows_user("daemon")


def test_an_empty_machine_is_filled_by_the_overlay():
    world = World(empty=True)
    world.would_put("/etc/app", DIRECTORY)
    world.would_put("/etc/app/conf", file(b"x"))
    assert world.read("/etc/app/conf") == b"x"
    assert not world.exists("/etc/app/other")


def test_a_socket_is_neither_file_nor_directory(world, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
    assert world.entry(f"{tmp_path}/s").kind == "special file"
    assert world.read(f"{tmp_path}/s") is None
