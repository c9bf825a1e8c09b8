"""The simulated engine as a process: start, signals, children, end, on real releases' source."""

import os
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest

from tests.integration.engine import Engine, environment
from tests.waiting import wait_for

pytestmark = pytest.mark.wheels

EXITS_BY_ITSELF = {"0.5.9": -signal.SIGKILL, "0.5.12.post1": -signal.SIGKILL, "0.5.23": 0}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return environment(tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture
def start(python, tmp_path):
    engines = []

    def make(*flags, **options):
        engine = Engine(options.pop("python", python), tmp_path, flags, **options)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        with engine:
            pass


def first_lines(engine, *beginnings):
    """Where each of these first stands in the log."""
    return [engine.log.index(beginning) for beginning in beginnings]


@pytest.mark.parametrize("release", [*EXITS_BY_ITSELF])
def test_start_and_stop(release, python, start, tmp_path):
    if release != "0.5.9":
        python = environment(tmp_path / "venv", release)
    engine = start("--tp", "2", "--moe-runner-backend", "flashinfer_cutlass", python=python)
    engine.ready()
    order = first_lines(
        engine,
        f"SIMULATED engine: no GPU, no model; lifecycle and HTTP surface of SGLang {release}",
        "server_args=ServerArgs(model_path=",
        "TP0] Load weight begin. avail mem=",
        "TP0] Load weight end. elapsed=",
        "TP0] Memory pool end. avail mem=",
        "TP0] Capture ",
        "TP0] max_total_num_tokens=",
        "Uvicorn running on http://127.0.0.1",
        '"POST /generate HTTP/1.1" 200 OK',
        "The server is fired up and ready to roll!",
    )
    assert order == sorted(order)
    assert ("Running FlashInfer autotune" in engine.log) is (release == "0.5.23")
    assert sorted(engine.children().values()) == [
        "sglang::detokenizer",
        "sglang::scheduler_TP0",
        "sglang::scheduler_TP1",
    ]
    engine.process.terminate()
    assert engine.process.wait(30) == EXITS_BY_ITSELF[release]
    assert "SIGTERM received. signum=None frame=None. Draining requests" in engine.log
    assert "Gracefully exiting... Remaining number of requests 0" in engine.log
    wait_for(lambda: not engine.children(), "the children to end")


def test_until_the_warm_up_is_done_health_is_503(start):
    engine = start(scale=3.0)
    statuses = []

    def is_ready():
        statuses.append(engine.health())
        return statuses[-1] == 200

    wait_for(is_ready, "the server to be ready")
    assert list(dict.fromkeys(statuses)) == [None, 503, 200]


def test_a_patched_file_turns_autotune_on(start, tmp_path):
    python = environment(tmp_path / "venv")
    (runner,) = (tmp_path / "venv").glob("lib/*/site-packages/sglang/srt/model_executor/model_runner.py")
    source = runner.read_text()
    assert source.count('# "flashinfer_cutlass",') == 1
    runner.write_text(source.replace('# "flashinfer_cutlass",', '"flashinfer_cutlass",'))
    engine = start("--moe-runner-backend", "flashinfer_cutlass", python=python).ready()
    began, ended = first_lines(engine, "Running FlashInfer autotune...", "FlashInfer autotune completed.")
    assert began < ended


def test_running_requests_are_drained(start):
    engine = start(scale=5.0).ready()
    answers = []
    body = b'{"text": "x", "sampling_params": {"max_new_tokens": 100}}'
    request = urllib.request.Request(f"{engine.url}/generate", body, {"Content-Type": "application/json"})

    def ask():
        with urllib.request.urlopen(request, timeout=60) as response:
            answers.append(response.read())

    client = threading.Thread(target=ask)
    client.start()
    engine.wait_for("#new-token: 1, #cached-token")
    engine.process.terminate()
    engine.wait_for("Remaining number of requests 1")
    assert engine.health() == 503
    client.join(60)
    assert b"[SIMULATED] 1 2" in answers[0] and b'"completion_tokens": 100' in answers[0]
    assert engine.process.wait(30) == -signal.SIGKILL
    assert "Remaining number of requests 0" in engine.log


@pytest.mark.parametrize("title", ["sglang::scheduler_TP1", "sglang::detokenizer"])
def test_a_child_that_dies_takes_the_server_with_it(start, title):
    engine = start("--tp", "2").ready()
    (pid,) = (pid for pid, found in engine.children().items() if found == title)
    os.kill(pid, signal.SIGKILL)
    assert engine.process.wait(30) == -signal.SIGKILL
    assert "SIGQUIT received. signum=None, frame=None. It usually means one child failed." in engine.log
    wait_for(lambda: not engine.children(), "the other children to end")


def test_a_server_that_is_killed_takes_its_children_with_it(start):
    engine = start("--tp", "2").ready()
    assert len(engine.children()) == 3
    engine.process.kill()
    wait_for(lambda: not engine.children(), "the children to end")


def test_before_the_warm_up_sigterm_just_ends_it(start):
    engine = start(scale=1.0)
    engine.wait_for("Init torch distributed begin")
    engine.process.terminate()
    assert engine.process.wait(30) == -signal.SIGTERM
    assert "Draining" not in engine.log
    wait_for(lambda: not engine.children(), "the children to end")


def test_ctrl_c_ends_it_quietly(start):
    engine = start().ready()
    engine.process.send_signal(signal.SIGINT)
    assert engine.process.wait(30) == 0
    assert "Traceback" not in engine.log
    wait_for(lambda: not engine.children(), "the children to end")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--moe-runner-backend", "nope"), "invalid choice: 'nope'"),
        (("--dsa-prefill-backend", "trtllm"), "unrecognized arguments: --dsa-prefill-backend trtllm"),
        (("--tp", "many"), "invalid int value: 'many'"),
    ],
)
def test_a_wrong_flag_is_refused_as_by_the_release(start, flags, said):
    engine = start(*flags)
    assert engine.process.wait(30) == 2
    assert engine.log.startswith("usage: launch_server.py") and said in engine.log


def test_a_port_in_use(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        engine = start(port=taken.getsockname()[1])
        assert engine.process.wait(30) == 1
    assert "ERROR:    [Errno 98] error while attempting to bind on address" in engine.log
    assert "Traceback" not in engine.log
    wait_for(lambda: not engine.children(), "the children to end")


def test_too_little_memory(start):
    engine = start("--mem-fraction-static", "0.3")
    assert engine.process.wait(30) == -signal.SIGKILL
    assert "Not enough memory. Please try to increase --mem-fraction-static." in engine.log
    assert "Received sigquit from a child process." in engine.log


def test_a_model_folder_that_is_not_there(start, tmp_path):
    engine = start("--model-path", str(tmp_path / "absent"))
    assert engine.process.wait(30) == 1
    assert "cannot read config.json" in engine.log and "Traceback" not in engine.log


def test_the_tokenizer_loads_offline_and_counts_the_words(python, start):
    engine = start()
    code = (
        "import sys; from transformers import AutoTokenizer as A; t = A.from_pretrained(sys.argv[1]);"
        "text = t.decode(t.encode('[SIMULATED] 1 2 4096')); print(text, len(t.encode(text)));"
        "print(t.apply_chat_template([{'role': 'user', 'content': 'hi'}], tokenize=False,"
        " add_generation_prompt=True).replace(chr(10), ' '))"
    )
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HTTPS_PROXY": "http://127.0.0.1:1"}
    command = [str(python), "-c", code, str(engine.model)]
    said = subprocess.run(command, env=offline, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["[SIMULATED] 1 2 4096 4", "[gMASK]<sop><|user|> hi<|assistant|>"]
