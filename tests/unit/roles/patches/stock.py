"""A small SGLang to patch: the two functions as release 0.5.9 has them, in files of a few lines, with a dist-info."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

GATE_PATH = "sglang/srt/model_executor/model_runner.py"
GUARD_PATH = "sglang/srt/models/deepseek_common/attention_forward_methods/forward_mha.py"

GATE = '''\
import torch


class ModelRunner:
    """Ünïcödé before the place, so that columns are not bytes by accident."""

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

        if (
            self.spec_algorithm.is_eagle()
            or self.spec_algorithm.is_standalone()
            or self.spec_algorithm.is_ngram()
        ):
            return not self.is_draft_worker

        return True
'''

GUARD = '''\
from __future__ import annotations

import torch

from sglang.srt.batch_overlap.two_batch_overlap import TboAttnBackend
from sglang.srt.layers.attention.nsa.dequant_k_cache import dequantize_k_cache_paged
from sglang.srt.utils import is_cuda

_is_cuda = is_cuda()


class DeepseekMHAForwardMixin:
    def _get_mla_kv_buffer(
        self: DeepseekV2AttentionMLA,
        kv_indices: torch.Tensor,
        dst_dtype: torch.dtype,
        forward_batch: ForwardBatch,
    ):
        if _is_cuda:
            kv_a, k_pe = forward_batch.token_to_kv_pool.get_mla_kv_buffer(
                self.attn_mha, kv_indices, dst_dtype
            )
            kv_a = kv_a.squeeze(1)
        else:
            latent_cache_buf = forward_batch.token_to_kv_pool.get_key_buffer(
                self.attn_mha.layer_id
            )
            latent_cache = latent_cache_buf[kv_indices].contiguous().to(dst_dtype)

            kv_a, k_pe = latent_cache.split(
                [self.kv_lora_rank, self.qk_rope_head_dim], dim=-1
            )
            kv_a = kv_a.squeeze(1).contiguous()
        return kv_a, k_pe

    def _get_mla_kv_buffer_from_fp8_for_nsa(
        self: DeepseekV2AttentionMLA,
        forward_batch: ForwardBatch,
    ):
        """
        Dequantize FP8 KV cache to BF16 for MLA attention (NSA-specific format).

        Returns: (kv_a, k_pe) both in BF16
        """
        backend = forward_batch.attn_backend
        if isinstance(backend, TboAttnBackend):  # if enable tbo, get primary backend
            backend = backend.primary
        kv_indices = backend.forward_metadata.page_table_1_flattened
        assert (
            kv_indices is not None
        ), "page_table_1_flattened should have been generated for FP8 MHA path"

        kv_cache_fp8 = forward_batch.token_to_kv_pool.get_key_buffer(
            self.attn_mha.layer_id
        )

        kv_latent_bf16 = dequantize_k_cache_paged(kv_cache_fp8, kv_indices)

        kv_a = kv_latent_bf16[:, :, : self.kv_lora_rank].squeeze(1).contiguous()
        k_pe = kv_latent_bf16[:, :, self.kv_lora_rank :]

        return kv_a, k_pe
'''

ONE_SHOT = b"class ForwardBatch:\n    def fetch_mha_one_shot_kv_indices(self):\n        return None\n"
FILES: dict[str, bytes] = {
    GATE_PATH: GATE.encode(),
    GUARD_PATH: GUARD.encode(),
    "sglang/srt/model_executor/forward_batch.py": ONE_SHOT,
    "sglang/__init__.py": b"",
    "sglang/srt/server_args.py": b"class ServerArgs:\n    disable_flashinfer_autotune: bool = False\n",
}


def record(files: dict[str, bytes]) -> str:
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join(lines)


def install(
    folder: Path, files: dict[str, bytes] | None = None, *, release: str = "0.5.9", recorded: bool = True
) -> Path:
    """Write the tree as an installer would, replacing one that is there."""
    files = FILES if files is None else files
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    info = folder / f"sglang-{release}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n", encoding="utf-8")
    if recorded:
        (info / "RECORD").write_text(record(files), encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
