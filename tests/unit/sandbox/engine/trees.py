"""Small source trees in the shapes that SGLang's releases have."""

from pathlib import Path
from textwrap import dedent

from sandbox.engine.release import Release
from sandbox.engine.source import Tree


def write(root: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return Tree(root)


# As up to 0.5.12: every flag registered by hand.
BY_HAND = {
    "sglang/srt/server_args.py": """
        from __future__ import annotations

        import argparse
        import dataclasses
        import json

        from sglang.srt.parser.reasoning_parser import ReasoningParser
        from sglang.srt.utils.common import nullable_str

        MOE_RUNNER_BACKEND_CHOICES = ["auto", "triton", "flashinfer_cutlass", "flashinfer_mxfp4"]
        NSA_CHOICES = ["flashmla_kv", "trtllm"]
        DEFAULT_LORA = "csgmv"


        @dataclasses.dataclass
        class ServerArgs:
            model_path: str
            tokenizer_path: str | None = None
            host: str = "127.0.0.1"
            port: int = 30000
            tp_size: int = 1
            pp_size: int = 1
            dp_size: int = 1
            ep_size: int = 1
            served_model_name: str | None = None
            device: str | None = None
            random_seed: int | None = None
            chunked_prefill_size: int | None = None
            max_prefill_tokens: int = 16384
            max_running_requests: int | None = None
            max_total_tokens: int | None = None
            mem_fraction_static: float | None = None
            context_length: int | None = None
            quantization: str | None = None
            kv_cache_dtype: str = "auto"
            speculative_algorithm: str | None = None
            moe_runner_backend: str = "auto"
            disable_cuda_graph: bool = False
            disable_flashinfer_autotune: bool = False
            skip_server_warmup: bool = False
            reasoning_parser: str | None = None
            tags: list[str] = dataclasses.field(default_factory=lambda: ["a", "b"])

            @staticmethod
            def add_cli_args(parser: argparse.ArgumentParser):
                parser.add_argument("--model-path", "--model", type=str, required=True, help="100% needed")
                parser.add_argument("--host", type=str, default=ServerArgs.host)
                parser.add_argument("--port", type=int, default=ServerArgs.port)
                parser.add_argument(
                    "--tensor-parallel-size", "--tp-size", type=int, default=ServerArgs.tp_size
                )
                parser.add_argument("--mem-fraction-static", type=float, default=None)
                parser.add_argument("--context-length", type=int, default=None)
                parser.add_argument("--max-running-requests", type=int, default=None)
                parser.add_argument("--quantization", type=nullable_str, default=None)
                reasoning_parser_choices = list(ReasoningParser.DetectorMap.keys())
                parser.add_argument(
                    "--reasoning-parser",
                    choices=reasoning_parser_choices,
                    default=ServerArgs.reasoning_parser,
                    help=f"Options include: {reasoning_parser_choices}.",
                )
                parser.add_argument(
                    "--moe-runner-backend", choices=MOE_RUNNER_BACKEND_CHOICES, default="auto"
                )
                parser.add_argument("--nsa-prefill-backend", choices=NSA_CHOICES + ["aiter"])
                parser.add_argument("--disable-cuda-graph", action="store_true")
                parser.add_argument("--disable-flashinfer-autotune", action="store_true")
                parser.add_argument("--lora-paths", nargs="*", default=None, action=LoRAPathAction)
                parser.add_argument("--limits", type=json.loads, default=ServerArgs.tags)
                parser.add_argument("--old-flag", action=DeprecatedAction, help="gone")
                parser.add_argument("--config", type=str)

            @classmethod
            def from_cli_args(cls, args):
                args.tp_size = args.tensor_parallel_size
                return cls(**{})


        class LoRAPathAction(argparse.Action):
            def __call__(self, parser, namespace, values, option_string=None):
                setattr(namespace, self.dest, [json.loads(v) if v.startswith("{") else v for v in values])


        def print_deprecated_warning(message: str):
            print(message)


        class DeprecatedAction(argparse.Action):
            def __init__(self, option_strings, dest, nargs=0, **kwargs):
                super(DeprecatedAction, self).__init__(option_strings, dest, nargs=nargs, **kwargs)

            def __call__(self, parser, namespace, values, option_string=None):
                print_deprecated_warning(f"{option_string} is deprecated")
    """,
    "sglang/srt/parser/reasoning_parser.py": """
        import torch

        class DeepSeekDetector(torch.nn.Module):
            pass

        class ReasoningParser:
            DetectorMap: dict = {"deepseek-r1": DeepSeekDetector, "glm45": torch.Detector}
    """,
    "sglang/srt/utils/common.py": """
        import torch

        def nullable_str(val: str) -> str | None:
            if not val or val == "None":
                return None
            return val
    """,
}

# As from 0.5.13: most flags derived from annotated fields, which later stand in several classes.
ANNOTATED = {
    "sglang/srt/server_args.py": """
        import argparse
        from sglang.srt.arg_groups.choices import MOE_RUNNER_BACKEND_CHOICES
        from sglang.srt.arg_groups.fields import Model, Serving
        from sglang.srt.kernels.modes import Mode


        class ServerArgs:
            extra: A[bool, "Own field."] = False

            @staticmethod
            def add_cli_args(parser):
                add_cli_args_from_dataclass(parser, ServerArgs)
                choices = set(MOE_RUNNER_BACKEND_CHOICES)
                if envs.SGLANG_SOMETHING.get():
                    choices.add("secret")
                parser.add_argument("--moe-runner-backend", choices=choices, default=_declared("x"))
                parser.add_argument("--mode", choices=[m.name.lower() for m in Mode], default="none")

            @classmethod
            def from_cli_args(cls, args):
                return cls()


        _INPUT_NAMESPACES = [Model, Serving]
    """,
    "sglang/srt/arg_groups/choices.py": """
        MOE_RUNNER_BACKEND_CHOICES = ["auto", "flashinfer_cutlass"]
    """,
    "sglang/srt/kernels/modes.py": """
        import enum

        class Mode(enum.Enum):
            NONE = 0
            ALL = 1
    """,
    "sglang/srt/arg_groups/fields/__init__.py": """
        from .model import Model
        from .serving import Serving
    """,
    "sglang/srt/arg_groups/fields/model.py": """
        class Model:
            _NS_PATH = "model"
            model_path: A[str, Arg(help="The path.", aliases=["--model"])]
            tp_size: A[int, Arg(help="Ranks.", aliases=["--tensor-parallel-size"])] = 1
            moe_runner_backend: A[str, NS("exec")] = "auto"
            ratio: A[Optional[float], "A ratio."] = None
    """,
    "sglang/srt/arg_groups/fields/serving.py": """
        class Serving:
            host: A[str, "The host."] = "127.0.0.1"
            quiet: A[bool, Arg(help="Less.")] = False
            names: A[List[str] | None, Arg(help="Names.", choices=["a", "b"])] = None
            kind: A[Literal["one", "two"], "Which."] = "one"
            hidden: A[Optional[str], Arg(no_cli=True)] = None
            noted: A[int, NS("serving")] = 3
    """,
}

GATE = '''
    import torch

    class ModelRunner:
        def kernel_warmup(self):
            if self._should_run_flashinfer_autotune():
                self._flashinfer_autotune()

        def _should_run_flashinfer_autotune(self) -> bool:
            """Check if flashinfer autotune should be run."""
            if self.server_args.disable_flashinfer_autotune:
                return False
            backend_str = self.server_args.moe_runner_backend
            if backend_str not in [
                "flashinfer_trtllm",
                "flashinfer_mxfp4",
                # TODO: flashinfer_cutlass will cause some flashinfer compilation errors. To be fixed.
                # "flashinfer_cutlass",
            ]:
                return False
            major, _ = torch.cuda.get_device_capability()
            if major < 9:
                return False
            if self.spec_algorithm.is_eagle() or self.spec_algorithm.is_ngram():
                return not self.is_draft_worker
            return True
'''
GATE_PATCHED = GATE.replace('# "flashinfer_cutlass"', '"flashinfer_cutlass"')

LOG_LINES = {
    "sglang/srt/model_executor/model_runner.py": """
        class Runner:
            def load(self):
                logger.info("Init torch distributed begin.")
                logger.info(
                    f"Init torch distributed ends. elapsed={time.perf_counter() - tic:.2f} s, "
                    f"mem usage={(before - after):.2f} GB"
                )
                logger.info(f"Load weight begin. avail mem={get(self.device):.2f} GB")
                logger.info(
                    f"Load weight end. "
                    f"elapsed={tic:.2f} s, "
                    f"type={type(self.model).__name__}, "
                    f"{quant_str + ', ' if quant_str else ''}"
                    f"avail mem={after:.2f} GB"
                )
                log_info_on_rank0(logger, f"Using KV cache dtype: {self.kv_cache_dtype}")
                logger.info("Running FlashInfer autotune with cache: %s", cache_path)
                logger.info("FlashInfer autotune completed.")
                logger.info(
                    f"Capture {graph_backend[self.device]} begin. avail mem={before_mem:.2f} GB"
                )
                logger.info(f"Capture {graph_backend[self.device]} end. Time elapsed: {t:.2f} s.")
    """,
    "sglang/srt/managers/scheduler.py": """
        logger.info(
            f"max_total_num_tokens={self.max_total_num_tokens}, "
            f"context_len={c}, "
            f"{'available_cpu_mem' if cpu else 'available_gpu_mem'}={avail_mem:.2f} GB"
        )
    """,
    "sglang/srt/mem_cache/memory_pool.py": """
        logger.info(f"KV Cache is allocated. #tokens: {n}, K size: {k:.2f} GB, V size: {v:.2f} GB")
        logger.info(f"KV Cache is allocated. #tokens: {n}, KV size: {kv:.2f} GB")
    """,
}


def release(root: Path, version: str = "0.5.9") -> Release:
    return Release(root, version)
