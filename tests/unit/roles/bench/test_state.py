import json

import pytest

from blackstart.errors import InputError, VerifyError
from blackstart.machine import Machine, Value
from blackstart.paths import ROLES
from blackstart.variables import read_defaults, resolve
from roles.bench import state as bench
from roles.bench.state import Level, Variables


def variables(**given):
    values = {"server_profile": "glm-5-nvfp4", **given}
    machine = Machine("glm5", ("all",), {name: Value(value, "here") for name, value in values.items()}, "here")
    return resolve(machine, read_defaults(ROLES), Variables)


def level(prompts, output_len=128):
    return Level(prompts=prompts, output_len=output_len)


# choosing


def test_all_declared_levels_are_climbed_unless_some_are_named():
    assert [found.prompts for found in bench.chosen_levels(variables(), "")] == [1, 64, 256, 512, 1024]


def test_named_levels_keep_what_is_declared_for_them():
    assert bench.chosen_levels(variables(), "1, 64") == [level(1, 500), level(64)]


def test_a_level_that_is_not_declared_asks_for_as_much_as_the_last_one():
    assert bench.chosen_levels(variables(), "7") == [level(7, 128)]


@pytest.mark.parametrize("text", ["0", "-1", "a", "1,,2", "1,", ",", "1.5", "1 2", "²"])
def test_levels_are_positive_numbers(text):
    with pytest.raises(InputError, match="levels are numbers of prompts"):
        bench.chosen_levels(variables(), text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bench_levels": []},
        {"bench_levels": [{"prompts": 0, "output_len": 1}]},
        {"bench_levels": [{"prompts": 1}]},
        {"bench_levels": [{"prompts": 1, "output_len": 1, "tokens": 5}]},
        {"bench_range_ratio": 2},
        {"bench_request_rate": "fast"},
        {"bench_folder": "relative"},
    ],
)
def test_wrong_values_are_input_errors(wrong):
    with pytest.raises(InputError):
        variables(**wrong)


# running


def options(resource):
    words = resource.spec["argv"]
    assert words[:3] == ["/root/ml-env/bin/python", "-m", "sglang.bench_serving"]
    return dict(zip(words[3::2], words[4::2], strict=True))


def test_a_level_is_one_run_of_bench_serving_that_says_everything_itself():
    found = bench.level_resource(variables(server_flags={"model-path": "/srv/m"}), "night", level(64))
    assert options(found) == {
        "--backend": "sglang-oai",
        "--host": "127.0.0.1",
        "--port": "30000",
        "--model": "glm-5",
        "--tokenizer": "/srv/m",
        "--dataset-name": "random-ids",
        "--random-input-len": "256",
        "--random-output-len": "128",
        "--random-range-ratio": "0.0",
        "--request-rate": "inf",
        "--num-prompts": "64",
        "--seed": "1",
        "--output-file": "/var/lib/blackstart/bench/night-64.jsonl",
    }
    assert found.spec["env"]["HF_HUB_OFFLINE"] == "1"
    assert found.spec["timeout"] == 3600


def test_a_level_runs_each_time():
    found = bench.level_resource(variables(), "night", level(1, 500))
    assert not found.spec["creates"] and options(found)["--random-output-len"] == "500"


def test_without_a_model_path_the_profiles_model_gives_the_tokenizer():
    found = bench.level_resource(variables(server_flags={"model-path": None}), "night", level(1))
    assert options(found)["--tokenizer"] == "lukealonso/GLM-5-NVFP4"


def test_a_rate_is_handed_on():
    assert options(bench.level_resource(variables(bench_request_rate=999), "x", level(1)))["--request-rate"] == "999.0"


# results

RECORD = {
    "tag": None,
    "backend": "sglang-oai",
    "dataset_name": "random-ids",
    "max_concurrency": None,
    "random_input_len": 256,
    "random_output_len": 128,
    "random_range_ratio": 0.0,
    "duration": 2.67,
    "completed": 64,
    "total_input_tokens": 9166,
    "total_output_tokens": 3731,
    "total_output_tokens_retokenized": 5971,
    "request_throughput": 23.94,
    "output_throughput": 1395.76,
    "total_throughput": 4824.73,
    "mean_tpot_ms": 34.53,
    "concurrency": 50.17,
    "max_output_tokens_per_s": 1839.0,
    "input_lens": [1, 2],
    "output_lens": [3, 4],
    "ttfts": [0.1],
    "itls": [[0.1]],
    "generated_texts": ["x"],
    "errors": [""],
}


def line(**changes):
    """A record as bench_serving appends it: an endless rate is a bare Infinity, which is no JSON."""
    text = json.dumps({**RECORD, **changes})
    return text[:-1] + ', "request_rate": Infinity}\n'


def test_a_result_keeps_bench_servings_own_names_and_leaves_the_bulk_out():
    found = bench.result_of(line(), level(64), "glm5")
    assert next(iter(found)) == "prompts" and found["prompts"] == 64
    assert found["total_output_tokens"] == 3731 and found["output_throughput"] == 1395.76
    assert not {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"} & set(found)


def test_a_bare_infinity_becomes_text_so_that_the_record_is_json():
    found = bench.result_of(line(), level(64), "glm5")
    assert found["request_rate"] == "Infinity"
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_nan_becomes_text_too():
    found = bench.result_of(line().replace("34.53", "NaN"), level(64), "glm5")
    assert found["mean_tpot_ms"] == "NaN"


def test_the_last_record_counts():
    assert bench.result_of(line(duration=1) + line(duration=2), level(64), "glm5")["duration"] == 2


@pytest.mark.parametrize("completed", [0, 63, None])
def test_a_level_that_lost_requests_did_not_hold(completed):
    with pytest.raises(VerifyError, match="level 64: not every request was completed") as caught:
        bench.result_of(line(completed=completed), level(64), "glm5")
    assert caught.value.found == f"{completed} of 64"


@pytest.mark.parametrize("text", ["", "\n", '{"completed": 64, "dur', "Killed\n", "[]\n"])
def test_a_result_that_is_not_there_or_torn_is_an_error_and_no_crash(text):
    with pytest.raises(VerifyError, match="level 64 left no result"):
        bench.result_of(text, level(64), "glm5")


# the recorded series

BASELINE = "rtx-pro-6000-x8-glm-5-nvfp4"


def test_a_level_is_held_against_every_series_that_ran_it():
    found = bench.recorded(BASELINE, level(64))
    assert {name: one["total_throughput"] for name, one in found.items()} == {
        "before-autotune": 757,
        "autotune-radix": 700.08,
    }


def test_a_series_that_failed_or_measured_something_else_is_left_out():
    found = bench.recorded(BASELINE, level(512))
    assert "autotune-radix" not in found and found["autotune-no-radix"]["total_throughput"] == 2800.25
    assert "one-chat-request" not in bench.recorded(BASELINE, level(1, 500))


def test_no_baseline_is_none():
    assert bench.recorded("", level(64)) == {}


def test_an_unknown_baseline_names_the_known():
    with pytest.raises(InputError, match="there is no baseline 'none'") as caught:
        bench.recorded("none", level(64))
    assert BASELINE in caught.value.found


def test_records_are_kept_beside_their_inventory(tmp_path):
    assert bench.series_file(tmp_path, "night") == tmp_path / "series" / "night.jsonl"
