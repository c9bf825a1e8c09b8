from __future__ import annotations

from pathlib import Path

from roles.patches import document, matrix
from roles.patches.definition import Patch
from roles.patches.matrix import Cell
from roles.patches.releases import Release


def test_the_matrix_goes_there_and_back_and_leaves_the_source_alone(source: Path, gate: Patch, guard: Patch) -> None:
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    cells = matrix.run([Release("0.5.9", source)], [gate, guard])
    assert [(cell.patch, cell.state, cell.problem) for cell in cells] == [
        ("sm120-autotune", "needed", ""),
        ("nsa-guard", "needed", ""),
    ]
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_a_release_that_cannot_be_had_is_a_row_with_its_reason(gate: Patch) -> None:
    (cell,) = matrix.run([Release("9.9", None, "no wheel for this platform")], [gate])
    assert cell.state is None and "| 9.9 | not tried: no wheel for this platform |" in document.page([gate], [cell])


def test_a_drift_shows_in_the_table(gate: Patch) -> None:
    cell = Cell("9.9", gate.name, "drifted", "sglang/srt/x.py", "f (line 3): odd", "f (line 3): odd")
    assert "| 9.9 | **drifted** `x.py` (f (line 3): odd) |" in document.page([gate], [cell])


def test_the_page_says_what_each_patch_cannot_do(gate: Patch, guard: Patch) -> None:
    page = document.page([guard, gate], [])
    for patch in (guard, gate):
        assert f"## {patch.name}" in page and patch.prose.limits in page and patch.prose.without_patch in page
