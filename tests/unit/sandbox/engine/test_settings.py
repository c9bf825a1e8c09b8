import json

import pytest

from sandbox.engine import settings
from sandbox.engine.arguments import parse
from sandbox.errors import SandboxError
from tests.unit.sandbox.engine.trees import BY_HAND, GATE, GATE_PATCHED, release, write

RUNNER = "sglang/srt/model_executor/model_runner.py"


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"architectures": ["Glm"], "num_hidden_layers": 78, "max_position_embeddings": 1000}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def settle(tmp_path, model, *flags, gate=GATE, version="0.5.9", scale=10.0):
    tree = write(tmp_path / "tree", {**BY_HAND, RUNNER: gate})
    parsed = parse(tree, ["--model-path", str(model), *flags])
    return settings.settle(release(tree.root, version), tree, parsed, scale)


def test_fields_follow_the_options_that_fill_them(tmp_path, model):
    settled = settle(tmp_path, model, "--tp", "8", "--port", "5000")
    assert (settled.tp_size, settled.port, settled.host) == (8, 5000, "127.0.0.1")
    assert "tensor_parallel_size" not in settled.values


def test_what_is_not_given_is_resolved(tmp_path, model):
    settled = settle(tmp_path, model)
    assert settled.served_model_name == settled.tokenizer_path == str(model)
    assert settled.context_len == 1000 and settled.architecture == "Glm"
    assert settled.chunked_prefill_size == 8192
    assert 2048 <= settled.max_running_requests <= 4096


def test_server_args_are_shown_as_the_server_shows_them(tmp_path, model):
    text = settle(tmp_path, model, "--tp", "2").as_server_args()
    assert text.startswith(f"ServerArgs(model_path='{model}', tokenizer_path='{model}', host='127.0.0.1', ")
    assert "tp_size=2" in text and text.endswith(")")


def test_the_kv_cache_follows_memory_fraction_and_dtype(tmp_path, model):
    less = settle(tmp_path, model, "--mem-fraction-static", "0.8")
    more = settle(tmp_path, model, "--mem-fraction-static", "0.95")
    assert 0 < less.kv_tokens < more.kv_tokens
    assert settle(tmp_path, model, "--mem-fraction-static", "0.3").kv_tokens < 0


@pytest.mark.parametrize(("gate", "autotune"), [(GATE, False), (GATE_PATCHED, True)])
def test_autotune_is_what_the_installed_gate_says(tmp_path, model, gate, autotune):
    settled = settle(tmp_path, model, "--moe-runner-backend", "flashinfer_cutlass", gate=gate)
    assert settled.autotune is autotune and settled.autotune_note == ""


def test_a_gate_that_cannot_be_run_is_closed_and_said(tmp_path, model):
    gate = "def should_run_flashinfer_autotune(mr):\n    return mr.unheard_of\n"
    settled = settle(tmp_path, model, gate=gate)
    assert settled.autotune is False and "unheard_of" in settled.autotune_note


@pytest.mark.parametrize("damage", ["absent", "not json", "not an object"])
def test_a_model_folder_that_is_none(tmp_path, model, damage):
    config = model / "config.json"
    config.unlink() if damage == "absent" else config.write_text("{" if damage == "not json" else "[]")
    with pytest.raises(SandboxError, match=r"config\.json"):
        settle(tmp_path, model)


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:30000"), ("::1", "http://[::1]:30000"), ("10.0.0.2", "http://10.0.0.2:30000")],
)
def test_the_url_that_the_server_reaches_itself_by(tmp_path, model, host, url):
    assert settle(tmp_path, model, "--host", host).url == url


@pytest.mark.parametrize(("given", "scale"), [("", 10.0), ("1", 1.0), ("0.5", 0.5)])
def test_time_scale(given, scale):
    assert settings.time_scale({"SIMULATED_ENGINE_TIMESCALE": given}) == scale
    assert settings.time_scale({}) == 10.0


@pytest.mark.parametrize("given", ["0", "-1", "fast", "nan", "inf"])
def test_a_time_scale_that_is_none(given):
    with pytest.raises(SandboxError, match="SIMULATED_ENGINE_TIMESCALE"):
        settings.time_scale({"SIMULATED_ENGINE_TIMESCALE": given})


@pytest.mark.parametrize(("version", "numbers"), [("0.5.12.post1", (0, 5, 12)), ("0.5.9", (0, 5, 9)), ("dev", ())])
def test_version_numbers(version, numbers):
    assert settings.version_numbers(version) == numbers
