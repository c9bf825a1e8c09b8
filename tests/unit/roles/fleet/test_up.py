import pytest
from invoke.program import Program

import tasks
from roles.stand_in import make


@pytest.fixture
def up(monkeypatch, capsys):
    made = []
    monkeypatch.setattr(make, "ensure", lambda door: made.append(door))

    def up(*argv):
        with pytest.raises(SystemExit) as ending:
            Program(namespace=tasks.namespace, name="inv").run(["inv", "up", "-i", "sandbox", *argv])
        return ending.value.code, capsys.readouterr().err, made

    return up


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--limit", "x*"], "the limit 'x*' matches nothing"),
        (["--tags", "container,x*"], "no role has the tag 'x*'"),
        (["--set", "container_vmid=3"], "--set container_vmid"),
        (["--set", "no_such_variable=3"], "no role has a variable 'no_such_variable'"),
        (["--set", "server_profile=no-such"], "known: "),
        (["--set", "ml_env_lock=no-such.txt"], "no-such.txt"),
        (["--serial", "-1"], "a number of machines is 0 or more"),
    ],
)
def test_bad_input_makes_no_sandbox(up, argv, said):
    code, error, made = up(*argv)
    assert (code, made) == (2, [])
    assert said in error
