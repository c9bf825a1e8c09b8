import itertools
import pwd

import pytest

from blackstart.agent import accounts
from blackstart.agent.run import Ran
from blackstart.resources import directory, file, group, user


@pytest.fixture
def called(monkeypatch):
    """The programs that would have changed the real machine."""
    called = []

    def run(argv):
        called.append(argv)
        return Ran(0, "")

    monkeypatch.setattr(accounts, "run", run)
    return called


DAEMON = pwd.getpwnam("daemon")


def test_what_is_there_is_left_alone(machine, called):
    wishes = [group("daemon"), user("daemon", group="daemon", home=DAEMON.pw_dir, shell=DAEMON.pw_shell)]
    assert machine.apply(*wishes) == ["ok", "ok"]
    assert called == []


def test_a_group_is_made_as_a_system_group(machine, called):
    assert machine.check(group("blackstart-test")) == ["change"]
    assert called == []
    assert machine.apply(group("blackstart-test")) == ["changed"]
    assert called == [["groupadd", "-r", "blackstart-test"]]


def test_a_user_is_made_without_a_home_that_exists_and_without_a_login(machine, called):
    wish = user("blackstart-test", group="daemon")
    assert machine.check(wish) == ["change"]
    assert machine.apply(wish) == ["changed"]
    shape = ["-d", "/nonexistent", "-s", "/usr/sbin/nologin"]
    assert called == [["useradd", "-r", "-M", "-g", "daemon", *shape, "blackstart-test"]]


@pytest.mark.parametrize(
    ("wish", "diff"),
    [
        ({"home": "/srv/d", "shell": DAEMON.pw_shell}, f"daemon: home {DAEMON.pw_dir} -> /srv/d"),
        ({"home": DAEMON.pw_dir, "shell": "/bin/sh"}, f"daemon: shell {DAEMON.pw_shell} -> /bin/sh"),
    ],
)
def test_a_user_is_mended(machine, called, wish, diff):
    assert machine.apply(user("daemon", group="daemon", **wish)) == ["changed"]
    assert machine.done[0]["diff"] == diff
    assert called == [["usermod", "-g", "daemon", "-d", wish["home"], "-s", wish["shell"], "daemon"]]


def test_a_primary_group_is_mended(machine, called):
    wish = user("daemon", group="root", home=DAEMON.pw_dir, shell=DAEMON.pw_shell)
    for run, state in ((machine.check, "change"), (machine.apply, "changed")):
        assert run(wish) == [state]
        assert machine.done[0]["diff"] == "daemon: group daemon -> root"
    assert called == [["usermod", "-g", "root", "-d", DAEMON.pw_dir, "-s", DAEMON.pw_shell, "daemon"]]


def test_a_primary_group_that_is_yet_to_be_made_is_another_one(machine, called):
    plan = [
        group("blackstart-test"),
        user("daemon", group="blackstart-test", home=DAEMON.pw_dir, shell=DAEMON.pw_shell),
    ]
    assert machine.check(*plan) == ["change", "change"]
    assert machine.done[1]["diff"] == "daemon: group daemon -> blackstart-test"


def test_a_group_that_only_lacks_its_shadow_is_still_the_same_group(machine, called, monkeypatch):
    monkeypatch.setattr(accounts, "_lacks_shadow", lambda kind, plain, shadow, name: plain == "/etc/group")
    plan = [group("daemon"), user("daemon", group="daemon", home=DAEMON.pw_dir, shell=DAEMON.pw_shell)]
    assert machine.check(*plan) == ["change", "ok"]


def test_a_user_needs_its_group(machine, called):
    for name, run in itertools.product(("blackstart-test", "daemon"), (machine.check, machine.apply)):
        assert run(user(name, group="no-such-group")) == ["failed"]
        assert machine.done[0]["remedy"] == "create the group first"
    assert called == []


def test_a_program_that_fails_is_shown(machine, monkeypatch):
    monkeypatch.setattr(accounts, "run", lambda argv: Ran(4, "groupadd: no room\n"))
    assert machine.apply(group("blackstart-test")) == ["failed"]
    assert machine.failure == "groupadd -r blackstart-test ended with 4\ngroupadd: no room"


@pytest.mark.parametrize("wish", [group("blackstart-test"), user("blackstart-test", group="daemon")])
def test_an_account_that_cannot_be_journalled_is_not_made(machine, called, fill_the_disk, wish):
    fill_the_disk()
    assert machine.apply(wish) == ["failed"]
    assert called == []


def test_future_accounts_may_own_future_things(machine, called, land):
    plan = [
        group("svc"),
        user("svc", group="svc"),
        directory(f"{land}/d", owner="svc", group="svc"),
        file(f"{land}/d/f", "x", owner="svc"),
        user("svc", group="svc"),
        group("svc"),
    ]
    assert machine.check(*plan) == ["change", "change", "change", "change", "ok", "ok"]
    assert called == []


def test_an_empty_machine_has_no_accounts_but_root(machine, called):
    plan = [group("daemon"), user("daemon", group="daemon"), file("/etc/f", "x", owner="daemon"), group("root")]
    assert machine.check(*plan, empty=True) == ["change", "change", "change", "ok"]
