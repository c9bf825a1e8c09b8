import json
import os

import pytest

from blackstart.agent import main, units
from blackstart.agent.run import Ran
from blackstart.plan import Section, State, plan_to_wire
from blackstart.resources import directory

from .machine import release


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Put one request to an agent whose state lies in a folder of the test; returns the events."""
    monkeypatch.setattr(main.Wire, "start_heartbeat", lambda wire: None)
    stores = []

    class Store(main.Store):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            stores.append(self)

    monkeypatch.setattr(main, "Store", Store)

    def ask(operation, **fields):
        request = {"op": operation, "controller": "tester", "state": str(tmp_path / "state"), **fields}
        frame = json.dumps(request).encode()
        (tmp_path / "requests").write_bytes(b"%d\n" % len(frame) + frame)
        source = os.open(tmp_path / "requests", os.O_RDONLY)
        sink = os.open(tmp_path / "events", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            main.serve(source, sink)
        finally:
            os.close(source)
            os.close(sink)
            for store in stores:
                release(store)
        return [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]

    return ask


def plan(*resources, check=False):
    section = Section("role", "box", (), "", State(list(resources)))
    return plan_to_wire([section], check=check, restart=False, empty=False)


def test_questions_are_answered_with_their_digest(ask, tmp_path):
    question = {"probe": "entry", "path": f"{tmp_path}/none"}
    found, end = ask("probe", groups={"g": [question]})
    assert found["answers"] == [{"kind": "absent", "target": ""}] and found["digest"]
    assert end == {"e": "end"}


def test_a_file_that_cannot_be_read_is_said_in_words(ask, tmp_path):
    (tmp_path / "a").symlink_to("a")
    broken, end = ask("probe", groups={"g": [{"probe": "file", "path": f"{tmp_path}/a"}]})
    assert broken["e"] == "broken" and "Too many levels of symbolic links" in broken["found"]
    assert end == {"e": "end"}


def test_a_systemd_that_does_not_answer_a_question_is_said_in_words(ask, monkeypatch):
    monkeypatch.setattr(units, "run", lambda argv: Ran(1, "Failed to connect to bus\n"))
    broken, _ = ask("probe", groups={"g": [{"probe": "unit", "unit": "x.service"}]})
    assert broken["e"] == "broken"
    assert broken["message"] == "systemd does not answer: Failed to connect to bus"
    assert broken["remedy"]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("content", ["", '{"name": "pa', "[]"])
def test_a_damaged_intent_is_named_and_stops_the_run(ask, tmp_path, land, content, check):
    place = tmp_path / "state" / "intents" / "abc"
    place.parent.mkdir(parents=True)
    place.write_text(content)
    broken, _ = ask("converge", plan=plan(directory(f"{land}/d"), check=check))
    assert broken["e"] == "broken"
    assert broken["message"].startswith(f"{place} is damaged: ")
    assert "move it away" in broken["remedy"]
    assert not (land / "d").exists()


def test_a_fault_of_ours_comes_with_its_trace(ask, monkeypatch):
    fault, _ = ask("probe", groups={"g": [{"probe": "no such kind"}]})
    assert fault["e"] == "fault" and "KeyError" in fault["trace"]
