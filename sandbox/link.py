"""The veth pair between the real machine and the stand-in host.

It lives only as long as the keeper's network namespace: where there is such a link there is such a sandbox. Whose
it is, its hardware address says (made from the state root, and set in the same step that makes the link).
"""

from __future__ import annotations

import json
import socket
import time

from sandbox.errors import SandboxError
from sandbox.paths import HOST_LINK, MACHINE_ADDRESS, MACHINE_LINK, PREFIX_LENGTH, Paths
from sandbox.run import run


def foreign(paths: Paths) -> str | None:
    """The state root of a sandbox that runs on this machine and is not this one; None where there is none."""
    if not _there():
        return None
    shown = json.loads(run(["ip", "-json", "link", "show", "dev", MACHINE_LINK], what="looking at the sandbox's link"))
    if shown[0].get("address") == hardware_address(paths):
        return None
    return str(shown[0].get("ifalias") or "an unknown folder")


def hardware_address(paths: Paths) -> str:
    """A locally administered unicast address that belongs to this state root."""
    return ":".join(f"{octet:02x}" for octet in bytes((0x06, *paths.digest[:5])))


def create(keeper: int, paths: Paths) -> None:
    """Make the pair, one end here and one in the keeper's network namespace. Raises SandboxError."""
    what = "linking the sandbox to this machine"
    ours = ["ip", "link", "add", MACHINE_LINK, "address", hardware_address(paths)]
    run([*ours, "type", "veth", "peer", "name", HOST_LINK, "netns", str(keeper)], what=what)
    run(["ip", "link", "set", MACHINE_LINK, "alias", str(paths.root)], what=what)
    run(["ip", "address", "add", f"{MACHINE_ADDRESS}/{PREFIX_LENGTH}", "dev", MACHINE_LINK], what=what)
    run(["ip", "link", "set", MACHINE_LINK, "up"], what=what)


def remove(patience_s: float = 5.0) -> None:
    """Remove this machine's end, and so the other too. Raises SandboxError.

    Where the keeper has just died the kernel is removing it too, and may be the first.
    """
    until = time.monotonic() + patience_s
    while _there():
        try:
            run(["ip", "link", "delete", MACHINE_LINK], what="removing the sandbox's link")
        except SandboxError:
            if _there() and time.monotonic() > until:
                raise


def _there() -> bool:
    # Not by way of /sys, which shows the links of the network namespace that it was mounted in.
    return any(name == MACHINE_LINK for _, name in socket.if_nameindex())
