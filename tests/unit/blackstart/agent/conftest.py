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
