import fcntl

import pytest

from blackstart.agent import filesets
from blackstart.agent.converge import MAX_LINE, Run, facts_digest
from blackstart.agent.kind import Kind, Verdict
from blackstart.agent.probes import probe
from blackstart.agent.store import Held, Store
from blackstart.agent.world import World
from blackstart.plan import Section, State, plan_to_wire
from blackstart.resources import Replacement, Resource, absent, command, directory, file, fileset, opens

from .machine import Listening, release, tree


def on_facts(role, questions, *resources, digest=None):
    """A section built on what the machine answers now, or on another digest."""
    answers = [probe(World(), question) for question in questions]
    return Section(role, "box", questions, digest or facts_digest(answers), State(list(resources)))


@pytest.fixture
def add_kind(monkeypatch):
    """Teach the agent a kind of resource for one test; returns one such resource."""

    def add_kind(kind):
        real = Run._kind

        def made(run, spec):
            return kind(spec, run.context()) if spec["kind"] == kind.__name__ else real(run, spec)

        monkeypatch.setattr(Run, "_kind", made)
        return Resource(kind.__name__, kind.__name__)

    return add_kind


# one after the other


def test_resources_are_applied_in_order_and_each_is_announced(machine, land):
    machine.apply(directory(f"{land}/a"), file(f"{land}/a/b", "x"))
    assert [(event["e"], event["id"]) for event in machine.events] == [
        ("start", "box:role:0"),
        ("done", "box:role:0"),
        ("start", "box:role:1"),
        ("done", "box:role:1"),
    ]
    assert all(event["seconds"] >= 0 for event in machine.done)


def test_a_failing_resource_stops_what_follows_in_every_section(machine, land):
    sections = [
        Section("one", "box", (), "", State([directory(f"{land}/a"), directory("/dev/null")], verify=[opens("x", [])])),
        Section("two", "box", (), "", State([directory(f"{land}/b")])),
    ]
    assert machine.run((), check=False, sections=sections) == ["changed", "failed"]
    assert machine.done[1]["remedy"] == "move it away"
    assert not (land / "b").exists()


def test_a_failing_check_stops_too_as_the_run_would(machine, land):
    assert machine.check(directory(f"{land}/a"), directory("/dev/null"), directory(f"{land}/b")) == ["change", "failed"]


def test_verifications_come_after_all_changes(machine, land):
    sections = [
        Section("one", "box", (), "", State(verify=[opens("last", ["/dev/null"])])),
        Section("two", "box", (), "", State([directory(f"{land}/a")])),
    ]
    assert machine.run((), check=False, sections=sections) == ["changed", "verified"]


def test_an_error_of_the_file_system_is_a_failure_of_the_resource(machine, land, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device", f"{land}/f")

    monkeypatch.setattr("blackstart.agent.paths.write_atomically", full)
    assert machine.apply(file(f"{land}/f", "x"), directory(f"{land}/a")) == ["failed"]
    assert "No space left on device" in machine.failure
    assert machine.done[0]["remedy"]


@pytest.mark.parametrize("size", [100, 5000])
def test_output_lines_are_cut_to_a_length_that_can_be_shown(machine, size):
    machine.apply(command("talk", ["printf", "x" * size]))
    (output,) = [event for event in machine.events if event["e"] == "output"]
    assert output == {"e": "output", "id": "box:role:0", "line": "x" * min(size, MAX_LINE)}


# checking


class Trap(Kind):
    """A resource that must not be acted upon."""

    def check(self):
        return Verdict(True)

    def apply(self):
        raise AssertionError("a check acted")

    def predict(self):
        pass


def test_a_check_never_acts(machine, add_kind):
    trap = add_kind(Trap)
    assert machine.check(trap) == ["change"]
    with pytest.raises(AssertionError, match="a check acted"):
        machine.apply(trap)


def test_a_check_leaves_the_machine_as_it_is(machine, land):
    (land / "f").write_text("old")
    before = tree(machine.root)
    machine.check(file(f"{land}/f", "new"), absent(f"{land}/f"), command("touch", ["touch", f"{land}/g"]))
    assert tree(machine.root) == before


def test_a_check_needs_no_lock(machine, land):
    other = Store(str(machine.state), "bob")
    other.lock()
    try:
        assert machine.check(directory(f"{land}/a")) == ["change"]
        with pytest.raises(Held):
            machine.apply(directory(f"{land}/a"))
        assert not (land / "a").exists()
    finally:
        release(other)
    assert machine.apply(directory(f"{land}/a")) == ["changed"]


def test_the_lock_is_held_while_resources_are_looked_at(machine, add_kind):
    class Look(Kind):
        def check(self):
            with (machine.state / "lock").open() as stream, pytest.raises(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return Verdict(False)

    assert machine.apply(add_kind(Look)) == ["ok"]


def test_an_empty_machine_can_be_checked(machine):
    plan = [directory("/etc/app"), file("/etc/app/conf", "x"), file("/etc/passwd", "mine"), absent("/usr/bin/env")]
    assert machine.check(*plan, empty=True) == ["change", "change", "change", "ok"]


# facts


def test_a_plan_whose_facts_hold_is_carried_out(machine, land):
    questions = [{"probe": "entry", "path": f"{land}/x"}]
    assert machine.run((), check=False, sections=[on_facts("one", questions, directory(f"{land}/a"))]) == ["changed"]


def test_a_plan_on_stale_facts_is_refused_before_it_changes_anything(machine, land):
    section = on_facts("one", [{"probe": "entry", "path": f"{land}/x"}], directory(f"{land}/a"))
    (land / "x").touch()
    for check in (True, False):
        assert machine.run((), check=check, sections=[section]) == []
        assert machine.events == [{"e": "stale", "section": "one"}]
    assert not (land / "a").exists()


def test_what_an_earlier_section_changed_makes_the_facts_of_a_later_one_stale(machine, land):
    sections = [
        on_facts("one", [], directory(f"{land}/x")),
        on_facts("two", [{"probe": "entry", "path": f"{land}/x"}], directory(f"{land}/a")),
        on_facts("three", [], directory(f"{land}/b")),
    ]
    assert machine.run((), check=False, sections=sections) == ["changed"]
    assert machine.events[-1] == {"e": "stale", "section": "two"}
    assert not (land / "a").exists() and not (land / "b").exists()


def test_a_stale_plan_neither_runs_handlers_nor_verifies(machine, land):
    sections = [
        on_facts("one", [], directory(f"{land}/x")),
        on_facts("two", [{"probe": "entry", "path": f"{land}/x"}]),
    ]
    sections[0] = Section("one", "box", (), "", State(sections[0].state.resources, verify=[opens("n", ["/dev/null"])]))
    assert machine.run((), check=False, sections=sections) == ["changed"]


def test_in_a_check_later_facts_are_not_held_against_changes_that_were_not_made(machine, land):
    sections = [
        on_facts("one", [], directory(f"{land}/x")),
        on_facts("two", [{"probe": "entry", "path": f"{land}/x"}], directory(f"{land}/a")),
    ]
    assert machine.run((), check=True, sections=sections) == ["change", "change"]


def test_a_digest_is_of_the_answers_and_not_of_their_order_within():
    assert facts_digest([{"a": 1, "b": 2}]) == facts_digest([{"b": 2, "a": 1}])
    assert facts_digest([1, 2]) != facts_digest([2, 1])
    assert facts_digest([]) != facts_digest([None])


# a controller that goes away


@pytest.fixture
def run_until_gone(machine, add_kind):
    """Carry out a plan; `hang_up` is a resource during which the controller goes."""

    def run_until_gone(*resources, verify=()):
        section = Section("role", "box", (), "", State(list(resources), verify=list(verify)))
        plan = plan_to_wire([section], check=False, restart=False, empty=False)
        with Listening(machine.root) as wire:
            run_until_gone.wire = wire
            store = Store(str(machine.state), "tester")
            try:
                Run(plan, wire, store).execute()
            finally:
                release(store)
        machine.events = wire.events()

    class HangUp(Kind):
        def check(self):
            return Verdict(True)

        def apply(self):
            run_until_gone.wire.hang_up()
            self.context.store.journal(resource=self.name)

    run_until_gone.hang_up = add_kind(HangUp)
    return run_until_gone


def test_when_the_controller_goes_the_resource_in_hand_is_finished_and_no_other_begun(machine, land, run_until_gone):
    run_until_gone(directory(f"{land}/a"), run_until_gone.hang_up, directory(f"{land}/b"))
    assert (land / "a").exists() and not (land / "b").exists()
    assert machine.journal()[-1]["resource"] == "HangUp"
    assert machine.apply(directory(f"{land}/a"), directory(f"{land}/b")) == ["ok", "changed"]


def test_when_the_controller_goes_nothing_is_verified_for_nobody(machine, run_until_gone):
    run_until_gone(run_until_gone.hang_up, verify=[opens("nodes", ["/dev/null"])])
    assert not [event for event in machine.done if event["state"] == "verified"]


# killed and run again


def test_a_run_that_died_in_the_middle_of_a_set_is_finished_first(machine, land, monkeypatch):
    wish = fileset("patch", [Replacement(f"{land}/{name}", b"new", None) for name in ("a", "b")])
    real, calls = filesets.replace_file, []

    def dies(kind, path, *rest):
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(kind, path, *rest)

    monkeypatch.setattr(filesets, "replace_file", dies)
    with pytest.raises(KeyboardInterrupt):
        machine.apply(wish)
    assert (land / "a").exists() and not (land / "b").exists()
    monkeypatch.setattr(filesets, "replace_file", real)
    assert machine.apply() == ["changed"]
    assert machine.done[0]["name"] == "interrupted change of patch"
    assert machine.done[0]["detail"] == "1 of 2 files had been written; completed"
    assert (land / "b").read_bytes() == b"new"
    assert machine.apply(wish) == ["ok"]
    assert not list((machine.state / "intents").iterdir())
