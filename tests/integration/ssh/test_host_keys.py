"""A host key is trusted where ssh(1) would trust it, and nowhere else."""

import re
import subprocess
from pathlib import Path

import pytest

from .server import Server, keygen, read_all, refused


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd, connect, tmp_path):
    logins = sshd.logins()
    empty = tmp_path / "known_hosts"
    empty.touch()
    for path in (empty, tmp_path / "missing"):
        error = refused(connect(sshd, known_hosts=str(path)))
        assert error.message == "the host key is not in known_hosts"
        assert sshd.fingerprint() in error.found
    assert sshd.logins() == logins, "a key was offered to a machine that nobody knows"
    assert empty.read_text() == "", "the key was learnt by itself"


def test_the_command_that_accepts_a_key_does_accept_it(sshd, connect, tmp_path):
    known = tmp_path / "known_hosts"
    remedy = refused(connect(sshd, known_hosts=str(known))).remedy
    subprocess.run(["sh", "-c", remedy.split("then: ")[1]], check=True, capture_output=True)
    assert read_all(connect(sshd, known_hosts=str(known)).start(["echo", "hi"])) == b"hi\n"


def test_a_changed_host_key_is_refused_and_the_old_one_can_be_taken_out(start_sshd, connect):
    server = start_sshd()
    connect(server).start(["true"]).close()
    server.stop()
    server.new_host_key()
    server.start()
    logins = server.logins()
    error = refused(connect(server))
    assert error.message == "the host key is not the one in known_hosts"
    assert server.fingerprint() in error.found
    assert server.logins() == logins
    command = re.search(r"ssh-keygen -R .*?(?=, then)", error.remedy)[0]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert refused(connect(server)).message == "the host key is not in known_hosts"


def test_while_a_host_key_is_being_changed_both_are_trusted(start_sshd, connect, tmp_path):
    server = start_sshd()
    old = server.known_line()
    server.stop()
    server.new_host_key()
    server.start()
    known = tmp_path / "known_hosts"
    for lines in ([old, server.known_line()], [server.known_line(), old]):
        known.write_text("".join(lines))
        assert read_all(connect(server, known_hosts=str(known)).start(["echo", "hi"])) == b"hi\n"
    known.write_text(old + old.replace(str(server.port), str(server.port + 1)))
    assert refused(connect(server, known_hosts=str(known))).message == "the host key is not the one in known_hosts"


def test_a_hashed_known_hosts_is_read_too(sshd, connect, tmp_path):
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_line())
    subprocess.run(["ssh-keygen", "-H", "-f", str(known)], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    assert read_all(connect(sshd, known_hosts=str(known)).start(["echo", "hi"])) == b"hi\n"


@pytest.mark.parametrize("order", ["revoked first", "revoked last", "revoked only"])
def test_a_revoked_host_key_is_not_trusted(sshd, connect, tmp_path, order):
    known = tmp_path / "known_hosts"
    plain, revoked = sshd.known_line(), "@revoked " + sshd.known_line()
    known.write_text({"revoked first": revoked + plain, "revoked last": plain + revoked}.get(order, revoked))
    error = refused(connect(sshd, known_hosts=str(known)))
    assert error.message == "the host key is revoked"
    assert sshd.fingerprint() in error.found and "ssh-keyscan" not in error.remedy


@pytest.fixture(scope="module")
def three_keys(needs, tmp_path_factory):
    """A server with host keys of three kinds, and as known_hosts holds them: its own, and others of the same kinds."""
    folder = tmp_path_factory.mktemp("three_keys")
    own = {kind: keygen(folder / kind, kind) for kind in ("ed25519", "ecdsa", "rsa")}
    server = Server(folder, "".join(f"HostKey {own[kind]}\n" for kind in ("ecdsa", "rsa")))
    own["ed25519"] = folder / "host_key"
    others = {f"other_{kind}": keygen(folder / f"other_{kind}", kind) for kind in list(own)}
    public = {kind: " ".join(Path(f"{path}.pub").read_text().split()[:2]) for kind, path in {**own, **others}.items()}
    server.start()
    yield server, {**public, "at": f"[127.0.0.1]:{server.port}"}
    server.stop()


UNKNOWN, CHANGED, REVOKED = (
    "the host key is not in known_hosts",
    "the host key is not the one in",
    "the host key is revoked",
)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("{at} {ed25519}", ""),
        ("{at} {rsa}", ""),
        ("{at} {ecdsa}", ""),
        ("{at} {other_rsa}|{at} {ecdsa}", ""),
        ("{at} {other_ed25519}|{at} {ed25519}", ""),
        ("{at} {other_ed25519}|{at} {rsa}", CHANGED),
        ("127.0.0.1 {ed25519}", ""),
        ("127.0.0.1 {ed25519}|{at} {other_ed25519}", CHANGED),
        ("127.0.0.1 {other_ed25519}", UNKNOWN),
        ("[127.*.0.?]:* {ed25519}", ""),
        ("{at}\t{ed25519}", ""),
        ("  {at}   {ed25519}  a comment", ""),
        ("{at},!{at} {ed25519}", UNKNOWN),
        ("!other,[*]:* {ed25519}", ""),
        ("@cert-authority * {ed25519}", UNKNOWN),
        ("@revoked * {ed25519}|{at} {ed25519}", REVOKED),
        ("@revoked [127.0.0.*]:* {ed25519}|{at} {ed25519}", REVOKED),
        ("@revoked  {at} {ed25519}|{at} {ed25519}", REVOKED),
        (" @revoked {at} {ed25519}|{at} {ed25519}", REVOKED),
        ("@revoked * {ed25519}|127.0.0.1 {ed25519}", REVOKED),
        ("@revoked * {ed25519}|{at} {ed25519}|{at} {rsa}", ""),
        ("@revoked * {ed25519}|{at} {ecdsa}", ""),
        ("{at} ssh-rsa {ed25519}", UNKNOWN),
        ("{at} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE|{at} {ed25519}", ""),
    ],
)
def test_a_known_hosts_means_what_it_means_to_ssh(three_keys, connect, tmp_path, lines, says):
    server, words = three_keys
    known = tmp_path / "known_hosts"
    known.write_text(lines.format(**words).replace("|", "\n") + "\n")
    options = ["GlobalKnownHostsFile=/dev/null", f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes"]
    options += ["UpdateHostKeys=no", "BatchMode=yes"]
    command = ["ssh", "-F", "/dev/null", "-i", str(server.identity), "-p", str(server.port)]
    command += [word for option in options for word in ("-o", option)]
    ran = subprocess.run([*command, "root@127.0.0.1", "true"], capture_output=True, text=True)
    assert (ran.returncode == 0) == (not says), ran.stderr
    transport = connect(server, known_hosts=str(known))
    if says:
        assert says in refused(transport).message
    else:
        assert transport.start(["true"]).close()[0] == 0


def test_a_kind_of_key_of_which_none_is_known_is_no_attack(sshd, connect, tmp_path):
    known = tmp_path / "known_hosts"
    other = Path(f"{keygen(tmp_path / 'key', 'ecdsa')}.pub").read_text()
    known.write_text(f"[127.0.0.1]:{sshd.port} {other}")
    error = refused(connect(sshd, known_hosts=str(known)))
    assert error.message == "known_hosts has no host key of this kind"
    assert sshd.fingerprint() in error.found and "known: ecdsa-sha2-nistp256" in error.found
    subprocess.run(["sh", "-c", error.remedy.split("then: ")[1]], check=True, capture_output=True)
    assert read_all(connect(sshd, known_hosts=str(known)).start(["echo", "hi"])) == b"hi\n"


def test_a_path_with_blanks_is_taken_by_the_remedies(start_sshd, connect, tmp_path):
    server = start_sshd()
    known = tmp_path / "it's a folder" / "known hosts"
    known.parent.mkdir()
    remedy = refused(connect(server, known_hosts=str(known))).remedy
    subprocess.run(["sh", "-c", remedy.split("then: ")[1]], check=True, capture_output=True)
    connect(server, known_hosts=str(known)).start(["true"]).close()
    server.stop()
    server.new_host_key()
    server.start()
    command = re.search(r"ssh-keygen -R .*?(?=, then)", refused(connect(server, known_hosts=str(known))).remedy)[0]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert refused(connect(server, known_hosts=str(known))).message == UNKNOWN


@pytest.mark.parametrize("line", ["# comment\n", "\n", "not a line at all\n", "[127.0.0.1]:1 ssh-ed25519 AAAAbroken\n"])
def test_odd_lines_in_known_hosts_do_no_harm(sshd, connect, tmp_path, line):
    known = tmp_path / "known_hosts"
    known.write_text(line + sshd.known_line())
    assert read_all(connect(sshd, known_hosts=str(known)).start(["echo", "hi"])) == b"hi\n"


def test_an_alias_of_the_ssh_config_names_the_host_key(sshd, connect, jump, tmp_path):
    jump.with_name("config").write_text("Host *\n  HostKeyAlias box-alias\n")
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_line())
    remedy = refused(connect(sshd, known_hosts=str(known))).remedy
    assert f"ssh -o UserKnownHostsFile={known}" in remedy
    known.write_text("box-alias " + sshd.known_line().split(" ", 1)[1])
    assert read_all(connect(sshd, known_hosts=str(known)).start(["echo", "hi"])) == b"hi\n"
