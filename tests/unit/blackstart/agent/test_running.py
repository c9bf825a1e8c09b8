"""A command that outlives a killed agent is not started a second time beside itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blackstart.agent import running
from blackstart.agent.run import Ran, run
from blackstart.agent.store import Held, now
from blackstart.paths import ROOT
from blackstart.resources import command, file
from tests.waiting import wait_for

AGENT = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from blackstart.resources import command
from tests.unit.blackstart.agent.machine import Machine
Machine(Path({folder!r})).apply(command("work", {argv!r}))
"""


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
    agent.kill()
    agent.wait()
    return int(note(machine).read_text().split()[0])


def test_a_command_is_written_down_while_it_runs_and_only_then(machine, land):
    copied = land / "copied"
    machine.apply(command("work", ["sh", "-c", f"cp {note(machine)} {copied}; echo $$"], capture=True))
    assert copied.read_text().split()[0] == machine.done[0]["detail"].strip()
    assert not note(machine).exists()


def test_a_command_that_outlived_its_agent_is_not_run_twice_at_once(machine, land, work, orphan, monkeypatch):
    monkeypatch.setattr(running, "WAIT_S", 0)
    with pytest.raises(Held) as caught:
        machine.apply(command("work", work))
    assert caught.value.holder["controller"] == f"what a dead run left running: process {orphan}, sh"
    assert caught.value.holder["since"] <= now()
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


@pytest.mark.parametrize(
    "text", ["", "{", "12", f"{os.getpid()}", f"{os.getpid()} (sh) S 1", f"{os.getpid()} (sh) " + "1 " * 40]
)
def test_a_torn_note_and_one_about_a_process_of_another_time_hold_nobody_up(machine, land, text):
    machine.state.mkdir()
    note(machine).write_text(text.replace("{pid}", str(os.getpid())))
    assert machine.apply(file(f"{land}/f", "x")) == ["changed"]
    assert not note(machine).exists()


def test_a_program_that_is_dead_and_not_yet_buried_holds_nobody_up(machine, land):
    machine.state.mkdir()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as dying:
        stat = Path(f"/proc/{dying.pid}/stat")
        note(machine).write_text(stat.read_text())
        dying.stdin.close()
        wait_for(lambda: stat.read_text().split()[2] == "Z", "its death")
        assert machine.apply(file(f"{land}/f", "x")) == ["changed"]


def test_a_note_that_cannot_be_written_stops_nothing(machine, land):
    note(machine).mkdir(parents=True)
    ran = run(running.noted(["echo", "a b", "$x"], str(note(machine))))
    assert ran == Ran(0, "a b $x\n")


def test_a_program_that_is_not_there_is_said(machine):
    assert machine.apply(command("work", ["no-such-program"])) == ["failed"]
    assert "no-such-program" in machine.failure and "127" in machine.failure
