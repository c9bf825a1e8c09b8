import random

import pytest

from .machine import Machine


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def land(tmp_path):
    """The folder of the machine in which resources are put."""
    folder = tmp_path / "land"
    folder.mkdir()
    return folder


@pytest.fixture
def seed(request):
    """A new seed each time, shown where a test fails; --hypothesis-seed=N gives it back."""
    given = request.config.getoption("--hypothesis-seed")
    seed = int(given) if given not in (None, "random") else random.SystemRandom().randrange(2**32)
    print(f"repeat with --hypothesis-seed={seed}")
    return seed
