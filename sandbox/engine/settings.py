"""What a parsed command line means for the simulated server. All sizes of memory in it are SIMULATED."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.engine import arguments, gate
from sandbox.engine.release import Release
from sandbox.engine.source import Tree
from sandbox.errors import SandboxError

TIME_SCALE_VARIABLE = "SIMULATED_ENGINE_TIMESCALE"
DEFAULT_TIME_SCALE = 10.0

GPU_MEMORY_GB = 94.97
WEIGHTS_GB = 55.62
RUNTIME_GB = 0.81
# One token of the latent KV cache: 512 + 64 values in each layer (GLM-5 and DeepSeek's MLA).
KV_VALUES_PER_LAYER = 576
DEFAULT_LAYERS = 78
DEFAULT_CONTEXT = 202752
GRAPH_GB = 1.35


@dataclass(frozen=True)
class Settings:
    """One server. `values` are ServerArgs' fields, in its order, with what the server resolved itself."""

    release: Release
    values: Mapping[str, Any]
    architecture: str
    context_len: int
    kv_gb: float
    kv_tokens: int
    autotune: bool
    autotune_note: str
    time_scale: float

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def version(self) -> tuple[int, ...]:
        return version_numbers(self.release.version)

    @property
    def model_folder(self) -> Path:
        return Path(self.values["model_path"])

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.values["host"], self.values["host"])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.values['port']}"

    @property
    def uses_graphs(self) -> bool:
        return not self.values.get("disable_cuda_graph")

    def as_server_args(self) -> str:
        """As the server logs it at start."""
        return f"ServerArgs({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers at the start of a version: (0, 5, 12) for 0.5.12.post1."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def time_scale(environment: Mapping[str, str]) -> float:
    """How many simulated seconds pass in a real one. Raises SandboxError for what is no positive number."""
    given = environment.get(TIME_SCALE_VARIABLE, "")
    if not given:
        return DEFAULT_TIME_SCALE
    try:
        scale = float(given)
    except ValueError:
        scale = math.nan
    if not 0 < scale < math.inf:
        raise SandboxError(
            f"{TIME_SCALE_VARIABLE}={given!r} is not a positive number",
            "set it to how many simulated seconds pass in one second, or leave it unset for 10",
        )
    return scale


def settle(release: Release, tree: Tree, parsed: argparse.Namespace, scale: float) -> Settings:
    """Everything that follows from the command line, the model's folder and the installed source.

    Raises SandboxError for a model folder that is none.
    """
    given = vars(parsed)
    renamed = arguments.renamed(tree)
    values = {name: given.get(renamed.get(name, name), default) for name, default in arguments.declared(tree).items()}
    config = model_config(Path(values["model_path"]))
    _resolve(values, config)
    quantization = gate.quantization_of(values, Path(values["model_path"]))
    autotune, note = _autotune(tree, values, version_numbers(release.version), quantization)
    kv_gb = values["mem_fraction_static"] * GPU_MEMORY_GB - WEIGHTS_GB - RUNTIME_GB
    kv_tokens = int(kv_gb * 1e9 / _token_bytes(values, config))
    if values.get("max_total_tokens"):
        kv_tokens = min(kv_tokens, values["max_total_tokens"])
    context_len = values["context_length"] or config.get("max_position_embeddings", DEFAULT_CONTEXT)
    if not values["max_running_requests"]:
        values["max_running_requests"] = max(2048, min(4096, int(kv_tokens / context_len * 512)))
    return Settings(
        release=release,
        values=values,
        architecture=(config.get("architectures") or ["unknown"])[0],
        context_len=context_len,
        kv_gb=kv_gb,
        kv_tokens=kv_tokens,
        autotune=autotune,
        autotune_note=note,
        time_scale=scale,
    )


def model_config(folder: Path) -> dict[str, Any]:
    """The model's config.json. Raises SandboxError."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise SandboxError(
            f"--model-path {folder}: cannot read config.json: {error.strerror}",
            "give the folder of the stand-in model; the simulated engine downloads nothing",
        ) from error
    except ValueError as error:
        raise SandboxError(f"{folder}/config.json is not JSON: {error}", "make the model's folder again") from error
    if not isinstance(config, dict):
        raise SandboxError(f"{folder}/config.json holds no object", "make the model's folder again")
    return config


def _resolve(values: dict[str, Any], config: Mapping[str, Any]) -> None:
    """Fill in what the real server decides itself when it is not told."""
    values["model_path"] = str(values["model_path"])
    for name, value in {
        "tokenizer_path": values["model_path"],
        "served_model_name": values["model_path"],
        "device": "cuda",
        "random_seed": 42,
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "mem_fraction_static": 0.88,
    }.items():
        if values.get(name) is None:
            values[name] = value
    if values["chunked_prefill_size"] <= 0:
        values["chunked_prefill_size"] = values["max_prefill_tokens"]


def _autotune(
    tree: Tree, values: Mapping[str, Any], version: tuple[int, ...], quantization: str | None
) -> tuple[bool, str]:
    resolved = gate.on_sm120(values, version, quantization)
    try:
        return gate.runs_autotune(tree, resolved, quantization), ""
    except gate.GateError as error:
        return False, f"SIMULATED engine: this release's autotune gate could not be run, taken as closed: {error}"


def _token_bytes(values: Mapping[str, Any], config: Mapping[str, Any]) -> float:
    """Bytes of one token's KV cache on one GPU."""
    width = 1 if str(values.get("kv_cache_dtype", "auto")).startswith("fp8") else 2
    layers = config.get("num_hidden_layers", DEFAULT_LAYERS) / values.get("pp_size", 1)
    return float(layers * KV_VALUES_PER_LAYER * width)
