"""Hosts, seeds and figures for the tests that break things."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import controllers, layer
from .hosts import Hosts, HostsError

SEED = int(os.environ.get("BLACKSTART_SEED", "20251129"))


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
