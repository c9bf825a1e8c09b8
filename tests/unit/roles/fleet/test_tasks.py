import pytest
from invoke.program import Program

import tasks
from roles.fleet.tasks import _entry


@pytest.fixture
def inv(capsys, monkeypatch, tmp_path):
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text("all: {hosts: {box: {address: 198.51.100.1}}}\n")

    def inv(*argv):
        monkeypatch.setattr("sys.argv", ["inv", *argv])
        with pytest.raises(SystemExit) as ending:
            Program(namespace=tasks.namespace, name="inv").run(["inv", argv[0], "-i", str(inventory), *argv[1:]])
        return ending.value.code, capsys.readouterr().err

    return inv


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_time_that_is_none_is_refused(inv, seconds):
    code, error = inv("exec", "--timeout", seconds, "--", "true")
    assert (code, "--timeout is a number of seconds above 0" in error) == (2, True)


@pytest.mark.parametrize("lines", ["0", "-3", "100000000000000000000"])
@pytest.mark.parametrize("task", ["journal", "server.logs"])
def test_a_number_of_lines_that_is_none_is_refused(inv, task, lines):
    code, error = inv(task, "--lines", lines)
    assert (code, "--lines is" in error) == (2, True)


def test_a_command_is_needed(inv):
    code, error = inv("exec")
    assert (code, "no command is given" in error) == (2, True)


@pytest.mark.parametrize("line", ['{"at":"2026-01-01T00:00:00Z","b', "[]", '{"at": 1}', ""])
def test_a_torn_line_of_the_journal_is_shown_as_it_is(line):
    assert _entry(line) == {"torn": line}


def test_a_whole_line_of_the_journal_is_read():
    assert _entry('{"at": "x", "by": "y", "resource": "z"}') == {"at": "x", "by": "y", "resource": "z"}
