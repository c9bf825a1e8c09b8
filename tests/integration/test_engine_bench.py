"""SGLang's own bench_serving, from the lock, against the simulated engine."""

import json
import os
import subprocess

import pytest

from tests.integration.engine import Engine, environment

pytestmark = pytest.mark.wheels

# A runner that the stock release tunes, so that large batches do not crawl.
TUNED = ("--tp", "8", "--disable-cuda-graph", "--max-running-requests", "1024")
TUNED += ("--moe-runner-backend", "flashinfer_mxfp4")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    python = environment(tmp_path_factory.mktemp("environment") / "venv")
    with Engine(python, tmp_path_factory.mktemp("engine"), TUNED, scale=10.0) as running:
        yield running.ready()


def bench(engine, prompts, output_len, backend="sglang-oai"):
    results = engine.folder / f"{backend}-{prompts}-{output_len}.jsonl"
    command = [str(engine.python), "-m", "sglang.bench_serving", "--backend", backend]
    command += ["--host", "127.0.0.1", "--port", str(engine.port), "--dataset-name", "random-ids"]
    command += ["--random-input-len", "256", "--random-output-len", str(output_len)]
    command += ["--random-range-ratio", "0.0", "--seed", "1", "--num-prompts", str(prompts)]
    command += ["--model", str(engine.model), "--served-model-name", "glm-5", "--output-file", str(results)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(results.read_text().replace("Infinity", "1e999"))


@pytest.mark.parametrize(
    ("prompts", "output_len", "tokens", "simulated_seconds"), [(64, 128, 3731, 18.8), (1, 500, 236, 28.7)]
)
def test_the_recorded_levels(engine, prompts, output_len, tokens, simulated_seconds):
    result = bench(engine, prompts, output_len)
    assert result["completed"] == prompts
    assert result["total_output_tokens"] == result["total_output_tokens_retokenized"] == tokens
    # The model is 10 times as fast as the record; a busy machine may only be slower.
    assert simulated_seconds / 10 * 0.9 < result["duration"] < simulated_seconds


def test_the_native_endpoint_counts_the_same(engine):
    assert bench(engine, 64, 128, backend="sglang")["total_output_tokens"] == 3731


def test_1024_streams_at_once(engine):
    result = bench(engine, 1024, 128)
    assert (result["completed"], result["total_output_tokens"]) == (1024, 65688)
    assert result["max_concurrent_requests"] == 1024
    assert engine.process.poll() is None and "Traceback" not in engine.log
    assert engine.health() == 200
