import pytest

from blackstart.agent import converge, units
from blackstart.agent.store import Store

from .machine import Machine
from .systemd import Systemd


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
def fill_the_disk(monkeypatch):
    """From its call on, no line of the journal can be written."""

    def journal(store, **entry):
        raise OSError(28, "No space left on device")

    return lambda: monkeypatch.setattr(Store, "journal", journal)


@pytest.fixture
def at(land):
    """A path on the machine, as text."""
    return lambda path="": str(land / path) if path else str(land)


@pytest.fixture
def systemd(monkeypatch):
    systemd = Systemd()
    monkeypatch.setattr(units, "run", systemd.run)
    monkeypatch.setattr(converge, "run", systemd.run)
    monkeypatch.setattr(units, "has_systemd", lambda: True)
    monkeypatch.setattr(units, "_wanted_by_something", lambda name: False)
    return systemd
