from __future__ import annotations

from pathlib import Path

import pytest

from roles.patches import definition
from roles.patches.definition import Patch

from . import stock


@pytest.fixture(scope="session")
def gate() -> Patch:
    return definition.load("sm120-autotune")


@pytest.fixture(scope="session")
def guard() -> Patch:
    return definition.load("nsa-guard")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small SGLang 0.5.9 as installed, with its RECORD."""
    return stock.install(tmp_path / "site-packages")
