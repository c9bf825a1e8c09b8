"""The real releases, downloaded once and kept: ~/.cache/blackstart, or BLACKSTART_CACHE."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.patches import definition, releases
from roles.patches.definition import Patch


@pytest.fixture(scope="session")
def patches() -> dict[str, Patch]:
    return {name: definition.load(name) for name in ("nsa-guard", "sm120-autotune")}


@pytest.fixture(scope="session")
def folders(patches: dict[str, Patch]) -> dict[str, Path]:
    """Version -> its source. A newer release than the last known one is among them, and a missing one fails here."""
    found = releases.fetch(releases.available(), list(patches.values()))
    problems = {release.version: release.problem for release in found if release.folder is None}
    assert not problems
    return {release.version: release.folder for release in found if release.folder is not None}
