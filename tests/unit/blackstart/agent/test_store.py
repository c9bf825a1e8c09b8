import json
import os
import signal
import subprocess
import sys

import pytest

from blackstart.agent import store as module
from blackstart.agent.store import Held, Store
from blackstart.agent.world import sha256
from blackstart.paths import ROOT

from .machine import release


@pytest.fixture
def store(tmp_path):
    store = Store(str(tmp_path / "state"), "ada@desk pid 1")
    yield store
    release(store)


def locked(tmp_path, controller="bob@hut pid 2"):
    other = Store(str(tmp_path / "state"), controller)
    other.lock()
    return other


# the lock


def test_a_store_that_is_not_locked_leaves_nothing_behind(store, tmp_path):
    assert store.owed() == {}
    store.set_owed({})
    assert not (tmp_path / "state").exists()


def test_the_state_folder_is_for_root_alone(store, tmp_path):
    store.lock()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "lock").stat().st_mode & 0o777 == 0o600


def test_a_second_controller_is_told_who_holds_the_lock_and_since_when(store, tmp_path):
    other = locked(tmp_path)
    with pytest.raises(Held) as caught:
        store.lock()
    assert caught.value.holder["controller"] == "bob@hut pid 2"
    assert caught.value.holder["pid"] == os.getpid()
    assert caught.value.holder["since"].endswith("Z")
    release(other)
    store.lock()


def test_a_lock_is_taken_once(store):
    store.lock()
    store.lock()


def test_a_dead_holders_lock_is_free_and_its_name_is_replaced(store, tmp_path):
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from blackstart.agent.store import Store
Store({str(tmp_path / "state")!r}, "a controller with a much longer name than the next").lock()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=20).returncode == -signal.SIGKILL
    store.lock()
    assert json.loads((tmp_path / "state" / "lock").read_text())["controller"] == "ada@desk pid 1"


def test_a_lock_whose_file_is_removed_is_held_all_the_same(store, tmp_path):
    other = locked(tmp_path)
    (tmp_path / "state" / "lock").unlink()
    with pytest.raises(Held) as caught:
        store.lock()
    assert caught.value.holder == {}
    release(other)
    store.lock()


@pytest.mark.parametrize("name", ["", "lock"])
def test_what_was_put_aside_while_it_was_being_locked_is_not_what_is_locked(store, tmp_path, monkeypatch, name):
    place, aside = tmp_path / "state" / name, tmp_path / "aside"
    release(locked(tmp_path))
    real = module.fcntl.flock

    def flock(handle, how):
        if not aside.exists() and os.path.samestat(os.fstat(handle), place.stat()):
            place.rename(aside)
            (tmp_path / "state").mkdir(exist_ok=True)
        real(handle, how)

    monkeypatch.setattr(module.fcntl, "flock", flock)
    store.lock()
    assert json.loads((tmp_path / "state" / "lock").read_text())["controller"] == "ada@desk pid 1"
    with pytest.raises(Held):
        locked(tmp_path)


def test_the_lock_is_not_inherited_by_what_the_agent_starts(store, tmp_path):
    store.lock()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    release(store)
    try:
        release(locked(tmp_path))
    finally:
        child.communicate()


def test_what_a_dead_holder_wrote_is_not_taken_for_the_new_ones_word(store, tmp_path, monkeypatch):
    """Between taking the lock and writing its name a new holder has a moment in which the old name stands there."""
    other = locked(tmp_path)
    place = tmp_path / "state" / "lock"
    written = place.read_bytes()
    dead = subprocess.Popen(["true"])
    dead.wait()
    place.write_text(json.dumps({"controller": "long gone", "pid": dead.pid, "since": "2020-01-01T00:00:00Z"}))
    monkeypatch.setattr("blackstart.agent.store.time.sleep", lambda seconds: place.write_bytes(written))
    with pytest.raises(Held) as caught:
        store.lock()
    assert caught.value.holder["controller"] == "bob@hut pid 2"
    release(other)


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_a_holder_that_has_not_written_its_name_yet_holds_all_the_same(store, tmp_path, content):
    other = locked(tmp_path)
    (tmp_path / "state" / "lock").write_bytes(content)
    with pytest.raises(Held) as caught:
        store.lock()
    assert caught.value.holder == {}
    release(other)


# journal and kept contents


def test_a_torn_line_of_the_journal_costs_that_line_only(store, tmp_path):
    store.lock()
    path = tmp_path / "state" / "journal.jsonl"
    path.write_text('{"at":"2026-01-01T00:00:00Z","b')
    store.journal(resource="file /f", after="1")
    store.journal(resource="file /g", after="2")
    torn, *whole = path.read_text().splitlines()
    assert torn == '{"at":"2026-01-01T00:00:00Z","b'
    assert [json.loads(line)["resource"] for line in whole] == ["file /f", "file /g"]


def test_the_journal_is_one_json_line_a_change_and_grows(store, tmp_path):
    store.lock()
    store.journal(resource="file /f", after="1")
    store.journal(resource="file /g", text="two\nlines")
    path = tmp_path / "state" / "journal.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["resource"] for entry in entries] == ["file /f", "file /g"]
    assert {entry["by"] for entry in entries} == {"ada@desk pid 1"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_contents_are_kept_once_under_their_hash(store, tmp_path):
    store.lock()
    for _ in range(2):
        store.keep(sha256(b"old"), b"old")
    (path,) = (tmp_path / "state" / "replaced").iterdir()
    assert (path.name, path.read_bytes(), path.stat().st_mode & 0o777) == (sha256(b"old"), b"old", 0o600)


def test_the_oldest_contents_go_first(store, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 3)
    store.lock()
    for number in range(5):
        content = b"%d" % number
        store.keep(sha256(content), content)
        os.utime(tmp_path / "state" / "replaced" / sha256(content), (number, number))
    kept = {path.read_bytes() for path in (tmp_path / "state" / "replaced").iterdir()}
    assert kept == {b"2", b"3", b"4"}


# handlers that are owed


def test_what_is_owed_is_remembered_until_it_is_done(store, tmp_path):
    store.lock()
    store.set_owed({"restart x": {"handler": {"unit": "x.service"}}})
    assert Store(str(tmp_path / "state"), "next").owed() == {"restart x": {"handler": {"unit": "x.service"}}}
    store.set_owed({})
    assert store.owed() == {}
