"""Patched JIT sources take along what was built from the stock ones."""

from __future__ import annotations

from roles.patches import jit

KERNEL = "flashinfer/data/csrc/fused_moe.cu"


def test_a_changed_kernel_makes_flashinfers_builds_stale_where_they_are_kept() -> None:
    found = jit.stale_builds("flashinfer-python", "0.6.11", [KERNEL], {})
    assert found == [f"/root/.cache/flashinfer/0.6.11/*/{folder}" for folder in ("cached_ops", "generated")]
    moved = jit.stale_builds("flashinfer-python", "0.6.11", [KERNEL], {"FLASHINFER_WORKSPACE_BASE": "/var/jit"})
    assert moved[0] == "/var/jit/.cache/flashinfer/0.6.11/*/cached_ops"


def test_python_and_other_distributions_leave_builds_alone() -> None:
    assert jit.stale_builds("flashinfer-python", "0.6.11", ["flashinfer/jit/core.py"], {}) == []
    assert jit.stale_builds("sglang", "0.5.9", ["sglang/srt/kernel.cu"], {}) == []


def test_the_cache_key_follows_the_patched_kernels_and_nothing_else() -> None:
    stock = jit.key({"flashinfer/a.py": "1" * 64})
    patched = jit.key({"flashinfer/a.py": "1" * 64, KERNEL: "2" * 64})
    assert stock == ""
    assert len(patched) == 16
    assert patched != jit.key({KERNEL: "3" * 64})
    assert patched == jit.key({KERNEL: "2" * 64, "flashinfer/b.py": "4" * 64})
