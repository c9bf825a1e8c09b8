import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from blackstart.agent import jobs, store
from blackstart.agent.converge import Run
from blackstart.agent.run import Ran
from blackstart.agent.store import Store
from blackstart.plan import Section, State, plan_to_wire
from blackstart.resources import directory, file, job
from tests.waiting import wait_for

from .machine import Listening, release

# A job is let go on purpose: it is to outlive what started it.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


@pytest.fixture(autouse=True)
def _without_systemd(monkeypatch, tmp_path):
    """Jobs as on a machine without systemd; with it they are tried in the sandbox."""
    monkeypatch.setattr(jobs, "has_systemd", lambda: False)
    monkeypatch.setattr(store, "CREDENTIALS", str(tmp_path / "credentials"))
    monkeypatch.setattr(jobs, "POLL_S", 0.01)


def folder(machine, wish):
    return machine.state / "jobs" / wish.spec["job"]


def kill(machine, wish):
    """Kill a job with all it started at one blow, lest the wrapper tell how the program died, and see it dead."""
    pid = next(iter(wait_for(lambda: living(machine, wish), "the job's processes")))
    os.killpg(os.getpgid(pid), signal.SIGKILL)
    wait_for(lambda: not living(machine, wish), "the job's death")


def living(machine, wish):
    """The processes that hold a job's lock."""
    lock = str(folder(machine, wish) / "alive")
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) == lock and link.parts[2] != str(os.getpid()):
                found.add(int(link.parts[2]))
    return found


def said(machine):
    return [event["line"] for event in machine.events if event["e"] == "output"]


@pytest.fixture
def gate(land):
    """A job that has begun and ends once `open` is called; it counts its runs."""
    os.mkfifo(land / "gate")
    script = f"echo begun; echo run >>{land}/runs; read answer <{land}/gate; echo got $answer; exit ${{answer:-1}}"

    class Gate:
        wish = job("long work", ["sh", "-c", script])

        def open(self, answer="0"):
            (land / "gate").write_text(f"{answer}\n")

        def runs(self):
            return (land / "runs").read_text().count("run") if (land / "runs").exists() else 0

    return Gate()


def apply_in_background(machine, wish):
    """A run with a controller of its own; returns (thread, wire, events)."""
    plan = plan_to_wire(
        [Section("role", "box", (), "", State([wish, directory(str(machine.root / "after"))]))],
        check=False,
        restart=False,
        empty=False,
    )
    machine.root.joinpath("wire").mkdir(exist_ok=True)
    listening = Listening(machine.root / "wire")
    wire = listening.__enter__()
    own = Store(str(machine.state), "tester")

    def carry_out():
        try:
            Run(plan, wire, own).execute()
        finally:
            release(own)

    thread = threading.Thread(target=carry_out)
    thread.start()
    return thread, wire, listening


# from start to end


def test_a_job_runs_once_and_its_log_is_passed_on(machine, land):
    wish = job("build", ["sh", "-c", f"echo one; echo two >&2; echo run >>{land}/runs"])
    assert machine.check(wish) == ["change"]
    assert not machine.state.exists()
    assert machine.apply(wish) == ["changed"]
    assert said(machine) == ["one", "two"]
    assert machine.apply(wish) == ["ok"]
    assert machine.check(wish) == ["ok"]
    assert (land / "runs").read_text() == "run\n"


def test_what_a_job_creates_is_what_counts(machine, land):
    wish = job("build", ["touch", f"{land}/made"], creates=f"{land}/made")
    assert machine.apply(wish) == ["changed"]
    assert machine.apply(wish) == ["ok"]
    (land / "made").unlink()
    assert machine.apply(wish) == ["changed"]
    assert (land / "made").exists()


def test_a_job_that_does_not_create_what_it_should_has_failed(machine, land):
    assert machine.apply(job("build", ["true"], creates=f"{land}/made")) == ["failed"]
    assert "is not there" in machine.failure


def test_failed_work_shows_its_last_lines_and_is_tried_anew(machine, land):
    wish = job("build", ["sh", "-c", f"echo run >>{land}/runs; seq 30; exit 3"], remedy="look there")
    assert machine.apply(wish) == ["failed"]
    assert machine.failure == "the job ended with 3\n" + "\n".join(map(str, range(19, 31)))
    assert machine.done[0]["remedy"] == "look there"
    assert machine.apply(wish) == ["failed"]
    assert (land / "runs").read_text() == "run\nrun\n"


def test_words_and_environment_reach_the_program_as_they_are(machine, land):
    words = ["a b", "$HOME", "it's", "*", "new\nline"]
    wish = job("show", ["sh", "-c", f'printf "<%s>" "$@" "$ODD" >{land}/out', "sh", *words], env={"ODD": "x $y 'z'\n"})
    assert machine.apply(wish) == ["changed"]
    assert (land / "out").read_text() == "<a b><$HOME><it's><*><new\nline><x $y 'z'\n>"


def test_a_jobs_folder_is_for_root_alone(machine):
    wish = job("build", ["true"])
    machine.apply(wish)
    assert folder(machine, wish).stat().st_mode & 0o777 == 0o700
    assert (folder(machine, wish) / "exit").read_text() == "0\n"


def test_what_a_job_makes_is_unknown_in_a_check(machine, land):
    wish = job("build", ["true"], creates=f"{land}/env/marker", provides=[f"{land}/env"])
    assert machine.check(wish, file(f"{land}/env/f", "x")) == ["change", "unknown"]


# secrets


def test_a_secret_reaches_the_job_as_a_file_and_nothing_else_holds_it(machine, land):
    script = f'cat "$CREDENTIALS_DIRECTORY/token" >{land}/seen; env >{land}/env; stat -c %a "$CREDENTIALS_DIRECTORY"'
    wish = job("fetch", ["sh", "-c", script], credentials={"token": "hunter22"})
    assert machine.apply(wish) == ["changed"]
    assert (land / "seen").read_text() == "hunter22"
    assert "hunter22" not in (land / "env").read_text()
    assert said(machine) == ["700"]
    assert not list((machine.root / "credentials").iterdir()), "the secret outlived the job"
    left = [path for path in machine.state.rglob("*") if path.is_file() and b"hunter22" in path.read_bytes()]
    assert not left and "hunter22" not in str(machine.events)


# controllers that come and go


def test_a_controller_that_goes_leaves_the_job_running_and_the_next_one_attaches(machine, gate):
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for(lambda: gate.runs() == 1, "the job's start")
    wire.hang_up()
    thread.join(20)
    assert not thread.is_alive(), "the agent waits for a controller that is gone"
    listening.__exit__()
    assert not (machine.root / "after").exists(), "more was done for nobody"
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for(lambda: any(event.get("line") == "begun" for event in wire.events()), "the second one to attach")
    gate.open()
    thread.join(20)
    listening.__exit__()
    assert [event["state"] for event in wire.events() if event["e"] == "done"] == ["changed", "changed"]
    assert [event["line"] for event in wire.events() if event["e"] == "output"] == ["begun", "got 0"]
    assert gate.runs() == 1


def test_work_that_ended_while_nobody_looked_is_not_repeated(machine, gate):
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for(lambda: gate.runs() == 1, "the job's start")
    wire.hang_up()
    thread.join(20)
    listening.__exit__()
    gate.open()
    wait_for((folder(machine, gate.wish) / "exit").exists, "the job's end")
    assert machine.apply(gate.wish) == ["ok"]
    assert gate.runs() == 1


def test_a_lost_job_is_never_taken_for_done_and_is_started_anew(machine, gate):
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for(lambda: gate.runs() == 1, "the job's start")
    wire.hang_up()
    thread.join(20)
    listening.__exit__()
    kill(machine, gate.wish)
    assert machine.check(gate.wish) == ["change"]
    opener = threading.Thread(target=gate.open)
    opener.start()
    assert machine.apply(gate.wish) == ["changed"]
    opener.join()
    assert gate.runs() == 2
    assert said(machine)[0] == "the job was lost half-way; it is started anew"


def test_a_job_that_was_lost_after_it_made_what_it_creates_is_not_done(machine, gate, land):
    """Whether what stands there is whole, only its end could say."""
    wish = job("long work", gate.wish.spec["argv"], creates=str(land / "runs"))
    thread, wire, listening = apply_in_background(machine, wish)
    wait_for(lambda: gate.runs() == 1, "the job's start")
    assert machine.check(wish) == ["change"], "it is still at work"
    wire.hang_up()
    thread.join(20)
    listening.__exit__()
    kill(machine, wish)
    assert machine.check(wish) == ["change"]
    opener = threading.Thread(target=gate.open)
    opener.start()
    assert machine.apply(wish) == ["changed"]
    opener.join()
    assert gate.runs() == 2
    assert machine.apply(wish) == ["ok"]


def test_a_job_that_is_killed_while_it_is_watched_is_lost(machine, gate):
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for(lambda: gate.runs() == 1, "the job's start")
    kill(machine, gate.wish)
    thread.join(20)
    assert not thread.is_alive()
    listening.__exit__()
    (failed,) = [event for event in wire.events() if event.get("state") == "failed"]
    assert failed["detail"].startswith("the job was lost")


def test_a_lock_that_nobody_holds_is_no_job(machine):
    wish = job("build", ["true"])
    machine.apply(wish)
    (folder(machine, wish) / "exit").unlink()
    assert machine.apply(wish) == ["changed"]
    assert said(machine)[0] == "the job was lost half-way; it is started anew"


def test_a_job_lives_from_before_it_begins(machine, gate, monkeypatch):
    """An agent that dies right after the start must not leave a second one to start the same job again."""
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for((folder(machine, gate.wish) / "alive").exists, "the start")
    assert wait_for(lambda: living(machine, gate.wish), "the job")
    wire.hang_up()
    thread.join(20)
    listening.__exit__()
    kill(machine, gate.wish)


def test_what_a_job_leaves_running_does_not_keep_it_alive(machine, land):
    """A daemon inherits the lock; the job's own end is its `exit` file."""
    wish = job("leaves a daemon", ["sh", "-c", f"sleep 60 & echo $! >{land}/daemon; exit 3"])
    try:
        for _ in range(2):
            assert machine.apply(wish) == ["failed"]
            assert machine.failure.startswith("the job ended with 3")
    finally:
        for pid in living(machine, wish) | {int((land / "daemon").read_text())}:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "a log", "a lock"])
def test_what_a_killed_start_left_is_started_anew(machine, left):
    wish = job("build", ["echo", "done"])
    if left != "nothing":
        folder(machine, wish).mkdir(parents=True)
    if left in ("a log", "a lock"):
        (folder(machine, wish) / "log").touch()
    if left == "a lock":
        (folder(machine, wish) / "run").touch()
        (folder(machine, wish) / "alive").touch()
    assert machine.apply(wish) == ["changed"]
    assert said(machine)[-1] == "done"


@pytest.mark.parametrize("content", ["", "zero\n"])
def test_a_damaged_exit_status_is_named(machine, land, content):
    wish = job("build", ["sh", "-c", f"echo run >>{land}/runs"])
    machine.apply(wish)
    place = folder(machine, wish) / "exit"
    place.write_text(content)
    for run in (machine.check, machine.apply):
        assert run(wish) == ["failed"]
        assert machine.failure == f"{place} is damaged: it holds no exit status"
        assert "move it away" in machine.done[0]["remedy"]
    place.rename(machine.root / "away")
    assert machine.apply(wish) == ["changed"]


def test_silence_is_told_from_progress(machine, gate, monkeypatch):
    monkeypatch.setattr(jobs, "STALL_S", 0.05)
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for(lambda: any("silent" in event.get("line", "") for event in wire.events()), "a word about the silence")
    gate.open()
    thread.join(20)
    listening.__exit__()
    assert wire.events()[-1]["state"] == "changed"


# with systemd


class Systemd:
    """systemd-run and systemctl, on one transient unit that is only a process; `silent` says how often none answers."""

    def __init__(self):
        self.process = None
        self.silent = 0
        self.asked = 0
        self.refuses = ""
        self.launches = True

    def lives(self):
        return self.process is not None and self.process.poll() is None

    def run(self, argv):
        if argv[0] == "systemd-run":
            if self.launches and not self.lives():
                self.process = subprocess.Popen(argv[-2:], stdin=subprocess.DEVNULL, start_new_session=True)
            return Ran(1, self.refuses) if self.refuses else Ran(0, "")
        assert argv[:2] == ["systemctl", "show"]
        self.asked += 1
        if self.silent > 0:
            self.silent -= 1
            return Ran(1, "Failed to get properties: Connection reset by peer\n")
        return Ran(0, "active\n" if self.lives() else "inactive\n")


@pytest.fixture
def systemd(monkeypatch):
    systemd = Systemd()
    monkeypatch.setattr(jobs, "has_systemd", lambda: True)
    monkeypatch.setattr(jobs, "run", systemd.run)
    yield systemd
    if systemd.lives():
        os.killpg(systemd.process.pid, signal.SIGKILL)
    if systemd.process is not None:
        systemd.process.wait()


def watched(machine, systemd, gate):
    """A run that watches the gate's job, which has begun."""
    background = apply_in_background(machine, gate.wish)
    wait_for(lambda: gate.runs() == 1, "the job's start")
    asked = systemd.asked
    wait_for(lambda: systemd.asked > asked, "a look at the job")
    return background


def test_a_transient_unit_is_a_job(machine, systemd, land):
    wish = job("build", ["sh", "-c", f"echo one; echo run >>{land}/runs"])
    assert machine.apply(wish) == ["changed"]
    assert said(machine) == ["one"]
    assert machine.apply(wish) == ["ok"]


def test_a_job_that_systemd_says_nothing_about_for_a_moment_is_not_lost(machine, systemd, gate):
    thread, wire, listening = watched(machine, systemd, gate)
    systemd.silent = 5
    wait_for(lambda: systemd.silent == 0, "the end of the silence")
    gate.open()
    thread.join(20)
    listening.__exit__()
    assert wire.events()[-1]["state"] == "changed"
    assert gate.runs() == 1


def test_a_job_that_systemd_goes_on_saying_nothing_about_is_neither_lost_nor_removed(
    machine, systemd, gate, monkeypatch
):
    monkeypatch.setattr(jobs, "ANSWER_S", 0.05)
    thread, wire, listening = watched(machine, systemd, gate)
    systemd.silent = 1 << 30
    thread.join(20)
    assert not thread.is_alive()
    listening.__exit__()
    (failed,) = [event for event in wire.events() if event.get("state") == "failed"]
    assert failed["detail"].startswith("systemd does not say whether the job is at work")
    before = sorted(path.name for path in folder(machine, gate.wish).iterdir())
    assert machine.apply(gate.wish) == ["failed"]
    assert machine.failure.startswith("systemd does not say whether the job is at work")
    assert sorted(path.name for path in folder(machine, gate.wish).iterdir()) == before
    systemd.silent = 0
    gate.open()
    wait_for(lambda: not systemd.lives(), "the job's end")
    assert machine.apply(gate.wish) == ["ok"]
    assert gate.runs() == 1


def test_a_job_that_ends_while_systemd_says_nothing_has_ended(machine, systemd, gate):
    thread, wire, listening = watched(machine, systemd, gate)
    systemd.silent = 1 << 30
    gate.open("3")
    thread.join(20)
    assert not thread.is_alive()
    listening.__exit__()
    (failed,) = [event for event in wire.events() if event.get("state") == "failed"]
    assert failed["detail"].startswith("the job ended with 3")


def test_who_waits_for_systemds_word_leaves_with_its_controller(machine, systemd, gate):
    thread, wire, listening = watched(machine, systemd, gate)
    systemd.silent = 1 << 30
    wire.hang_up()
    thread.join(20)
    assert not thread.is_alive()
    listening.__exit__()
    assert not [event for event in wire.events() if event["e"] == "done"]


def test_a_job_that_ends_between_two_looks_is_not_begun_again(machine, systemd, land, monkeypatch):
    wish = job("build", ["sh", "-c", f"echo run >>{land}/runs"])
    machine.apply(wish)
    ended = folder(machine, wish) / "exit"
    aside = ended.rename(land / "exit")

    def run(argv):
        if not ended.exists():
            aside.rename(ended)
        return systemd.run(argv)

    monkeypatch.setattr(jobs, "run", run)
    assert machine.apply(wish) == ["changed"]
    assert (land / "runs").read_text() == "run\n"


def test_a_unit_that_is_there_already_is_attached_to(machine, systemd, land):
    """What a killed run was about to start, or a start whose answer was lost."""
    systemd.refuses = "Failed to start transient service unit: Unit already exists.\n"
    wish = job("build", ["sh", "-c", f"echo one; echo run >>{land}/runs; cat $CREDENTIALS_DIRECTORY/token; echo"])
    wish.spec["credentials"] = {"token": "hunter22"}
    assert machine.apply(wish) == ["changed"]
    assert said(machine) == ["one", "hunter22"]
    assert (land / "runs").read_text() == "run\n"


# what is left of secrets


def secrets_left(machine):
    place = machine.root / "credentials"
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


def test_a_job_that_cannot_be_started_leaves_no_secret(machine, systemd):
    systemd.launches, systemd.refuses = False, "Failed to connect to bus\n"
    assert machine.apply(job("fetch", ["true"], credentials={"token": "hunter22"})) == ["failed"]
    assert machine.failure == "the job could not be started\nFailed to connect to bus"
    assert secrets_left(machine) == []


def test_a_start_that_fails_leaves_no_secret(machine, monkeypatch):
    def no_room(*arguments, **options):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(jobs.subprocess, "Popen", no_room)
    assert machine.apply(job("fetch", ["true"], credentials={"token": "hunter22"})) == ["failed"]
    assert secrets_left(machine) == []


def test_a_lost_job_leaves_no_secret(machine):
    wish = job("fetch", ["sh", "-c", "kill -9 $PPID"], credentials={"token": "hunter22"})
    assert machine.apply(wish) == ["failed"]
    assert machine.failure.startswith("the job was lost")
    assert secrets_left(machine) == []


def test_the_next_run_clears_up_the_secrets_of_jobs_that_are_dead_and_of_no_others(machine, gate, land):
    gate.wish.spec["credentials"] = {"token": "hunter22"}
    thread, wire, listening = apply_in_background(machine, gate.wish)
    wait_for(lambda: gate.runs() == 1, "the job's start")
    wire.hang_up()
    thread.join(20)
    listening.__exit__()
    name = gate.wish.spec["job"]
    (machine.root / "credentials" / "of another store").mkdir()
    assert machine.apply(directory(f"{land}/d")) == ["changed"]
    assert secrets_left(machine) == [name, "of another store"], "a job that lives needs them"
    kill(machine, gate.wish)
    machine.check(directory(f"{land}/d"))
    assert secrets_left(machine) == [name, "of another store"], "a check changes nothing"
    assert machine.apply(directory(f"{land}/d")) == ["ok"]
    assert secrets_left(machine) == ["of another store"]


def test_secrets_of_a_job_that_systemd_says_nothing_about_stay(machine, systemd, gate, land):
    gate.wish.spec["credentials"] = {"token": "hunter22"}
    thread, wire, listening = watched(machine, systemd, gate)
    wire.hang_up()
    thread.join(20)
    listening.__exit__()
    systemd.silent = 1
    assert machine.apply(directory(f"{land}/d")) == ["changed"]
    assert secrets_left(machine) == [gate.wish.spec["job"]]
