from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from invoke.program import Program

import tasks

Inv = Callable[..., tuple[int, Any]]


@pytest.fixture
def inv(capsys: pytest.CaptureFixture[str]) -> Inv:
    """inv(task, *options): its exit code and its JSON document."""

    def inv(*argv: str) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as ending:
            Program(namespace=tasks.namespace, name="inv").run(["inv", *argv, "--json"])
            raise SystemExit(0)
        return int(ending.value.code or 0), json.loads(capsys.readouterr().out)

    return inv


def test_a_new_patch_needs_a_diff(inv: Inv) -> None:
    code, found = inv("patch.new", "mine")
    assert (code, found["error"]["message"]) == (2, "the diff is missing")


@pytest.mark.parametrize("names", [",", " ", " , "])
def test_a_list_of_patches_without_a_name_is_not_all_of_them(inv: Inv, source: Path, names: str) -> None:
    code, found = inv("patch.apply", "--source", str(source), "--patch", names)
    assert (code, found["error"]["message"]) == (2, "no patch is named")
