import getpass
import json
import os

import pytest

from blackstart import bundle, entry, session
from blackstart.errors import CheckError, ConnectError
from blackstart.session import MAX_NOISE, SILENCE_S, Session


class Script:
    """A channel whose far side is a list: bytes arrive as they stand there, an exception is raised, the rest is EOF."""

    def __init__(self, *parts, status=0, stderr=""):
        self.parts = list(parts)
        self.end = status, stderr
        self.sent = b""
        self.closed = 0
        self.hung_up = False
        self.deadlines = []

    def send(self, data):
        self.sent += data

    def receive(self, deadline_s):
        self.deadlines.append(deadline_s)
        part = self.parts.pop(0) if self.parts else b""
        if isinstance(part, Exception):
            raise part
        return part

    def hang_up(self):
        self.hung_up = True

    def close(self):
        self.closed += 1
        return self.end


class Machine:
    """A transport that hands out scripts, one a start."""

    where = "box"

    def __init__(self, *scripts, login_is_root=True):
        self.scripts = list(scripts)
        self.login_is_root = login_is_root
        self.started = []

    def start_as_root(self, argv):
        self.started.append(list(argv))
        return self.scripts[len(self.started) - 1]


def line(**event):
    return json.dumps(event).encode() + b"\n"


END = line(e="end")
FACTS = line(e="facts", group="g", answers=[1], digest="d")


def requests(script):
    """The requests that a channel got after the program."""
    data, found = script.sent, []
    assert data.startswith(bundle.program())
    data = data[len(bundle.program()) :]
    while data:
        length, rest = data.split(b"\n", 1)
        found.append(json.loads(rest[: int(length)]))
        data = rest[int(length) :]
    return found


def probe(*parts, **options):
    script = Script(*parts, **options)
    return script, Session(Machine(script))


def test_a_request_is_framed_and_names_the_controller():
    script, one = probe(FACTS + END)
    assert one.probe({"g": [{"probe": "glob", "pattern": "/ü"}]}) == {"g": ([1], "d")}
    (request,) = requests(script)
    assert request["op"] == "probe"
    assert request["groups"] == {"g": [{"probe": "glob", "pattern": "/ü"}]}
    assert request["empty"] is False
    assert request["controller"].startswith(getpass.getuser() + "@")
    assert request["controller"].endswith(f"pid {os.getpid()}")


def test_events_are_found_however_the_bytes_are_cut():
    stream = line(e="start", id="a") + line(e="output", id="a", line="ü\n") + line(e="done", id="a") + END
    whole = list(Session(Machine(Script(stream))).converge({}))
    assert [event["e"] for event in whole] == ["start", "output", "done"]
    for size in (1, 2, 7, 50):
        parts = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert list(Session(Machine(Script(*parts))).converge({})) == whole


def test_signs_of_life_are_no_events():
    _, one = probe(line(e="alive") + line(e="start", id="a"), line(e="alive"), END)
    assert [event["e"] for event in one.converge({})] == ["start"]


def test_many_requests_cost_one_exec_and_one_program():
    script, one = probe(FACTS + END, FACTS + END)
    with one:
        one.probe({"g": []})
        one.probe({"g": []})
    assert one.execs == 1
    assert script.sent.count(bundle.program()) == 1
    assert len(requests(script)) == 2
    assert script.closed == 1


def test_a_session_that_asks_nothing_starts_nothing():
    machine = Machine()
    with Session(machine) as one:
        one.hang_up()
    assert machine.started == [] and one.execs == 0


def test_an_agent_that_is_started_ahead_answers_the_first_request():
    script = Script(FACTS + END)
    machine = Machine(script)
    one = Session(machine)
    one.start()
    assert machine.started == [entry.agent("/usr/bin/python3", install=False)]
    assert script.sent == bundle.program()
    assert one.probe({"g": []}) == {"g": ([1], "d")}
    assert one.execs == 1


def test_a_python_that_was_missing_ahead_is_installed_for_the_request():
    ahead, real = Script(line(e="missing", what="python3")), Script(line(e="installing", what="python3"), FACTS + END)
    machine = Machine(ahead, real)
    one = Session(machine)
    one.start()
    assert one.probe({"g": []}) == {"g": ([1], "d")}
    assert machine.started[1] == entry.agent("/usr/bin/python3")
    assert ahead.closed == 1 and one.execs == 2
    assert requests(real) == requests(ahead), "the request is sent again"


def test_what_a_listener_did_not_hear_is_not_taken_for_the_next_answer():
    _, one = probe(line(e="stale", section="web") + line(e="alive"), END + FACTS + END)
    for event in one.converge({}):
        assert event["e"] == "stale"
        break
    assert one.probe({"g": []}) == {"g": ([1], "d")}


def test_a_session_begins_anew_after_its_agent_was_lost():
    machine = Machine(Script(b'{"e":"sta', status=137), Script(FACTS + END))
    one = Session(machine)
    with pytest.raises(ConnectError):
        list(one.converge({}))
    assert one.probe({"g": []}) == {"g": ([1], "d")}
    assert one.execs == 2


def test_a_session_that_was_left_half_way_begins_anew():
    machine = Machine(Script(line(e="start", id="a") + b'{"half'), Script(FACTS + END))
    one = Session(machine)
    with one:
        next(one.converge({}))
    with one:
        assert one.probe({"g": []}) == {"g": ([1], "d")}


@pytest.mark.parametrize(
    "banner",
    [
        b"Welcome!\n",
        b"Welcome!\r\nLast login: today\r\n",
        b"\n\n\n",
        b"\xff\xfe\n",
        b"42\n",
        b'"text"\n[]\nnull\n{}\n{"a": 1}\n',
        b"x\n" * 5000,
    ],
)
def test_a_banner_before_the_first_event_does_no_harm(banner):
    _, one = probe(banner + FACTS + END)
    assert one.probe({"g": []}) == {"g": ([1], "d")}


def test_endless_noise_is_given_up():
    script, one = probe(*[b"y\n" * 1000] * (MAX_NOISE // 1000))
    with pytest.raises(ConnectError, match="writes into the agent's output") as caught:
        one.probe({"g": []})
    assert caught.value.found == "y" and "start file" in caught.value.remedy
    assert script.parts, "it was read to its end"


def test_noise_in_the_middle_is_an_error_that_shows_it():
    _, one = probe(line(e="start", id="a") + b"Segmentation fault\n" + END)
    with pytest.raises(ConnectError, match="writes into the agent's output") as caught:
        list(one.converge({}))
    assert caught.value.found == "Segmentation fault"


def test_an_empty_line_is_no_noise():
    _, one = probe(line(e="start", id="a") + b"\n" + END)
    assert [event["e"] for event in one.converge({})] == ["start"]


def test_silence_has_a_deadline():
    script, one = probe(line(e="start", id="a"), TimeoutError())
    with pytest.raises(ConnectError, match="no sign of life for 30 s") as caught:
        list(one.converge({}))
    assert caught.value.where == "box" and caught.value.remedy
    assert script.deadlines == [SILENCE_S, SILENCE_S]


def test_silence_is_counted_from_the_last_byte():
    """A long answer over a slow line is no silence."""
    script, one = probe(*[bytes([byte]) for byte in FACTS + END])
    one.probe({"g": []})
    assert set(script.deadlines) == {SILENCE_S}


def test_an_installation_is_waited_for_longer_and_what_comes_after_it_is_not():
    script, one = probe(line(e="installing", what="python3"), FACTS, END)
    one.probe({"g": []})
    assert script.deadlines == [SILENCE_S, session.INSTALL_S, SILENCE_S]


@pytest.mark.parametrize(
    ("stderr", "found"),
    [
        ("", "no output"),
        ("1\n2\n3\n4\n", "2\n3\n4"),
        ("sh: 1: exec: /usr/bin/python3: not found\n", "sh: 1: exec: /usr/bin/python3: not found"),
    ],
)
def test_an_agent_that_ends_early_shows_its_last_words(stderr, found):
    script, one = probe(line(e="start", id="a"), status=137, stderr=stderr)
    with pytest.raises(ConnectError, match="the agent ended early with 137") as caught:
        list(one.converge({}))
    assert caught.value.found == found
    assert script.closed == 1


def test_an_agent_that_ends_early_is_not_closed_twice():
    script, one = probe(b"")
    with pytest.raises(ConnectError), one:
        list(one.converge({}))
    assert script.closed == 1


def test_a_lost_connection_passes_through():
    _, one = probe(ConnectError("the connection was lost", where="box"))
    with pytest.raises(ConnectError, match="the connection was lost"):
        list(one.converge({}))


def test_a_held_lock_names_its_holder():
    holder = {"controller": "ada@desk pid 7", "since": "2026-11-29T10:00:00Z", "pid": 99}
    _, one = probe(line(e="held", holder=holder) + END)
    with pytest.raises(CheckError, match="another controller works on this machine") as caught:
        list(one.converge({}))
    assert caught.value.found == "ada@desk pid 7, since 2026-11-29T10:00:00Z"


def test_a_lock_without_a_name_is_held_all_the_same():
    _, one = probe(line(e="held", holder={}) + END)
    with pytest.raises(CheckError) as caught:
        list(one.converge({}))
    assert caught.value.found == "unknown, since unknown"


def test_what_is_broken_on_the_machine_is_said_with_what_to_do():
    _, one = probe(line(e="broken", message="owed.json is damaged", found="", remedy="move it away") + END)
    with pytest.raises(CheckError, match="is damaged") as caught:
        list(one.converge({}))
    assert (caught.value.where, caught.value.remedy) == ("box", "move it away")


def test_a_fault_of_the_agent_is_reported_as_ours_with_its_trace():
    _, one = probe(line(e="fault", trace="Traceback\n  line\nKeyError: 'x'\n") + END)
    with pytest.raises(CheckError, match="fault of its own") as caught:
        list(one.converge({}))
    assert caught.value.found == "KeyError: 'x'"
    assert "Traceback" in caught.value.remedy


def test_an_error_leaves_the_session_usable():
    _, one = probe(line(e="held", holder={}) + END + FACTS + END)
    with pytest.raises(CheckError):
        list(one.converge({}))
    assert one.probe({"g": []}) == {"g": ([1], "d")}


@pytest.mark.parametrize(
    ("by", "says"), [("no python", "no usable Python"), ("no sudo", "the login is not root, and there is no sudo")]
)
def test_a_machine_that_cannot_run_the_agent_says_why(by, says):
    _, one = probe(line(e="refused", by=by))
    with pytest.raises(ConnectError, match=says):
        one.probe({"g": []})


# sudo


def user_session(*parts, password=None):
    script = Script(*parts)
    return script, Session(Machine(script, login_is_root=False), password=password)


def never():
    raise AssertionError("the password was asked for though nobody wants one")


def test_a_password_is_not_asked_for_where_sudo_wants_none():
    script, one = user_session(line(e="become", password=False), FACTS + END, password=never)
    one.probe({"g": []})
    assert script.sent.startswith(bundle.program())


def test_a_password_goes_before_the_program_and_only_once_it_is_wanted():
    script, one = user_session(line(e="become", password=True), line(e="root"), FACTS + END, password=lambda: "s3cret")
    one.probe({"g": []})
    assert script.sent.startswith(b"s3cret\n" + bundle.program())
    assert script.deadlines == [SILENCE_S, session.SUDO_S, SILENCE_S]


def test_a_wanted_password_that_nobody_has_is_an_error():
    script, one = user_session(line(e="become", password=True))
    with pytest.raises(ConnectError, match="sudo asks for a password"):
        one.probe({"g": []})
    assert script.sent == b""


def test_a_wrong_password_is_an_error_and_the_program_is_not_sent():
    script, one = user_session(line(e="become", password=True), TimeoutError(), password=lambda: "wrong")
    with pytest.raises(ConnectError):
        one.probe({"g": []})
    assert script.sent == b"wrong\n"


def test_hanging_up_reaches_the_channel():
    script, one = probe(line(e="start", id="a"), END)
    next(one.converge({}))
    one.hang_up()
    assert script.hung_up


def test_after_hanging_up_nothing_is_begun_any_more():
    script, session = probe(FACTS, END)
    session.hang_up()
    with pytest.raises(ConnectError, match="left before it was asked"):
        session.probe({"g": []})
    assert script.sent == b""


def test_whoever_hangs_up_while_it_is_only_being_started_asks_nothing():
    script, session = probe(FACTS, END)
    session.start()
    session.hang_up()
    assert script.hung_up
    with pytest.raises(ConnectError, match="left before it was asked"):
        session.probe({"g": []})
    assert requests(script) == []


def test_ctrl_c_does_not_wait_for_what_is_in_hand():
    script, session = probe()
    with pytest.raises(KeyboardInterrupt), session:
        session.start()
        raise KeyboardInterrupt
    assert script.hung_up and script.closed


def test_a_user_without_a_name_has_a_number(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: {}["LOGNAME"])
    assert session.controller_name().startswith(f"{os.getuid()}@")
