"""inv sandbox.up, sandbox.status, sandbox.down."""

from __future__ import annotations

from typing import Any

from blackstart.front import Door, Result, task


@task()
def up(door: Door) -> Result:
    """Make the sandbox on this machine: a stand-in Proxmox host with simulated GPUs."""
    from roles.stand_in import make
    from sandbox import host

    with door.console.progress():
        make.ensure(door)
    found = host.status()
    _say(door, found)
    return Result(found)


@task()
def status(door: Door) -> Result:
    """Say how the sandbox stands; starts nothing."""
    from sandbox import host

    found = host.status()
    _say(door, found)
    return Result(found)


@task(
    help={
        "wipe": "forget the host's disk and its guests too; the image is kept",
        "purge": "forget everything, the cached image and wheels too",
    }
)
def down(door: Door, wipe: bool = False, purge: bool = False) -> Result:
    """Stop the sandbox; nothing of it stays on this machine but its cached files."""
    from roles.stand_in import make
    from sandbox import host

    stages = make.Stages(door)
    with make.spoken(), door.console.progress():
        host.down(stages, purge=purge, wipe=wipe)
        stages.close()
    found: dict[str, Any] = host.status()
    _say(door, found)
    return Result(found)


def _say(door: Door, found: dict[str, Any]) -> None:
    reason = f": {found['reason']}" if found["reason"] else ""
    door.console.line(f"sandbox    {found['state']}{reason}")
    if found["state"] == "running":
        door.console.line(f"host       ssh -i {found['paths']['key']} {found['user']}@{found['address']}")
        for guest in found["guests"]:
            door.console.line(f"guest      {guest['id']} {guest['name']}")
    door.console.line(f"state      {found['paths']['state']}")
    door.console.line("simulated  " + "; ".join(found["simulated"]))
