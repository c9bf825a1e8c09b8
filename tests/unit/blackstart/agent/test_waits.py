import contextlib
import http.server
import json
import socket
import threading

import pytest

from blackstart.agent import waits
from blackstart.agent.kind import Context, Refused
from blackstart.agent.probes import probe
from blackstart.agent.run import Ran
from blackstart.agent.world import World
from blackstart.resources import booted, directory, opens
from blackstart.resources import http as answers


class Server(http.server.ThreadingHTTPServer):
    """Answers from a list of (status, body); the last one for ever. A callable is handed the handler."""

    daemon_threads = True

    def __init__(self, *script):
        self.script = list(script)
        self.requests = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/health"

    def handle_error(self, request, client_address):
        """What a handler broke off on purpose is no error."""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.headers.get("Content-Type"), body))
        script = self.server.script
        step = script.pop(0) if len(script) > 1 else script[0]
        if callable(step):
            step(self)
            return
        status, text = step
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(*script):
    with Server(*script) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def cut_off(handler):
    """Promises a body and ends the connection half-way."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True


def babble(handler):
    """Speaks no HTTP."""
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    handler.close_connection = True


# http


def test_an_answer_is_what_was_waited_for(machine):
    with serving((200, b"ready")) as server:
        assert machine.apply(verify=[answers("ready", server.url, deadline=10)]) == ["verified"]
    assert machine.done[0]["detail"] == "ready"
    assert server.requests == [("GET", "application/json", b"")]


@pytest.mark.parametrize("first", [(503, b"starting"), (404, b""), cut_off, babble])
def test_it_is_asked_again_until_it_answers_well(machine, first):
    with serving(first, first, (200, b"ready")) as server:
        assert machine.apply(verify=[answers("ready", server.url, deadline=20)]) == ["verified"]
    assert machine.done[0]["detail"] == "ready"
    assert len(server.requests) == 3


def test_a_body_is_posted_as_json(machine):
    with serving((200, b'{"text": "1 2 3"}')) as server:
        machine.apply(verify=[answers("completion", server.url, deadline=10, body={"prompt": "ü"})])
    ((method, kind, body),) = server.requests
    assert (method, kind, json.loads(body)) == ("POST", "application/json", {"prompt": "ü"})


@pytest.mark.parametrize(
    ("script", "says"), [((503, b""), "HTTP 503"), (babble, "SSH-2.0"), (cut_off, "IncompleteRead")]
)
def test_a_deadline_that_passes_is_a_failure_that_says_what_came_last(machine, script, says):
    with serving(script) as server:
        wish = answers("ready", server.url, deadline=0.1, remedy="see its log")
        assert machine.apply(verify=[wish]) == ["failed"]
    assert f"{server.url} did not answer 200 within 0.1 s" in machine.failure
    assert says in machine.failure
    assert machine.done[0]["remedy"] == "see its log" and machine.done[0]["verify"] is True


def test_where_nothing_listens_the_failure_says_so(machine):
    url = f"http://127.0.0.1:{free_port()}/"
    assert machine.apply(verify=[answers("ready", url, deadline=0)]) == ["failed"]
    assert "refused" in machine.failure


def test_a_server_that_takes_the_question_and_never_answers_does_not_outlast_the_deadline(machine):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert machine.apply(verify=[answers("ready", url, deadline=0)]) == ["failed"]
    assert "timed out" in machine.failure
    assert machine.done[0]["seconds"] < 5


@pytest.mark.parametrize(("body", "deadline", "expected"), [(None, 500, 30), (None, 5, 5), ({}, 500, 500)])
def test_a_get_is_repeated_and_a_post_is_waited_for(monkeypatch, body, deadline, expected):
    """The first completion of a cold engine takes longer than any health check may."""
    patience = []

    class Opener:
        def open(self, request, timeout):
            patience.append(timeout)
            raise OSError("stop here")

    wish = answers("x", "http://127.0.0.1/", deadline=deadline, body=body)
    kind = waits.Http(wish.to_wire("x"), machine_context())
    monkeypatch.setattr(waits.urllib.request, "build_opener", lambda *handlers: Opener())
    assert kind._ask(deadline) == "stop here"
    assert patience == [expected]


def machine_context(gone=False):
    return Context(World(), None, lambda line: None, lambda: gone, True)


def test_the_environments_proxy_is_not_asked(machine, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}/")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving((200, b"direct")) as server:
        assert machine.apply(verify=[answers("ready", server.url, deadline=5)]) == ["verified"]
        assert probe(World(), {"probe": "http", "url": server.url}) == {"status": 200, "body": "direct"}


def test_a_unit_that_ended_is_not_waited_for(machine, monkeypatch):
    monkeypatch.setattr(waits, "show", lambda unit: {"ActiveState": "failed"})
    monkeypatch.setattr(waits, "run", lambda argv: Ran(0, "line\nOut of memory\n"))
    wish = answers("ready", f"http://127.0.0.1:{free_port()}/", deadline=600, unit="x.service")
    assert machine.apply(verify=[wish]) == ["failed"]
    assert machine.failure == "unit x.service ended while it was starting\nline\nOut of memory"


def test_a_moment_without_systemds_word_is_not_the_units_end(machine, monkeypatch):
    asked = []

    def show(unit):
        asked.append(unit)
        raise Refused("systemd does not answer")

    monkeypatch.setattr(waits, "show", show)
    wish = answers("ready", f"http://127.0.0.1:{free_port()}/", deadline=0.3, unit="x.service")
    assert machine.apply(verify=[wish]) == ["failed"]
    assert asked and "did not answer 200" in machine.failure


def test_a_unit_that_lives_is_waited_for(machine, monkeypatch):
    monkeypatch.setattr(waits, "show", lambda unit: {"ActiveState": "active"})
    with serving((503, b""), (200, b"ready")) as server:
        wish = answers("ready", server.url, deadline=20, unit="x.service")
        assert machine.apply(verify=[wish]) == ["verified"]


# the other waits


def test_nodes_that_open_are_counted(machine):
    assert machine.apply(verify=[opens("nodes", ["/dev/null", "/dev/zero"])]) == ["verified"]
    assert machine.done[0]["detail"] == "2 nodes open"


@pytest.mark.parametrize("what", ["missing", "directory"])
def test_a_node_that_does_not_open_is_named(machine, land, what):
    path = land if what == "directory" else land / "none"
    assert machine.apply(verify=[opens("nodes", ["/dev/null", str(path)], remedy="look")]) == ["failed"]
    assert machine.failure.startswith(f"{path} cannot be opened: ")
    assert machine.done[0]["remedy"] == "look"


def systemd(*states, failed=""):
    """systemctl that says each state once, and the last one for ever."""
    said = list(states)

    def run(argv):
        if "is-system-running" in argv:
            return Ran(0, said.pop(0) if len(said) > 1 else said[0])
        assert "list-units" in argv
        return Ran(0, failed)

    return run


@pytest.mark.parametrize(
    ("states", "failed", "outcome", "detail"),
    [
        (["running\n"], "", "verified", "running"),
        (["", "starting\n", "running\n"], "", "verified", "running"),
        (["degraded\n"], "a.mount loaded failed failed A\n", "verified", "degraded only by a.mount"),
        (["degraded\n"], "a.mount loaded\nb.service loaded\n", "failed", "systemd is degraded: a.mount b.service"),
        (["starting\n"], "", "failed", "systemd is starting"),
        (["offline\n"], "", "failed", "systemd is offline"),
        ([""], "", "failed", "systemd is silent"),
    ],
)
def test_systemd_is_up_or_degraded_only_by_what_is_tolerated(machine, monkeypatch, states, failed, outcome, detail):
    monkeypatch.setattr(waits, "run", systemd(*states, failed=failed))
    monkeypatch.setattr(waits, "POLL_S", 0)
    assert machine.apply(verify=[booted(deadline=0.2, tolerates=["a.mount"])]) == [outcome]
    assert machine.done[0]["detail"] == detail


def test_a_check_verifies_nothing(machine):
    assert machine.check(verify=[opens("nodes", ["/none"])]) == []


def test_what_stands_among_the_resources_is_waited_for_in_its_turn(machine, land):
    plan = [opens("nodes", ["/dev/null"]), directory(f"{land}/d"), opens("nodes", ["/none"]), directory(f"{land}/e")]
    assert machine.apply(*plan) == ["verified", "changed", "failed"]
    assert not (land / "e").exists()


def test_nobody_who_has_gone_is_waited_for():
    """An agent that waits on holds the machine's lock: whoever comes back would be turned away."""
    kind = waits.Http(
        answers("ready", f"http://127.0.0.1:{free_port()}/", deadline=600).to_wire("x"), machine_context(gone=True)
    )
    with pytest.raises(waits.Detached):
        kind.apply()


# asking


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ((200, "ü".encode()), {"status": 200, "body": "ü"}),
        ((503, b"starting"), {"status": 503, "body": "starting"}),
    ],
)
def test_a_question_over_http_is_answered_with_status_and_body(script, answer):
    with serving(script) as server:
        assert probe(World(), {"probe": "http", "url": server.url}) == answer


def test_what_speaks_no_http_answers_with_status_0():
    with serving(babble) as server:
        answer = probe(World(), {"probe": "http", "url": server.url})
    assert answer["status"] == 0 and answer["body"]


def test_where_nothing_listens_the_status_is_0():
    assert probe(World(), {"probe": "http", "url": f"http://127.0.0.1:{free_port()}/"})["status"] == 0
