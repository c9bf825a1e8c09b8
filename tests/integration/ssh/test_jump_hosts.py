"""A machine behind a jump host, whose key is held to known_hosts as any other."""

import subprocess
from pathlib import Path

from tests.waiting import wait_for

from .server import read_all, refused


def behind(server, tmp_path, *, known=True):
    path = tmp_path / "behind"
    path.write_text(server.known_line().replace("127.0.0.1", "localhost") if known else "")
    return {"address": "localhost", "known_hosts": str(path)}


def test_a_machine_behind_a_jump_host_is_reached(sshd, start_sshd, connect, jump, tmp_path):
    server, logins = start_sshd(), sshd.logins()
    jump.write_text(sshd.known_line())
    transport = connect(server, **behind(server, tmp_path))
    assert read_all(transport.start(["echo", "hi"])) == b"hi\n"
    assert (sshd.logins(), server.logins()) == (logins + 1, 1)
    transport.close()
    wait_for(lambda: not server.connections(), "an end of the connection")


def test_a_jump_host_is_held_to_known_hosts_too(sshd, start_sshd, connect, jump, tmp_path):
    server, logins = start_sshd(), sshd.logins()
    error = refused(connect(server, **behind(server, tmp_path)))
    assert error.message == "the host key is not in known_hosts"
    assert sshd.fingerprint() in error.found and f"root@127.0.0.1:{sshd.port}" in error.found
    assert sshd.logins() == logins, "a key was offered to a jump host that nobody knows"
    remedy = error.remedy.split("then: ")[1].replace("~", str(jump.parents[1]))
    subprocess.run(["sh", "-c", remedy], check=True, capture_output=True)
    assert read_all(connect(server, **behind(server, tmp_path)).start(["echo", "hi"])) == b"hi\n"


def test_a_jump_host_whose_key_the_person_revoked_is_refused(sshd, start_sshd, connect, jump, tmp_path):
    server, logins = start_sshd(), sshd.logins()
    jump.write_text("@revoked * " + sshd.known_line().split(" ", 1)[1])
    options = behind(server, tmp_path)
    with Path(options["known_hosts"]).open("a") as file:
        file.write(sshd.known_line())
    assert refused(connect(server, **options)).message == "the host key is revoked"
    assert sshd.logins() == logins


def test_what_is_behind_a_jump_host_is_refused_as_anywhere(sshd, start_sshd, connect, jump, tmp_path):
    server = start_sshd()
    jump.write_text(sshd.known_line())
    error = refused(connect(server, **behind(server, tmp_path, known=False)))
    assert error.message == "the host key is not in known_hosts" and server.fingerprint() in error.found
    assert f"ssh -o UserKnownHostsFile={tmp_path}/behind" in error.remedy
    assert server.logins() == 0


def test_a_jump_host_that_every_host_has_but_itself(sshd, start_sshd, connect, jump, tmp_path):
    """`ProxyJump none` is ssh's word for no jump host; Fabric takes it for the name of one."""
    config = jump.with_name("config")
    config.write_text(f"Host 127.0.0.1\n  ProxyJump none\nHost *\n  ProxyJump root@127.0.0.1:{sshd.port}\n")
    config.write_text(config.read_text() + f"Host 127.0.0.1\n  IdentityFile {sshd.identity}\n")
    jump.write_text(sshd.known_line())
    server = start_sshd()
    logins = sshd.logins()
    assert read_all(connect(server, **behind(server, tmp_path)).start(["echo", "hi"])) == b"hi\n"
    assert read_all(connect(server).start(["echo", "hi"])) == b"hi\n"
    assert sshd.logins() == logins + 1, "only one of them was behind it"
