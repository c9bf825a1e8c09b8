import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from blackstart.agent.run import KEPT_OUTPUT, Ran, run
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def _deadline():
    """A run that hangs is a failure with a name, not a suite that never ends."""
    hung = threading.Timer(90, os._exit, (70,))
    hung.daemon = True
    hung.start()
    yield
    hung.cancel()


def ended(pid, within_s):
    """Whether a process is gone, or dead and only not yet buried, before the deadline."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
    return False


def test_output_and_errors_come_together_with_the_status():
    assert run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == Ran(3, "out\nerr\n")


def test_a_program_that_is_not_there_is_127():
    ran = run(["/no/such/program"])
    assert ran.status == 127 and "No such file" in ran.output


def test_a_program_that_is_killed_has_the_shells_status():
    assert run(["sh", "-c", "kill -9 $$"]).status == 137


def test_words_are_handed_on_as_they_are():
    assert run([sys.executable, "-c", "import sys; print(sys.argv[1:])", "a b", "$HOME", "*"]).output == (
        "['a b', '$HOME', '*']\n"
    )


def test_the_environment_is_clean_but_for_what_is_given(monkeypatch):
    monkeypatch.setenv("LEAKED", "1")
    names = run(["env"], env={"GIVEN": "1"}).output.splitlines()
    assert {name.split("=")[0] for name in names} == {"PATH", "HOME", "LANG", "GIVEN"}


def test_a_program_runs_where_it_is_told(tmp_path):
    assert run(["pwd"]).output == "/\n"
    assert run(["pwd"], cwd=str(tmp_path)).output == f"{tmp_path}\n"


def test_stdin_is_fed_and_ends():
    assert run(["cat"], stdin="täxt").output == "täxt"
    assert run(["cat"]).output == ""


def test_a_program_gets_all_of_its_input_though_the_agent_dies(tmp_path):
    """Half of an input that ends like a whole one would be taken for it."""
    text = "line\n" * 200_000
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from blackstart.agent.run import run
run(["sh", "-c", "touch {tmp_path}/begun; until [ -e {tmp_path}/dead ]; do sleep 0.01; done; cat >{tmp_path}/got; "
     "touch {tmp_path}/ended"], stdin="line\\n" * 200_000)
"""
    agent = subprocess.Popen([sys.executable, "-c", code])
    wait_for((tmp_path / "begun").exists, "the program")
    agent.kill()
    agent.wait()
    (tmp_path / "dead").touch()
    wait_for((tmp_path / "ended").exists, "the program's end")
    assert (tmp_path / "got").read_text() == text


def test_a_program_that_talks_while_it_is_fed_does_not_lock_up():
    text = "x" * 100 + "\n"
    ran = run(["cat"], stdin=text * 10_000)
    assert ran.status == 0 and ran.output.endswith(text * 2)


def test_a_program_that_wants_no_input_ends_by_its_own_word():
    assert run(["sh", "-c", "exec <&-; echo done; exit 4"], stdin="x" * 1_000_000) == Ran(4, "done\n")


def test_lines_are_passed_on_as_they_come():
    heard = []
    run(["printf", "one\\ntwo\\nthree"], on_line=heard.append)
    assert heard == ["one", "two", "three"]


def test_output_that_is_no_text_does_no_harm():
    assert run(["printf", "\\377x\\n"]).output == "\ufffdx\n"


def test_only_the_end_of_a_long_output_is_kept():
    ran = run([sys.executable, "-c", "for n in range(100_000): print('line', n)"])
    assert len(ran.output) <= KEPT_OUTPUT
    assert ran.tail(1) == "line 99999"


def test_the_tail_is_the_last_lines():
    assert Ran(0, "1\n2\n3\n\n").tail(2) == "2\n3"
    assert Ran(0, "").tail() == ""


def test_a_program_that_runs_too_long_is_stopped_with_all_that_it_started(tmp_path):
    pid = tmp_path / "pid"
    ran = run(["sh", "-c", f"sleep 600 & echo $! >{pid}; echo begun; wait"], timeout=0.5)
    assert ran.status == 124
    assert ran.output == "begun\n\nstopped after 0.5 s"
    assert ended(int(pid.read_text()), within_s=10)


def test_what_a_program_leaves_running_is_not_waited_for(tmp_path):
    ran = run(["sh", "-c", f"echo begun; sleep 600 & echo $! >{tmp_path}/pid; printf 'and ended'; exit 3"])
    assert ran == Ran(3, "begun\nand ended")
    assert not ended(int((tmp_path / "pid").read_text()), within_s=0)
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_a_program_in_time_is_not_stopped():
    assert run(["true"], timeout=20) == Ran(0, "")
