import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from pydantic import BaseModel

from blackstart import resources
from blackstart.errors import CheckError, ConnectError, InputError
from blackstart.paths import ROOT
from blackstart.plan import Role, State
from tests.unit.blackstart.agent.machine import tree
from tests.waiting import wait_for

from .fleet import TINY, TINY_ON_HOST, Site, agents, entrance, names, states
from .server import free_port


@pytest.fixture
def site(tmp_path, sshd):
    return Site(tmp_path, sshd)


@pytest.fixture
def gate(site):
    """The role's command blocks until `open` is called, once a run has reached it."""
    path = site.root() / "gate"
    os.mkfifo(path)
    script = f"echo reached; read answer <{path}; touch {site.root()}/app/marker"
    site.hosts["box"]["tiny_command"] = ["sh", "-c", script]

    class Gate:
        def reached(self):
            return ("box", "reached") in site.ear.said

        def open(self):
            path.write_text("go\n")

    return Gate()


# the ordinary way


def test_check_then_apply_then_nothing(site):
    root = site.root()
    before = tree(root)
    checked = site.converge(check=True)["box"]
    assert states(checked) == ["change", "change", "change", "change", "change", "change"]
    assert tree(root) == before
    applied = site.converge()["box"]
    assert states(applied) == ["changed"] * 6 and not applied.failed
    assert [record.name for record in applied.records] == names(root)
    assert (root / "app/before").read_text() == "box one\n"
    after = tree(root / "app")
    again = site.converge()["box"]
    assert states(again) == ["ok"] * 6
    assert tree(root / "app") == after
    assert [checked.execs, applied.execs, again.execs] == [1, 1, 1]


def test_what_differs_is_mended_and_nothing_else(site):
    site.converge()
    root = site.root()
    (root / "app/before").write_text("spoilt\n")
    (root / "app").chmod(0o700)
    checked = site.converge(check=True)["box"]
    assert [record.name for record in checked.records if record.state == "change"] == [names(root)[0], names(root)[1]]
    assert "-spoilt" in checked.records[1].diff and "+box one" in checked.records[1].diff
    assert states(site.converge()["box"]) == ["changed", "changed", "ok", "ok", "ok", "ok"]


def test_the_journal_tells_who_changed_what(site):
    site.converge()
    entries = site.journal()
    assert {entry["by"].split(" pid ")[1] for entry in entries} == {str(os.getpid())}
    assert names(site.root())[3] in [entry["resource"] for entry in entries]


def test_a_run_is_one_connection(tmp_path, start_sshd):
    server = start_sshd()
    site = Site(tmp_path, server)
    site.converge()
    assert server.logins() == 1


def test_listeners_hear_everything_in_order(site):
    site.converge()
    assert [name for _, name in site.ear.began] == names(site.root())
    assert site.ear.ended == [("box", name, "changed") for name in names(site.root())]


# several machines


def test_machines_are_converged_side_by_side_and_reported_in_order(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("one", "two", "three"))
    reports = site.converge()
    assert list(reports) == ["one", "two", "three"]
    assert all(states(report) == ["changed"] * 6 for report in reports.values())
    assert (site.root("two") / "app/before").read_text() == "two one\n"


def test_a_machine_that_cannot_be_reached_leaves_the_others_alone(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("one", "two"))
    site.hosts["one"]["port"] = free_port()
    reports = site.converge()
    assert isinstance(reports["one"].error, ConnectError) and reports["one"].retries == 2
    assert states(reports["two"]) == ["changed"] * 6


def test_wrong_input_for_one_machine_touches_none(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("one", "two"))
    site.hosts["two"]["tiny_refuses"] = True
    with pytest.raises(InputError, match="this cannot be") as caught:
        site.converge()
    assert caught.value.where == "two, here"
    assert not (site.root("one") / "app").exists()


def test_a_wrong_value_for_one_machine_touches_none(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("one", "two"))
    site.hosts["two"]["tiny_text"] = 5
    with pytest.raises(InputError, match="tiny_text"):
        site.converge()
    assert not (site.root("one") / "app").exists()


def test_an_unknown_tag_is_refused(site):
    with pytest.raises(InputError, match="no role has the tag 'none'"):
        site.converge(tags=("none",))
    with pytest.raises(InputError, match=r"no role has the tag 'x\*'"):
        site.converge(tags=("tiny", "x*"))
    assert states(site.converge(tags=("t?n*",))["box"]) == ["changed"] * 6


def test_after_too_many_failures_no_other_host_is_begun(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("one", "two", "three"))
    site.hosts["one"]["tiny_command"] = ["false"]
    reports = site.converge(serial=1, max_fail=1)
    assert reports["one"].failed
    assert reports["two"].error.message == reports["three"].error.message == "not begun"
    assert reports["two"].error.found == reports["three"].error.found == "1 failed: one"
    assert not (site.root("two") / "app").exists()


def test_a_host_that_cannot_be_reached_has_failed_before_any_is_begun(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("one", "two", "three"))
    site.hosts["two"]["port"] = free_port()
    reports = site.converge((LOOKS,), max_fail=1)
    assert reports["two"].error.message == "the machine cannot be reached"
    assert reports["one"].error.message == reports["three"].error.message == "not begun"
    assert site.converge((LOOKS,), max_fail=2)["one"].counts["changed"] == 1


# facts


class Seen(BaseModel):
    tiny_root: str


LOOKS = Role(
    "looks",
    lambda: Seen,
    lambda variables: [{"probe": "file", "path": f"{variables.tiny_root}/app/after"}],
    lambda variables, facts: State(
        [resources.file(f"{variables.tiny_root}/seen", facts[0]["text"] if facts[0] else "nothing\n")]
    ),
)


def test_a_role_whose_facts_an_earlier_one_changed_is_planned_anew_in_the_same_run_and_exec(site):
    report = site.converge(roles=(TINY, LOOKS))["box"]
    assert states(report) == ["changed"] * 7 and not report.failed
    assert (site.root() / "seen").read_text() == "one\n"
    assert report.execs == 1
    assert states(site.converge(roles=(TINY, LOOKS))["box"]) == ["ok"] * 7


# machines inside machines


def test_a_machine_inside_another_is_entered_through_it(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("host", "guest"))
    site.hosts["guest"] = {"through": "host", "tiny_root": str(site.root("guest"))}
    site.hosts["host"]["tiny_text"] = "unused"
    marked = entrance(enter=lambda argv: ["env", "ENTERED=yes", *argv])
    # The host's role writes for the guest, the guest's own role beside it.
    inner = Role(
        "inner",
        lambda: Seen,
        lambda variables: [],
        lambda variables, facts: State([resources.file(f"{variables.tiny_root}/inside", "x")]),
    )
    reports = site.converge(roles=(TINY_ON_HOST, inner), through=marked)
    assert states(reports["host"]) == ["changed"] * 6 and states(reports["guest"]) == ["changed"]
    assert (site.root("guest") / "app/before").read_text() == "guest one\n"
    again = site.converge(roles=(TINY_ON_HOST, inner), through=marked)
    assert states(again["host"]) == ["ok"] * 6 and states(again["guest"]) == ["ok"]
    assert (again["host"].execs, again["guest"].execs) == (1, 1)


def test_a_guest_is_left_alone_when_its_host_failed(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("host", "guest"))
    site.hosts["guest"] = {
        "through": "host",
        "tiny_root": str(site.root("guest")),
        "tiny_command": ["false"],
    }
    reports = site.converge(roles=(TINY_ON_HOST, LOOKS))
    assert reports["host"].failed
    assert reports["guest"].error.message == "left alone"
    assert not (site.root("guest") / "seen").exists()


def test_a_guest_that_does_not_exist_yet_is_checked_as_an_empty_machine(tmp_path, sshd):
    site = Site(tmp_path, sshd, ("host", "guest"))
    site.hosts["guest"] = {"through": "host", "tiny_root": str(site.root("guest"))}
    inner = Role(
        "inner",
        lambda: Seen,
        lambda variables: [{"probe": "entry", "path": "/etc/hostname"}],
        lambda variables, facts: State([resources.file("/etc/hostname", "x") for fact in facts]),
    )
    reports = site.converge(roles=(TINY_ON_HOST, inner), through=entrance(running=False), check=True)
    assert states(reports["guest"]) == ["change"], "the host's own /etc/hostname was looked at"
    assert reports["guest"].execs == 0


# broken off


def test_an_agent_that_is_killed_is_said_and_the_next_run_converges(site):
    flag = site.root() / "killed"
    script = f"[ -e {flag} ] || {{ touch {flag}; kill -9 $PPID; }}; touch {site.root()}/app/marker"
    site.hosts["box"]["tiny_command"] = ["sh", "-c", script]
    report = site.converge()["box"]
    assert isinstance(report.error, ConnectError)
    assert states(report) == ["changed", "changed"]
    assert not (site.root() / "app/after").exists()
    wait_for(lambda: not site.is_locked(), "the kernel frees the lock")
    again = site.converge()["box"]
    assert not again.failed and states(again)[:2] == ["ok", "ok"]
    assert (site.root() / "app/after").read_text() == "one\n"
    assert states(site.converge()["box"]) == ["ok"] * 6


def test_a_second_controller_is_told_who_is_there_and_changes_nothing(site, gate):
    thread, reports, _ = site.in_background()
    wait_for(gate.reached, "the first controller is at work")
    second = site.converge()["box"]
    assert isinstance(second.error, CheckError)
    assert second.error.message == "another controller works on this machine"
    assert f"pid {os.getpid()}, since 20" in second.error.found
    assert second.records == []
    checked = site.converge(check=True)["box"]
    assert states(checked)[-1] == "change", "a check needs no lock"
    gate.open()
    thread.join(30)
    assert states(reports["box"]) == ["changed"] * 6
    assert states(site.converge()["box"]) == ["ok"] * 6


def test_when_the_controller_goes_the_agent_finishes_its_resource_journals_and_stops(site, gate):
    thread, _, fleet = site.in_background()
    wait_for(gate.reached, "the command runs")
    root = site.root()
    (pid,) = agents(root)
    fleet.transport(fleet.inventory.machines["box"])._connection.transport.close()
    thread.join(30)
    assert not thread.is_alive(), "the controller did not see that its connection was closed"
    wait_for(lambda: not site.server.connections(), "sshd sees it, too")
    assert agents(root) == {pid}, "the agent let go of the machine in the middle of a resource"
    gate.open()
    wait_for(lambda: not agents(root), "the agent ends")
    assert (root / "app/marker").exists(), "the resource in hand was not finished"
    assert not (root / "app/after").exists(), "another resource was begun for nobody"
    assert site.journal()[-1]["resource"] == "middle"
    site.hosts["box"]["tiny_command"] = []
    again = site.converge()["box"]
    assert states(again) == ["ok", "ok", "ok", "changed", "changed", "changed"]


def test_a_connection_that_is_cut_on_the_machines_side_is_said_and_the_next_run_converges(tmp_path, start_sshd):
    server = start_sshd()
    site = Site(tmp_path, server)
    path = site.root() / "gate"
    os.mkfifo(path)
    site.hosts["box"]["tiny_command"] = ["sh", "-c", f"echo reached; read a <{path}; touch {site.root()}/app/marker"]
    thread, reports, _ = site.in_background()
    wait_for(lambda: ("box", "reached") in site.ear.said, "the command runs")
    server.drop_connections()
    wait_for(lambda: not server.connections(), "the connection is gone")
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(reports["box"].error, ConnectError)
    path.write_text("go\n")
    wait_for(lambda: not site.is_locked(), "the agent ends")
    assert states(site.converge()["box"])[:3] == ["ok", "ok", "ok"]


CONTROLLER = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from types import SimpleNamespace
from blackstart.errors import Interrupted
from tests.integration.ssh.fleet import Site

server = SimpleNamespace(port={port}, identity=Path({identity!r}), known_hosts=Path({known_hosts!r}))
site = Site(Path({folder!r}), server)
site.hosts["box"]["tiny_command"] = {command!r}
site.ear.says = lambda machine, line: print(line, flush=True)
try:
    site.converge()
except Interrupted as interrupted:
    sys.exit(interrupted.found)
"""


def controller_of(site):
    """A controller in a process of its own, at work on the site's machine."""
    code = CONTROLLER.format(
        root=str(ROOT),
        port=site.server.port,
        identity=str(site.server.identity),
        known_hosts=str(site.server.known_hosts),
        folder=str(site.folder),
        command=site.hosts["box"]["tiny_command"],
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_detaches_at_once_and_the_agent_finishes_what_it_began(site, gate):
    controller = controller_of(site)
    try:
        assert controller.stdout.readline() == "reached\n"
        controller.send_signal(signal.SIGINT)
        assert controller.wait(20) == 1
        assert controller.stderr.read() == "box: middle, is finished\n"
        wait_for(lambda: not site.server.connections(), "sshd sees it, too")
    finally:
        controller.kill()
        controller.communicate()
    assert site.is_locked(), "the agent is still at its resource"
    gate.open()
    wait_for(lambda: not site.is_locked(), "the agent ends")
    assert (site.root() / "app/marker").exists() and not (site.root() / "app/after").exists()


def test_a_controller_that_is_killed_leaves_a_machine_that_the_next_one_finishes(site, gate):
    controller = controller_of(site)
    assert controller.stdout.readline() == "reached\n"
    controller.kill()
    controller.communicate()
    wait_for(lambda: not site.server.connections(), "sshd sees it, too")
    gate.open()
    wait_for(lambda: not site.is_locked(), "the agent ends")
    site.hosts["box"]["tiny_command"] = []
    assert states(site.converge()["box"]) == ["ok", "ok", "ok", "changed", "changed", "changed"]


# odd machines


def test_a_banner_of_a_shell_start_file_does_no_harm(tmp_path, start_sshd):
    startup = tmp_path / "startup"
    startup.write_text('printf "Welcome\\n42\\nnull\\nno newline at the end"\n')
    site = Site(tmp_path, start_sshd(f"SetEnv BASH_ENV={startup}"))
    assert states(site.converge()["box"]) == ["changed"] * 6


def test_a_machine_without_the_named_python_is_said_and_nothing_is_installed_for_it(site):
    with site.fleet() as fleet:
        session = fleet.session(fleet.inventory.machines["box"], installs=True)
        session._python = "/no/such/python"
        with pytest.raises(ConnectError, match="the Python that the inventory names is not there"):
            list(session.converge({"sections": []}))


def test_threads_do_not_mix_their_reports(tmp_path, sshd):
    before = threading.active_count()
    site = Site(tmp_path, sshd, tuple(f"m{number}" for number in range(12)))
    reports = site.converge()
    for name, report in reports.items():
        assert [record.name for record in report.records] == names(site.root(name))
        assert (site.root(name) / "app/before").read_text() == f"{name} one\n"
    wait_for(lambda: threading.active_count() <= before, "the threads of pool and connections end")
    assert json.dumps([report.as_dict() for report in reports.values()])
