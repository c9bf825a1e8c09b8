from tests.breaking.conftest import *
from tests.breaking.predictions import outcomes
from tests.breaking.test_check_roles import *


def test_dbg(hosts, proxmox_layer):
    start = Start(4, 4, ("the environment is half there",))
    with hosts.one(proxmox_layer) as host:
        start.bring_about(host)
        roles, _ = in_order()
        for check in (True, False):
            reps = converge(host, roles, check=check)
            print(check, [fleets.why(r) for r in reps])
            for k, v in outcomes(reps).items():
                print("   ", k, v)
