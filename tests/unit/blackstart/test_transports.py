import hashlib
import os
import sys
import threading

import pytest

from blackstart.errors import ConnectError
from blackstart.transports import Local, Through
from tests.waiting import wait_for

BIG = bytes(range(256)) * 8192  # 2 MiB


def read_all(channel):
    data = b""
    while part := channel.receive(10):
        data += part
    return data


def test_a_program_gets_its_words_as_they_are():
    words = ["a b", "$HOME", "it's", "", "*", "ünï", "line\nbreak"]
    channel = Local("here").start([sys.executable, "-c", "import sys; print(sys.argv[1:])", *words])
    assert read_all(channel).decode().strip() == repr(words)
    assert channel.close() == (0, "")


def test_a_big_binary_input_arrives_whole():
    channel = Local("here").start(["sha256sum"])
    channel.send(BIG)
    channel._process.stdin.close()
    assert read_all(channel).split()[0].decode() == hashlib.sha256(BIG).hexdigest()
    assert channel.close()[0] == 0


def test_a_big_binary_output_arrives_whole():
    code = "import os, sys; sys.stdout.buffer.write(bytes(range(256)) * 8192)"
    channel = Local("here").start([sys.executable, "-c", code])
    assert read_all(channel) == BIG
    assert channel.close()[0] == 0


@pytest.mark.parametrize(("code", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
def test_exit_codes_come_back(code, status):
    assert Local("here").start(["sh", "-c", code]).close()[0] == status


def test_stderr_is_kept_apart_and_comes_with_the_end():
    channel = Local("here").start(["sh", "-c", "echo out; echo err >&2"])
    assert read_all(channel) == b"out\n"
    assert channel.close() == (0, "err\n")


def test_closing_twice_is_closing_once():
    channel = Local("here").start(["sh", "-c", "echo err >&2; exit 3"])
    assert channel.close() == channel.close() == (3, "err\n")


def test_closing_ends_the_input():
    channel = Local("here").start(["sh", "-c", "cat >&2"])
    channel.send(b"text")
    assert channel.close() == (0, "text")


def test_a_program_that_still_talks_does_not_block_the_end():
    channel = Local("here").start(["sh", "-c", "head -c 300000 /dev/zero"])
    assert channel.close() == (0, "")


def test_what_a_program_leaves_running_does_not_block_the_end(tmp_path):
    # The child holds stdout until its fifo is opened, which happens after the end was seen.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    channel = Local("here").start(["sh", "-c", f'(read x < "{fifo}") & exit 4'])
    assert channel.close()[0] == 4
    with fifo.open("w") as stream:
        stream.write("go\n")


def test_silence_is_a_timeout():
    channel = Local("here").start(["cat"])
    with pytest.raises(TimeoutError):
        channel.receive(0.01)
    channel.close()


def test_a_program_that_is_not_there_is_a_connect_error():
    with pytest.raises(ConnectError, match="/no/such cannot be started") as caught:
        Local("here").start(["/no/such"])
    assert caught.value.where == "here"


def test_feeding_a_program_that_ended_is_a_connect_error_with_its_last_words():
    channel = Local("here").start(["sh", "-c", "echo why >&2; exit 1"])
    channel._process.wait(10)
    with pytest.raises(ConnectError, match="ended before it was fed") as caught:
        channel.send(BIG)
    assert caught.value.found == "why\n"
    assert channel.close() == (1, "why\n")


def test_hanging_up_from_another_thread_ends_the_listening():
    channel = Local("here").start(["cat"])
    heard = []
    listener = threading.Thread(target=lambda: heard.append(channel.receive(60)))
    listener.start()
    channel.hang_up()
    listener.join(10)
    assert heard == [b""]
    assert channel.close() == (-1, "")


def test_a_program_has_a_session_of_its_own_so_that_ctrl_c_does_not_reach_it():
    channel = Local("here").start([sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid())"])
    assert read_all(channel) == b"True\n"
    channel.close()


class Recorder:
    """A transport that remembers what it was to start."""

    where = "outer"
    login_is_root = True

    def __init__(self):
        self.started = []
        self.closed = False

    def start_as_root(self, argv):
        self.started.append(list(argv))
        return "channel"

    def close(self):
        self.closed = True


def test_a_machine_inside_another_is_entered_by_the_outer_ones_command():
    outer = Recorder()
    inner = Through("inner", outer, lambda argv: ["enter", "7", "--", *argv])
    assert inner.start(["true"]) == "channel"
    assert inner.start_as_root(["id"]) == "channel"
    assert outer.started == [["enter", "7", "--", "true"], ["enter", "7", "--", "id"]]
    assert (inner.where, inner.login_is_root) == ("inner", True)


def test_the_outer_connection_is_not_the_inner_machines_to_close():
    outer = Recorder()
    Through("inner", outer, list).close()
    assert not outer.closed


def test_after_hanging_up_nobody_waits_for_the_program(tmp_path):
    script = f"until [ -e {tmp_path}/gate ]; do sleep 0.05; done; touch {tmp_path}/ended"
    channel = Local("here").start(["sh", "-c", script])
    channel.hang_up()
    assert channel.receive(60) == b""
    assert channel.close() == (-1, "")
    (tmp_path / "gate").touch()
    wait_for((tmp_path / "ended").exists, "the program goes on")
