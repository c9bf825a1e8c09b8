import os
import signal
import subprocess
import sys

import pytest

from blackstart.agent.atomic import TEMPORARY, write_atomically
from blackstart.paths import ROOT


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_write_replaces_the_whole_content_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "f"
    path.write_text("a longer old content")
    write_atomically(str(path), b"new", 0o640, (1, 1))
    status = path.stat()
    assert path.read_bytes() == b"new"
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 1, 1)
    assert names(tmp_path) == ["f"]


def test_a_write_is_a_new_file_so_that_who_reads_the_old_one_reads_it_to_its_end(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    with path.open() as reader:
        write_atomically(str(path), b"new", 0o644, None)
        assert reader.read() == "old"


def test_what_killed_writes_left_of_this_file_is_removed_and_nothing_else(tmp_path):
    for name in (f".f.abc{TEMPORARY}", f".f.xyz{TEMPORARY}", f".g.abc{TEMPORARY}", ".f.mine", f"f{TEMPORARY}"):
        (tmp_path / name).write_text("half")
    write_atomically(str(tmp_path / "f"), b"new", 0o644, None)
    assert names(tmp_path) == sorted([".f.mine", f".g.abc{TEMPORARY}", "f", f"f{TEMPORARY}"])


def test_a_write_that_fails_leaves_the_old_content_and_nothing_beside_it(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "inside").touch()
    with pytest.raises(OSError):
        write_atomically(str(tmp_path / "d"), b"new", 0o644, None)
    assert names(tmp_path) == ["d"]


KILLED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from blackstart.agent import atomic
kill = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
if {where!r} == "write":
    os.fsync = kill
else:
    os.rename = kill
atomic.write_atomically({path!r}, b"new", 0o644, None)
"""


@pytest.mark.parametrize("where", ["write", "rename"])
def test_a_write_that_is_killed_leaves_the_old_content_and_the_next_one_clears_up(tmp_path, where):
    path = tmp_path / "f"
    path.write_text("old")
    code = KILLED.format(root=str(ROOT), where=where, path=str(path))
    ran = subprocess.run([sys.executable, "-c", code], timeout=20)
    assert ran.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert len(names(tmp_path)) == 2
    write_atomically(str(path), b"new", 0o644, None)
    assert path.read_text() == "new" and names(tmp_path) == ["f"]


def test_a_write_has_reached_the_disk_before_it_gets_its_name_and_its_name_before_it_is_done(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *arguments, name=name, real=real: (done.append(name), real(*arguments)))
    write_atomically(str(tmp_path / "f"), b"new", 0o644, None)
    assert done == ["fsync", "rename", "fsync"]


def test_mode_and_owner_that_are_left_open_are_not_touched(tmp_path, monkeypatch):
    """On /etc/pve the file system owns them and refuses every call."""

    def refuse(*arguments):
        raise PermissionError

    monkeypatch.setattr(os, "fchmod", refuse)
    monkeypatch.setattr(os, "fchown", refuse)
    write_atomically(str(tmp_path / "f"), b"new", None, None)
    assert (tmp_path / "f").read_bytes() == b"new"
