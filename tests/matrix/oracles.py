"""What a function really does, asked without any of the project's own machinery: run with plain stand-ins."""

from __future__ import annotations

import builtins
import inspect
import re
import types
from collections.abc import Callable
from typing import Any

GateKey = tuple[str, tuple[int, int], bool]
RUNNERS = ("flashinfer_cutlass", "flashinfer_trtllm", "flashinfer_mxfp4", "triton", "auto", "cutlass")
CAPABILITIES = ((8, 0), (9, 0), (10, 0), (12, 0))


class Blank:
    """Anything at all, and false."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return NOTHING

    def __call__(self, *args: Any, **_: Any) -> Any:
        # As a decorator it leaves what it decorates.
        return args[0] if args and isinstance(args[0], types.FunctionType) else NOTHING

    def __bool__(self) -> bool:
        return False

    def __contains__(self, _: Any) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return ()

    def __enter__(self) -> Blank:
        return self

    def __exit__(self, *_: Any) -> None:
        return None


NOTHING = Blank()


def load(text: str, name: str, given: dict[str, Any], modules: dict[str, Any]) -> Callable[..., Any] | None:
    """Execute a small file and find the function by its name, in a class or outside; None if it is not there."""

    def imported(module: str, _globals: Any = None, _locals: Any = None, names: Any = (), _level: int = 0) -> Any:
        if module == "__future__":
            return builtins.__import__(module, None, None, names)
        return modules.get(module) if module in modules else modules.get(module.partition(".")[0], NOTHING)

    namespace: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": imported}, "__name__": "subject"}
    exec(compile(text, "subject.py", "exec", dont_inherit=True), namespace)
    namespace.update(given)
    for holder in [namespace, *(vars(v) for v in list(namespace.values()) if isinstance(v, type) and v is not Blank)]:
        found = holder.get(name)
        if found is not None:
            return inspect.unwrap(found) if isinstance(found, types.FunctionType) else found
    return namespace["factory"]() if "factory" in namespace else None


def ask_gate(text: str, name: str) -> dict[GateKey, bool]:
    """(runner, capability, disabled) -> what the gate answers. Raises whatever the gate raises."""
    now: dict[str, Any] = {}

    class Flags(Blank):
        moe_a2a_backend, attention_backend = "none", "flashinfer"
        speculative_moe_runner_backend = speculative_moe_a2a_backend = None
        moe_runner_backend = property(lambda _: now["runner"])
        disable_flashinfer_autotune = property(lambda _: now["disabled"])
        enable_flashinfer_autotune = property(lambda _: not now["disabled"])

    flags = Flags()
    flags.kernel = flags.moe = flags
    torch = Blank(cuda=Blank(get_device_capability=lambda *_: now["capability"]), no_grad=Blank())
    quiet = Blank(**{f"is_flashinfer{kind}": lambda: False for kind in ("", "_cutlass", "_cutedsl")})
    gemm = Blank(
        get_fp4_gemm_runner_backend=lambda: quiet,
        get_fp8_gemm_runner_backend=lambda: quiet,
        resolve_mxfp8_dense_gemm_backend=lambda: quiet,
        flashinfer_per_tensor_fp8_supported=lambda: False,
    )
    modules = {
        "torch": torch,
        "re": re,
        "sglang.srt.layers.quantization.fp4_utils": gemm,
        "sglang.srt.layers.quantization.fp8_utils": gemm,
        "sglang.srt.utils": Blank(is_sm100_supported=lambda: now["capability"][0] == 10),
    }
    given = {"torch": torch, "get_exec": lambda: flags, "get_spec": lambda: flags, "get_parallel": Blank()}
    gate = load(text, name, given, modules)
    assert gate is not None, f"{name} is not in the file"
    spec = Blank(**{f"is_{kind}": lambda: False for kind in ("eagle", "standalone", "ngram", "speculative")})

    class Runner:
        """What a gate is given: a model runner, or one that holds it."""

        server_args, spec_algorithm, is_draft_worker, device = flags, spec, False, "cuda"
        model_config = types.SimpleNamespace(quantization=None)

        def __getattr__(self, attribute: str) -> Any:
            if attribute in ("model_runner", "model"):
                return self if attribute == "model_runner" else NOTHING
            return getattr(_owner(gate), attribute).__get__(self)

    answers = {}
    for runner in RUNNERS:
        for capability in CAPABILITIES:
            for disabled in (False, True):
                now.update(runner=runner, capability=capability, disabled=disabled)
                answer = gate(Runner())
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise TypeError("the gate is async")
                answers[runner, capability, disabled] = bool(answer)
    return answers


def _owner(function: Callable[..., Any]) -> Any:
    """What the function's class gives by name; for a function of the module, what the module gives."""
    names = function.__globals__
    owner = names.get(function.__qualname__.rpartition(".")[0].rpartition(".")[2])
    return _Given(names if owner is None else dict(vars(owner)))


class _Given:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name not in self._values:
            raise AttributeError(name)
        value = self._values[name]
        return value if isinstance(value, types.FunctionType) else _Plain(value)


class _Plain:
    def __init__(self, value: Any) -> None:
        self._value = value

    def __get__(self, *_: Any) -> Any:
        return self._value


class Numbers:
    """A small tensor of numbers: rows of columns, with or without a middle dimension of one."""

    dtype = "number"
    device = "cuda"

    def __init__(self, rows: list[list[float]], middle: bool) -> None:
        self.rows, self.middle = rows, middle

    @property
    def shape(self) -> tuple[int, ...]:
        width = len(self.rows[0]) if self.rows else 0
        return (len(self.rows), 1, width) if self.middle else (len(self.rows), width)

    def __getitem__(self, key: Any) -> Numbers:
        if isinstance(key, list):
            return Numbers([self.rows[n] for n in key], self.middle)
        assert isinstance(key, tuple) and all(part == slice(None) for part in key[:-1])
        return Numbers([row[key[-1]] for row in self.rows], self.middle)

    def split(self, sizes: list[int], dim: int = -1) -> list[Numbers]:
        ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
        return [self[:, :, end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def squeeze(self, _: int) -> Numbers:
        return Numbers(self.rows, False)

    def contiguous(self) -> Numbers:
        return self

    def to(self, _: Any) -> Numbers:
        return self


RANK, ROPE, ROWS = 512, 64, 5
PACKED = 656
TABLE, BATCH = [4, 0, 2], [1, 3, 0]
METADATA: dict[str, dict[str, Any]] = {
    "table": {"page_table_1_flattened": TABLE},
    "none": {"page_table_1_flattened": None},
    "absent": {},
}
# A value v of a row is stored as v in the raw pool and as v / 2 in the packed one.
VALUES = [[float(1000 * row + column) for column in range(PACKED)] for row in range(ROWS)]
STORED = {True: [[value / 2 for value in row] for row in VALUES], False: [row[: RANK + ROPE] for row in VALUES]}
Parts = tuple[list[list[float]], list[list[float]]]


def ask_guard(text: str, name: str) -> dict[tuple[str, bool], Parts | str]:
    """(metadata, packed) -> the two parts that the reader gives, as numbers; or the name of what it raises."""
    now = types.SimpleNamespace(packed=True, backend=None)

    class Pool:
        dsa_kv_cache_store_fp8 = nsa_kv_cache_store_fp8 = property(lambda _: now.packed)

        def get_key_buffer(self, _: int) -> Numbers:
            return Numbers(STORED[now.packed], True)

        def get_mla_kv_buffer(self, _: Any, loc: list[int], _dtype: Any = None) -> tuple[Numbers, Numbers]:
            rows = self.get_key_buffer(7)[loc]
            return rows[:, :, :RANK], rows[:, :, RANK : RANK + ROPE]

    def dequantise(buffer: Numbers, indices: list[int]) -> Numbers:
        assert buffer.shape[-1] == PACKED, "dim_quant"
        return Numbers([[2 * value for value in row[: RANK + ROPE]] for row in buffer[indices].rows], True)

    pool = Pool()
    given = {
        "torch": NOTHING,
        "TboAttnBackend": type("TboAttnBackend", (), {}),
        "get_attn_backend": lambda: now.backend,
        "resolve_attn_backend": lambda _: now.backend,
        "get_token_to_kv_pool": lambda: pool,
        "dequantize_k_cache_paged": dequantise,
        "dequantize_k_cache_paged_dsa": dequantise,
        "_is_cuda": True,
        "_use_aiter_gfx95": False,
    }
    reader = load(text, name, given, {})
    assert reader is not None, f"{name} is not in the file"

    class Attention:
        attn_mha = types.SimpleNamespace(layer_id=7)
        kv_lora_rank, qk_rope_head_dim = RANK, ROPE

        def __getattr__(self, attribute: str) -> Any:
            return getattr(_owner(reader), attribute).__get__(self)

    answers = {}
    for metadata, held in METADATA.items():
        for now.packed in (True, False):
            now.backend = types.SimpleNamespace(
                forward_metadata=types.SimpleNamespace(**held), kv_index_translator=None
            )
            batch = types.SimpleNamespace(
                attn_backend=now.backend, token_to_kv_pool=pool, fetch_mha_one_shot_kv_indices=lambda: BATCH
            )
            answers[metadata, now.packed] = _parts(reader, Attention(), batch)
    return answers


def _parts(reader: Callable[..., Any], attention: Any, batch: Any) -> Parts | str:
    try:
        answer = reader(attention, batch)
        if inspect.iscoroutine(answer):
            answer.close()
        latent, positions = answer
        return latent.rows, positions.rows
    except (AttributeError, AssertionError, NameError, TypeError, KeyError, ValueError, NotImplementedError) as error:
        return type(error).__name__


def expected(indices: list[int]) -> Parts:
    rows = [VALUES[row] for row in indices]
    return [row[:RANK] for row in rows], [row[RANK : RANK + ROPE] for row in rows]
