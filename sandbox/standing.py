"""How the sandbox stands, found without starting or changing anything."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sandbox import cgroup, identity, images
from sandbox.paths import ADDRESS, HOSTNAME, Paths
from sandbox.reach import answers

SIMULATED = (
    "the Proxmox host (an LXC container)",
    "pct and pveversion",
    "the GPUs, their device nodes and nvidia-smi",
    "modprobe, lsmod and sysctl (nothing reaches the real kernel)",
)


def status() -> dict[str, Any]:
    """How the sandbox stands, as data for JSON.

    `state` is absent (no image), stopped, running, or broken with a `reason`. Starts and changes nothing.
    """
    paths = Paths.default()
    image = images.present(paths)
    keeper = identity.load(paths.keeper)
    state, reason = "absent" if image is None and keeper is None else "stopped", ""
    if keeper is not None:
        state = "running"
        if not answers(2.0):
            state, reason = "broken", f"sshd does not answer at {ADDRESS}; `up` mends it"
    return {
        "state": state,
        "reason": reason,
        "address": ADDRESS,
        "port": 22,
        "user": "root",
        "hostname": HOSTNAME,
        "paths": {
            "state": str(paths.root),
            "key": str(paths.client_key),
            "known_hosts": str(paths.known_hosts),
            "wheelhouse": str(paths.wheelhouse),
            "models": str(paths.models),
            "log": str(paths.log),
        },
        "guests": _guests(paths),
        "image": image.name if image else None,
        "image_age_s": _image_age(image),
        "simulated": list(SIMULATED),
    }


def _guests(paths: Paths) -> list[dict[str, str]]:
    """The guests that the host's configuration files name, and whether each has processes."""
    group = cgroup.ours(paths)
    running = {path.name for path in group.glob("lxc.payload.*/lxc/*") if path.is_dir()} if group else set()
    folder = paths.disk / "upper/etc/pve/lxc"
    found = []
    for file in sorted(folder.glob("[0-9]*.conf")) if folder.is_dir() else []:
        named = [line for line in file.read_text(errors="replace").splitlines() if line.startswith("hostname: ")]
        name = named[0].removeprefix("hostname: ") if named else f"CT{file.stem}"
        found.append({"id": file.stem, "name": name, "state": "running" if file.stem in running else "stopped"})
    return found


def _image_age(image: Path | None) -> int | None:
    if image is None:
        return None
    return int(time.time() - float((image / "built").read_text(encoding="ascii")))
