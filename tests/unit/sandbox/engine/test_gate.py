from textwrap import dedent, indent

import pytest

from sandbox.engine.gate import GateError, find, on_sm120, quantization_of, runs_autotune
from sandbox.errors import SandboxError
from tests.unit.sandbox.engine.trees import GATE, GATE_PATCHED, write

RUNNER = "sglang/srt/model_executor/model_runner.py"
CUTLASS = {
    "moe_runner_backend": "flashinfer_cutlass",
    "moe_a2a_backend": "none",
    "disable_flashinfer_autotune": False,
    "speculative_algorithm": None,
    "fp4_gemm_runner_backend": "flashinfer_cutlass",
    "fp8_gemm_runner_backend": "auto",
    "enable_deterministic_inference": False,
    "enable_kv_cache_sharding": False,
}

# As the gate stands in 0.5.15 and later: a function of its own, asking contexts and other modules.
LATER = """
    import torch
    from sglang.srt.runtime_context import get_exec, get_parallel, get_spec

    def _other(model_runner):
        from sglang.srt.layers.quantization.fp8 import Fp8LinearMethod
        return any(isinstance(m, Fp8LinearMethod) for m in model_runner.model.modules())

    def should_run_flashinfer_autotune(model_runner: "ModelRunner", *, for_speculative_draft=False) -> bool:
        mr = model_runner
        if mr.device != "cuda" or get_parallel().enable_kv_cache_sharding:
            return False
        if get_exec().kernel.disable_flashinfer_autotune:
            return False
        moe = get_exec().moe.moe_runner_backend in ["flashinfer_trtllm"]
        from sglang.srt.layers.quantization.fp4_utils import get_fp4_gemm_runner_backend
        fp4 = mr.model_config.quantization == "modelopt_fp4" and (
            get_fp4_gemm_runner_backend().is_flashinfer_cutlass()
        )
        if not (moe or fp4 or _other(mr)):
            return False
        if torch.cuda.get_device_capability()[0] < 9:
            return False
        if mr.spec_algorithm.is_speculative():
            return not mr.is_draft_worker
        return True
"""


@pytest.mark.parametrize(("source", "answer"), [(GATE, False), (GATE_PATCHED, True)])
def test_a_patched_file_changes_the_answer(tmp_path, source, answer):
    tree = write(tmp_path, {RUNNER: source})
    assert runs_autotune(tree, CUTLASS, "modelopt_fp4") is answer


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"moe_runner_backend": "triton"}, False),
        ({"moe_runner_backend": "flashinfer_mxfp4"}, True),
        ({"disable_flashinfer_autotune": True}, False),
        ({"speculative_algorithm": "EAGLE"}, True),
    ],
)
def test_the_arguments_reach_the_gate(tmp_path, change, answer):
    tree = write(tmp_path, {RUNNER: GATE_PATCHED})
    assert runs_autotune(tree, CUTLASS | change, None) is answer


def test_a_gate_that_asks_for_another_architecture_stays_closed(tmp_path):
    tree = write(tmp_path, {RUNNER: GATE_PATCHED.replace("major < 9", "major != 10")})
    assert runs_autotune(tree, CUTLASS, None) is False


def test_a_later_gate_is_found_where_it_moved_and_asks_its_stand_ins(tmp_path):
    tree = write(tmp_path, {"sglang/srt/model_executor/runner/flashinfer_autotune.py": LATER})
    assert find(tree).module.name.endswith("runner.flashinfer_autotune")
    assert runs_autotune(tree, CUTLASS, "modelopt_fp4") is True
    assert runs_autotune(tree, CUTLASS, "fp8") is False
    assert runs_autotune(tree, CUTLASS | {"enable_kv_cache_sharding": True}, "modelopt_fp4") is False
    assert runs_autotune(tree, CUTLASS | {"disable_flashinfer_autotune": True}, "modelopt_fp4") is False


def test_a_release_without_a_gate_does_not_tune(tmp_path):
    tree = write(tmp_path, {RUNNER: "class ModelRunner:\n    pass\n"})
    assert find(tree) is None
    assert runs_autotune(tree, CUTLASS, None) is False


def test_a_gate_that_no_stand_in_can_answer_is_an_error(tmp_path):
    body = "def _should_run_flashinfer_autotune(self):\n    return self.something_new.value\n"
    tree = write(tmp_path, {RUNNER: "class ModelRunner:\n" + indent(dedent(body), "    ")})
    with pytest.raises(GateError, match="something_new"):
        runs_autotune(tree, CUTLASS, None)


def test_a_file_that_a_bad_patch_left_broken_is_an_error_that_names_it(tmp_path):
    tree = write(tmp_path, {RUNNER: GATE.replace("return False", "return False]", 1)})
    with pytest.raises(SandboxError, match=r"model_runner\.py does not parse"):
        runs_autotune(tree, CUTLASS, None)


def test_auto_becomes_cutlass_only_where_the_release_decides_so():
    values = {"moe_runner_backend": "auto", "fp4_gemm_runner_backend": "auto"}
    assert on_sm120(values, (0, 5, 12), "modelopt_fp4") == values
    assert on_sm120(values, (0, 5, 13), "fp8") == values
    assert set(on_sm120(values, (0, 5, 13), "modelopt_fp4").values()) == {"flashinfer_cutlass"}


def test_quantization_is_the_flag_s_or_the_checkpoint_s(tmp_path):
    assert quantization_of({"quantization": "fp8"}, tmp_path) == "fp8"
    assert quantization_of({"quantization": None}, tmp_path) is None
    (tmp_path / "hf_quant_config.json").write_text("{}")
    assert quantization_of({}, tmp_path) == "modelopt_fp4"
