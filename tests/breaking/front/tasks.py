"""Roles of the tests behind a front door of their own: inv -r tests/breaking/front up -i INVENTORY."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # Invoke puts only this folder there

from blackstart.front import Door, Result, task


def _converge(door: Door, module: Any) -> Result:
    from blackstart.converge import converge
    from blackstart.fleet import Options
    from blackstart.machine import Value
    from tests.breaking.fleets import fleet

    door.defaults = {name: Value(value, "the tests") for name, value in module.defaults().items()}
    options = Options(check=door.check, restart=bool(door.options["restart"]))
    machines = door.machines
    with door.console.progress(), fleet(machines, module.ROLE, door.console, door.defaults) as opened:
        reports = converge(opened, machines, options)
    door.console.recap(reports, check=door.check)
    document = door.document(check=door.check, machines=[report.as_dict() for report in reports])
    return Result(document, int(any(report.failed for report in reports)))


@task(converges=True)
def up(door: Door) -> Result:
    """Converge the rich role."""
    from tests.breaking import rich

    return _converge(door, rich)


@task(converges=True)
def gated(door: Door) -> Result:
    """Converge the role that waits in its middle."""
    from tests.breaking import gated

    return _converge(door, gated)


@task(converges=True)
def secretive(door: Door) -> Result:
    """Converge the role that uses a secret."""
    from tests.breaking import secretive

    return _converge(door, secretive)
