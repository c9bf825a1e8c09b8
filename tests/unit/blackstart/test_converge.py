import json
import sys
from pathlib import Path

import pytest

from blackstart import fleet as fleets
from blackstart import resources
from blackstart.converge import AHEAD, converge
from blackstart.errors import ConnectError, InputError, Interrupted
from blackstart.fleet import Fleet, Options
from blackstart.inventory import Inventory
from blackstart.machine import Machine, Value
from blackstart.plan import Entrance, Role, State
from blackstart.target import Target


class Variables:
    """A role's variables, already resolved."""


class Deaf:
    def begins(self, machine, role, name): ...

    def says(self, machine, line): ...

    def ends(self, machine, record): ...

    def rests(self, machine): ...


class Agent:
    """A channel behind which everything is as it should be."""

    def __init__(self):
        self.requests = []
        self.waiting = b""
        self.closed = False

    def send(self, data):
        if b'"op"' not in data:
            return  # the program
        request = json.loads(data.split(b"\n", 1)[1])
        self.requests.append(request)
        events = []
        for name, questions in request.get("groups", {}).items():
            events.append({"e": "facts", "group": name, "answers": ["a fact"] * len(questions), "digest": "d"})
        for section in request.get("plan", {}).get("sections", []):
            for spec in section["resources"]:
                events.append({"e": "done", "id": spec["id"], "state": "ok", "seconds": 0})
        self.waiting += b"".join(json.dumps(event).encode() + b"\n" for event in [*events, {"e": "end"}])

    def specs(self):
        """The resources that it was asked to apply."""
        sections = [part for request in self.requests for part in request["plan"]["sections"]]
        return [spec for part in sections for spec in part["resources"]]

    def receive(self, deadline_s):
        data, self.waiting = self.waiting, b""
        return data

    def hang_up(self): ...

    def close(self):
        self.closed = True
        return 0, ""


class Way:
    """A transport to an Agent; with `error` there is none."""

    retries = 0

    def __init__(self, where, login_is_root=True, error=None):
        self.where = where
        self.login_is_root = login_is_root
        self.error = error
        self.connections = 0
        self.agents = []

    def connect(self):
        self.connections += 1
        if self.error:
            raise self.error

    def start_as_root(self, argv):
        if self.error:
            raise self.error
        self.agents.append(Agent())
        return self.agents[-1]

    def close(self): ...

    @property
    def operations(self):
        return [request["op"] for agent in self.agents for request in agent.requests]


def machine(name, **variables):
    return Machine(name, ("all",), {key: Value(value, "a test") for key, value in variables.items()}, "a test")


def role(state=None, probes=()):
    wanted = State([resources.file("/a", "text")])
    return Role("web", lambda: Variables, lambda variables: probes, state or (lambda variables, facts: wanted))


@pytest.fixture
def run(monkeypatch):
    """Converges machines over fake ways; the ways by name, and the reports."""
    monkeypatch.setattr(fleets, "resolve", lambda machine, defaults, model: Variables())

    def run(machines, a_role, ways=None, only=None, **options):
        inventory = Inventory(Path("a test"), False, {one.name: one for one in machines})
        ways = ways or {one.name: Way(one.name) for one in machines}
        nobody = Entrance(a_role, lambda variables, argv: list(argv), lambda variables, facts: True)
        with Fleet(inventory, {}, [a_role], nobody, Deaf()) as fleet:
            monkeypatch.setattr(fleet, "_make_transport", lambda one: ways[one.name])
            chosen = [one for one in machines if only is None or one.name in only]
            return ways, converge(fleet, chosen, Options(**options))

    return run


def test_a_machine_that_is_reached_by_itself_carries_the_roles(run):
    _, reports = run([machine("box", address="198.51.100.1")], role())
    assert [report.counts["ok"] for report in reports] == [1]
    assert reports[0].execs == 1


def test_a_machine_through_which_others_are_reached_gets_none_of_their_roles(run):
    """Not even where it alone is selected."""
    machines = [machine("host", address="198.51.100.1"), machine("guest", through="host")]
    ways, reports = run(machines, role(), only=["host"])
    assert reports == []
    assert ways["host"].agents == []


def test_a_role_without_questions_costs_one_request(run):
    ways, _ = run([machine("box", address="198.51.100.1")], role())
    assert ways["box"].operations == ["converge"]


def test_a_role_with_questions_gets_its_answers_in_the_same_exec(run):
    seen = []

    def state(variables, facts):
        seen.extend(facts)
        return State([resources.file("/a", "text")])

    ways, (report,) = run([machine("box", address="198.51.100.1")], role(state, [{"probe": "glob", "pattern": "/*"}]))
    assert seen == ["a fact"]
    assert ways["box"].operations == ["probe", "converge"] and report.execs == 1


class Pressed(Agent):
    """Ctrl-C comes while the second of the plan's resources is in hand."""

    def send(self, data):
        super().send(data)
        specs = [
            spec for request in self.requests for part in request["plan"]["sections"] for spec in part["resources"]
        ]
        events = [{"e": "done", "id": spec["id"], "state": "ok", "seconds": 0} for spec in specs[:1]]
        events += [{"e": "start", "id": spec["id"]} for spec in specs[1:2]]
        self.waiting = b"".join(json.dumps(event).encode() + b"\n" for event in events)

    def receive(self, deadline_s):
        if not self.waiting:
            raise KeyboardInterrupt
        return super().receive(deadline_s)


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        (resources.job("build", ["make"]), "box: build, a job, goes on by itself"),
        (resources.file("/b", "text"), "box: file /b, is finished"),
    ],
)
def test_whoever_leaves_is_told_what_goes_on_without_them(run, monkeypatch, resource, told):
    monkeypatch.setattr(sys.modules[__name__], "Agent", Pressed)
    wanted = State([resources.file("/a", "text"), resource])
    with pytest.raises(Interrupted) as caught:
        run([machine("box", address="198.51.100.1")], role(lambda variables, facts: wanted))
    assert caught.value.found == told
    assert caught.value.code == 130


class IllMirror(Agent):
    """Its first resource fails in a way that may pass by itself."""

    def send(self, data):
        super().send(data)
        specs = [
            spec for request in self.requests for part in request["plan"]["sections"] for spec in part["resources"]
        ]
        for spec in specs[:1]:
            failed = {"e": "done", "id": spec["id"], "state": "failed", "seconds": 0, "passing": True}
            self.waiting = json.dumps(failed).encode() + b"\n" + json.dumps({"e": "end"}).encode() + b"\n"


def test_whoever_leaves_while_something_is_to_pass_by_itself_begins_nothing_more(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "Agent", IllMirror)
    monkeypatch.setattr(fleets, "resolve", lambda machine, defaults, model: Variables())
    box, way = machine("box", address="198.51.100.1"), Way("box")
    entrance = Entrance(role(), lambda variables, argv: list(argv), lambda variables, facts: True)
    with Fleet(Inventory(Path("a test"), False, {"box": box}), {}, [role()], entrance, Deaf()) as fleet:
        monkeypatch.setattr(fleet, "_make_transport", lambda one: way)
        fleet.pause_s = 600
        target = Target(fleet, Options(), box, [(role(), box)])
        target.plan()
        monkeypatch.setattr(fleet.listener, "says", lambda machine, line: target.leave())
        with pytest.raises(ConnectError, match="left"):
            target.carry_out()
    assert way.operations == ["converge"]


def test_agents_are_ended_with_their_machine_not_with_the_fleet(run):
    ways, _ = run([machine(f"box{n}", address=f"198.51.100.{n}") for n in range(6)], role())
    assert all(agent.closed for way in ways.values() for agent in way.agents)


def refuse(variables, facts):
    raise InputError("this cannot be")


def test_only_a_few_machines_are_connected_before_the_input_has_proved_to_be_right(run):
    machines = [machine(f"box{n}", address=f"198.51.100.{n}") for n in range(3 * AHEAD)]
    ways = {one.name: Way(one.name) for one in machines}
    with pytest.raises(InputError):
        run(machines, role(refuse), ways)
    connected = {name for name, way in ways.items() if way.connections or way.agents}
    assert connected == {f"box{n}" for n in range(AHEAD)}
    assert [way.operations for way in ways.values()] == [[]] * len(ways), "no agent was asked anything"


def test_wrong_input_is_said_even_where_a_machine_cannot_be_reached(run):
    way = Way("box", error=ConnectError("no way"))
    with pytest.raises(InputError, match="this cannot be"):
        run([machine("box", address="198.51.100.1")], role(refuse), {"box": way})


@pytest.mark.parametrize("probes", [(), [{"probe": "glob", "pattern": "/*"}]], ids=["plan only", "facts too"])
def test_a_machine_that_cannot_be_reached_is_tried_once_and_reported(run, probes):
    machines = [machine("lost", address="198.51.100.1"), machine("found", address="198.51.100.2")]
    ways = {"lost": Way("lost", error=ConnectError("no way")), "found": Way("found")}
    _, reports = run(machines, role(probes=probes), ways)
    assert [(report.name, str(report.error or "")) for report in reports] == [("lost", "no way"), ("found", "")]
    assert ways["lost"].connections == 1


def test_no_agent_is_started_ahead_where_sudo_might_ask_for_a_password(run):
    way = Way("box", login_is_root=False)
    with pytest.raises(InputError):
        run([machine("box", address="198.51.100.1")], role(refuse), {"box": way})
    assert way.connections == 1 and way.agents == []
