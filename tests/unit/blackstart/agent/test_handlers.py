import itertools

import pytest

from blackstart.agent import converge, units
from blackstart.agent.run import Ran
from blackstart.plan import Section, State
from blackstart.resources import Restart, directory, file, unit

from .systemd import UNIT

HANDLERS = {"restart x": Restart(UNIT)}


@pytest.fixture
def conf(land):
    """A configuration file whose change notifies the unit; called with its content."""
    return lambda text: file(f"{land}/conf", text, notify=("restart x",))


def handler_states(machine):
    return [(event["name"], event["state"]) for event in machine.done if event["id"].startswith("handler")]


def test_a_change_owes_a_restart_that_is_pending_until_it_is_allowed(machine, systemd, conf):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    assert handler_states(machine) == [("restart x", "pending")]
    assert systemd.called == []
    assert machine.owed()["restart x"]["run"] == "run1"
    assert machine.apply(conf("1"), handlers=HANDLERS) == ["ok", "pending"]
    assert machine.apply(conf("1"), handlers=HANDLERS, restart=True) == ["ok", "changed"]
    assert systemd.called == [f"restart {'--'} {UNIT}"]
    assert machine.owed() == {}
    assert machine.apply(conf("1"), handlers=HANDLERS, restart=True) == ["ok"]


def test_a_restart_is_journalled(machine, systemd, conf):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS, restart=True)
    assert machine.journal()[-1]["unit"] == UNIT and machine.journal()[-1]["restarted"] is True


def test_a_restart_that_cannot_be_journalled_is_not_done_and_stays_owed(machine, systemd, conf, fill_the_disk):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    fill_the_disk()
    with pytest.raises(OSError, match="No space left"):
        machine.apply(conf("1"), handlers=HANDLERS, restart=True)
    assert systemd.called == [] and "restart x" in machine.owed()


def test_a_handler_runs_once_at_the_end_however_often_it_was_notified(machine, systemd, conf, land):
    systemd.start()
    other = file(f"{land}/other", "1", notify=("restart x",))
    states = machine.apply(conf("1"), other, directory(f"{land}/d"), handlers=HANDLERS, restart=True)
    assert states == ["changed", "changed", "changed", "changed"]
    assert [event["id"] for event in machine.done][-1] == "handler:restart x"
    assert systemd.called.count(f"restart -- {UNIT}") == 1


def test_a_unit_that_does_not_run_is_owed_nothing(machine, systemd, conf):
    assert machine.apply(conf("1"), handlers=HANDLERS, restart=True) == ["changed"]
    assert machine.owed() == {} and systemd.called == []


def test_a_unit_that_the_same_run_starts_is_owed_nothing(machine, systemd, conf):
    assert machine.apply(conf("1"), unit(UNIT, running=True), handlers=HANDLERS) == ["changed", "changed"]
    assert machine.owed() == {}


def test_a_unit_that_somebody_restarted_meanwhile_is_owed_nothing(machine, systemd, conf):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    systemd.start()
    assert machine.apply(conf("1"), handlers=HANDLERS, restart=True) == ["ok"]
    assert systemd.called == [] and machine.owed() == {}


def test_a_change_after_somebody_restarted_the_unit_owes_anew(machine, systemd, conf):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    systemd.start()
    machine.check(conf("2"), handlers=HANDLERS)
    assert handler_states(machine) == [("restart x", "pending")]
    assert machine.apply(conf("2"), handlers=HANDLERS) == ["changed", "pending"]
    assert machine.owed()["restart x"]["run"] == "run2"
    assert machine.apply(conf("2"), handlers=HANDLERS, restart=True) == ["ok", "changed"]
    assert systemd.called == [f"restart -- {UNIT}"] and machine.owed() == {}


def test_a_change_after_the_unit_was_started_owes_anew(machine, systemd, conf, land):
    (land / "blocked").write_text("x")
    failing = directory(f"{land}/blocked")
    assert machine.apply(conf("1"), failing, handlers=HANDLERS) == ["changed", "failed"]
    systemd.start()
    machine.check(conf("2"), handlers=HANDLERS, restart=True)
    assert handler_states(machine) == [("restart x", "change")]
    assert machine.apply(conf("2"), handlers=HANDLERS, restart=True) == ["changed", "changed"]
    assert systemd.called == [f"restart -- {UNIT}"]


def test_a_change_after_the_same_run_started_the_unit_owes_a_restart(machine, systemd, conf, land):
    other = file(f"{land}/other", "1", notify=("restart x",))
    plan = [conf("1"), unit(UNIT, running=True), other]
    assert machine.apply(*plan, handlers=HANDLERS, restart=True) == ["changed"] * 4
    assert systemd.called == [f"start --no-block -- {UNIT}", f"restart -- {UNIT}"]


STEPS = {
    "change": lambda land, n: file(f"{land}/conf{n}", "1", notify=("restart x",)),
    "start": lambda land, n: unit(UNIT, running=True),
    "stop": lambda land, n: unit(UNIT, running=False),
}


@pytest.mark.parametrize("runs", [False, True], ids=["stopped", "running"])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("steps", list(itertools.product(STEPS, repeat=4)), ids=" ".join)
def test_a_check_foresees_the_handlers_of_units_that_the_plan_starts_and_stops(
    machine, systemd, land, steps, restart, runs
):
    if runs:
        systemd.start()
    plan = [STEPS[step](land, number) for number, step in enumerate(steps)]
    foreseen = machine.check(*plan, handlers=HANDLERS, restart=restart)
    assert machine.apply(*plan, handlers=HANDLERS, restart=restart) == [
        state.replace("change", "changed") for state in foreseen
    ]


def test_a_check_of_a_machine_that_is_not_there_yet_foresees_its_handlers(machine, systemd, land):
    plan = [directory(str(land)), STEPS["start"](land, 1), STEPS["change"](land, 2)]
    machine.check(*plan, handlers=HANDLERS, empty=True)
    assert handler_states(machine) == [("restart x", "pending")]


def test_a_handler_of_an_earlier_run_is_not_lost_when_its_role_left_the_plan(machine, systemd, conf, land):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    assert machine.apply(directory(f"{land}/d"), restart=True) == ["changed", "changed"]
    assert systemd.called == [f"restart -- {UNIT}"]


def test_a_run_that_dies_before_its_handlers_leaves_them_to_the_next(machine, systemd, conf, land):
    systemd.start()
    (land / "blocked").write_text("x")
    failing = directory(f"{land}/blocked")
    assert machine.apply(conf("1"), failing, handlers=HANDLERS, restart=True) == ["changed", "failed"]
    assert systemd.called == []
    assert machine.apply(conf("1"), handlers=HANDLERS, restart=True) == ["ok", "changed"]


def test_what_is_owed_is_written_down_before_the_change(machine, systemd, conf, monkeypatch):
    """A run that is killed between the change and its note would lose the restart for ever."""
    systemd.start()

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("blackstart.agent.paths.write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        machine.apply(conf("1"), handlers=HANDLERS)
    assert machine.owed()["restart x"]["handler"] == {"unit": UNIT}


def test_what_is_owed_keeps_its_first_date(machine, systemd, conf):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    first = machine.owed()
    machine.apply(conf("2"), handlers=HANDLERS)
    assert machine.owed() == first


@pytest.mark.parametrize("content", ["", '{"restart x": {"han', "[]"])
def test_a_damaged_note_of_what_is_owed_is_named(machine, systemd, conf, content):
    systemd.start()
    place = machine.state / "owed.json"
    machine.state.mkdir()
    place.write_text(content)
    assert machine.apply(conf("1"), handlers=HANDLERS) == ["failed"]
    assert machine.failure.startswith(f"{place} is damaged: ")
    assert "move it away" in machine.done[-1]["remedy"]
    for run in (machine.check, machine.apply):
        assert run() == ["failed"]
        assert machine.failure.startswith(f"{place} is damaged: ")
    place.rename(machine.root / "away")
    assert machine.apply(conf("1"), handlers=HANDLERS) == ["changed", "pending"]


def test_a_restart_that_fails_stays_owed(machine, systemd, conf, monkeypatch):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    monkeypatch.setattr(converge, "run", lambda argv: Ran(1, "no\n"))
    assert machine.apply(conf("1"), handlers=HANDLERS, restart=True) == ["ok", "failed"]
    assert "restart x" in machine.owed()


@pytest.mark.parametrize(("restart", "state"), [(False, "pending"), (True, "change")])
def test_a_check_predicts_handlers_and_owes_nothing(machine, systemd, conf, restart, state):
    systemd.start()
    machine.check(conf("1"), handlers=HANDLERS, restart=restart)
    assert handler_states(machine) == [("restart x", state)]
    assert machine.owed() == {} and systemd.called == []


def test_a_check_predicts_no_handler_where_nothing_changes_or_nothing_runs(machine, systemd, conf, land):
    machine.check(conf("1"), handlers=HANDLERS)
    assert handler_states(machine) == []
    systemd.start()
    (land / "conf").write_text("1")
    machine.check(conf("1"), handlers=HANDLERS)
    assert handler_states(machine) == []


def test_a_check_speaks_of_what_earlier_runs_still_owe(machine, systemd, conf):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    machine.check(conf("1"), handlers=HANDLERS)
    assert handler_states(machine) == [("restart x", "pending")]
    systemd.start()
    machine.check(conf("1"), handlers=HANDLERS)
    assert handler_states(machine) == []


def test_an_old_debt_does_not_hide_that_a_section_may_notify_anew(machine, systemd, conf, land):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    systemd.start()
    looks_at_it = [{"probe": "entry", "path": f"{land}/d"}]
    sections = [
        Section("one", "box", (), "", State([directory(f"{land}/d")])),
        Section("two", "box", looks_at_it, "", State([], HANDLERS)),
    ]
    machine.run((), check=True, sections=sections)
    assert handler_states(machine) == [("restart x", "unknown")]


def test_without_systemd_nothing_runs_that_could_be_owed_a_restart(machine, systemd, conf, monkeypatch):
    monkeypatch.setattr(units, "has_systemd", lambda: False)
    systemd.broken = "System has not been booted with systemd\n"
    assert machine.check(conf("1"), handlers=HANDLERS) == ["change"]
    assert machine.apply(conf("1"), handlers=HANDLERS) == ["changed"]


def test_a_systemd_that_does_not_answer_is_a_failure_and_no_fault(machine, systemd, conf):
    systemd.start()
    machine.apply(conf("1"), handlers=HANDLERS)
    systemd.broken = "Failed to connect to bus\n"
    for run in (machine.check, machine.apply):
        assert run(conf("1"), handlers=HANDLERS) == ["ok", "failed"]
        assert machine.failure == "systemd does not answer: Failed to connect to bus"
    assert "restart x" in machine.owed()
