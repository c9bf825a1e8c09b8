"""Hosts, seeds and figures for the tests that break things."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import controllers, layer
from .figures import Figures
from .hosts import Hosts, HostsError

SEED = int(os.environ.get("BLACKSTART_SEED", "20251129"))
FIGURES = Figures(SEED)

Recorder = Callable[[str, str, str], None]
"""What was done, how often, and what came of it."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.outcome != "skipped":
        FIGURES.ended(report.nodeid, report.duration, report.passed)


def pytest_sessionfinish(session: pytest.Session) -> None:
    FIGURES.keep()


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Recorder:
    """Keeps the figures of a full run; those of a sample are only shown."""

    def keep(what: str, times: str, outcome: str) -> None:
        print(f"{what}: {times}: {outcome}")
        if request.node.get_closest_marker("soak"):
            FIGURES.record(request.node.nodeid, what, times, outcome)

    return keep


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Randomness that BLACKSTART_SEED gives back, the same for a test whatever ran before it."""
    print(f"repeat with BLACKSTART_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture(autouse=True)
def _no_controller_outlives_its_test() -> Iterator[None]:
    yield
    controllers.end_all()


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    with tempfile.TemporaryDirectory(prefix="blackstart-breaking-") as folder:
        try:
            made = Hosts(Path(folder))
        except HostsError as error:
            pytest.fail(str(error))
        yield made


@pytest.fixture(scope="session")
def layer_of(hosts: Hosts) -> Callable[[bool], Path]:
    """The layer of hosts that seem booted, or of those that do not."""
    return {booted: layer.make(hosts.folder / f"layer-{booted}", booted=booted) for booted in (True, False)}.__getitem__
