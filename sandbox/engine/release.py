"""Which SGLang this interpreter has installed, found without importing it."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from sandbox.errors import SandboxError


@dataclass(frozen=True)
class Release:
    """An installed SGLang: `root` is the folder that holds `sglang/`."""

    root: Path
    version: str

    def read(self, path: str) -> str:
        """The text of a file of the release, by its path below `root`; "" where there is none."""
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""


def installed() -> Release:
    """The SGLang in this interpreter's own site-packages.

    Raises SandboxError where there is none or its source is incomplete.
    """
    root = Path(sysconfig.get_path("purelib"))
    if not (root / "sglang" / "srt" / "server_args.py").is_file():
        raise SandboxError(
            f"no SGLang source in {root}: sglang/srt/server_args.py is missing",
            "install the sandbox's lock into this environment (uv pip sync)",
        )
    try:
        return Release(root, distribution("sglang").version)
    except PackageNotFoundError as error:
        raise SandboxError(
            f"{root}/sglang has no metadata, so its version is unknown",
            "install SGLang from its wheel instead of copying its folder",
        ) from error
