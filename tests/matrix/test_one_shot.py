"""What the guard falls back to holds what the table would: the releases' own code for both, on one small batch."""

from __future__ import annotations

import ast
import types
from pathlib import Path
from typing import Any

import pytest

from roles.patches.releases import order

pytestmark = pytest.mark.wheels

# Three requests of 3, 1 and 4 tokens in rows 2, 0 and 3 of the pool's table; the batch is not in table order.
REQ_TO_TOKEN = [[50, 51, 0, 0], [0, 0, 0, 0], [20, 21, 22, 0], [33, 32, 31, 30]]
REQUESTS, LENGTHS = [2, 0, 3], [3, 1, 4]
WANTED = [20, 21, 22, 50, 33, 32, 31, 30]


class Row(list[int]):
    """As much of a tensor as the two pieces of code ask for."""

    dtype, device = "int32", "cuda"

    def tolist(self) -> list[int]:
        return list(self)

    def to(self, *_: Any) -> Row:
        return self


class Table(list[list[int]]):
    shape = (4, 4)
    dtype, device = "int32", "cuda"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            rows, columns = key
            picked = [list.__getitem__(self, row)[columns] for row in (rows if isinstance(rows, list) else [rows])]
            return Table(picked) if isinstance(rows, list) else picked[0]
        return list.__getitem__(self, key)


class Kernel:
    """create_flashinfer_kv_indices_triton[(batch,)](…): packs each request's row up to its length."""

    def __getitem__(self, _: Any) -> Any:
        def launch(table: Any, requests: Any, lengths: Any, indptr: Any, start: Any, out: Any, _stride: int) -> None:
            assert start is None
            for n, (request, length) in enumerate(zip(requests, lengths, strict=True)):
                out[indptr[n] : indptr[n] + length] = table[request][:length]

        return launch


class Translator:
    """The pool's row numbers, virtual to physical; both methods that releases have had for it."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def translate_full_attn_ids(self, ids: Any) -> Any:
        return Row(n + self.shift for n in ids)

    def pack_read_stream(self, _plan: Any, *, req_pool_indices: Any, seq_lens: Any, indptr: Any, out: Any) -> None:
        Kernel()[0](REQ_TO_TOKEN, req_pool_indices, seq_lens, indptr, None, out, 4)
        out[:] = [n + self.shift for n in out]


def _cumsum(values: list[int], dim: int) -> list[int]:
    return [sum(values[: n + 1]) for n in range(len(values))]


TORCH = types.SimpleNamespace(
    empty=lambda size, **_: Row([0] * size),
    zeros=lambda size, **_: Row([0] * size),
    cumsum=_cumsum,
    cat=lambda parts: Row(n for part in parts for n in part),
    int32="int32",
)


def _one_shot(folder: Path, translator: Translator | None) -> list[int]:
    """The release's fetch_mha_one_shot_kv_indices on the batch."""
    node = _function(folder, "fetch_mha_one_shot_kv_indices")
    pool = types.SimpleNamespace(req_to_token=Table(REQ_TO_TOKEN))
    names = {
        "torch": TORCH,
        "create_flashinfer_kv_indices_triton": Kernel(),
        "get_req_to_token_pool": lambda: pool,
        "get_attn_backend": lambda: types.SimpleNamespace(kv_index_translator=translator),
    }
    batch = types.SimpleNamespace(
        mha_one_shot_kv_indices=None,
        batch_size=3,
        seq_lens_cpu=LENGTHS,
        seq_lens=Row(LENGTHS),
        req_pool_indices=Row(REQUESTS),
        req_to_token_pool=pool,
        kv_loc_plan=None,
    )
    exec(compile(ast.Module([node], []), "one_shot.py", "exec"), names)
    return list(names[node.name](batch))  # type: ignore[operator]


def _table(folder: Path) -> list[int]:
    """The release's own expression for page_table_1_flattened, on the batch's rows of the pool's table."""
    (backend,) = folder.glob("sglang/srt/layers/attention/?sa_backend.py")
    values = [
        node.value
        for node in ast.walk(ast.parse(backend.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "page_table_1_flattened"
        and isinstance(node.value, ast.Call)
    ]
    assert len(values) == 1, f"{backend.name} makes the table in {len(values)} places"
    names = {
        "torch": TORCH,
        "page_table": Table(REQ_TO_TOKEN)[REQUESTS, slice(None, max(LENGTHS))],
        "indexer_seq_lens_cpu": Row(LENGTHS),
        "forward_batch": types.SimpleNamespace(seq_lens_cpu=Row(LENGTHS)),
        "enumerate": enumerate,
    }
    return list(eval(compile(ast.Expression(values[0]), "table.py", "eval"), names))


def _function(folder: Path, name: str) -> ast.FunctionDef:
    for path in sorted(folder.glob("sglang/srt/**/*.py")):
        text = path.read_text(encoding="utf-8")
        if f"def {name}(" in text:
            found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == name]
            return found[0]
    raise AssertionError(f"no {name} in {folder}")


def test_the_fallback_holds_what_the_table_would(folders: dict[str, Path]) -> None:
    guarded = {version: folder for version, folder in folders.items() if order(version) >= order("0.5.6")}
    assert len(guarded) >= 25
    for version, folder in guarded.items():
        assert _table(folder) == WANTED, version
        assert _one_shot(folder, None) == WANTED, version
        assert _one_shot(folder, Translator(0)) == WANTED, version


def test_virtual_rows_are_made_physical_once(folders: dict[str, Path]) -> None:
    """From 0.5.19 the batch translates its indices itself, and the reader must not do it again; earlier, none are."""
    for version, folder in folders.items():
        if order(version) >= order("0.5.6"):
            shift = 100 if order(version) >= order("0.5.19") else 0
            assert _one_shot(folder, Translator(100)) == [n + shift for n in WANTED], version
