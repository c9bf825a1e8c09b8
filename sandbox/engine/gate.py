"""Whether this release would tune FlashInfer's kernels at start, asked of the release's own code.

The gate function is lifted out of the installed source and run with stand-ins for torch, the model runner and
the server's arguments, so a patched file changes the answer as it changes the real server's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sandbox.engine.source import Tree
from sandbox.engine.transplant import transplant
from sandbox.engine.values import Definition, Undecided
from sandbox.errors import SandboxError

NAMES = ("should_run_flashinfer_autotune", "_should_run_flashinfer_autotune")
FOLDER = "sglang/srt/model_executor"
CAPABILITY = (12, 0)


class GateError(Exception):
    """The release has a gate, and it could not be run with the stand-ins."""


def runs_autotune(tree: Tree, values: Mapping[str, Any], quantization: str | None) -> bool:
    """The gate's answer for a server with these argument values on SM120; False where there is no gate.

    Raises GateError where the gate reaches for something that no stand-in answers.
    """
    gate = find(tree)
    if gate is None:
        return False
    arguments = Arguments(values)
    runner = ModelRunner(arguments, quantization)
    function = transplant(gate, _StandIns(arguments))
    try:
        return bool(function(runner))
    except (AttributeError, TypeError, NameError, LookupError, ImportError, ValueError) as error:
        raise GateError(f"{gate.module.name}: {type(error).__name__}: {error}") from error


def find(tree: Tree) -> Definition | None:
    """The gate, in whichever file of model_executor this release keeps it.

    Raises SandboxError for a file that does not parse: the real server would not come up with it either.
    """
    for file in sorted((tree.root / FOLDER).rglob("*.py")):
        if f"def {NAMES[0]}(" in (text := file.read_text(encoding="utf-8")) or f"def {NAMES[1]}(" in text:
            name = ".".join(file.relative_to(tree.root).with_suffix("").parts)
            try:
                module = tree.module(name)
            except Undecided as error:
                raise SandboxError(str(error), "repair the file, or install SGLang again") from error
            for node in ast.walk(module.body):
                if isinstance(node, ast.FunctionDef) and node.name in NAMES:
                    return Definition(module, node)
    return None


class Arguments:
    """Server arguments by name, under any grouping: `args.kernel.x` and `args.x` are the same value."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return self._values.get(name, self)


@dataclass(frozen=True)
class Choice:
    """A chosen backend or algorithm that is asked `is_<name>()`."""

    value: str | None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("is_"):
            raise AttributeError(name)
        asked = name.removeprefix("is_")
        chosen = (self.value or "none").lower()
        return lambda: chosen == asked or chosen.startswith(asked + "_")


class Speculation(Choice):
    """The speculative algorithm, which is also asked by family."""

    def is_speculative(self) -> bool:
        return self.value is not None

    def is_eagle(self) -> bool:
        return self.value in ("EAGLE", "EAGLE3", "NEXTN")


class ModelRunner:
    """What a gate may ask of the model runner; some releases ask a runner that holds it."""

    device = "cuda"
    is_draft_worker = False

    def __init__(self, arguments: Arguments, quantization: str | None) -> None:
        self.server_args = arguments
        self.model_config = SimpleNamespace(quantization=quantization)
        self.spec_algorithm = Speculation(arguments.speculative_algorithm)
        self.model = SimpleNamespace(modules=lambda: [])
        self.model_runner = self


class Nothing:
    """The answer for whatever no stand-in knows: callable, empty and false."""

    def __call__(self, *args: object, **kwargs: object) -> Nothing:
        return self

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())


@dataclass(frozen=True)
class _StandIns:
    arguments: Arguments

    def __call__(self, name: str) -> Any:
        """The stand-in for a name that the gate takes from elsewhere."""
        if name == "torch":
            return SimpleNamespace(cuda=SimpleNamespace(get_device_capability=lambda *_: CAPABILITY))
        if name.endswith(("gemm_runner_backend", "gemm_backend")):
            field = "fp4_gemm_runner_backend" if "fp4" in name else "fp8_gemm_runner_backend"
            backend = getattr(self.arguments, field)
            return lambda *_: Choice(backend if isinstance(backend, str) else "auto")
        if name in ("is_sm120_supported", "is_blackwell_supported", "is_blackwell"):
            return lambda *_: True
        if name.startswith("get_"):
            return lambda *_: self.arguments
        return Nothing()


def on_sm120(values: Mapping[str, Any], version: tuple[int, ...], quantization: str | None) -> dict[str, Any]:
    """Argument values with what the release resolves "auto" to on SM120 for an NVFP4 checkpoint.

    From 0.5.13 the MoE runner and the FP4 GEMM become flashinfer_cutlass; before, the MoE runner stays
    "auto", which no gate lists.
    """
    resolved = dict(values)
    if version >= (0, 5, 13) and quantization in ("modelopt_fp4", "modelopt_mixed"):
        for name in ("moe_runner_backend", "fp4_gemm_runner_backend"):
            if resolved.get(name) == "auto":
                resolved[name] = "flashinfer_cutlass"
    return resolved


def quantization_of(values: Mapping[str, Any], model_path: Path) -> str | None:
    """`--quantization`, else what the checkpoint's own hf_quant_config.json names."""
    if values.get("quantization"):
        return str(values["quantization"])
    if (model_path / "hf_quant_config.json").is_file():
        return "modelopt_fp4"
    return None
