"""Machines that are full, read-only, forbidding, out of time, talkative or without Python: clear words, or the work."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blackstart import resources
from blackstart.errors import CheckError, ConnectError

from . import controllers, debs, fleets, layer, rich
from .hosts import Host, Hosts
from .rounds import STATE, Undisturbed
from .snapshots import temporaries

CONTENT = "0123456789abcdef" * 65536  # 1 MiB


@pytest.fixture
def host(hosts: Hosts, layer_of: Callable[[bool], Path]) -> Iterator[Host]:
    with hosts.one(layer_of(False)) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(hosts: Hosts, layer_of: Callable[[bool], Path]) -> Undisturbed:
    return Undisturbed.watch(hosts, layer_of(False))


def mount(host: Host, place: str, *options: str) -> None:
    host.path(place).mkdir(parents=True, exist_ok=True)
    host.run("mount", "-t", "tmpfs", *options, "tmpfs", place)


# full


def test_a_full_disk_leaves_the_old_file_and_says_so(host: Host) -> None:
    mount(host, "/srv/small", "-o", "size=600k")
    host.path("/srv/small/file").write_text("old\n")
    role = fleets.role_of(resources.file("/srv/small/file", CONTENT))
    said = fleets.require_failed(fleets.converge(host, role))
    assert "/srv/small/file" in said and "No space left on device" in said
    assert host.path("/srv/small/file").read_text() == "old\n"
    assert [path.name for path in host.path("/srv/small").iterdir()] == ["file"]
    host.run("mount", "-o", "remount,size=8m", "/srv/small")
    assert fleets.states(fleets.converge(host, role)) == {"file /srv/small/file": "changed"}
    assert host.path("/srv/small/file").read_text() == CONTENT


@pytest.mark.parametrize("kib", [8, 24, *(pytest.param(kib, marks=pytest.mark.soak) for kib in (4, 12, 16, 40))])
def test_a_state_folder_without_room(host: Host, undisturbed: Undisturbed, kib: int) -> None:
    """Wherever the room ends: clear words, and with room again the same end as ever."""
    mount(host, STATE, "-o", f"size={kib}k,mode=700")
    report = fleets.converge(host, rich.ROLE)
    said = fleets.require_failed(report)
    assert "No space left on device" in said
    assert report.error is None or isinstance(report.error, CheckError)
    host.run("mount", "-o", "remount,size=16m", STATE)
    report = fleets.converge(host, rich.ROLE)
    assert not report.failed, fleets.why(report)
    assert undisturbed.settled.differences(host) == []
    assert all(json.loads(line) for line in host.path(f"{STATE}/journal.jsonl").read_text().splitlines())


def test_an_archive_that_does_not_fit_is_not_there(host: Host) -> None:
    mount(host, "/srv/small", "-o", "size=100k")
    (archive,) = (item for item in rich.done(rich.Variables(inventory_hostname="h"), {}) if item.kind == "archive")
    wanted = resources.archive("/srv/small/tool", archive.spec["source"], archive.spec["sha256"])
    said = fleets.require_failed(fleets.converge(host, fleets.role_of(wanted)))
    assert "No space left on device" in said
    assert not host.path("/srv/small/tool").exists()
    host.run("mount", "-o", "remount,size=8m", "/srv/small")
    assert not fleets.converge(host, fleets.role_of(wanted)).failed
    assert [path.name for path in host.path("/srv/small").iterdir()] == ["tool"]


# read-only


def test_a_read_only_file_system_is_named(host: Host) -> None:
    mount(host, "/srv/still", "-o", "ro")
    said = fleets.require_failed(fleets.converge(host, fleets.role_of(resources.file("/srv/still/file", "new\n"))))
    assert "/srv/still" in said and "Read-only file system" in said


def test_a_machine_that_cannot_be_written_to_at_all_can_still_be_checked(host: Host) -> None:
    host.run("mount", "-o", "remount,ro", "/")
    report = fleets.converge(host, fleets.role_of(resources.file("/srv/file", "new\n")))
    said = fleets.require_failed(report)
    assert isinstance(report.error, CheckError)
    assert "/var/lib/blackstart" in said and "Read-only file system" in said
    checked = fleets.converge(host, fleets.role_of(resources.file("/srv/file", "new\n")), check=True)
    assert fleets.states(checked) == {"file /srv/file": "change"}


# forbidding


@pytest.fixture(scope="module")
def sudo_layer(hosts: Hosts) -> Path:
    """Hosts with sudo: this machine's own, or Debian's package."""
    made = layer.make(hosts.folder / "layer-sudo", booted=False)
    if shutil.which("sudo") is None:
        debs.unpack(debs.fetch(["sudo"]), made)
    return made


def with_login(host: Host, sudoers: str = "") -> None:
    """A login `joe` whose password is `joes password`."""
    host.run("useradd", "--create-home", "--shell", "/bin/bash", "joe")
    host.run("chpasswd", stdin="joe:joes password\n")
    if sudoers:
        place = host.path("/etc/sudoers.d/joe")
        place.write_text(f"joe {sudoers}\n")
        place.chmod(0o440)


def converge_as_joe(host: Host, tmp_path: Path, password: str = "") -> controllers.Ran:
    over = {"user": "joe", **({"sudo_password": {"env": "JOES"}} if password else {})}
    inventory = controllers.write_inventory(tmp_path / "inventory", {"host": controllers.variables(host, **over)})
    return controllers.up(inventory, "--restart", "--json", env={"JOES": password})


def test_a_login_without_sudo_is_told_so(host: Host, tmp_path: Path) -> None:
    with_login(host)
    if shutil.which("sudo") is not None:
        host.path("/usr/bin/sudo").unlink()
    ran = converge_as_joe(host, tmp_path)
    assert ran.code == 1
    assert ran.machine["error"]["stage"] == "connect"
    assert "no sudo" in ran.machine["error"]["message"]


@pytest.mark.wheels
@pytest.mark.parametrize("sudoers", ["ALL=(ALL) NOPASSWD: ALL", "ALL=(ALL) ALL"], ids=["passwordless", "asked"])
def test_a_login_that_may_use_sudo_does_all_that_root_does(
    hosts: Hosts, sudo_layer: Path, undisturbed: Undisturbed, tmp_path: Path, sudoers: str
) -> None:
    with hosts.one(sudo_layer) as host:
        with_login(host, sudoers)
        ran = converge_as_joe(host, tmp_path, "joes password")
        assert ran.code == 0, ran
        assert ran.machine["changed"] >= len(undisturbed.seconds)
        assert ran.machine["execs"] == 1
        assert not [path for path in undisturbed.settled.differences(host) if "joe" not in path and "/etc/" not in path]


@pytest.mark.wheels
@pytest.mark.parametrize(
    ("sudoers", "password", "words"),
    [
        ("ALL=(ALL) ALL", "", "sudo asks for a password"),
        ("ALL=(ALL) ALL", "wrong", "sudo refused the password"),
        ("", "joes password", "sudoers"),
    ],
    ids=["not given", "wrong", "not allowed"],
)
def test_a_login_that_may_not_use_sudo_is_told_why(
    hosts: Hosts, sudo_layer: Path, tmp_path: Path, sudoers: str, password: str, words: str
) -> None:
    with hosts.one(sudo_layer) as host:
        with_login(host, sudoers)
        ran = converge_as_joe(host, tmp_path, password)
        assert ran.code == 1, ran
        error = ran.machine["error"]
        assert error["stage"] == "connect"
        assert words in error["message"] + error["found"], error
        assert not password or password not in ran.out + ran.err


# out of time


@pytest.mark.wheels
@pytest.mark.parametrize("skew", ["-365d", "+365d"])
def test_a_clock_that_is_a_year_off(hosts: Hosts, undisturbed: Undisturbed, skew: str) -> None:
    made = layer.make(hosts.folder / f"layer-clock{skew}", booted=False)
    debs.unpack(debs.fetch(["libfaketime"]), made)
    (library,) = made.glob("usr/lib/*/faketime/libfaketimeMT.so.1")
    (made / "etc/ld.so.preload").write_text(f"/{library.relative_to(made)}\n")
    (made / "etc/faketimerc").write_text(f"{skew}\n")
    with hosts.one(made) as host:
        there, here = (int(host.run("date", "+%s").stdout), int(Path("/proc/uptime").stat().st_mtime))
        assert abs(there - here) > 300 * 86400
        report = fleets.converge(host, rich.ROLE)
        assert not report.failed, fleets.why(report)
        assert set(fleets.states(fleets.converge(host, rich.ROLE)).values()) == {"ok"}
        assert [line for line in undisturbed.settled.differences(host) if "shadow" not in line] == []


def test_files_from_the_future_are_files(host: Host) -> None:
    place = host.path("/srv/file")
    place.write_text("old\n")
    host.run("touch", "-d", "+1 year", "/srv/file", "/srv")
    role = fleets.role_of(resources.file("/srv/file", "new\n"))
    assert fleets.states(fleets.converge(host, role)) == {"file /srv/file": "changed"}
    assert fleets.states(fleets.converge(host, role)) == {"file /srv/file": "ok"}


# talkative


@pytest.mark.parametrize(
    "start_file",
    ["echo Welcome", "printf 'no line end'", "echo '{\"e\":1}'; echo '[]'; echo null", "yes hello | head -c 60000"],
)
def test_a_shell_that_prints_a_banner(host: Host, start_file: str) -> None:
    host.path("/root/.bashrc").write_text(start_file + "\n")
    role = fleets.role_of(resources.file("/srv/file", "new\n"))
    report = fleets.converge(host, role)
    assert fleets.states(report) == {"file /srv/file": "changed"}, fleets.why(report)


@pytest.mark.parametrize("start_file", ["yes hello | head -c 200000", "exit 3", "echo no more >&2; kill -9 $$"])
def test_a_shell_that_does_not_let_the_agent_speak_is_named(host: Host, start_file: str) -> None:
    host.path("/root/.bashrc").write_text(start_file + "\n")
    report = fleets.converge(host, fleets.role_of(resources.file("/srv/file", "new\n")))
    fleets.require_failed(report)
    assert isinstance(report.error, ConnectError)
    assert report.error.remedy


def test_a_login_that_may_run_nothing_is_named(host: Host) -> None:
    host.run("usermod", "--shell", "/usr/sbin/nologin", "root")
    report = fleets.converge(host, fleets.role_of(resources.file("/srv/file", "new\n")))
    fleets.require_failed(report)
    assert isinstance(report.error, ConnectError)


def test_an_odd_locale(hosts: Hosts, host: Host, undisturbed: Undisturbed) -> None:
    """Turkish capitals, a locale that is not there, and one without UTF-8: none reaches the agent."""
    host.path("/root/.bashrc").write_text(
        "export LANG=tr_TR.UTF-8 LC_ALL=xx_YY.KOI8-R LANGUAGE=de\n"
        "export PYTHONIOENCODING=utf-16 PYTHONUTF8=0 POSIXLY_CORRECT=1\n"
    )
    report = fleets.converge(host, rich.ROLE)
    assert not report.failed, fleets.why(report)
    assert undisturbed.settled.differences(host) == []


def test_names_that_no_locale_can_hold(host: Host) -> None:
    """Bytes that are no UTF-8, in the machine's own files, go through unharmed."""
    host.path("/srv/odd").write_bytes(b"caf\xe9\n# end\n\xff\xfe\n")
    role = fleets.role_of(resources.lines("/srv/odd", ["\u00fcber"], before="# end"))
    assert not fleets.converge(host, role).failed
    assert host.path("/srv/odd").read_bytes() == b"caf\xe9\n\xc3\xbcber\n# end\n\xff\xfe\n"


# without Python


def test_a_machine_without_python_whose_apt_has_none_says_so(host: Host, tmp_path: Path) -> None:
    host.run("sh", "-c", "rm /usr/bin/python3")
    inventory = controllers.write_inventory(tmp_path / "inventory", {"host": controllers.variables(host)})
    ran = controllers.up(inventory, "--json")
    assert ran.code == 1, ran
    assert "no usable Python" in ran.machine["error"]["message"]
    assert ran.machine["error"]["remedy"]


def test_a_check_installs_no_python(host: Host) -> None:
    host.path("/usr/bin/python3").unlink()
    report = fleets.converge(host, fleets.role_of(resources.file("/srv/file", "new\n")), check=True)
    assert "only what may change a machine installs it" in fleets.require_failed(report)
    assert isinstance(report.error, CheckError)
    assert not host.path("/var/lib/apt/lists-of-this-host").exists(), "apt was started"


@pytest.mark.wheels
@pytest.mark.parametrize("left", ["nothing", "python3-minimal"])
def test_a_machine_without_python_gets_it_by_apt(hosts: Hosts, left: str) -> None:
    made = layer.make(hosts.folder / f"layer-without-python-{left}", booted=False)
    python = layer.forget_python(made, keep_minimal=left == "python3-minimal")
    with hosts.one(made) as host:
        host.run("sh", "-c", 'cat /srv/python-files | xargs -d "\\n" rm -f')
        assert host.run("/usr/bin/python3", "-c", "import json; json.dumps", check=False).returncode != 0
        report = fleets.converge(host, fleets.role_of(resources.file("/srv/file", "new\n")))
        assert fleets.states(report) == {"file /srv/file": "changed"}, fleets.why(report)
        assert report.execs <= 2
        assert set(python) <= set(host.run("dpkg-query", "-W", "-f", "${Package}\n").stdout.split())
        again = fleets.converge(host, fleets.role_of(resources.file("/srv/file", "new\n")))
        assert fleets.states(again) == {"file /srv/file": "ok"}
        assert temporaries(host) == []
