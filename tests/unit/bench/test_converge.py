import itertools
import os
import py_compile
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from bench.converge import bytecode, contestants, fleet, hosts, inventories, measure, report, targets
from bench.converge.results import Case, Results, Sample
from bench.converge.workspace import HERE, TEMPLATES, VARS, Workspace
from blackstart.inventory import read
from blackstart.machine import Machine
from blackstart.variables import resolve

TAG = sys.implementation.cache_tag
NOOP = Case("blackstart", "noop", 1)


def sample(wall_s=1.0, other_load=0.0, **fields):
    zero = dict.fromkeys(("controller_cpu_s", "host_cpu_s", "peak_rss_mb", "connections", "execs", "subsystems"), 0.0)
    return Sample(**{**zero, "changed": 0, "wall_s": wall_s, "other_load": other_load, **fields})


def measured(**walls):
    """Results with one sample a name, such as `noop_1_pyinfra`."""
    found = Results({}, "command")
    for name, wall_s in walls.items():
        mode, count, contestant = name.split("_", 2)
        found.add(Case(contestant.replace("_", "-"), mode, int(count)), sample(wall_s))
    return found


# the role


@pytest.fixture(scope="module")
def wanted():
    return yaml.safe_load(VARS.read_text())


@pytest.fixture(scope="module")
def resources():
    machine = Machine("h07", ("all",), {}, "a test")
    variables = resolve(machine, fleet.read_variables(), fleet.ROLE.variables())
    return fleet.ROLE.state(variables, ()).resources


def test_the_role_is_the_25_resources_of_the_variables(resources, wanted):
    kinds = [resource.kind for resource in resources]
    assert len(kinds) == 25
    counts = {kind: kinds.count(kind) for kind in kinds}
    assert counts == {
        "group": 1,
        "user": 1,
        "directory": len(wanted["directories"]),
        "file": len(wanted["templates"]) + len(wanted["files"]),
        "lines": len(wanted["lines"]),
        "apt": 1,
        "command": len(wanted["guards"]) + 1,
        "link": 1,
    }


def test_templates_are_rendered_as_the_peers_render_them(resources, wanted):
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    peers = Environment(
        loader=FileSystemLoader(TEMPLATES), trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    contents = {resource.spec["path"]: resource.spec["content"] for resource in resources if resource.kind == "file"}
    for template in wanted["templates"]:
        expected = peers.get_template(template["src"]).render(wanted, host_label="h07")
        assert contents[template["dest"]] == expected
    assert "h07" in contents["/etc/sglang/profile.env"]


def test_the_reset_undoes_every_path_that_the_role_makes(resources):
    script = (HERE / "reset.sh").read_text()
    removed = re.findall(r"/[\w@./-]+", script.split("rm -rf", 1)[1].split("\nuserdel", 1)[0])
    for resource in resources:
        path = resource.spec.get("path") or resource.spec.get("creates", "")
        if resource.kind in ("directory", "file", "link") or path.startswith("/opt/ml-env"):
            assert any(path == top or path.startswith(top + "/") for top in removed), path
        if resource.kind == "lines":
            (line,) = resource.spec["lines"]
            assert f"'/^{line}$/d' {path}" in script


def test_the_project_names_no_place_outside_it():
    for path in HERE.rglob("*"):
        if path.suffix in (".py", ".sh", ".yml", ".yaml", ".cfg", ".j2"):
            assert not re.search(r"/var/tmp", path.read_text()), path


# inventories and contestants


@pytest.fixture
def work(tmp_path):
    return Workspace(tmp_path / "bench")


@pytest.mark.parametrize(("count", "delayed", "last"), [(1, False, "127.0.1.1"), (3, False, "127.0.1.3")])
def test_our_inventory_is_a_valid_one(work, count, delayed, last):
    folder = inventories.write_all(work, count, delayed=delayed)
    machines = list(read(folder, ()).machines.values())
    assert len(machines) == count
    assert machines[-1].get("address") == last and machines[-1].get("port") == 4022
    assert machines[-1].get("known_hosts") == str(work.known_hosts)


def test_the_far_host_is_the_first_one_behind_the_proxy(work):
    folder = inventories.write_all(work, 1, delayed=True)
    assert [machine.get("address") for machine in read(folder, ()).machines.values()] == ["127.0.1.201"]
    assert "ansible_host=127.0.1.201" in (folder / "hosts.ini").read_text()
    assert inventories.write_all(work, 1) != folder, "the near one stays as it is"


def test_every_contestant_starts_files_that_are_there(work):
    for contestant in contestants.contestants(work, 2).values():
        assert contestant.argv != contestant.check
        for word in itertools.chain(contestant.argv, contestant.check):
            if word.endswith((".py", ".yml")):
                assert (contestant.cwd / word).is_file(), word
        assert "PYTHONDONTWRITEBYTECODE" not in contestant.environment

    for name in ("ansible-pipe", "mitogen"):
        assert Path(contestants.contestants(work, 2)[name].environment["ANSIBLE_CONFIG"]).is_file()


OUR_RUN = """inventory: 2
changed  h01        converge   group mlops
h01        24 ok, 1 changed   [1 exec, 0.1 s]
h02        25 ok, 0 changed   [2 execs, 10.1 s, 1 retries]
"""
OUR_CHECK = """inventory: 1
change   h01        converge   group mlops
h01        20 ok, 3 change, 2 unknown   [1 exec, 0.1 s]
"""
PYINFRA_RUN = """--> Starting operation: group
    [127.0.1.1] Success

--> Starting operation: user
    [127.0.1.1] No changes

--> Results:
    Operation                                Hosts   Success   Error   No Change
    group                                    1       1         -       -
    user                                     1       -         -       1
    Grand total                              2       1         -       1
"""
PYINFRA_CHECK = """--> Detected changes:
    Operation                                Change                     Conditional Change
    group                                    1 (127.0.1.1)              -
    /etc/sglang/profile.env                  2 (127.0.1.1, 127.0.1.2)   -
    apt                                      -                          -
"""
ANSIBLE_RUN = """TASK [link] ********
ok: [h01]
PLAY RECAP ********
h01  : ok=10   changed=8    unreachable=0    failed=0    skipped=0
h02  : ok=10   changed=0    unreachable=0    failed=0    skipped=0
"""


@pytest.mark.parametrize(
    ("says", "output", "changed"),
    [
        ("recap", OUR_RUN, 1),
        ("recap", OUR_CHECK, 3),
        ("recap", "h01        25 ok, 0 changed   [1 exec, 0.1 s]\n", 0),
        ("equals", ANSIBLE_RUN, 8),
        ("equals", "h01 changed=0\nh02 changed=23\n", 23),
        ("pyinfra", PYINFRA_RUN, 1),
        ("pyinfra", PYINFRA_CHECK, 3),
    ],
)
def test_what_a_tool_changed_is_read_from_what_it_says(says, output, changed):
    assert contestants.READERS[says](output) == changed


# hosts


def test_channels_are_counted_in_the_logs_of_sshd():
    one = (
        'Connection from 127.0.0.1 port 48562 on 127.0.1.1 port 4022 rdomain ""\n'
        "Accepted key ED25519 SHA256:x found at /etc/bench_ssh/id.pub:1\n"
        "Starting session: command for root from 127.0.0.1 port 48562 id 0\n"
        "Starting session: subsystem 'sftp' for root from 127.0.0.1 port 48562 id 1\n"
    )
    assert hosts.count_channels([one, one + one]) == hosts.Channels(1.5, 1.5, 1.5)


@pytest.mark.parametrize("count", [0, -1, hosts.MOST + 1])
def test_an_impossible_number_of_hosts_is_refused(work, count):
    with pytest.raises(hosts.HostsError, match=r"hosts can be had"):
        hosts.Hosts(work, count)


def test_a_pid_that_became_another_programs_is_no_host(work):
    work.logs.mkdir(parents=True)
    started = hosts._started_at(os.getpid())
    (work.logs / "h01.pid").write_text(f"{os.getpid()} {started}")
    one = hosts.Hosts(work, 1)
    assert one.running("h01") == os.getpid()
    (work.logs / "h01.pid").write_text(f"{os.getpid()} {started - 1}")
    assert one.running("h01") is None
    with pytest.raises(hosts.HostsError, match="h01 does not run"):
        one.pids()


# bytecode


@pytest.fixture
def compiled(tmp_path):
    source = tmp_path / "library" / "module.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    return source


def test_sources_with_their_bytecode_are_fine(compiled):
    assert bytecode.uncompiled([compiled.parent], TAG) == []


def test_a_source_without_bytecode_is_found(compiled):
    other = compiled.with_name("other.py")
    other.write_text("")
    assert bytecode.uncompiled([compiled.parent], TAG) == [other]


def test_bytecode_of_an_older_source_is_none(compiled):
    compiled.write_text("x = 22\n")
    assert bytecode.uncompiled([compiled.parent], TAG) == [compiled]


def test_bytecode_of_another_python_is_none(compiled):
    assert bytecode.uncompiled([compiled.parent], "cpython-38") == [compiled]


def test_nothing_is_measured_without_bytecode():
    assert bytecode.objection({}, []) == ""
    assert "env -u" in bytecode.objection({bytecode.SWITCH: "1"}, [])
    assert "install.sh" in bytecode.objection({}, [Path("a.py")])


# results and targets


def test_a_run_beside_other_work_counts_only_where_no_cleaner_one_was_had():
    found = Results({}, "command")
    found.add(NOOP, sample(9.0, other_load=1.0))
    assert found.median(NOOP) == 9.0
    found.add(NOOP, sample(1.0))
    found.add(NOOP, sample(2.0))
    assert found.median(NOOP) == 1.5


def test_results_survive_a_file(tmp_path):
    found = measured(noop_1_blackstart=1.0, check_32_floor_paramiko=2.0)
    found.write(tmp_path / "deep" / "results.json")
    again = Results.read(tmp_path / "deep" / "results.json")
    assert again == found
    assert list(again.cases("check", 32)) == [Case("floor-paramiko", "check", 32)]


def verdict(found, measure):
    (one,) = [verdict for verdict in targets.judge(found) if verdict.target.measure == measure]
    return one


def test_a_target_that_was_not_measured_is_neither_reached_nor_missed():
    assert {verdict.reached for verdict in targets.judge(measured())} == {None}


@pytest.mark.parametrize(("ours", "reached"), [(1.3, True), (1.31, False)])
def test_at_most(ours, reached):
    found = measured(noop_1_blackstart=ours, noop_1_floor_paramiko=1.0)
    assert verdict(found, "no-op, one host, over the floor").reached is reached


@pytest.mark.parametrize(("theirs", "reached"), [(5.9, False), (6.0, True)])
def test_at_least(theirs, reached):
    found = measured(noop_1_blackstart=1.0, noop_1_pyinfra=theirs)
    assert verdict(found, "no-op, one host, pyinfra over blackstart").reached is reached


def test_memory_is_counted_for_each_further_host():
    found = Results({}, "command")
    found.add(NOOP, sample(peak_rss_mb=50.0))
    found.add(NOOP._replace(hosts=100), sample(peak_rss_mb=149.0))
    assert verdict(found, "controller's peak memory, each further host").value == 1.0


def test_every_mode_that_a_target_asks_for_is_one_that_is_measured():
    everything = Results({}, "command")
    for mode, count in (*((mode, 1) for mode in report.TITLES), ("noop", 32), ("noop", 100), ("list", 0)):
        for name in ("blackstart", "floor-paramiko", "pyinfra", "ansible-pipe"):
            everything.add(Case(name, mode, count), sample())
    assert None not in {verdict.reached for verdict in targets.judge(everything)}


def test_the_page_shows_what_was_measured_and_how_to_repeat_it():
    machine = dict.fromkeys(("date", "processors", "memory", "system", "python", "libraries"), "unknown")
    found = measured(noop_1_blackstart=1.25, noop_1_floor_paramiko=1.0, noop_32_blackstart=4.0)
    page = report.document(Results({**machine, "processors": "2 x Abacus"}, "python -m it", found.samples))
    assert "2 x Abacus" in page and "    python -m it\n" in page
    assert "| no-op, one host, over the floor | at most 1.3 x | 1.25 | yes |" in page
    assert "### No-op, 1 host\n" in page and "### No-op, 32 hosts\n" in page
    assert "not measured" in page
    assert "other work beside" not in page


def test_the_page_says_where_other_work_disturbed_it():
    machine = dict.fromkeys(("date", "processors", "memory", "system", "python", "libraries"), "unknown")
    found = Results(machine, "command")
    found.add(NOOP, sample(other_load=1.0))
    found.add(NOOP._replace(mode="check"), sample(other_load=1.0))
    found.add(NOOP._replace(mode="check"), sample())
    assert "**1 of these 2 runs had other work beside them" in report.document(found)


def test_a_command_that_fails_is_not_measured(tmp_path):
    quick = measure.run_alone([sys.executable, "-c", "pass"], tmp_path, 0)
    assert quick.wall_s > 0 and quick.peak_rss_mb > 1
    with pytest.raises(measure.MeasureError, match="ended with 3"):
        measure.run_alone([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, 0)


# the way to a far host


def echo_once(server):
    with server, server.accept()[0] as talker:
        while data := talker.recv(65536):
            talker.sendall(data)


def connect_when_it_listens(port):
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline


def test_the_proxy_delays_both_ways_and_loses_nothing():
    data = os.urandom(300_000)
    far = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as free:
        near_port = free.getsockname()[1]
    places = [f"127.0.0.1:{near_port}", f"127.0.0.1:{far.getsockname()[1]}"]
    proxy = subprocess.Popen([sys.executable, "-m", "bench.converge.delay", "0.2", *places], cwd=HERE.parent.parent)
    echo = threading.Thread(target=echo_once, args=(far,))
    echo.start()
    try:
        with connect_when_it_listens(near_port) as talker:
            began = time.monotonic()
            sender = threading.Thread(target=lambda: (talker.sendall(data), talker.shutdown(socket.SHUT_WR)))
            sender.start()
            first = talker.recv(65536)
            took = time.monotonic() - began
            heard = first + b"".join(iter(lambda: talker.recv(65536), b""))
            sender.join()
        echo.join(timeout=20)
    finally:
        proxy.terminate()
        proxy.wait()
    assert heard == data
    assert took >= 0.2


# one command


def test_a_terminal_is_drained_whole(tmp_path):
    with (tmp_path / "output").open("wb") as output:
        terminal = measure._Terminal(output)
        terminal.drain()
        os.write(terminal.end, b"x" * 3000)
        terminal.close()
    assert (tmp_path / "output").read_bytes() == b"x" * 3000
