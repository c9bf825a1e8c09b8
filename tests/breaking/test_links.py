"""An unprivileged user of a machine lays links where root is going to write: root goes nowhere that the user chose."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blackstart import resources
from blackstart.converge import converge as converge_fleet
from blackstart.fleet import Options
from blackstart.resources import Replacement, Resource
from tests.waiting import wait_for

from . import fleets
from .conftest import Recorder
from .hosts import Host, Hosts
from .layer import tool_archive
from .rich import SET_NAME
from .snapshots import Entry, entry

TARGET = "/etc/target"
HOME = "/home/joe"
TOOL = hashlib.sha256(tool_archive()).hexdigest()
OLD = hashlib.sha256(b"old\n").hexdigest()


@pytest.fixture
def host(hosts: Hosts, layer_of: Callable[[bool], Path]) -> Iterator[Host]:
    """/etc/target is root's, with a folder, a file and a tree below it; joe has a home."""
    with hosts.one(layer_of(False)) as made:
        made.run("useradd", "--create-home", "joe")
        for path in ("file", "folder/file", "folder/kept/deep"):
            place = made.path(f"{TARGET}/{path}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("old\n")
            place.chmod(0o600)
        yield made


def as_joe(host: Host, script: str) -> None:
    host.run("setpriv", "--reuid=joe", "--regid=joe", "--clear-groups", "sh", "-ec", script)


def below(host: Host, folder: str) -> dict[str, Entry]:
    root = host.path(folder)
    return {str(path.relative_to(root)): entry(path) for path in [root, *root.rglob("*")]}


def wishes(folder: str) -> dict[str, Resource]:
    """One resource of each kind that writes, in a folder that holds `file` and `kept`."""
    return {
        "file": resources.file(f"{folder}/file", "new\n", owner="joe", group="joe"),
        "new file": resources.file(f"{folder}/new", "new\n", owner="joe", group="joe"),
        "attributes": resources.file(f"{folder}/file", "old\n", mode="0666", owner="joe", group="joe"),
        "directory": resources.directory(f"{folder}/kept", mode="0777", owner="joe", group="joe"),
        "new directory": resources.directory(f"{folder}/a/b/c", owner="joe", group="joe"),
        "lines": resources.lines(f"{folder}/file", ["new"]),
        "new lines": resources.lines(f"{folder}/new", ["new"]),
        "link": resources.link(f"{folder}/link", "file"),
        "absent file": resources.absent(f"{folder}/file"),
        "absent tree": resources.absent(f"{folder}/kept", recursive=True),
        "tree": resources.tree(f"{folder}/kept", owner="joe", group="joe"),
        "archive": resources.archive(f"{folder}/tool", "/srv/source/tool.tar", [TOOL]),
        "fileset": resources.fileset(SET_NAME, [Replacement(f"{folder}/file", b"new\n", OLD)]),
        "new in fileset": resources.fileset(SET_NAME, [Replacement(f"{folder}/a/new", b"new\n", None)]),
    }


def converge(host: Host, wish: Resource) -> str:
    """What the run was refused with; "" where it went well."""
    report = fleets.converge(host, fleets.role_of(wish))
    return fleets.why(report) if report.failed else ""


@pytest.mark.parametrize("kind", wishes(""))
def test_where_nobody_laid_a_link_it_works(host: Host, kind: str) -> None:
    """Or the refusals below would show nothing."""
    as_joe(host, f"mkdir {HOME}/app {HOME}/app/kept; echo old >{HOME}/app/file; chmod 600 {HOME}/app/file")
    assert converge(host, wishes(f"{HOME}/app")[kind]) == ""


@pytest.mark.parametrize("kind", wishes(""))
def test_a_folder_that_is_a_users_link_is_not_entered(host: Host, kind: str) -> None:
    as_joe(host, f"ln -s {TARGET}/folder {HOME}/app")
    host.run("mkdir", "-p", f"{TARGET}/folder/kept")
    before = below(host, TARGET)
    refused = converge(host, wishes(f"{HOME}/app")[kind])
    assert below(host, TARGET) == before
    assert f"{HOME}/app is a link that joe placed" in refused


@pytest.mark.parametrize("kind", wishes(""))
def test_a_way_through_roots_own_link_is_looked_at_to_its_end(host: Host, kind: str) -> None:
    """Root's link leads into a user's folder, where the user's own link waits."""
    as_joe(host, f"ln -s {TARGET}/folder {HOME}/app")
    host.run("ln", "-s", f"{HOME}/app", "/srv/app")
    before = below(host, TARGET)
    refused = converge(host, wishes("/srv/app")[kind])
    assert below(host, TARGET) == before
    assert f"{HOME}/app is a link that joe placed" in refused


@pytest.mark.parametrize(
    ("kind", "link"),
    [
        ("file", "ln -s {target}/file {app}/file"),
        ("attributes", "ln -s {target}/file {app}/file"),
        ("lines", "ln -s {target}/file {app}/file"),
        ("fileset", "ln -s {target}/file {app}/file"),
        ("new file", "ln -s {target}/new {app}/new"),
        ("new lines", "ln -s {target}/new {app}/new"),
        ("directory", "ln -s {target}/folder {app}/kept"),
        ("new directory", "mkdir {app}/a; ln -s {target}/folder {app}/a/b"),
        ("new directory", "ln -s {target}/nowhere {app}/a"),
        ("tree", "ln -s {target}/folder {app}/kept"),
        ("tree", "mkdir {app}/kept; ln -s {target}/folder {app}/kept/inner"),
        ("archive", "ln -s {target}/folder {app}/tool"),
        ("archive", "ln -s {target}/folder {app}/tool.partial"),
        ("new in fileset", "ln -s {target}/folder {app}/a"),
    ],
)
def test_a_users_link_in_the_place_of_what_is_wanted_is_not_followed(host: Host, kind: str, link: str) -> None:
    app = f"{HOME}/app"
    as_joe(host, f"mkdir {app}; " + link.format(target=TARGET, app=app))
    before = below(host, TARGET)
    refused = converge(host, wishes(app)[kind])
    assert below(host, TARGET) == before
    assert refused, "it was neither followed nor refused"


def test_a_users_link_that_goes_is_itself_what_goes(host: Host) -> None:
    as_joe(host, f"mkdir {HOME}/app; ln -s {TARGET}/folder {HOME}/app/kept; ln -s {TARGET}/file {HOME}/app/file")
    before = below(host, TARGET)
    for kind in ("absent file", "absent tree"):
        assert converge(host, wishes(f"{HOME}/app")[kind]) == ""
    assert below(host, TARGET) == before
    assert list(host.path(f"{HOME}/app").iterdir()) == []


def test_roots_own_links_are_followed(host: Host) -> None:
    host.run("ln", "-s", f"{TARGET}/folder", "/srv/app")
    assert converge(host, resources.file("/srv/app/file", "new\n")) == ""
    assert host.path(f"{TARGET}/folder/file").read_text() == "new\n"


@contextlib.contextmanager
def as_joe_meanwhile(host: Host, program: str) -> Iterator[None]:
    entered = ["nsenter", f"--target={host.init}", "--mount", "--pid", "--root", "--"]
    argv = [*entered, "setpriv", "--reuid=joe", "--regid=joe", "--clear-groups", "/usr/bin/python3", "-c", program]
    with subprocess.Popen(argv) as running:
        try:
            wait_for(lambda: host.path(f"{HOME}/app").exists(), "the first swap")
            yield
            assert running.poll() is None, "the swapping ended"
        finally:
            running.kill()


RACES = ("file", "new file", "lines", "directory", "new directory", "absent file", "tree", "archive", "fileset")


@pytest.mark.parametrize("kind", RACES)
@pytest.mark.parametrize("tries", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_a_link_that_comes_and_goes_is_never_followed(host: Host, record: Recorder, kind: str, tries: int) -> None:
    """The user swaps a folder and a link for it as fast as can be, while root writes there over and over."""
    before = below(host, TARGET)
    swap = (
        "import ctypes, os\n"
        f"os.chdir({HOME!r})\n"
        "os.makedirs('real/kept'); open('real/file', 'w').write('old\\n')\n"
        f"os.symlink({TARGET + '/folder'!r}, 'app')\n"
        "swap = ctypes.CDLL(None).renameat2\n"
        "while True:\n"
        "    swap(-100, b'real', -100, b'app', 2)\n"
    )
    with as_joe_meanwhile(host, swap):
        said = Counter[str]()
        role = fleets.role_of(wishes(f"{HOME}/app")[kind])
        machine = fleets.machine("host", host)
        with fleets.fleet([machine], role) as opened:
            for number in range(tries):
                (report,) = converge_fleet(opened, [machine], Options())
                said[fleets.why(report).splitlines()[0]] += 1
                after = below(host, TARGET)
                assert after == before, f"try {number}"
    record(
        f"a user swaps folder and link without end while root writes there: {kind}",
        f"{tries} runs",
        f"the link was never followed; {tries - said['nothing']} runs were refused",
    )
    assert not [line for line in said if "fault" in line], said
