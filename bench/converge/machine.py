"""The machine that a benchmark ran on, as its readers need to know it."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("fabric", "invoke", "paramiko", "pydantic", "jinja2")


def describe() -> dict[str, str]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processors": f"{os.cpu_count()} x {_field('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 1048576:.0f} GiB",
        "system": f"{_field('/etc/os-release', 'PRETTY_NAME')}, Linux {platform.release()}",
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
    }


def _field(path: str, name: str) -> str:
    """The value of the first line `name: value` or `name=value`; "unknown" without one."""
    for line in Path(path).read_text().splitlines():
        key, separator, value = line.replace("=", ":", 1).partition(":")
        if separator and key.strip() == name:
            return value.strip().strip('"')
    return "unknown"
