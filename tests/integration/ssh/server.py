"""A real sshd on loopback, with a host key, a port, a login key and a known_hosts of its own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from blackstart.errors import ConnectError
from tests.waiting import wait_for

SSHD = "/usr/sbin/sshd"
PRIVILEGE_SEPARATION = Path("/run/sshd")
HOW = "apt-get install -y --no-install-recommends openssh-server openssh-client"

CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
PidFile none
LogLevel VERBOSE
MaxSessions 50
MaxStartups 50
{extra}
"""


def missing():
    """What has to be installed before any of this works; empty where nothing has."""
    absent = [program for program in (SSHD, "ssh-keygen", "ssh-keyscan") if not shutil.which(program)]
    if absent:
        return f"{', '.join(absent)} is not here; these tests need a real sshd: {HOW}"
    return "" if os.geteuid() == 0 else "these tests log in as root on loopback, so they run as root"


def keygen(path, kind="ed25519"):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(path)], check=True)
    return path


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Server:
    """One sshd. `start` and `stop` may be called again; the port and the keys stay unless a new host key is made."""

    def __init__(self, folder, extra=""):
        self.folder = folder
        self.port = free_port()
        self.identity = keygen(folder / "login_key")
        (folder / "authorized_keys").write_text((folder / "login_key.pub").read_text())
        self.new_host_key()
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(self.known_line())
        (folder / "sshd_config").write_text(CONFIG.format(port=self.port, folder=folder, extra=extra))
        self._process = None

    def new_host_key(self):
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink(missing_ok=True)
        keygen(self.folder / "host_key")

    def known_line(self):
        return f"[127.0.0.1]:{self.port} {(self.folder / 'host_key.pub').read_text().strip()}\n"

    def fingerprint(self):
        said = subprocess.run(
            ["ssh-keygen", "-l", "-f", str(self.folder / "host_key.pub")], check=True, capture_output=True, text=True
        )
        return said.stdout.split()[1]

    def start(self):
        made = not PRIVILEGE_SEPARATION.exists()
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self._made_folder = made
        log = (self.folder / "log").open("ab")
        command = [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(self._answers, f"sshd answers on port {self.port}: {self.log()}")

    def _answers(self):
        assert self._process.poll() is None, f"sshd ended: {self.log()}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            return connection.recv(4) == b"SSH-"
        return False

    def stop(self):
        if self._process is None:
            return
        self.drop_connections()
        self._process.terminate()
        self._process.wait(20)
        self._process = None
        if self._made_folder:
            with contextlib.suppress(OSError):
                PRIVILEGE_SEPARATION.rmdir()

    def log(self):
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def logins(self):
        return self.log().count("Accepted publickey")

    def connections(self):
        """The processes that serve a connection."""
        return children(self._process.pid)

    def drop_connections(self):
        """Kill what serves each connection, as a crash or a cut cable would; what it started lives on."""
        for pid in self.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children(parent):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


def read_all(channel):
    data = b""
    while part := channel.receive(20):
        data += part
    return data


def refused(transport):
    with pytest.raises(ConnectError) as caught:
        transport.start(["true"])
    return caught.value
