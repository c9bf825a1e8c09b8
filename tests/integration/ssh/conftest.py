import pytest

from blackstart.ssh import SSH

from .server import Server, missing


@pytest.fixture(scope="session")
def needs():
    """Nothing is skipped: a machine on which these tests cannot run is told how to become one."""
    if missing():
        pytest.fail(missing())


@pytest.fixture(scope="session")
def sshd(needs, tmp_path_factory):
    """One server for all tests that leave it as it is."""
    server = Server(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def start_sshd(needs, tmp_path_factory):
    """Start servers of a test's own, with lines of their own in sshd_config."""
    started = []

    def start_sshd(extra=""):
        server = Server(tmp_path_factory.mktemp("sshd"), extra)
        server.start()
        started.append(server)
        return server

    yield start_sshd
    for server in started:
        server.stop()


@pytest.fixture
def connect():
    """A transport to a server; closed when the test ends."""
    made = []

    def connect(server, **changes):
        options = {
            "address": "127.0.0.1",
            "port": server.port,
            "user": "root",
            "identity_file": str(server.identity),
            "known_hosts": str(server.known_hosts),
        }
        made.append(SSH("box", **{**options, **changes}))
        return made[-1]

    yield connect
    for transport in made:
        transport.close()


@pytest.fixture
def jump(sshd, tmp_path, monkeypatch):
    """A jump host of the person's ssh_config, on the way to what the inventory calls `localhost`."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text(
        f"Host localhost\n  ProxyJump root@127.0.0.1:{sshd.port}\nHost 127.0.0.1\n  IdentityFile {sshd.identity}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home / ".ssh/known_hosts"
