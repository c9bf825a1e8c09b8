import json
import os
import subprocess
import sys
import textwrap

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from blackstart.errors import CheckError, InputError
from blackstart.front import COMMON_OPTIONS, DETACHED, Result, require, task
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
    if how == "pipe":
        for _ in range(100_000):
            door.console.line("line")
    return Result({"how": how}, 1)

namespace = Collection(greet, options, hosts, fails)
"""


@pytest.fixture(scope="module")
def front_door(tmp_path_factory):
    """A front door of its own, used as people do: through invoke, as a process."""
    folder = tmp_path_factory.mktemp("door")
    (folder / "tasks.py").write_text(TASKS)
    inventory = folder / "somewhere"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text("simulated: true\nall: {hosts: {one: {local: true}, two: {local: true}}}\n")

    def inv(*argv, **options):
        environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(folder)}
        command = [sys.executable, "-m", "invoke", *argv]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, **options)

    return inv


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


def test_an_interruption_is_said_and_is_a_document_with_json(front_door):
    assert front_door("fails", "--how", "interrupt").stderr.startswith("interrupted: ")
    ran = front_door("fails", "--how", "interrupt", "--json")
    assert json.loads(ran.stdout)["error"]["message"].startswith("interrupted: ")
    assert ran.returncode == DETACHED


def test_a_reader_that_goes_away_is_no_error_of_ours(front_door, tmp_path):
    """As in `inv … | head -1`."""
    script = 'set -o pipefail; "$0" -m invoke fails --how pipe 2>"$1" | head -1'
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    folder = tmp_path / "door"
    folder.mkdir()
    (folder / "tasks.py").write_text(TASKS)
    errors = tmp_path / "stderr"
    command = ["bash", "-c", script, sys.executable, str(errors)]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, errors.read_text()) == (141, "line\n", "")


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


def test_help_tells_every_option(front_door):
    text = front_door("options", "--help").stdout
    for option in ("--inventory", "--limit", "--tags", "--set", "--check", "--diff", "--restart", "--json"):
        assert option in text
    assert "whom to greet" in front_door("--help", "greet").stdout


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
