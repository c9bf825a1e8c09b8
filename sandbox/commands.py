"""The stand-in commands of the host, found by the name that they were called by."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    """Run the command that argv[0] names; its modules are loaded only then. Returns the exit code."""
    name, rest = Path(argv[0]).name, list(argv[1:])
    if name == "pct":
        from sandbox.pct.cli import main as pct

        return pct(rest)
    if name == "nvidia-smi":
        from sandbox.nvidia_smi import main as nvidia_smi

        return nvidia_smi(rest)
    from sandbox import small_commands

    known = small_commands.COMMANDS.get(name)
    if known is None:
        print(f"SIMULATED {name}: is not implemented in the sandbox", file=sys.stderr)
        return 255
    return known(rest)
