import hashlib
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from blackstart.errors import ConnectError
from blackstart.session import Session

from .server import Server, free_port, keygen, wait_for

BIG = bytes(range(256)) * 16384  # 4 MiB


def read_all(channel):
    data = b""
    while part := channel.receive(20):
        data += part
    return data


# starting programs


def test_a_program_gets_its_words_as_they_are(sshd, connect):
    words = ["a b", "$HOME", "it's", "", "*", "ünï", "line\nbreak", 'say "hi"', "back\\slash", "!x", "~"]
    channel = connect(sshd).start([sys.executable, "-c", "import sys; print(sys.argv[1:])", *words])
    assert read_all(channel).decode().strip() == repr(words)
    assert channel.close() == (0, "")


def test_a_big_binary_input_arrives_whole(sshd, connect):
    channel = connect(sshd).start(["sha256sum"])
    channel.send(BIG)
    channel._channel.shutdown_write()
    assert read_all(channel).split()[0].decode() == hashlib.sha256(BIG).hexdigest()
    assert channel.close()[0] == 0


def test_a_big_binary_output_arrives_whole(sshd, connect):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 16384)"
    channel = connect(sshd).start([sys.executable, "-c", code])
    assert read_all(channel) == BIG
    assert channel.close()[0] == 0


def test_line_ends_stay_as_they_are_for_there_is_no_terminal(sshd, connect):
    channel = connect(sshd).start(["sh", "-c", "printf 'a\\nb\\r\\n'; test -t 0 || echo no terminal"])
    assert read_all(channel) == b"a\nb\r\nno terminal\n"


@pytest.mark.parametrize("status", [0, 1, 7, 126, 255])
def test_exit_codes_come_back(sshd, connect, status):
    assert connect(sshd).start(["sh", "-c", f"exit {status}"]).close()[0] == status


def test_stderr_is_kept_apart_and_comes_with_the_end(sshd, connect):
    channel = connect(sshd).start(["sh", "-c", "echo out; echo err >&2"])
    assert read_all(channel) == b"out\n"
    assert channel.close() == (0, "err\n")


def test_a_program_that_still_talks_does_not_block_the_end(sshd, connect):
    channel = connect(sshd).start(["sh", "-c", "head -c 9000000 /dev/zero"])
    assert channel.close() == (0, "")


def test_silence_is_a_timeout(sshd, connect):
    channel = connect(sshd).start(["cat"])
    with pytest.raises(TimeoutError):
        channel.receive(0.01)
    assert channel.close()[0] == 0


def test_many_programs_share_one_connection(start_sshd, connect):
    server = start_sshd()
    transport = connect(server)
    for number in range(5):
        assert read_all(transport.start(["echo", str(number)])) == b"%d\n" % number
    assert server.logins() == 1


def test_threads_that_connect_at_once_make_one_connection(start_sshd, connect):
    server = start_sshd()
    transport = connect(server)
    threads = [threading.Thread(target=transport.connect) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.logins() == 1


def test_small_packets_are_not_held_back(sshd, connect):
    transport = connect(sshd)
    sock = transport._open().transport.sock
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_hanging_up_from_another_thread_ends_the_listening(sshd, connect):
    channel = connect(sshd).start(["cat"])
    heard = []
    listener = threading.Thread(target=lambda: heard.append(channel.receive(60)))
    listener.start()
    channel.hang_up()
    listener.join(20)
    assert heard == [b""]


# host keys


def refused(transport):
    with pytest.raises(ConnectError) as caught:
        transport.start(["true"])
    return caught.value


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


# jump hosts


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


# connecting


def test_a_refused_connection_is_tried_again_and_then_said(sshd, connect):
    transport = connect(sshd, port=free_port())
    error = refused(transport)
    assert error.message == "the machine cannot be reached"
    assert "refused" in error.found and error.remedy
    assert transport.retries == 2


def test_a_server_that_comes_up_late_is_reached(start_sshd, connect):
    server = start_sshd()
    server.stop()
    transport = connect(server)
    starter = threading.Thread(target=lambda: (wait_for(lambda: transport.retries, "the first retry"), server.start()))
    starter.start()
    channel = transport.start(["echo", "hi"])
    assert read_all(channel) == b"hi\n"
    starter.join()
    assert transport.retries >= 1


def test_a_name_that_does_not_resolve_is_said(sshd, connect):
    error = refused(connect(sshd, address="no-such-host.invalid"))
    assert error.message == "the machine cannot be reached" and "no-such-host.invalid" in error.found


def test_what_is_no_ssh_server_is_said(sshd, connect):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        error = refused(connect(sshd, port=server.getsockname()[1]))
    assert error.message == "the machine cannot be reached"


def test_a_key_that_the_machine_does_not_know_is_said(sshd, connect, tmp_path):
    error = refused(connect(sshd, identity_file=str(keygen(tmp_path / "other"))))
    assert error.message == "root may not log in"
    assert "identity_file" in error.remedy


def test_a_login_that_is_not_there_is_said(sshd, connect):
    assert refused(connect(sshd, user="no-such-login")).message == "no-such-login may not log in"


@pytest.mark.parametrize("content", [None, "no key at all\n", ""])
def test_an_identity_file_that_is_no_key_is_said(sshd, connect, tmp_path, content):
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content)
    error = refused(connect(sshd, identity_file=str(path)))
    assert str(path) in error.found or "key" in error.found


def test_an_alias_of_the_ssh_config_names_the_host_key(sshd, connect, jump, tmp_path):
    jump.with_name("config").write_text("Host *\n  HostKeyAlias box-alias\n")
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_line())
    remedy = refused(connect(sshd, known_hosts=str(known))).remedy
    assert f"ssh -o UserKnownHostsFile={known}" in remedy
    known.write_text("box-alias " + sshd.known_line().split(" ", 1)[1])
    assert read_all(connect(sshd, known_hosts=str(known)).start(["echo", "hi"])) == b"hi\n"


def test_the_environments_agent_and_keys_are_not_asked_where_the_inventory_names_a_key(
    sshd, connect, tmp_path, monkeypatch
):
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        agent.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        connect(sshd).start(["true"]).close()
        agent.setblocking(False)
        with pytest.raises(BlockingIOError):
            agent.accept()


# losing the connection


def test_a_connection_that_is_cut_is_said_within_the_deadline(start_sshd, connect):
    server = start_sshd()
    channel = connect(server).start(["cat"])
    server.drop_connections()
    try:
        assert channel.receive(20) == b""
    except ConnectError as error:
        assert error.message == "the connection was lost"
    assert channel.close()[0] == -1


def test_a_session_over_a_cut_connection_ends_with_a_connect_error(start_sshd, connect):
    server = start_sshd()
    session = Session(connect(server), python=sys.executable)
    session.probe({"g": [{"probe": "entry", "path": "/"}]})
    server.drop_connections()
    with pytest.raises(ConnectError), session:
        session.probe({"g": [{"probe": "entry", "path": "/"}]})


# shells


def test_a_banner_of_a_shell_start_file_does_no_harm(start_sshd, connect, tmp_path):
    startup = tmp_path / "startup"
    startup.write_text('printf "Welcome to this machine\\nno newline at the end"\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n')
    transport = connect(start_sshd(f"ForceCommand sh {startup}"))
    assert read_all(transport.start(["echo", "hi"])).startswith(b"Welcome")
    with Session(transport, python=sys.executable) as session:
        answers, _ = session.probe({"g": [{"probe": "entry", "path": "/dev/null"}]})["g"]
    assert answers == [{"kind": "other", "target": ""}]


def test_an_odd_locale_does_no_harm(start_sshd, connect, tmp_path):
    server = start_sshd("SetEnv LC_ALL=tr_TR.ISO-8859-9 LANG=xx_XX PYTHONIOENCODING=ascii PYTHONHOME=/nowhere")
    path = tmp_path / "ünï"
    path.write_text("İı")
    with Session(connect(server), python=sys.executable) as session:
        answers, _ = session.probe({"g": [{"probe": "file", "path": str(path)}]})["g"]
    assert answers[0]["text"] == "İı"


def test_a_python_that_is_not_there_is_said_and_a_check_installs_none(sshd, connect, tmp_path):
    with Session(connect(sshd), python=str(tmp_path / "python"), installs=False) as session:
        session.start()
        with pytest.raises(ConnectError, match="the Python that the inventory names is not there"):
            session.probe({"g": []})
