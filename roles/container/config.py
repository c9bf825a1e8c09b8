"""A container's configuration file, /etc/pve/lxc/ID.conf, as data. Proxmox's own syntax; snapshots are left out."""

from __future__ import annotations

from collections.abc import Mapping

RAW_PREFIX = "lxc."


def parse(text: str) -> dict[str, str]:
    """The options of the present state: `key: value` lines before the first `[section]`; comments and raw lines not."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("["):
            break
        key, colon, value = line.partition(":")
        if colon and not line.startswith(("#", RAW_PREFIX)):
            options[key.strip()] = value.strip()
    return options


def properties(value: str) -> dict[str, str]:
    """`/dev/nvidia0,mode=0666` → {"": "/dev/nvidia0", "mode": "0666"}: a property string, its default key unnamed."""
    found: dict[str, str] = {}
    for part in value.split(","):
        key, equals, text = part.partition("=")
        found[key if equals else ""] = text if equals else key
    return found


def differing(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The options that are not as wanted. What Proxmox adds by itself (a MAC address, a size) is no difference."""
    return {
        key: value
        for key, value in wanted.items()
        if key not in present or not properties(value).items() <= properties(present[key]).items()
    }
