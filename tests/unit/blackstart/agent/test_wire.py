import json
import os
import select
import threading

import pytest

from blackstart.agent import wire as module
from blackstart.agent.wire import Wire


@pytest.fixture
def ends():
    """A wire with both of the controller's ends."""
    source, controller_out = os.pipe()
    controller_in, sink = os.pipe()
    open_ends = {source, controller_out, controller_in, sink}

    class Ends:
        wire = Wire(source, sink)
        near = controller_in

        def send(self, data):
            os.write(controller_out, data)

        def receive(self):
            return os.read(controller_in, 65536)

        def close(self, which):
            end = {"out": controller_out, "in": controller_in}[which]
            open_ends.discard(end)
            os.close(end)

    yield Ends()
    for end in open_ends:
        os.close(end)


def frame(**request):
    body = json.dumps(request).encode()
    return b"%d\n%s" % (len(body), body)


def test_requests_are_read_one_after_another(ends):
    ends.send(frame(op="one") + frame(op="two", text="ü\n"))
    assert ends.wire.read_request() == {"op": "one"}
    assert ends.wire.read_request() == {"op": "two", "text": "ü\n"}


def test_a_request_may_come_in_pieces(ends):
    data = frame(op="big", text="x" * 50_000)
    sender = threading.Thread(target=lambda: [ends.send(data[at : at + 1000]) for at in range(0, len(data), 1000)])
    sender.start()
    assert len(ends.wire.read_request()["text"]) == 50_000
    sender.join()


@pytest.mark.parametrize("cut", [0, 1, 3, 10])
def test_a_request_that_is_cut_off_is_the_controllers_end(ends, cut):
    ends.send(frame(op="one")[:cut])
    ends.close("out")
    assert ends.wire.read_request() is None


def test_events_are_json_lines(ends):
    ends.wire.emit("done", id="x", text="ü\nline")
    ends.wire.emit("end")
    first, second = ends.receive().splitlines()
    assert json.loads(first) == {"e": "done", "id": "x", "text": "ü\nline"}
    assert json.loads(second) == {"e": "end"}


def test_a_note_waits_for_the_next_event(ends):
    ends.wire.note("start", id="a")
    ends.wire.note("done", id="a")
    assert not select.select([ends.near], [], [], 0)[0]
    ends.wire.emit("start", id="b")
    assert [json.loads(line)["id"] for line in ends.receive().splitlines()] == ["a", "a", "b"]


def test_a_note_waits_no_longer_than_for_a_sign_of_life(ends, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    ends.wire.note("start", id="a")
    ends.wire.start_heartbeat()
    first = ends.receive().splitlines()[0]
    ends.wire.gone = True
    assert json.loads(first) == {"e": "start", "id": "a"}


def test_events_of_several_threads_do_not_mix(ends):
    talkers = [
        threading.Thread(target=lambda: [ends.wire.emit("output", line="x" * 3000) for _ in range(20)])
        for _ in range(4)
    ]
    for talker in talkers:
        talker.start()
    heard = b""
    while heard.count(b"\n") < 80:
        heard += ends.receive()
    for talker in talkers:
        talker.join()
    assert all(json.loads(line)["line"] == "x" * 3000 for line in heard.splitlines())


def test_a_listener_that_went_is_remembered_and_not_raised(ends):
    ends.close("in")
    ends.wire.emit("done")
    assert ends.wire.gone
    ends.wire.emit("done")


def test_a_closed_stdin_tells_that_the_controller_is_gone(ends):
    assert not ends.wire.controller_is_gone()
    ends.close("out")
    assert ends.wire.controller_is_gone()
    assert ends.wire.gone


def test_a_sign_of_life_is_given_until_the_controller_goes(ends, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.001)
    others = set(threading.enumerate())
    ends.wire.start_heartbeat()
    (beat,) = set(threading.enumerate()) - others
    assert json.loads(ends.receive().splitlines()[0]) == {"e": "alive"}
    ends.close("in")
    beat.join(10)
    assert not beat.is_alive()
