"""Every release from 0.5.4 on: the state is as read from its source, and the way there and back holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.patches import document, matrix
from roles.patches.definition import Patch
from roles.patches.releases import Release, order

pytestmark = pytest.mark.wheels

LAST_KNOWN = "0.5.23"
# patch -> the first release of each state, read from the sources. Only tests know versions; the patches do not.
EXPECTED = {
    "sm120-autotune": {"0.5.4": "not-applicable", "0.5.7": "needed", "0.5.13": "upstream"},
    "nsa-guard": {"0.5.4": "not-applicable", "0.5.6": "needed"},
}
PLACES = {
    "sm120-autotune": {
        "0.5.7": "srt/model_executor/model_runner.py",
        "0.5.14": "srt/model_executor/runner/base_runner.py",
        "0.5.15": "srt/model_executor/runner/flashinfer_autotune.py",
    },
    "nsa-guard": {
        "0.5.6": "srt/models/deepseek_v2.py",
        "0.5.8": "srt/models/deepseek_common/attention_forward_methods/forward_mha.py",
    },
}


@pytest.fixture(scope="module")
def cells(folders: dict[str, Path], patches: dict[str, Patch]) -> list[matrix.Cell]:
    found = [Release(version, folder) for version, folder in folders.items()]
    return matrix.run(found, list(patches.values()))


def _since(table: dict[str, str], version: str) -> str | None:
    known = [first for first in table if order(first) <= order(version)]
    return table[max(known, key=order)] if known else None


def test_every_known_release_is_there(folders: dict[str, Path]) -> None:
    known = [version for version in folders if order(version) <= order(LAST_KNOWN)]
    assert len(known) >= 30 and known[0] == "0.5.4" and known[-1] == LAST_KNOWN


def test_states_are_those_of_the_sources(cells: list[matrix.Cell]) -> None:
    known = [cell for cell in cells if order(cell.version) <= order(LAST_KNOWN)]
    wrong = [cell for cell in known if cell.state != _since(EXPECTED[cell.patch], cell.version)]
    assert not wrong


def test_places_are_those_of_the_sources(cells: list[matrix.Cell]) -> None:
    known = [c for c in cells if order(c.version) <= order(LAST_KNOWN) and c.state != "not-applicable"]
    wrong = [c for c in known if c.file != f"sglang/{_since(PLACES[c.patch], c.version)}"]
    assert known and not wrong


def test_apply_prove_again_revert_and_apply_after_revert(cells: list[matrix.Cell]) -> None:
    assert [cell for cell in cells if cell.state == "needed"]
    assert [cell for cell in cells if cell.problem and order(cell.version) <= order(LAST_KNOWN)] == []


def test_a_newer_release_is_tried_and_said(cells: list[matrix.Cell]) -> None:
    """Its state is not known beforehand; that it has one, with words, is."""
    for cell in cells:
        assert cell.state is not None and cell.detail


def test_the_page_is_the_one_that_is_made(cells: list[matrix.Cell], patches: dict[str, Patch]) -> None:
    """docs/patches.md; `inv patch.matrix` writes it again."""
    known = [cell for cell in cells if order(cell.version) <= order(LAST_KNOWN)]
    page = Path(__file__).parents[2] / "docs" / "patches.md"
    assert page.read_text(encoding="utf-8") == document.page(list(patches.values()), known)
