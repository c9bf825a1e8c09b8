"""The start of a server as data: what is logged, by which rank, after how much simulated time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandbox.engine.logtext import LogText, NoSuchLine
from sandbox.engine.settings import GPU_MEMORY_GB, GRAPH_GB, RUNTIME_GB, WEIGHTS_GB, Settings

# Simulated seconds of each stage. The real ones are minutes; the order is what matters here.
IMPORT_S = 4.0
DISTRIBUTED_S = 1.5
LOAD_S = 8.0
AUTOTUNE_S = 4.0
CAPTURE_S = 3.0
SETTLE_S = 0.5


@dataclass(frozen=True)
class Line:
    """One log line. `after` is the simulated time in seconds since the line before it."""

    text: str
    rank: str = ""
    after: float = 0.0


class StartFailure(Exception):
    """This server would not come up; the message is what its scheduler logs."""


def ranks(settings: Settings) -> list[str]:
    """How each scheduler's log lines and process title are told apart, such as " DP0 TP1"; "" for one alone.

    With DP attention the data-parallel groups share the tensor-parallel ranks.
    """
    tp, pp, dp, ep = (settings.values.get(f"{name}_size") or 1 for name in ("tp", "pp", "dp", "ep"))
    shared = bool(settings.values.get("enable_dp_attention"))
    found = []
    for replica in range(1 if shared else dp):
        for stage in range(pp):
            for rank in range(tp):
                group = rank * dp // tp if shared else replica
                expert = rank * ep // tp
                found.append(
                    (f" DP{group}" if dp > 1 else "")
                    + (f" PP{stage}" if pp > 1 else "")
                    + (f" TP{rank}" if tp > 1 else "")
                    + (f" EP{expert}" if ep > 1 else "")
                )
    return found


def titles(settings: Settings) -> list[str]:
    """The process titles of the server's children, as setproctitle shows them."""
    schedulers = [f"sglang::scheduler{rank.replace(' ', '_')}" for rank in ranks(settings)]
    controller = ["sglang::data_parallel_controller"] if (settings.values.get("dp_size") or 1) > 1 else []
    return [*controller, *schedulers, "sglang::detokenizer"]


def banner(settings: Settings) -> str:
    return (
        "SIMULATED engine: no GPU, no model; lifecycle and HTTP surface of "
        f"SGLang {settings.release.version}, {settings.time_scale:g} simulated seconds in each second"
    )


def startup(settings: Settings, text: LogText) -> Iterator[Line]:
    """The lines from the launch of the schedulers to the moment before the HTTP server.

    A line that the release does not have is left out. Raises StartFailure where the KV cache finds no room.
    """
    everyone = ranks(settings)
    first = everyone[0]
    words = _Words(settings, text)
    yield from words.of_each(everyone, IMPORT_S, "Init torch distributed begin")
    yield from words.of_each(everyone, DISTRIBUTED_S, "Init torch distributed ends")
    yield from words.of_each(everyone, SETTLE_S, "Load weight begin")
    yield from words.of_each(everyone, LOAD_S, "Load weight end")
    yield from words.of_each([first], SETTLE_S, "Using KV cache dtype")
    if settings.kv_tokens <= 0:
        raise StartFailure(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: self.server_args.mem_fraction_static={settings.mem_fraction_static}"
        )
    yield from words.of_each(everyone, 0, "KV Cache is allocated", holding="KV size")
    yield from words.of_each(everyone, 0, "Memory pool end")
    if settings.autotune_note:
        yield Line(settings.autotune_note)
    if settings.autotune:
        for line in words.of_each([first], SETTLE_S, "Running FlashInfer autotune"):
            yield Line(line.text.replace("%s", _autotune_cache(settings)), line.rank, line.after)
        yield from words.of_each([first], AUTOTUNE_S, "FlashInfer autotune completed")
    if settings.uses_graphs:
        yield from words.of_each(everyone, SETTLE_S, "Capture ", holding=" begin")
        yield from words.of_each(everyone, CAPTURE_S, "Capture ", holding=" end")
    yield from words.of_each([first], SETTLE_S, "max_total_num_tokens=")


@dataclass(frozen=True)
class _Words:
    settings: Settings
    text: LogText

    def of_each(self, everyone: list[str], after: float, beginning: str, holding: str = "") -> Iterator[Line]:
        """The release's line of every one of these ranks, the first of them after that much time."""
        try:
            text = self.text.line(beginning, self._values(beginning), holding)
        except NoSuchLine:
            return
        for rank in everyone:
            yield Line(text, rank, after if rank == everyone[0] else 0)

    def _values(self, beginning: str) -> Mapping[str, object]:
        settings = self.settings
        loaded = GPU_MEMORY_GB - RUNTIME_GB - WEIGHTS_GB
        after_pool = loaded - settings.kv_gb
        available = {
            "Load weight begin": GPU_MEMORY_GB - RUNTIME_GB,
            "Load weight end": loaded,
        }.get(beginning, after_pool)
        used = {"Load weight end": WEIGHTS_GB, "Capture ": GRAPH_GB}.get(beginning, RUNTIME_GB)
        return {
            "avail mem=": available,
            "mem usage=": used,
            "elapsed=": LOAD_S if beginning.startswith("Load") else DISTRIBUTED_S,
            "Time elapsed:": CAPTURE_S,
            "dtype=": "torch.bfloat16",
            "type=": settings.architecture,
            "{quant_str": f"quant={settings.quantization}, " if settings.quantization else "",
            "Using KV cache dtype:": _dtype(settings.kv_cache_dtype),
            "allocated. dtype:": _dtype(settings.kv_cache_dtype),
            "#tokens:": settings.kv_tokens,
            "KV size:": settings.kv_gb,
            "{graph_backend": "cuda graph",
            "{capture_name": "decode",
            "max_total_num_tokens=": settings.kv_tokens,
            "chunked_prefill_size=": settings.chunked_prefill_size,
            "max_prefill_tokens=": settings.max_prefill_tokens,
            "max_running_requests=": settings.max_running_requests,
            "context_len=": settings.context_len,
            "{'available_gpu_mem'": "available_gpu_mem",
            "available_gpu_mem=": after_pool,
        }


def _dtype(name: str) -> str:
    return {"fp8_e4m3": "torch.float8_e4m3fn", "fp8_e5m2": "torch.float8_e5m2"}.get(name, "torch.bfloat16")


def _autotune_cache(settings: Settings) -> str:
    """Where a release that keeps its tuning results says that it does; the name of the key is SIMULATED."""
    key = hashlib.sha256(f"{settings.model_path}|{settings.moe_runner_backend}".encode()).hexdigest()[:16]
    return f"~/.cache/sglang/flashinfer/autotune/simulated/sm120/{key}/rank_tp0_pp0_dp0.json"
