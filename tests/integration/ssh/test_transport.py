import hashlib
import socket
import sys
import threading

import pytest

from blackstart.errors import ConnectError
from blackstart.session import Session
from tests.waiting import wait_for

from .server import free_port, keygen, read_all, refused

BIG = bytes(range(256)) * 16384  # 4 MiB


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
    assert answers == [{"kind": "special file", "target": ""}]


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
