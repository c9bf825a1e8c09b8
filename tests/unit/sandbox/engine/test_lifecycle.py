import pytest

from sandbox.engine import lifecycle
from sandbox.engine.logtext import LogText
from tests.unit.sandbox.engine.trees import GATE_PATCHED


def startup(settings):
    return list(lifecycle.startup(settings, LogText.of(settings.release)))


def beginnings(settings, rank=""):
    return [line.text.split(".")[0].split("=")[0] for line in startup(settings) if line.rank == rank]


def test_the_lines_of_one_rank_in_order(settle):
    assert beginnings(settle("--disable-cuda-graph")) == [
        "Init torch distributed begin",
        "Init torch distributed ends",
        "Load weight begin",
        "Load weight end",
        "Using KV cache dtype: torch",
        "KV Cache is allocated",
        "max_total_num_tokens",
    ]


def test_every_rank_loads_and_only_the_first_sums_up(settle):
    lines = startup(settle("--tp", "2", "--disable-cuda-graph"))
    loads = [line.rank for line in lines if line.text.startswith("Load weight end")]
    totals = [line.rank for line in lines if line.text.startswith("max_total")]
    assert (loads, totals) == ([" TP0", " TP1"], [" TP0"])


def test_graphs_are_captured_unless_disabled(settle):
    assert "Capture cuda graph begin" in beginnings(settle())
    assert not [text for text in beginnings(settle("--disable-cuda-graph")) if "Capture" in text]


def test_autotune_is_logged_only_where_the_gate_opens(settle):
    flags = ("--moe-runner-backend", "flashinfer_cutlass", "--disable-cuda-graph")
    closed = [line.text for line in startup(settle(*flags))]
    opened = [line.text for line in startup(settle(*flags, gate=GATE_PATCHED))]
    assert not [text for text in closed if "autotune" in text]
    running, completed = (text for text in opened if "autotune" in text)
    assert running.startswith("Running FlashInfer autotune with cache: ~/") and "%s" not in running
    assert completed == "FlashInfer autotune completed."


def test_a_note_about_the_gate_is_logged(settle):
    gate = "def should_run_flashinfer_autotune(mr):\n    return mr.unheard_of\n"
    assert any("unheard_of" in line.text for line in startup(settle(gate=gate)))


def test_too_little_memory_fails_the_start_after_the_weights(settle):
    lines = []
    with pytest.raises(lifecycle.StartFailure, match="--mem-fraction-static"):
        settings = settle("--mem-fraction-static", "0.3")
        for line in lifecycle.startup(settings, LogText.of(settings.release)):
            lines.append(line.text)
    assert lines[-1].startswith("Using KV cache dtype")


def test_sizes_add_up(settle):
    settings = settle("--disable-cuda-graph")
    assert f"max_total_num_tokens={settings.kv_tokens}, " in startup(settings)[-1].text


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({}, [""]),
        ({"tp_size": 2}, [" TP0", " TP1"]),
        ({"tp_size": 1, "pp_size": 2}, [" PP0", " PP1"]),
        ({"tp_size": 2, "dp_size": 2}, [" DP0 TP0", " DP0 TP1", " DP1 TP0", " DP1 TP1"]),
        ({"tp_size": 2, "dp_size": 2, "enable_dp_attention": True}, [" DP0 TP0", " DP1 TP1"]),
        ({"tp_size": 2, "ep_size": 2}, [" TP0 EP0", " TP1 EP1"]),
    ],
)
def test_ranks(settle, sizes, expected):
    assert lifecycle.ranks(settle(**sizes)) == expected


def test_titles_are_the_real_processes(settle):
    assert lifecycle.titles(settle("--tp", "2")) == [
        "sglang::scheduler_TP0",
        "sglang::scheduler_TP1",
        "sglang::detokenizer",
    ]
    assert lifecycle.titles(settle()) == ["sglang::scheduler", "sglang::detokenizer"]
    assert lifecycle.titles(settle(dp_size=2))[0] == "sglang::data_parallel_controller"


def test_the_banner_says_simulated(settle):
    assert lifecycle.banner(settle(scale=10.0)) == (
        "SIMULATED engine: no GPU, no model; lifecycle and HTTP surface of SGLang 0.5.9, "
        "10 simulated seconds in each second"
    )
