from __future__ import annotations

import difflib
import functools
import runpy
from pathlib import Path

import pytest

from blackstart.errors import InputError
from roles.patches import definition, scaffold

OLD = "one\ntwo\nthree\n"


def _diff(file: Path, old: str, new: str) -> Path:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a/sglang/one.py", "b/sglang/one.py")
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, OLD.replace("two", "zwei")),
        (OLD, f"{OLD}four\n"),
        (OLD, f"zero\n{OLD}"),
        (OLD.rstrip("\n"), OLD.replace("two", "zwei").rstrip("\n")),
        (OLD.rstrip("\n"), OLD),
    ],
)
def test_the_test_that_is_made_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    made = scaffold.make("mine", _diff(tmp_path / "x.diff", old, new), "", tmp_path / "patches", tmp_path / "tests")
    monkeypatch.setattr(definition, "load", functools.partial(definition.load, root=tmp_path / "patches"))
    names = runpy.run_path(str(made[-1]))
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_what_is_wrong_with_a_diff_is_said_of_the_file_that_was_given(tmp_path: Path) -> None:
    given = tmp_path / "x.diff"
    given.write_text("--- a/sglang/one.py\n+++ b/sglang/one.py\n@@ -1,3 +1,4 @@\n one\n")
    with pytest.raises(InputError, match="shorter") as raised:
        scaffold.make("mine", given, "", tmp_path / "patches", tmp_path / "tests")
    assert raised.value.where == f"{given}:5"
    assert not list((tmp_path / "patches").iterdir()) and not (tmp_path / "tests").exists()


def test_a_test_that_somebody_has_written_stays(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    own = tmp_path / "tests/test_mine.py"
    own.write_text("mine")
    with pytest.raises(InputError, match="a test of a patch 'mine' already"):
        scaffold.make(
            "mine", _diff(tmp_path / "x.diff", OLD, OLD + "x\n"), "", tmp_path / "patches", tmp_path / "tests"
        )
    assert own.read_text() == "mine" and not (tmp_path / "patches").exists()
