"""An SSH channel whose connection is gone already, and what is said of a machine that cannot be connected to."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest

from blackstart.errors import ConnectError
from blackstart.ssh import SSH, SSHChannel, _accept_command, _explained
from blackstart.trust import RevokedHostKey


class Gone:
    """A paramiko channel after the other end has vanished."""

    def settimeout(self, seconds: float) -> None: ...

    def shutdown_write(self) -> None:
        raise EOFError

    def close(self) -> None:
        raise EOFError


def test_closing_what_is_gone_already_is_an_end_and_no_fault() -> None:
    gone: Any = Gone()
    assert SSHChannel(gone, "box").close() == (-1, "")
    SSHChannel(gone, "box").hang_up()


def connection(**changes: Any) -> Any:
    return SimpleNamespace(
        **{
            "host": "box",
            "original_host": "box",
            "port": 22,
            "user": "root",
            "gateway": None,
            "ssh_config": {},
            **changes,
        }
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own: the person's ssh_config and keys are read there."""
    (tmp_path / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


def refused(address: str = "198.51.100.7", **changes: Any) -> ConnectError:
    options = {"port": 22, "user": "root", "identity_file": None, "known_hosts": None}
    with pytest.raises(ConnectError) as caught:
        SSH("box", **{"address": address, **options, **changes}).connect()
    assert caught.value.where == "box" and caught.value.remedy
    return caught.value


@pytest.mark.parametrize("known_hosts", ["~/.ssh/known_hosts", "~/my keys/it's known", "/a b/known", "plain"])
def test_the_commands_of_a_remedy_take_a_path_as_it_is(home: Path, known_hosts: str) -> None:
    words = _accept_command(connection(), known_hosts).split(">> ")[1]
    said = subprocess.run(["sh", "-c", f"printf %s {words}"], check=True, capture_output=True, text=True).stdout
    assert said == known_hosts.replace("~", str(home))


def test_ssh_gets_one_file_whose_name_has_blanks(tmp_path: Path) -> None:
    command = _accept_command(connection(gateway="a proxy command"), str(tmp_path / "a b" / "known"))
    ssh, *options, login = shlex.split(command)
    assert (ssh, login) == ("ssh", "root@box")
    said = subprocess.run(["ssh", "-F", "/dev/null", "-G", *options, login], check=True, capture_output=True, text=True)
    assert f"userknownhostsfile {tmp_path}/a b/known" in said.stdout.replace('"', "")


def test_an_alias_is_accepted_by_ssh_which_knows_it() -> None:
    command = _accept_command(connection(ssh_config={"hostkeyalias": "x"}, original_host="name"), "~/.ssh/known_hosts")
    assert command.startswith("ssh -o ") and command.endswith(" root@name")


def test_a_revoked_key_is_said_without_a_way_to_accept_it() -> None:
    key = paramiko.ECDSAKey.generate()
    message, found, remedy = _explained(RevokedHostKey(key), connection(), "root@box:22", "known")
    assert message == "the host key is revoked" and key.fingerprint in found
    assert "ssh-keyscan" not in remedy


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (b"Host\n", "Host"),
        (b"\xff\xfe\n", "UnicodeDecodeError"),
        (b"Host 198.51.100.7\n  HostName 198.51.100.8\n  ProxyJump 198.51.100.7\n", "leads back to itself"),
    ],
    ids=["a bare Host", "no text", "a jump to itself"],
)
def test_an_ssh_config_that_cannot_be_followed_is_said(home: Path, config: bytes, says: str) -> None:
    (home / ".ssh/config").write_bytes(config)
    error = refused()
    assert error.message == "~/.ssh/config cannot be followed"
    assert says in error.found


def test_known_hosts_that_is_a_folder_is_said(home: Path) -> None:
    error = refused(known_hosts=str(home))
    assert error.message == "known_hosts cannot be read"
    assert str(home) in error.found


def test_an_identity_file_is_looked_for_in_the_home(home: Path) -> None:
    assert str(home / "none") in refused(identity_file="~/none").found
    (home / "key").write_text("a key")
    assert SSH("box", address="box", port=22, user="root", identity_file="~/key", known_hosts=None)._keys()[
        "key_filename"
    ] == str(home / "key")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None], ids=["binary", "a folder"])
def test_an_identity_file_that_cannot_be_one_is_said(home: Path, content: bytes | None) -> None:
    path = home / "key"
    path.mkdir() if content is None else path.write_bytes(content)
    error = refused(identity_file=str(path))
    assert error.message in ("the identity file is no private key", "the identity file cannot be read")
    assert str(path) in error.found


@pytest.mark.parametrize("address", ["a..b", "x" * 64, "a\0b"])
def test_whatever_goes_wrong_is_this_machines_connect_error(home: Path, address: str) -> None:
    assert refused(address=address).message == "the machine cannot be reached"
