"""Sources that are compiled on the machine when they are first used: patched, they must not meet what was built before.

FlashInfer keeps what it builds in ${FLASHINFER_WORKSPACE_BASE:-~}/.cache/flashinfer/<version>/<arch>/, by module name
and not by source, so it would go on using the old build.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

BUILT = ("cached_ops", "generated")


def is_jit_source(path: str) -> bool:
    """Whatever of a package is no Python is there to be compiled later."""
    return not path.endswith(".py")


def stale_builds(
    distribution: str, release: str, paths: Iterable[str], environment: Mapping[str, str | None]
) -> list[str]:
    """Patterns of the folders whose content was built from sources that change; empty where none does."""
    if distribution != "flashinfer-python" or not any(is_jit_source(path) for path in paths):
        return []
    base = environment.get("FLASHINFER_WORKSPACE_BASE") or environment.get("HOME") or "/root"
    return [f"{base}/.cache/flashinfer/{release}/*/{folder}" for folder in BUILT]


def key(files: Mapping[str, str]) -> str:
    """What the patched JIT sources add to a cache key: "" where there are none. `files`: path → sha256."""
    sources = sorted((path, digest) for path, digest in files.items() if is_jit_source(path))
    return hashlib.sha256(repr(sources).encode()).hexdigest()[:16] if sources else ""
