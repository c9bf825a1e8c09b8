import itertools

import pytest

from blackstart.agent import converge, units
from blackstart.agent.run import Ran
from blackstart.plan import Section, State
from blackstart.resources import Restart, directory, file, unit

UNIT = "x.service"


class Systemd:
    """systemctl on one unit that is only a handful of properties."""

    def __init__(self):
        self.enabled = "disabled"
        self.active = "inactive"
        self.load = "loaded"
        self.reload = "no"
        self.invocation = ""
        self.runs = 0
        self.called = []
        self.patience = {}
        self.broken = ""

    def start(self):
        self.runs += 1
        self.active, self.invocation = "active", f"run{self.runs}"

    def run(self, argv, timeout=None):
        assert argv[0] == "systemctl"
        if self.broken:
            return Ran(1, self.broken)
        if argv[1] == "show":
            return Ran(0, self.show())
        self.called.append(" ".join(argv[1:]))
        self.patience[argv[1]] = timeout
        match argv[1]:
            case "start" | "restart":
                self.start()
            case "stop":
                self.active, self.invocation = "inactive", ""
            case "enable":
                self.enabled = "enabled"
            case "disable":
                self.enabled = "disabled"
            case "daemon-reload":
                self.reload, self.load = "no", "loaded"
        return Ran(0, "")

    def show(self):
        shown = {
            "LoadState": self.load,
            "ActiveState": self.active,
            "UnitFileState": "" if self.load == "not-found" else self.enabled,
            "NeedDaemonReload": self.reload,
            "InvocationID": self.invocation,
            "Result": "success",
        }
        return "".join(f"{key}={value}\n" for key, value in shown.items())


@pytest.fixture
def systemd(monkeypatch):
    systemd = Systemd()
    monkeypatch.setattr(units, "run", systemd.run)
    monkeypatch.setattr(converge, "run", systemd.run)
    monkeypatch.setattr(units, "has_systemd", lambda: True)
    monkeypatch.setattr(units, "_wanted_by_something", lambda name: False)
    return systemd


# the unit itself


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


# handlers

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
