"""What may become of the fp8 reader: other ways to write the read, and repairs by hand, whole and half."""

from __future__ import annotations

import re
import textwrap

from .making import EASY, HARD, Maker

FETCH = "forward_batch.fetch_mha_one_shot_kv_indices()"
RAW = "self._get_mla_kv_buffer(kv_indices, torch.bfloat16, forward_batch)"


def guard(m: Maker) -> None:
    function = m.subject.function
    read = re.search(r"(?m)^( +)kv_indices = ([\w.]+)\.page_table_1_flattened\n", function)
    pool = re.search(r"([\w.()]+)\.get_key_buffer", function)
    assert read is not None and pool is not None
    written = {**_reads(read.group(2)), **_by_hand(read.group(2), pool.group(1))}
    for (name, kind), lines in written.items():
        block = textwrap.indent(textwrap.dedent(lines).strip("\n") + "\n", read.group(1))
        m.function(name, function[: read.start()] + block + function[read.end() :], kind)
    _around(m, function, read.group(1), pool.group(1))


def _reads(holder: str) -> dict[tuple[str, str], str]:
    table = f"{holder}.page_table_1_flattened"
    return {
        ("the metadata in a variable", EASY): f"metadata = {holder}\nkv_indices = metadata.page_table_1_flattened",
        ("read with a type", EASY): f"kv_indices: object = {table}",
        ("a comment after the read", EASY): f"kv_indices = {table}  # [num_tokens], int32",
        ("the read in brackets", EASY): f"kv_indices = (\n    {table}\n)",
        ("the read over two lines", EASY): f"kv_indices = \\\n    {table}",
        ("an if around the read", EASY): f"if True:\n    kv_indices = {table}",
        ("two statements on a line", HARD): f"note = 1; kv_indices = {table}",
        ("two names at once", HARD): f"kv_indices = table = {table}",
        ("read twice", HARD): f"kv_indices = {table}\nassert {table} is kv_indices",
        ("a tuple", HARD): f"kv_indices, note = {table}, 1",
        ("a walrus", HARD): f"assert (kv_indices := {table}) is not False",
        ("another attribute", HARD): f"kv_indices = {holder}.page_table_2_flattened",
        ("vars()", HARD): f'kv_indices = vars({holder})["page_table_1_flattened"]',
        ("a name that is not there", HARD): f"kv_indices = {table}\nassert nowhere",
    }


def _by_hand(holder: str, pool: str) -> dict[tuple[str, str], str]:
    table = f'getattr({holder}, "page_table_1_flattened", None)'
    buffer = f"{pool}.get_key_buffer(self.attn_mha.layer_id)"

    def whole(is_raw: str) -> str:
        return f"""
            kv_indices = {table}
            if kv_indices is None:
                kv_indices = {FETCH}
                if {is_raw}:
                    return {RAW}
            """

    has = f'hasattr({holder}, "page_table_1_flattened")'
    plain = f"{holder}.page_table_1_flattened"
    return {
        ("half by hand: getattr", EASY): f"kv_indices = {table}",
        ("half by hand: getattr without default", EASY): f'kv_indices = getattr({holder}, "page_table_1_flattened")',
        ("half by hand: the raw pool forgotten", EASY): whole("False"),
        ("by hand: whole", HARD): whole(f"{buffer}.shape[-1] == 576"),
        ("by hand: whole, by the pool's flag", HARD): whole(f"not {pool}.dsa_kv_cache_store_fp8"),
        ("by hand: raw and packed mixed up", HARD): whole(f"{buffer}.shape[-1] != 576"),
        ("by hand: never dequantised", HARD): whole("True"),
        ("by hand: always the batch's indices", HARD): f"kv_indices = {FETCH}",
        ("by hand: hasattr", HARD): f"kv_indices = {plain} if {has} else {FETCH}",
        ("by hand: try", HARD): f"try:\n    kv_indices = {plain}\nexcept AttributeError:\n    kv_indices = {FETCH}",
        ("by hand: no indices at all", HARD): "kv_indices = None",
        ("by hand: wrong indices", HARD): f"kv_indices = {table}\nif kv_indices is None:\n    kv_indices = [0, 1, 2]",
    }


def _around(m: Maker, f: str, indent: str, pool: str) -> None:
    check = re.search(r"(?ms)^ +assert \(?.*?FP8 MHA path\"\n?( +\))?\n", f)
    assert check is not None
    before, after = f[: check.start()], f[check.end() :]
    raising = f'{indent}if kv_indices is None:\n{indent}    raise ValueError("no table")\n'
    m.function("the assertion is gone", before + after, EASY)
    m.function("the assertion is an if", before + raising + after, EASY)
    buffer = f"{pool}.get_key_buffer(self.attn_mha.layer_id)"
    m.function(
        "the buffer is read twice",
        f.replace("    kv_cache_fp8 = ", f"    again = {buffer}\n    kv_cache_fp8 = ", 1),
        EASY,
    )
    in_variable = re.sub(
        r"kv_cache_fp8 = [^\n]*(\n +self\.attn_mha\.layer_id\n +\))?",
        f"pool = {pool}\n    kv_cache_fp8 = pool.get_key_buffer(self.attn_mha.layer_id)",
        f,
        count=1,
    )
    m.function("the pool in a variable", in_variable, HARD)
    m.function("the dequantiser under another name", re.sub(r"dequantize_k_cache_paged\w*", "dequantise_rows", f))
    m.function("the parts are swapped", f.replace("return kv_a, k_pe", "return k_pe, kv_a"))
