"""The command under test: inv -r bench/converge up -i INVENTORY [--check]"""

from __future__ import annotations

import sys

from blackstart.front import Door, Result, task
from blackstart.paths import ROOT

sys.path.insert(0, str(ROOT))  # Invoke puts only this folder there


@task(converges=True)
def up(door: Door) -> Result:
    """Converge the 25 resources of the benchmark."""
    from bench.converge.fleet import NOTHING_INSIDE, ROLE, read_variables
    from blackstart.converge import converge
    from blackstart.fleet import Fleet, Options

    door.defaults = read_variables()
    options = Options(check=door.check, tags=door.tags, serial=door.count("serial"), max_fail=door.count("max_fail"))
    inventory = door.inventory
    with door.console.progress(), Fleet(inventory, door.defaults, [ROLE], NOTHING_INSIDE, door.console) as fleet:
        reports = converge(fleet, door.machines, options)
    door.console.recap(reports, check=door.check)
    document = door.document(check=door.check, machines=[report.as_dict() for report in reports])
    return Result(document, int(any(report.failed for report in reports)))
