"""Where a secret goes: to the file and the programs that are meant to have it, and nowhere else on either end."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

from . import controllers, debs, layer, secretive
from .hosts import Host, Hosts, send

# Quotes, a backslash and letters beyond ASCII: whatever is written down of it, is written down in some quoting.
SECRET = "hunter2\"'\\ü$zwölf%s"
OLD_SECRET = "an older one, also secret"
"""What a file that is said to be secret holds before: the controller does not know it, so it is hidden whole."""


def spellings(secret: str) -> set[bytes]:
    raw = secret.encode()
    texts = {secret, repr(secret)[1:-1], shlex.quote(secret), urllib.parse.quote(secret)}
    texts |= {json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}
    return {text.encode() for text in texts} | {base64.b64encode(raw), raw.hex().encode()}


SPELLINGS = tuple(spelling for secret in (SECRET, OLD_SECRET) for spelling in spellings(secret))


def holds(content: bytes) -> bool:
    return any(spelling in content for spelling in SPELLINGS)


def files_that_hold_it(folder: Path, but: tuple[str, ...] = ()) -> list[str]:
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            inside = "/" + str(path.relative_to(folder))
            if path.is_file() and not path.is_symlink() and inside not in but and holds(path.read_bytes()):
                found.append(inside)
    return found


class Watch:
    """Looks at the command line and the environment of every process, over and over."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *ending: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self.looks += 1
            for process in Path("/proc").glob("[0-9]*"):
                for kind in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        if holds((process / kind).read_bytes()):
                            self.seen.add(f"{kind} of {(process / 'comm').read_text().strip()}")


class Desk:
    """A person's machine: home, temporary folder, inventory and the secret's own file, all in one place to search."""

    def __init__(self, folder: Path, host: Host, **over: object) -> None:
        self.folder = folder
        for name in ("home", "tmp"):
            (folder / name).mkdir(parents=True)
        self.secret_file = folder / "secret"
        self.secret_file.write_text(SECRET + "\n")
        reference = {"secretive_token": {"file": str(self.secret_file)}}
        variables = controllers.variables(host, **reference, **over)
        self.inventory = controllers.write_inventory(folder / "inventory", {"host": variables})

    def start(self, *options: str) -> subprocess.Popen[str]:
        env = {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp"), "BLACKSTART_CACHE": ""}
        return controllers.start(self.inventory, *options, task="secretive", env=env)

    def leaks(self) -> list[str]:
        return files_that_hold_it(self.folder, but=("/secret",))


@pytest.fixture(params=[True, False], ids=["booted", "unbooted"])
def host(request: pytest.FixtureRequest, hosts: Hosts, layer_of: Callable[[bool], Path]) -> Iterator[Host]:
    with hosts.one(layer_of(request.param)) as made:
        made.path("/srv/secret").mkdir()
        made.path("/srv/secret/token").write_text(f"token = {OLD_SECRET}\n")
        made.path("/srv/secret/careless").write_text("token =\n")
        yield made


def leaks_on(host: Host) -> list[str]:
    """What holds it there: everything written since the host was made, /run and /tmp."""
    found = files_that_hold_it(host.upper, but=secretive.HOLDERS)
    return found + [f"{place}{path}" for place in ("/run", "/tmp") for path in files_that_hold_it(host.path(place))]


def run(desk: Desk, host: Host, *options: str, opens: bool = True) -> controllers.Ran:
    """One controller with its processes watched; the job's gate is opened once the job runs."""
    with Watch() as watch:
        controller = desk.start(*options)
        if opens:
            wait_for(lambda: host.path("/run/gate.begun").exists() or controller.poll() is not None, "the job")
            host.path("/run/gate").touch()
        ran = controllers.finish(controller)
    assert watch.looks > 3
    assert watch.seen == set()
    assert not holds((ran.out + ran.err).encode()), ran
    assert "Traceback" not in ran.out + ran.err
    return ran


@pytest.mark.parametrize("form", [["--json"], ["--verbose"]], ids=["json", "text"])
def test_a_secret_is_nowhere_but_where_it_belongs(host: Host, tmp_path: Path, form: list[str]) -> None:
    desk = Desk(tmp_path, host)
    checked = run(desk, host, "--check", "--diff", *form, opens=False)
    assert checked.code == 0, checked
    assert leaks_on(host) == []
    ran = run(desk, host, "--diff", *form)
    assert ran.code == 0, ran
    assert "********" in ran.out
    for path in secretive.HOLDERS:
        assert host.path(path).read_text() == f"token = {SECRET}\n"
    assert leaks_on(host) == []
    assert desk.leaks() == []


def test_a_secret_in_an_error_is_masked(host: Host, tmp_path: Path) -> None:
    desk = Desk(tmp_path, host, secretive_fails=True)
    for form in (["--json"], []):
        ran = run(desk, host, *form)
        assert ran.code == 1, ran
        assert "refused: ********" in ran.out + ran.err
        assert "not with ********" in ran.out + ran.err
    assert leaks_on(host) == []
    assert desk.leaks() == []


@pytest.mark.parametrize("victim", ["agent", "controller", "all"])
def test_a_death_leaves_no_secret_that_the_next_run_does_not_clear(host: Host, tmp_path: Path, victim: str) -> None:
    desk = Desk(tmp_path, host)
    with Watch() as watch:
        controller = desk.start("--json")
        wait_for(lambda: host.path("/run/gate.begun").exists(), "the job")
        if victim == "controller":
            controller.kill()
        else:
            send(signal.SIGKILL, host.agents() if victim == "agent" else [])
            if victim == "all":
                host.kill_all()
        out, err = controller.communicate(timeout=60)
    assert watch.seen == set()
    assert not holds((out + err).encode())
    wait_for(lambda: not host.agents(), "the agent's end")
    # While the job lives, so do its credentials: in memory, for root alone.
    credentials = [path for path in leaks_on(host) if path.startswith("/run/blackstart/")]
    for path in credentials:
        assert host.path(path).stat().st_mode & 0o777 == 0o600
        assert host.path(path).parent.stat().st_mode & 0o777 == 0o700
    ran = run(desk, host, "--json")
    assert ran.code == 0, ran
    wait_for(host.is_quiet, "the job's end")
    assert leaks_on(host) == []
    assert desk.leaks() == []


@pytest.mark.wheels
def test_a_password_for_sudo_goes_to_sudo_alone(hosts: Hosts, tmp_path: Path) -> None:
    made = layer.make(hosts.folder / "layer-secret-sudo", booted=False)
    if shutil.which("sudo") is None:
        debs.unpack(debs.fetch(["sudo"]), made)
    with hosts.one(made) as host:
        host.run("useradd", "--create-home", "joe")
        host.run("chpasswd", stdin=f"joe:{SECRET}\n")
        place = host.path("/etc/sudoers.d/joe")
        place.write_text("joe ALL=(ALL) ALL\n")
        place.chmod(0o440)
        desk = Desk(tmp_path, host, user="joe", sudo_password={"file": str(tmp_path / "secret")})
        ran = run(desk, host, "--json")
        assert ran.code == 0, ran
        assert leaks_on(host) == []
        assert desk.leaks() == []
