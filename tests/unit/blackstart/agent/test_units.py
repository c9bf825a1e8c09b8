import pytest

from blackstart.agent import units
from blackstart.agent.run import Ran
from blackstart.resources import file, unit

from .systemd import UNIT


def test_a_unit_is_enabled_and_started_once(machine, systemd):
    wish = unit(UNIT, enabled=True, running=True)
    assert machine.check(wish) == ["change"]
    assert machine.done[0]["detail"] == "enabled, inactive -> active"
    assert systemd.called == []
    assert machine.apply(wish) == ["changed"]
    assert systemd.called == [f"enable -- {UNIT}", f"start --no-block -- {UNIT}"]
    assert machine.apply(wish) == ["ok"]


def test_a_unit_is_stopped_and_disabled(machine, systemd):
    systemd.start()
    systemd.enabled = "enabled"
    wish = unit(UNIT, enabled=False, running=False)
    assert machine.apply(wish) == ["changed"]
    assert systemd.called == [f"disable -- {UNIT}", f"stop -- {UNIT}"]
    assert machine.apply(wish) == ["ok"]


def test_what_is_not_wished_is_left_as_it_is(machine, systemd):
    systemd.start()
    assert machine.apply(unit(UNIT)) == ["ok"]
    assert machine.apply(unit(UNIT, enabled=True)) == ["changed"]
    assert systemd.active == "active" and systemd.called == [f"enable -- {UNIT}"]


def test_a_unit_that_is_only_to_be_enabled_is_not_started(machine, systemd):
    assert machine.apply(unit(UNIT, enabled=True)) == ["changed"]
    assert systemd.active == "inactive" and systemd.called == [f"enable -- {UNIT}"]


def test_a_unit_that_runs_is_not_started_again(machine, systemd):
    for state in ("active", "activating", "reloading"):
        systemd.active = state
        assert machine.apply(unit(UNIT, running=True)) == ["ok"]


def test_a_failed_unit_is_reset_before_it_is_started(machine, systemd):
    systemd.active = "failed"
    assert machine.apply(unit(UNIT, running=True)) == ["changed"]
    assert systemd.called == [f"reset-failed -- {UNIT}", f"start --no-block -- {UNIT}"]


def test_a_failed_unit_is_already_stopped(machine, systemd):
    systemd.active = "failed"
    assert machine.check(unit(UNIT, running=False)) == ["ok"]


def test_a_stop_may_take_as_long_as_the_unit_allows(machine, systemd):
    systemd.start()
    assert machine.apply(unit(UNIT, enabled=True, running=False)) == ["changed"]
    assert systemd.patience == {"enable": units.CALL_S, "stop": None}


def test_a_unit_that_is_still_stopping_is_waited_for(machine, systemd):
    systemd.active = "deactivating"
    assert machine.check(unit(UNIT, running=False)) == ["change"]
    assert machine.apply(unit(UNIT, running=False)) == ["changed"]
    assert machine.done[0]["detail"] == "deactivating -> inactive"
    assert systemd.called == [f"stop -- {UNIT}"]
    assert machine.apply(unit(UNIT, running=False)) == ["ok"]


@pytest.mark.parametrize("state", ["static", "indirect", "generated"])
def test_a_unit_that_nothing_can_enable_is_refused(machine, systemd, state):
    systemd.enabled = state
    for run in (machine.check, machine.apply):
        assert run(unit(UNIT, enabled=True)) == ["failed"]
        assert machine.failure == f"{UNIT} is {state}: it cannot be enabled"
        assert "[Install]" in machine.done[0]["remedy"]
    assert systemd.called == []
    assert machine.apply(unit(UNIT, enabled=False)) == ["ok"]


@pytest.mark.parametrize("place", [UNIT, f"{UNIT}.d/install.conf"])
def test_a_static_unit_is_not_refused_where_unit_files_would_change(machine, systemd, land, monkeypatch, place):
    systemd.enabled = "static"
    monkeypatch.setattr(units, "UNIT_FILES", (str(land),))
    (land / f"{UNIT}.d").mkdir()
    wishes = [file(f"{land}/{place}", "[Install]\nWantedBy=multi-user.target\n"), unit(UNIT, enabled=True)]
    assert machine.check(*wishes) == ["change", "change"]


@pytest.mark.parametrize("attribute", [("reload", "yes"), ("load", "not-found"), ("load", "error")])
def test_a_changed_unit_file_is_read_anew_by_a_run_and_not_by_a_check(machine, systemd, attribute):
    setattr(systemd, *attribute)
    machine.check(unit(UNIT, enabled=False))
    assert systemd.called == []
    assert machine.apply(unit(UNIT, enabled=False)) == ["ok"]
    assert systemd.called == ["daemon-reload"]


def test_a_unit_whose_file_went_but_whose_links_stayed_counts_as_enabled(machine, systemd, monkeypatch):
    systemd.load = "not-found"
    monkeypatch.setattr(units, "_wanted_by_something", lambda name: name == UNIT)
    assert machine.check(unit(UNIT, enabled=True)) == ["ok"]


def test_a_future_unit_is_seen_by_what_follows(machine, systemd):
    plan = [unit(UNIT, enabled=True, running=True), unit(UNIT, running=True), unit(UNIT, enabled=False)]
    assert machine.check(*plan) == ["change", "ok", "change"]


def test_an_empty_machine_has_no_unit_that_runs(machine, systemd):
    assert machine.check(unit(UNIT, enabled=True, running=True), unit(UNIT, running=True), empty=True) == [
        "change",
        "ok",
    ]


def test_a_machine_without_systemd_is_refused(machine, systemd):
    systemd.broken = "System has not been booted with systemd as init system\n"
    for run in (machine.check, machine.apply):
        assert run(unit(UNIT, running=True)) == ["failed"]
        assert machine.failure.startswith("systemd does not answer: System has not been booted")


def test_a_unit_that_cannot_be_started_is_a_failure(machine, systemd, monkeypatch):
    real = systemd.run
    monkeypatch.setattr(
        units, "run", lambda argv, timeout=None: Ran(1, "Job failed.\n") if "start" in argv else real(argv)
    )
    assert machine.apply(unit(UNIT, running=True)) == ["failed"]
    assert machine.failure == f"systemctl start --no-block -- {UNIT} ended with 1\nJob failed."


def test_what_cannot_be_journalled_is_not_done_to_a_unit(machine, systemd, fill_the_disk):
    fill_the_disk()
    assert machine.apply(unit(UNIT, enabled=True, running=True)) == ["failed"]
    assert systemd.called == []
