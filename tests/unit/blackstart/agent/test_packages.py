import pytest

from blackstart.agent import packages as module
from blackstart.agent.run import Ran
from blackstart.resources import absent, file, packages, user


class Debian:
    """dpkg-query and apt-get as they behave, on packages that are only a set."""

    def __init__(self, **states):
        self.states = states
        self.called = []
        self.answers = []

    def run(self, argv, env=None, on_line=None):
        if argv[0] == "dpkg-query":
            known = [f"{name}\t{self.states[name]}" for name in argv[4:] if name in self.states]
            missing = [f"dpkg-query: no packages found matching {name}" for name in argv[4:] if name not in self.states]
            return Ran(int(bool(missing)), "\n".join(known + missing) + "\n")
        self.called.append(argv)
        self.env = env
        if self.answers:
            return self.answers.pop(0)
        if "install" in argv:
            self.states.update(dict.fromkeys(argv, "install ok installed"))
        return Ran(0, "")

    def commands(self):
        return [" ".join(argv[:2]) for argv in self.called]


@pytest.fixture
def debian(monkeypatch):
    debian = Debian(rsync="install ok installed", gone="deinstall ok config-files", half="install ok half-configured")
    debian.states["held"] = "hold ok installed"
    monkeypatch.setattr(module, "run", debian.run)
    return debian


def test_what_is_installed_is_left_alone(machine, debian):
    assert machine.apply(packages("rsync")) == ["ok"]
    assert debian.called == []


def test_a_package_on_hold_is_installed(machine, debian):
    assert machine.apply(packages("held")) == ["ok"]


@pytest.mark.parametrize("name", ["new", "gone", "half"])
def test_what_is_missing_removed_or_half_configured_is_installed(machine, debian, name):
    assert machine.check(packages("rsync", name)) == ["change"]
    assert machine.done[0]["diff"] == f"+ package {name}"
    assert debian.called == []
    assert machine.apply(packages("rsync", name)) == ["changed"]
    assert machine.done[0]["detail"] == name
    (install,) = debian.called
    assert install[:4] == ["apt-get", "install", "-y", "--no-install-recommends"] and install[-1] == name
    assert "rsync" not in install
    assert machine.apply(packages("rsync", name)) == ["ok"]


def test_nobody_is_asked_and_changed_configuration_is_kept(machine, debian):
    machine.apply(packages("new"))
    assert debian.env["DEBIAN_FRONTEND"] == "noninteractive"
    assert "Dpkg::Options::=--force-confold" in debian.called[0]


def test_stale_lists_are_fetched_and_it_is_tried_once_more(machine, debian):
    debian.answers = [Ran(100, "E: Unable to locate package new\n")]
    assert machine.apply(packages("new")) == ["changed"]
    assert debian.commands() == ["apt-get install", "apt-get update", "apt-get install"]


def test_what_apt_says_in_the_end_is_the_failure(machine, debian):
    debian.answers = [Ran(100, ""), Ran(0, ""), Ran(100, "E: Unable to locate package new\n")]
    assert machine.apply(packages("new")) == ["failed"]
    assert machine.failure.endswith("ended with 100\nE: Unable to locate package new")
    assert machine.done[0]["passing"] is False


@pytest.mark.parametrize(
    "said",
    [
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)",
        "dpkg: error: dpkg frontend lock was locked by another process with pid 7",
        "E: Failed to fetch http://deb.example.org/x.deb  503  Service Unavailable",
        "Temporary failure resolving 'deb.example.org'",
        "Could not connect to deb.example.org:80 (192.0.2.1). - connect (111: Connection refused)",
    ],
)
def test_what_passes_by_itself_is_marked_so(machine, debian, said):
    debian.answers = [Ran(100, said), Ran(0, ""), Ran(100, said)]
    machine.apply(packages("new"))
    assert machine.done[0]["passing"] is True


def test_a_machine_without_dpkg_is_refused(machine, monkeypatch):
    monkeypatch.setattr(module, "run", lambda argv: Ran(127, "dpkg-query: No such file"))
    for run in (machine.check, machine.apply):
        assert run(packages("new")) == ["failed"]
        assert machine.failure == "this machine has no dpkg"


def test_what_cannot_be_journalled_is_not_installed(machine, debian, fill_the_disk):
    fill_the_disk()
    assert machine.apply(packages("new")) == ["failed"]
    assert debian.called == []


def test_a_killed_dpkg_run_is_finished_first(machine, debian, monkeypatch):
    monkeypatch.setattr(module.os.path, "isdir", lambda path: path == "/var/lib/dpkg/updates")
    monkeypatch.setattr(module.os, "listdir", lambda path: ["0001"])
    machine.apply(packages("new"))
    assert debian.commands() == ["dpkg --configure", "apt-get install"]


def test_what_a_package_provides_is_unknown_afterwards(machine, debian, land):
    wish = packages("new", provides=[f"{land}/conf"], users=["newuser"])
    plan = [
        wish,
        file(f"{land}/conf", "x"),
        file(f"{land}/own", "x", owner="newuser", group="newuser"),
        absent(f"{land}/conf.d"),
        wish,
    ]
    assert machine.check(*plan) == ["change", "unknown", "change", "ok", "ok"]


def test_a_user_that_a_package_makes_need_not_be_made(machine, debian):
    assert machine.check(packages("new", users=["newuser"]), user("newuser", group="newuser")) == ["change", "ok"]


def test_what_is_there_before_a_package_is_not_made_unknown_by_it(machine, debian, land):
    """dpkg keeps a configuration file that was there before."""
    (land / "conf").write_text("x")
    assert machine.check(packages("new", provides=[f"{land}/conf"]), file(f"{land}/conf", "x")) == ["change", "ok"]


def test_an_empty_machine_has_no_packages(machine, debian):
    assert machine.check(packages("rsync"), packages("rsync"), empty=True) == ["change", "ok"]


def test_a_package_that_died_while_it_was_unpacked_is_unpacked_anew(machine, debian, monkeypatch):
    """Though it is not one of ours, dpkg does nothing else before."""

    def run(argv, **rest):
        if argv[0] == "dpkg-query" and "Status-Abbrev" in argv[3]:
            return Ran(0, "ii \tbase-files\niHR\tbase\niU \tunpacked\n")
        return debian.run(argv, **rest)

    monkeypatch.setattr(module, "run", run)
    assert machine.apply(packages("new")) == ["changed"]
    (install,) = debian.called
    assert install[-3:] == ["new", "--reinstall", "base"]
