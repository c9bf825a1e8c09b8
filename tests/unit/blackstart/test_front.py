import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.program import Program

from blackstart.console import Console
from blackstart.errors import CheckError, InputError
from blackstart.front import COMMON_OPTIONS, Door, Result, require, task
from blackstart.paths import ROOT

TASKS = """\
from invoke.collection import Collection
from blackstart.errors import CheckError, InputError
from blackstart.front import Result, task

@task(positional=["name"], help={"name": "whom to greet"})
def greet(door, name: str, loud: bool = False) -> Result:
    '''Greet somebody.'''
    door.console.line("hello " + name)
    return Result({"greeted": name, "loud": loud})

@task(converges=True)
def options(door) -> Result:
    '''Show the options.'''
    return Result({"options": door.options, "tags": list(door.tags), "check": door.check})

@task(machines=True)
def hosts(door) -> Result:
    '''Show the machines.'''
    return Result(door.document(machines=[machine.name for machine in door.machines]))

@task()
def fails(door, how: str) -> Result:
    '''Fail.'''
    if how == "input":
        raise InputError("wrong", where="a.yml:1", found="x", remedy="y")
    if how == "check":
        raise CheckError("odd")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "fault":
        raise ValueError("something of ours")
    if how == "pipe":
        for _ in range(100_000):
            door.console.line("line")
    return Result({"how": how}, 1)

@task(changes=True)
def changes(door) -> Result:
    '''Change something.'''
    return Result({})

namespace = Collection(greet, options, hosts, fails, changes)
"""

HOSTS = "simulated: true\nall: {hosts: {one: {local: true}, two: {local: true}}}\n"
INV = f"{sys.executable} -m invoke"


@dataclass
class Ran:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def front_door(tmp_path, monkeypatch, capsys):
    """A front door of its own, used as `inv` uses one: a command line in, streams and an exit code out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLACKSTART_INVENTORY", raising=False)
    (tmp_path / "somewhere").mkdir()
    (tmp_path / "somewhere" / "hosts.yml").write_text(HOSTS)
    names = {}
    exec(compile(TASKS, "tasks.py", "exec"), names)

    def inv(*argv):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            Program(namespace=names["namespace"], name="inv").run(["inv", *argv])
            raise SystemExit(0)
        code = ending.value.code or 0
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return inv


def as_process(folder, command):
    """The same as a real process, by way of a shell line."""
    (folder / "tasks.py").write_text(TASKS)
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(folder), "INV": INV}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_is_the_same_from_a_shell(tmp_path):
    ran = as_process(tmp_path, "$INV greet Ada --json && $INV fails --how input")
    assert ran.returncode == 2
    assert json.loads(ran.stdout) == {"greeted": "Ada", "loud": False}
    assert ran.stderr == "error: a.yml:1: wrong\n  found: x\n  do: y\n"


def test_a_task_takes_its_own_parameters_and_prints_for_people(front_door):
    ran = front_door("greet", "Ada")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello Ada\n", "")


def test_with_json_there_is_one_document_and_nothing_else(front_door):
    ran = front_door("greet", "Ada", "--loud", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"greeted": "Ada", "loud": True}


def test_json_keeps_text_as_it_is(front_door):
    assert '"greeted": "Ådä"' in front_door("greet", "Ådä", "--json").stdout


def test_shared_options_reach_the_task(front_door):
    ran = front_door(
        "options", "--check", "--tags", "a, b,", "--set", "x=1", "--set", "y=2", "--limit", "one", "--json"
    )
    found = json.loads(ran.stdout)
    assert found["tags"] == ["a", "b"]
    assert found["check"] is True
    assert found["options"]["set"] == ["x=1", "y=2"]
    assert found["options"]["limit"] == "one"
    assert found["options"]["restart"] is False


def test_the_inventory_is_named_first_and_says_that_it_is_simulated(front_door):
    ran = front_door("hosts", "--inventory", "./somewhere")
    assert ran.stdout.splitlines()[0].startswith("inventory: somewhere  SIMULATED")
    ran = front_door("hosts", "--inventory", "./somewhere", "--json", "--limit", "two")
    assert json.loads(ran.stdout) == {"inventory": {"name": "somewhere", "simulated": True}, "machines": ["two"]}


@pytest.mark.parametrize(("how", "code"), [("input", 2), ("check", 1), ("interrupt", 130), ("result", 1), ("well", 1)])
def test_every_end_has_its_exit_code(front_door, how, code):
    assert front_door("fails", "--how", how).returncode == code


def test_errors_go_to_stderr_and_leave_stdout_alone(front_door):
    ran = front_door("fails", "--how", "input")
    assert ran.stdout == ""
    assert ran.stderr == "error: a.yml:1: wrong\n  found: x\n  do: y\n"


def test_with_json_an_error_is_the_document(front_door):
    ran = front_door("fails", "--how", "input", "--json")
    assert ran.returncode == 2 and ran.stderr == ""
    error = {"stage": "input", "message": "wrong", "where": "a.yml:1", "found": "x", "remedy": "y"}
    assert json.loads(ran.stdout) == {"error": error}


def test_an_interruption_says_how_to_come_back_and_is_a_document_with_json(front_door, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/some/where/inv", "fails", "--how", "a b"])
    said = front_door("fails", "--how", "interrupt").stderr
    assert said.startswith("interrupted; ") and said.endswith("to come back: inv fails --how 'a b'\n")
    ran = front_door("fails", "--how", "interrupt", "--json")
    assert json.loads(ran.stdout)["error"]["message"].startswith("interrupted; ")
    assert ran.returncode == 130


def test_a_fault_of_ours_is_said_without_a_traceback_and_kept_for_whoever_mends_it(front_door, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ran = front_door("fails", "--how", "fault")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: blackstart met a fault of its own") and "Traceback" not in ran.stderr
    (kept,) = tmp_path.glob("blackstart-fault-*")
    assert str(kept) in ran.stderr
    assert "ValueError: something of ours" in kept.read_text()
    ran = front_door("fails", "--how", "fault", "--json")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert json.loads(ran.stdout)["error"]["stage"] == "fault"


def test_a_reader_that_goes_away_is_no_error_of_ours(tmp_path):
    ran = as_process(tmp_path, "$INV fails --how pipe 2>errors | head -1")
    assert (ran.returncode, ran.stdout, (tmp_path / "errors").read_text()) == (141, "line\n", "")


@pytest.mark.parametrize(
    "argv",
    [
        ["hosts", "--inventory", "nowhere"],
        ["hosts", "--inventory", "./somewhere", "--limit", "three"],
        ["hosts", "--set", "x"],
    ],
)
def test_wrong_options_exit_with_2(front_door, argv):
    ran = front_door(*argv)
    assert ran.returncode == 2
    assert ran.stdout == "" or ran.stdout.startswith("inventory: ")
    assert ran.stderr.startswith("error: ")


def test_help_tells_every_option_and_what_it_means(tmp_path):
    text = as_process(tmp_path, "$INV --help options && $INV --help greet").stdout
    for option in ("--inventory", "--limit", "--tags", "--set", "--check", "--diff", "--restart", "--json"):
        assert option in text
    assert "whom to greet" in text and "change nothing" in text


def test_a_task_keeps_its_name_and_its_first_words():
    @task(name="other")
    def body(door, level: int = 3) -> Result:
        """Say it."""
        return Result({})

    assert (body.name, body.__doc__) == ("other", "Say it.")
    assert [argument.name for argument in body.get_arguments()][:2] == ["level", "json"]


def test_a_task_called_in_process_raises_nothing_but_the_exit(capsys):
    @task()
    def body(door) -> Result:
        raise CheckError("odd", where="box")

    with pytest.raises(Exit) as caught:
        body(Context(), **{option: default for option, (default, _) in COMMON_OPTIONS.items()})
    assert caught.value.code == 1
    assert capsys.readouterr().err == "error: box: odd\n"


def test_a_missing_text_is_an_input_error():
    assert require("x", "name", "give it") == "x"
    with pytest.raises(InputError, match="name is missing"):
        require("", "name", "give it")


def test_listing_the_projects_tasks_loads_nothing_heavy():
    code = textwrap.dedent(
        """
        import sys
        import tasks
        heavy = {"paramiko", "fabric", "jinja2", "pydantic", "rich"}
        print(sorted(heavy & set(sys.modules)))
        """
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


# odd surroundings


@pytest.mark.parametrize("task", ["greet Ada", "greet Ada --json"])
def test_a_full_disk_behind_stdout_is_said_in_a_line(tmp_path, task):
    ran = as_process(tmp_path, f"$INV {task} >/dev/full")
    assert (ran.returncode, ran.stderr) == (
        1,
        "error: what is said cannot be written\n  found: No space left on device\n",
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("task", ["greet Ada", "greet Ada --json", "fails --how input"])
def test_a_closed_stream_does_no_harm(tmp_path, closed, task):
    ran = as_process(tmp_path, f"$INV {task} {closed}")
    assert ran.returncode == (2 if "fails" in task else 0)
    assert "Traceback" not in ran.stdout + ran.stderr


def test_what_the_terminal_cannot_show_is_shown_by_its_number(tmp_path):
    ran = as_process(tmp_path, "PYTHONIOENCODING=ascii:strict $INV greet $'\\xc3\\xbc\\xe9'")
    assert (ran.returncode, ran.stdout) == (0, "hello \\xfc\\udce9\n")


def test_a_fault_that_cannot_be_kept_is_shown(tmp_path):
    code = "import tempfile; tempfile.NamedTemporaryFile = lambda *a, **k: open('/nowhere/x')\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    ran = as_process(tmp_path, "PYTHONPATH=$PYTHONPATH:. $INV fails --how fault")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: blackstart met a fault of its own; please report it with this trace:\n")
    assert "ValueError: something of ours" in ran.stderr


def test_an_end_of_input_is_no_yes(front_door, monkeypatch):
    door = Door({"json": False, "yes": False}, Console())
    door.__dict__["inventory"] = SimpleNamespace(simulated=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(InputError, match="not confirmed"):
        door.confirm("Restart?")


def test_tags_that_name_none_are_not_all_of_them(front_door):
    ran = front_door("options", "--tags", " , ")
    assert ran.returncode == 2 and "no tag is named" in ran.stderr


def test_a_task_has_no_option_that_it_would_not_heed(front_door):
    said = front_door("--help", "changes").stdout
    assert "--check" in said and "--limit" in said
    assert not {"--tags", "--serial", "--max-fail"} & set(said.replace("=", " ").split())
