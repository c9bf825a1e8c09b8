import os
import socket
import subprocess
import sys

import pytest

from blackstart.agent import probes
from blackstart.agent.probes import MAX_TEXT, probe
from blackstart.agent.world import Unknown, World, sha256

EMPTY = World(empty=True)


def ask(kind, world=None, **question):
    return probe(world or World(), {"probe": kind, **question})


def test_a_file_answers_with_text_and_hash(tmp_path):
    (tmp_path / "f").write_text("ü")
    assert ask("file", path=f"{tmp_path}/f") == {"text": "ü", "sha256": sha256("ü".encode())}
    assert ask("file", path=f"{tmp_path}/none") is None
    assert ask("file", path=str(tmp_path)) is None


def test_bytes_that_are_no_text_come_back_as_they_were(tmp_path):
    (tmp_path / "f").write_bytes(b"\xff\x00")
    assert ask("file", path=f"{tmp_path}/f")["text"].encode("utf-8", "surrogateescape") == b"\xff\x00"


def test_a_file_that_is_too_big_is_none(tmp_path):
    with (tmp_path / "f").open("wb") as stream:
        stream.truncate(MAX_TEXT + 1)
    assert ask("file", path=f"{tmp_path}/f") is None


def test_an_entry_answers_without_following_links(tmp_path):
    (tmp_path / "l").symlink_to("/dev/null")
    assert ask("entry", path=f"{tmp_path}/l") == {"kind": "link", "target": "/dev/null"}
    assert ask("entry", path="/dev/null") == {"kind": "special file", "target": ""}
    assert ask("entry", path=f"{tmp_path}/none") == {"kind": "absent", "target": ""}


def test_globs_are_sorted(tmp_path):
    for name in ("b", "a", "c.txt"):
        (tmp_path / name).write_text(name)
    assert ask("glob", pattern=f"{tmp_path}/?") == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert list(ask("files", pattern=f"{tmp_path}/?")) == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert ask("files", pattern=f"{tmp_path}/?")[f"{tmp_path}/a"]["text"] == "a"


def test_a_directory_is_no_file_of_a_pattern(tmp_path):
    (tmp_path / "d").mkdir()
    assert ask("files", pattern=f"{tmp_path}/*") == {}


@pytest.fixture
def site(tmp_path):
    site = tmp_path / "site"
    for name, text in (("a.py", "import needle\n"), ("sub/b.py", "hay\n"), ("sub/c.txt", "needle"), ("d.py", "needle")):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    return site


def search(site, **question):
    return ask("search", **{"root": str(site), "needles": ["needle"], "suffixes": [".py"], "known": [], **question})


def test_a_search_finds_files_by_what_they_hold(site):
    found = search(site)
    assert set(found) == {f"{site}/a.py", f"{site}/d.py"}
    assert found[f"{site}/a.py"]["text"] == "import needle\n"


def test_a_search_leaves_out_the_text_of_what_the_asker_has(site):
    known = sha256(b"needle")
    found = search(site, known=[known])
    assert found[f"{site}/d.py"] == {"sha256": known}
    assert "text" in found[f"{site}/a.py"]


def test_a_search_survives_links_that_lead_nowhere_and_pipes(site):
    (site / "dangling.py").symlink_to("nowhere")
    os.mkfifo(site / "pipe.py")
    assert set(search(site)) == {f"{site}/a.py", f"{site}/d.py"}


def test_a_search_where_nothing_is_finds_nothing(tmp_path):
    assert search(tmp_path / "none") == {}


def test_a_search_may_have_a_pattern_as_its_root(site, tmp_path):
    assert set(search(tmp_path / "si?e")) == {f"{site}/a.py", f"{site}/d.py"}


def test_a_search_brings_the_lines_of_a_wheels_record(site):
    record = site / "x-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("a.py,sha256=abc,14\nsub/b.py,sha256=def,4\n")
    found = search(site, record=f"{site}/x-*.dist-info/RECORD")
    assert found[f"{site}/a.py"]["record"] == "a.py,sha256=abc,14"
    assert "record" not in found[f"{site}/d.py"]


def test_a_program_answers_with_status_and_output():
    assert ask("run", argv=["sh", "-c", "echo x; exit 3"]) == {"status": 3, "output": "x\n"}
    assert ask("run", argv=["/no/such"])["status"] == 127
    assert ask("run", argv=["sleep", "600"], timeout=0.2)["status"] == 124


def test_a_listener_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = ask("listener", port=port)
        assert found["pid"] == os.getpid() and found["name"]
        assert isinstance(found["unit"], str)
    assert ask("listener", port=port) is None


def test_a_listener_on_ipv6_counts():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        assert ask("listener", port=server.getsockname()[1])["pid"] == os.getpid()


def test_a_connection_is_no_listener():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert ask("listener", port=client.getsockname()[1]) is None


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/sglang.service\n", "sglang.service"),
        ("0::/lxc/200/ns/system.slice/a.service/sub\n", "a.service"),
        ("0::/\n", ""),
        ("1:name=systemd:/user.slice/session-1.scope\n0::/x.service\n", "x.service"),
    ],
)
def test_the_unit_of_a_process_is_read_from_its_cgroup(tmp_path, monkeypatch, cgroup, unit):
    path = tmp_path / "cgroup"
    path.write_text(cgroup)
    monkeypatch.setattr(probes, "open", lambda name: path.open() if name == "/proc/7/cgroup" else None, raising=False)
    assert probes._unit_of("7") == unit


def test_processes_are_found_by_their_command_line():
    needle = f"needle-{os.getpid()}"
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, needle], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "ready\n"
        (found,) = ask("processes", needle=needle)
        assert found["pid"] == child.pid and found["command"].endswith(needle)
        child.stdin.close()
        assert os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT).si_status == 0
        assert ask("processes", needle=needle) == []  # a zombie
    assert ask("processes", needle=needle) == []


def test_the_tail_of_a_file(tmp_path):
    (tmp_path / "f").write_bytes(b"1\n2\n\xff3\n")
    assert ask("tail", path=f"{tmp_path}/f", lines=2) == ["2", "\ufffd3"]
    assert ask("tail", path=f"{tmp_path}/none", lines=2) == []


def test_a_tail_has_a_bound(tmp_path, monkeypatch):
    (tmp_path / "f").write_text("1\n2\n3\n")
    assert ask("tail", path=f"{tmp_path}/f", lines=10**20) == ["1", "2", "3"]
    monkeypatch.setattr(probes, "MAX_LINES", 2)
    assert ask("tail", path=f"{tmp_path}/f", lines=10**20) == ["2", "3"]


def test_an_answer_that_depends_on_an_unknown_is_unknown(tmp_path):
    world = World()
    world.would_provide(f"{tmp_path}/f", "the command")
    with pytest.raises(Unknown):
        ask("file", world, path=f"{tmp_path}/f")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ({"probe": "file", "path": "/etc/passwd"}, None),
        ({"probe": "entry", "path": "/etc/passwd"}, {"kind": "absent", "target": ""}),
        ({"probe": "entry", "path": "/etc"}, {"kind": "directory", "target": ""}),
        ({"probe": "glob", "pattern": "/etc/*"}, []),
        ({"probe": "files", "pattern": "/etc/*"}, {}),
        ({"probe": "unit", "unit": "ssh.service"}, {"ActiveState": "inactive"}),
        ({"probe": "search", "root": "/etc", "needles": ["root"], "suffixes": [""], "known": []}, {}),
        ({"probe": "listener", "port": 22}, None),
        ({"probe": "run", "argv": ["true"]}, {"status": 127, "output": ""}),
        ({"probe": "processes", "needle": ""}, []),
        ({"probe": "http", "url": "http://127.0.0.1/"}, {"status": 0, "body": ""}),
        ({"probe": "tail", "path": "/etc/passwd", "lines": 5}, []),
    ],
)
def test_a_machine_that_does_not_exist_yet_answers_as_an_empty_one(question, answer):
    assert probe(EMPTY, question) == answer


def test_every_kind_of_question_can_be_put_to_an_empty_machine():
    asked = {"file", "entry", "glob", "files", "unit", "search", "listener", "run", "processes", "http", "tail"}
    assert asked == set(probes.KINDS)
