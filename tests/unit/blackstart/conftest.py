import random

import pytest


@pytest.fixture
def seed(request):
    """A new seed each time, shown where a test fails; --hypothesis-seed=N gives it back."""
    given = request.config.getoption("--hypothesis-seed")
    seed = int(given) if given not in (None, "random") else random.SystemRandom().randrange(2**32)
    print(f"repeat with --hypothesis-seed={seed}")
    return seed
