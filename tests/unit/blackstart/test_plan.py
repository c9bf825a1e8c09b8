import json

from blackstart import resources
from blackstart.plan import Section, State, plan_to_wire
from blackstart.resources import Restart


def section(role="web", subject="box", **state):
    return Section(role, subject, ({"probe": "glob", "pattern": "/x"},), "digest", State(**state))


def test_a_section_carries_its_probes_and_the_digest_of_the_facts_it_was_built_on():
    wire = section().to_wire()
    assert wire == {
        "role": "web",
        "probes": [{"probe": "glob", "pattern": "/x"}],
        "facts": "digest",
        "handlers": [],
        "resources": [],
        "verify": [],
    }


def test_every_resource_and_verification_has_an_id_of_its_own_and_can_be_found_by_it():
    twice = resources.absent("/x")
    one = section(resources=[twice, twice], verify=[resources.opens("open", ["/dev/null"])])
    other = section(subject="bay", resources=[twice])
    ids = [item["id"] for part in (one, other) for item in part.to_wire()["resources"] + part.to_wire()["verify"]]
    assert len(set(ids)) == 4
    found = one.by_id() | other.by_id()
    assert set(found) == set(ids)
    assert found[ids[0]] == twice
    assert found[ids[2]].name == "open"


def test_handlers_of_all_sections_meet_in_the_plan():
    one = section(handlers={"restart a": Restart("a.service")})
    two = section("db", handlers={"restart b": Restart("b.service")})
    wire = plan_to_wire([one, two], check=True, restart=False, empty=True)
    assert wire["handlers"] == {"restart a": {"unit": "a.service"}, "restart b": {"unit": "b.service"}}
    assert (wire["check"], wire["restart"], wire["empty"]) == (True, False, True)
    assert [part["role"] for part in wire["sections"]] == ["web", "db"]


def test_a_plan_is_json():
    state = {"resources": [resources.file("/x", "text", notify=("h",))], "handlers": {"h": Restart("a.service")}}
    wire = plan_to_wire([section(**state)], check=False, restart=True, empty=False)
    assert json.loads(json.dumps(wire)) == wire
