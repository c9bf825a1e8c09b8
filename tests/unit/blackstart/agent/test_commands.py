import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from blackstart.agent import archives
from blackstart.agent.store import Store
from blackstart.resources import absent, archive, command, file, undecided

from .machine import full, tree


def writes(path, text="x"):
    return ["sh", "-c", f"printf '%s\\n' {text!r} >> {path}"]


# commands


def test_a_command_runs_until_what_it_creates_is_there(machine, land):
    wish = command("make", writes(land / "made"), creates=f"{land}/made")
    assert machine.check(wish) == ["change"]
    assert not (land / "made").exists()
    assert machine.apply(wish) == ["changed"]
    assert machine.apply(wish) == ["ok"]
    assert (land / "made").read_text() == "x\n"


def test_a_command_runs_until_its_line_is_there(machine, land):
    wish = command("add", writes(land / "f", "b: 1"), line={"path": f"{land}/f", "line": "b: 1"})
    (land / "f").write_text("a: 1\n")
    assert machine.apply(wish) == ["changed"]
    assert machine.apply(wish) == ["ok"]


def test_a_line_counts_only_before_its_mark(machine, land):
    (land / "f").write_text("a: 1\n[snap]\nb: 1\n")
    guard = {"path": f"{land}/f", "line": "b: 1", "before": "["}
    assert machine.check(command("add", ["true"], line=guard)) == ["change"]
    assert machine.check(command("add", ["true"], line={**guard, "before": ""})) == ["ok"]


def test_all_guards_must_hold(machine, land):
    (land / "made").touch()
    both = {"creates": f"{land}/made", "line": {"path": f"{land}/f", "line": "x"}}
    assert machine.check(command("make", ["true"], **both)) == ["change"]
    (land / "f").write_text("x\n")
    assert machine.check(command("make", ["true"], **both)) == ["ok"]


def test_a_command_without_a_guard_runs_each_time(machine, land):
    wish = command("say", writes(land / "log"))
    assert machine.apply(wish, wish) == ["changed", "changed"]
    assert (land / "log").read_text() == "x\nx\n"


def test_a_command_that_fails_shows_its_last_lines_and_what_to_do(machine):
    wish = command("fail", ["sh", "-c", "seq 20; exit 3"], remedy="look there")
    assert machine.apply(wish) == ["failed"]
    assert machine.failure == "sh ended with 3\n" + "\n".join(map(str, range(13, 21)))
    assert machine.done[0]["remedy"] == "look there"


def test_a_command_that_does_not_bring_about_what_it_should_has_failed(machine, land):
    assert machine.apply(command("idle", ["true"], creates=f"{land}/made")) == ["failed"]
    assert "what it should bring about is not there" in machine.failure


def test_what_a_command_says_is_passed_on_while_it_runs(machine):
    machine.apply(command("talk", ["sh", "-c", "echo one; echo two"]))
    assert [event["line"] for event in machine.events if event["e"] == "output"] == ["one", "two"]


def test_output_is_the_detail_only_where_it_is_wanted(machine):
    machine.apply(command("talk", ["echo", "one"]), command("tell", ["echo", "two"], capture=True))
    assert [event["detail"] for event in machine.done] == ["", "two\n"]


def test_environment_input_and_deadline_reach_the_program(machine):
    wish = command("talk", ["sh", "-c", 'echo "$A"; cat'], env={"A": "1"}, stdin="text", capture=True)
    machine.apply(wish)
    assert machine.done[0]["detail"] == "1\ntext"
    assert machine.apply(command("wait", ["sleep", "600"], timeout=0.2)) == ["failed"]
    assert "sleep ended with 124" in machine.failure


def test_a_long_command_is_shown_shortly(machine):
    machine.check(command("long", ["echo", "x" * 500]))
    assert len(machine.done[0]["diff"]) < 110


def test_a_commands_arguments_are_not_journalled(machine):
    machine.apply(command("login", ["echo", "--token", "hunter22"]))
    assert machine.journal()[0]["command"] == "echo"
    assert "hunter22" not in str(machine.journal())


def test_what_a_command_provides_is_unknown_and_the_rest_is_not(machine, land):
    make = command("make", ["true"], creates=f"{land}/a", provides=[f"{land}/b"])
    plan = [make, file(f"{land}/a", "x"), file(f"{land}/b/c", "x"), file(f"{land}/d", "x")]
    assert machine.check(*plan) == ["change", "unknown", "unknown", "change"]


def test_a_guard_that_looks_at_an_unknown_is_unknown(machine, land):
    make = command("make", ["true"], creates=f"{land}/d", provides=[f"{land}/f"])
    created = command("below", ["true"], creates=f"{land}/d/x")
    lined = command("line", ["true"], line={"path": f"{land}/f", "line": "x"})
    assert machine.check(make, created, lined) == ["change", "unknown", "unknown"]


def test_a_guard_that_looks_at_a_future_file_sees_it(machine, land):
    plan = [file(f"{land}/f", "x\n"), command("line", ["true"], line={"path": f"{land}/f", "line": "x"})]
    assert machine.check(*plan) == ["change", "ok"]


def test_a_file_whose_line_a_command_writes_is_unknown_afterwards(machine, land):
    (land / "f").write_text("a\n")
    plan = [command("add", ["true"], line={"path": f"{land}/f", "line": "b"}), file(f"{land}/f", "a\n")]
    assert machine.check(*plan) == ["change", "unknown"]


def test_what_is_undecided_is_unknown_in_a_check_and_a_failure_in_a_run(machine):
    wish = undecided("patches", after="environment", problem="there is no release", remedy="build it")
    assert machine.check(wish) == ["unknown"]
    assert machine.done[0]["detail"] == "after environment"
    assert machine.apply(wish) == ["failed"]
    assert machine.failure == "there is no release"


# archives


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wheel(land):
    """A wheel with a program and a module in it."""
    path = land / "tool-1.0-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        program = zipfile.ZipInfo("tool/run")
        program.external_attr = 0o755 << 16
        made.writestr(program, "#!/bin/sh\n")
        made.writestr("tool/module.py", "x = 1\n")
    return path


def tar(path, *members):
    with tarfile.open(path, "w:gz") as made:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                made.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                made.addfile(info)
    return path


def unpacked(land, source, **options):
    return archive(f"{land}/tool", str(source), [digest(source)], **options)


def test_a_wheel_is_unpacked_with_its_modes(machine, land, wheel):
    wish = unpacked(land, wheel)
    assert machine.check(wish) == ["change"]
    assert machine.apply(wish) == ["changed"]
    assert (land / "tool/tool/run").stat().st_mode & 0o777 == 0o755
    assert (land / "tool/tool/module.py").read_text() == "x = 1\n"
    assert machine.apply(wish) == ["ok"]
    assert sorted(path.name for path in land.iterdir()) == ["tool", wheel.name]


def test_a_tar_is_unpacked_too(machine, land):
    source = tar(land / "tool.tar.gz", ("d/f", b"text"), ("g", b""))
    assert machine.apply(unpacked(land, source)) == ["changed"]
    assert (land / "tool/d/f").read_text() == "text"


def test_the_source_may_be_a_pattern_and_any_of_the_hashes_will_do(machine, land, wheel):
    wish = archive(f"{land}/tool", f"{land}/tool-*.whl", ["0" * 64, digest(wheel)])
    assert machine.apply(wish) == ["changed"]


def test_of_many_sources_the_one_that_the_lock_names_is_taken(machine, land, wheel):
    (land / "tool-1.0-zz.whl").write_bytes(b"for another architecture")
    wish = archive(f"{land}/tool", f"{land}/tool-*.whl", [digest(wheel)])
    assert machine.apply(wish) == ["changed"]
    assert (land / "tool/tool/module.py").exists()


def test_a_source_that_is_not_there_is_said_with_what_to_do(machine, land):
    assert machine.apply(archive(f"{land}/tool", f"{land}/none-*.whl", ["0" * 64], remedy="fetch it")) == ["failed"]
    assert "is not on the machine" in machine.failure and machine.done[0]["remedy"] == "fetch it"


def test_a_source_with_another_hash_is_never_unpacked(machine, land, wheel):
    assert machine.apply(archive(f"{land}/tool", str(wheel), ["0" * 64])) == ["failed"]
    assert digest(wheel) in machine.failure
    assert not (land / "tool").exists()


def test_what_a_killed_unpacking_left_is_no_archive_and_goes(machine, land, wheel):
    (land / "tool.partial" / "old").mkdir(parents=True)
    assert machine.apply(unpacked(land, wheel)) == ["changed"]
    assert not (land / "tool" / "old").exists() and not (land / "tool.partial").exists()


def test_a_folder_that_was_not_unpacked_from_it_is_left_alone(machine, land, wheel):
    (land / "tool").mkdir()
    (land / "tool" / "mine").touch()
    for run in (machine.check, machine.apply):
        assert run(unpacked(land, wheel)) == ["failed"]
        assert "was not unpacked from this archive" in machine.failure
    assert (land / "tool" / "mine").exists()


def test_a_folder_from_another_archive_is_left_alone(machine, land, wheel):
    machine.apply(unpacked(land, wheel))
    assert machine.apply(archive(f"{land}/tool", str(wheel), ["1" * 64])) == ["failed"]


@pytest.mark.parametrize(
    "member",
    [
        ("../evil", b"x"),
        ("/tmp/evil-blackstart", b"x"),
        ("d/../../evil", b"x"),
        ("evil", (tarfile.SYMTYPE, "/etc")),
        ("evil", (tarfile.LNKTYPE, "/etc/passwd")),
        ("evil", (tarfile.CHRTYPE, "")),
    ],
)
def test_a_tar_that_leaves_its_folder_is_refused_whole(machine, land, member):
    source = tar(land / "tool.tar", ("good", b"x"), member)
    before = tree(land)
    assert machine.apply(unpacked(land, source)) == ["failed"]
    assert "evil" in machine.failure
    after = {path: what for path, what in tree(land).items() if not path.startswith("tool.partial")}
    assert after == before and not Path("/tmp/evil-blackstart").exists()


def members(path, *infos):
    with tarfile.open(path, "w") as made:
        for info, content in infos:
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return path


def test_what_is_unpacked_from_a_tar_is_roots_and_only_roots_to_change(machine, land):
    top, folder, program = tarfile.TarInfo("."), tarfile.TarInfo("bin"), tarfile.TarInfo("bin/tool")
    for info, mode in ((top, 0o1777), (folder, 0o2775), (program, 0o6777)):
        info.mode, info.uid, info.gid, info.uname, info.gname = mode, 1000, 1000, "daemon", "daemon"
    top.type = folder.type = tarfile.DIRTYPE
    os.chown(land, 0, 33)
    land.chmod(0o2755)
    source = members(land / "tool.tar", (top, b""), (folder, b""), (program, b"#!/bin/sh\n"))
    assert machine.apply(unpacked(land, source)) == ["changed"]
    for path in (land / "tool", *(land / "tool").rglob("*")):
        found = path.lstat()
        wished = 0o644 if path.name == ".sha256" else 0o755
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (0, 0, wished), path


def test_what_is_unpacked_from_a_wheel_is_only_roots_to_change(machine, land):
    source = land / "tool.whl"
    with zipfile.ZipFile(source, "w") as made:
        info = zipfile.ZipInfo("run")
        info.external_attr = 0o4777 << 16
        made.writestr(info, "x")
    machine.apply(unpacked(land, source))
    assert (land / "tool" / "run").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("how", ["his own folder", "a folder of root's", "a link"])
def test_what_is_put_in_the_place_of_the_folder_that_is_unpacked_in_is_not_written_to(
    machine, land, wheel, how, monkeypatch
):
    (land / "victim").mkdir()
    (land / "other").mkdir(mode=0o700)
    (land / "other" / "tool").symlink_to(land / "victim")
    if how == "his own folder":
        os.chown(land / "other", 1, 1)
    real = os.mkdir

    def swapped(path, *rest, **where):
        real(path, *rest, **where)
        if str(path).endswith("tool.partial"):
            (land / "tool.partial").rename(land / "away")
            if how == "a link":
                (land / "tool.partial").symlink_to(land / "victim")
            else:
                (land / "other").rename(land / "tool.partial")

    monkeypatch.setattr(os, "mkdir", swapped)
    assert machine.apply(unpacked(land, wheel)) == ["failed"]
    assert not list((land / "victim").iterdir()) and not (land / "tool").exists()


@pytest.mark.parametrize("how", ["replaced", "written over"])
def test_what_has_the_hash_is_what_is_unpacked(machine, land, wheel, how, monkeypatch):
    """Whoever may write where the archive lies does so once its hash was found to be right."""
    evil = land / "evil"
    with zipfile.ZipFile(evil, "w") as made:
        made.writestr("tool/module.py", "evil")
    wish = unpacked(land, wheel)
    real = archives.held

    def swap(folder, make=False):
        evil.rename(wheel) if how == "replaced" else wheel.write_bytes(evil.read_bytes())
        return real(folder, make)

    monkeypatch.setattr(archives, "held", swap)
    assert machine.apply(wish) == ["changed"]
    assert digest(wheel) not in wish.spec["sha256"], "the swap did not take place"
    assert (land / "tool/tool/module.py").read_text() == "x = 1\n"


def test_an_archive_that_cannot_be_written_down_is_not_put_in_its_place(machine, land, wheel, monkeypatch):
    monkeypatch.setattr(Store, "journal", full)
    assert machine.apply(unpacked(land, wheel)) == ["failed"]
    assert not (land / "tool").exists()


def test_a_wheel_that_leaves_its_folder_stays_inside(machine, land):
    source = land / "tool.whl"
    with zipfile.ZipFile(source, "w") as made:
        made.writestr("../evil", "x")
        made.writestr("/abs/evil", "x")
    machine.apply(unpacked(land, source))
    assert not (land / "evil").exists()
    assert (land / "tool" / "evil").exists() and (land / "tool" / "abs" / "evil").exists()


def test_an_archive_that_is_broken_is_said_to_be(machine, land):
    source = land / "tool.tar"
    source.write_bytes(b"no archive at all")
    assert machine.apply(unpacked(land, source)) == ["failed"]
    assert "cannot be unpacked" in machine.failure


def test_what_an_archive_holds_is_unknown(machine, land, wheel):
    plan = [unpacked(land, wheel), command("use", ["true"], creates=f"{land}/tool/tool/run"), absent(f"{land}/tool/d")]
    assert machine.check(*plan) == ["change", "unknown", "unknown"]


def test_the_missing_folders_on_the_way_to_what_a_command_makes_are_made_by_it_too(machine, land):
    """Were they taken for absent, `absent` would be called ok and then delete them."""
    make = command("make", ["sh", "-c", f"mkdir -p {land}/a/b && touch {land}/a/b/made"], creates=f"{land}/a/b/made")
    plan = [make, absent(f"{land}/a", recursive=True), make]
    assert machine.check(*plan) == ["change", "unknown", "change"]
    assert machine.apply(*plan) == ["changed", "changed", "changed"]
