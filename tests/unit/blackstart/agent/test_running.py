"""A command that outlives a killed agent is not started a second time beside itself."""

import json
import os
import subprocess
import sys
import time

import pytest

from blackstart.agent import running
from blackstart.agent.store import Held
from blackstart.paths import ROOT
from blackstart.resources import command, file

AGENT = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from blackstart.resources import command
from tests.unit.blackstart.agent.machine import Machine
Machine(Path({folder!r})).apply(command("work", {argv!r}))
"""


def wait_for(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.01)


def until(test):
    """Shell words that wait for a condition, though not for ever."""
    return f"for i in $(seq 1000); do [ {test} ] && break; sleep 0.01; done"


def note(machine):
    return machine.state / "running"


@pytest.fixture
def work(land):
    """A command that says when it starts and when it ends, which it does once `open` is there."""
    script = f"echo start >>{land}/log; {until(f'-e {land}/open')}; echo end >>{land}/log"
    yield ["sh", "-c", script]
    (land / "open").touch()


@pytest.fixture
def orphan(machine, land, work):
    """The note of the command of an agent that was killed; the command runs on."""
    code = AGENT.format(root=str(ROOT), folder=str(machine.root), argv=work)
    agent = subprocess.Popen([sys.executable, "-c", code])
    wait_for((land / "log").exists, "the command")
    wait_for(lambda: note(machine).exists() and note(machine).read_text().endswith("}"), "the note")
    agent.kill()
    agent.wait()
    return json.loads(note(machine).read_text())


def test_a_command_is_written_down_while_it_runs_and_only_then(machine, land):
    copied = land / "copied"
    script = f"{until(f'-s {note(machine)}')}; cp {note(machine)} {copied}; echo $$"
    machine.apply(command("work", ["sh", "-c", script], capture=True))
    written = json.loads(copied.read_text())
    assert (written["pid"], written["program"]) == (int(machine.done[0]["detail"]), "sh")
    assert not note(machine).exists()


def test_a_command_that_outlived_its_agent_is_not_run_twice_at_once(machine, land, work, orphan, monkeypatch):
    monkeypatch.setattr(running, "WAIT_S", 0)
    with pytest.raises(Held) as caught:
        machine.apply(command("work", work))
    assert caught.value.holder["controller"] == f"what a dead run left running: process {orphan['pid']}, sh"
    assert caught.value.holder["since"] == orphan["since"]
    assert (land / "log").read_text() == "start\n"
    assert machine.check(command("work", work)) == ["change"], "a check needs no lock"


def test_a_command_that_outlived_its_agent_is_waited_for(machine, land, work, orphan, monkeypatch):
    def sleep(seconds):
        (land / "open").touch()
        os.sched_yield()

    monkeypatch.setattr(running.time, "sleep", sleep)
    assert machine.apply(command("work", work)) == ["changed"]
    assert (land / "log").read_text() == "start\nend\nstart\nend\n"
    assert not note(machine).exists()


def test_what_a_command_leaves_running_when_it_ends_is_not_waited_for(machine, land):
    daemon = f"{{ {until(f'-e {land}/open')}; }} & echo $!"
    machine.apply(command("start it", ["sh", "-c", daemon], capture=True))
    try:
        assert machine.apply(file(f"{land}/f", "x")) == ["changed"]
    finally:
        (land / "open").touch()


@pytest.mark.parametrize("text", ["", "{", json.dumps({"pid": os.getpid(), "began": "1"})])
def test_a_torn_note_and_one_about_a_process_of_another_time_hold_nobody_up(machine, land, text):
    machine.state.mkdir()
    note(machine).write_text(text)
    assert machine.apply(file(f"{land}/f", "x")) == ["changed"]
    assert not note(machine).exists()


def test_a_program_that_is_dead_and_not_yet_buried_holds_nobody_up(machine, land):
    machine.state.mkdir()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as dying:
        running.write_down(str(note(machine)), dying.pid, "cat")
        dying.stdin.close()
        wait_for(lambda: running._began(dying.pid) is None, "its death")
        assert machine.apply(file(f"{land}/f", "x")) == ["changed"]


def test_a_note_that_cannot_be_written_stops_nothing(machine, land):
    note(machine).mkdir(parents=True)
    running.write_down(str(note(machine)), os.getpid(), "sh")
