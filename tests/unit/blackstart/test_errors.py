import pytest

from blackstart.errors import ApplyError, BlackstartError, CheckError, ConnectError, InputError, VerifyError


@pytest.mark.parametrize(
    ("kind", "stage", "code"),
    [
        (InputError, "input", 2),
        (ConnectError, "connect", 1),
        (CheckError, "check", 1),
        (ApplyError, "apply", 1),
        (VerifyError, "verify", 1),
    ],
)
def test_every_stage_has_its_error_and_exit_code(kind, stage, code):
    error = kind("no", where="here", found="that", remedy="this")
    assert isinstance(error, BlackstartError)
    assert error.code == code
    assert error.as_dict() == {"stage": stage, "message": "no", "where": "here", "found": "that", "remedy": "this"}


def test_an_error_reads_from_where_to_what_next():
    assert str(InputError("no", where="a:1", found="x", remedy="y")) == "a:1: no\n  found: x\n  do: y"
    assert str(InputError("no")) == "no"
