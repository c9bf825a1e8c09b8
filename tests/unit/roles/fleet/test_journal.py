import pytest
from invoke.program import Program

import tasks
from blackstart.agent import probes


@pytest.mark.parametrize("lines", [0, -1, 100_001, 10**20])
def test_a_number_of_lines_that_makes_no_sense_is_an_input_error(capsys, lines):
    with pytest.raises(SystemExit) as ending:
        Program(namespace=tasks.namespace, name="inv").run(["inv", "journal", "-i", "sandbox", "--lines", str(lines)])
    assert ending.value.code == 2
    assert f"--lines is 1 to {probes.MAX_LINES}" in capsys.readouterr().err
