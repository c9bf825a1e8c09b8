import pytest

from blackstart import secrets
from blackstart.errors import InputError
from blackstart.secrets import MASK, mask, mask_data, reveal


@pytest.fixture(autouse=True)
def _nothing_revealed_yet(monkeypatch):
    monkeypatch.setattr(secrets, "_revealed", set())


def test_a_secret_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter22")
    assert reveal({"env": "A_SECRET"}, "x:1") == "hunter22"


def test_a_secret_comes_from_a_file_without_its_final_newline(tmp_path):
    path = tmp_path / "secret"
    path.write_text(" hunter22 \r\n")
    assert reveal({"file": str(path)}, "x:1") == " hunter22 "


def test_a_secret_comes_from_a_command_that_is_no_shell_line():
    assert reveal({"command": ["printf", "%s\\n", "$HOME; id"]}, "x:1") == "$HOME; id"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("hunter22", "as a reference, never by value"),
        (None, "as a reference"),
        ({}, "as a reference"),
        ({"env": "A", "file": "B"}, "as a reference"),
        ({"env": "NO_SUCH_VARIABLE_HERE"}, "the environment has no NO_SUCH_VARIABLE_HERE"),
        ({"env": 5}, "no reference to a secret"),
        ({"file": "/no/such/file"}, "file cannot be read"),
        ({"command": ["false"]}, "command failed"),
        ({"command": ["/no/such/program"]}, "command failed"),
        ({"command": "pass show hf"}, "no reference to a secret"),
        ({"command": []}, "no reference to a secret"),
        ({"command": ["true"]}, "the secret is empty"),
        ({"vault": "x"}, "no reference to a secret"),
    ],
)
def test_what_yields_no_secret_is_an_error_with_its_place(reference, says):
    with pytest.raises(InputError, match=says) as caught:
        reveal(reference, "host_vars/a.yml:3")
    assert caught.value.where == "host_vars/a.yml:3"


def test_a_value_given_openly_is_not_repeated_in_the_error():
    for reference in ("hunter22", {"token": "hunter22"}):
        with pytest.raises(InputError) as caught:
            reveal(reference, "x:1")
        assert "hunter22" not in str(caught.value)


def test_what_was_revealed_is_masked_from_then_on(monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter22")
    assert mask("the hunter22") == "the hunter22"
    reveal({"env": "A_SECRET"}, "x:1")
    assert mask("the hunter22, hunter22!") == f"the {MASK}, {MASK}!"


def test_each_line_of_a_long_secret_is_masked_by_itself(monkeypatch):
    monkeypatch.setenv("A_SECRET", "first line\nsecond line\nab")
    reveal({"env": "A_SECRET"}, "x:1")
    assert mask("+second line") == f"+{MASK}"
    assert mask("ab") == "ab"


def test_a_secret_inside_another_leaves_nothing_behind(monkeypatch):
    for value in ("hunter22", "hunter22-and-more"):
        monkeypatch.setenv("A_SECRET", value)
        reveal({"env": "A_SECRET"}, "x:1")
    assert mask("hunter22-and-more") == MASK


def test_data_is_masked_through_and_through(monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter22")
    reveal({"env": "A_SECRET"}, "x:1")
    data = {"a": ["hunter22", 5, None], "hunter22": {"b": "x hunter22"}, "c": ("hunter22",)}
    assert mask_data(data) == {"a": [MASK, 5, None], MASK: {"b": f"x {MASK}"}, "c": [MASK]}
