"""Check mode on the plans of the project's own roles, host and container, from nothing and from half-way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from blackstart.converge import converge as converge_fleet
from blackstart.fleet import Fleet, Options
from blackstart.inventory import Inventory
from blackstart.machine import Machine, Value
from blackstart.paths import INVENTORY, ROLES
from blackstart.plan import Role, State
from blackstart.report import MachineReport
from blackstart.variables import read_defaults
from roles import in_order
from roles.ml_env import lock as locks

from . import debs, fleets, layer, proxmox
from .conftest import Recorder
from .hosts import Host, Hosts
from .predictions import broken_promises
from .snapshots import entry, written

pytestmark = pytest.mark.wheels

AT_ONCE = 2
DEFAULTS = read_defaults(ROLES)
ENV = "/root/ml-env"
SITE = f"{ENV}/lib/python3*/site-packages"
PORT = 39998

DRIFTS = {
    "the container was stopped": f"rm -f /run/stand-in-lxc/{proxmox.VMID}",
    "the container was destroyed": f"rm -f {proxmox.CONF} /run/stand-in-lxc/{proxmox.VMID}",
    "its memory was changed": f"sed -i 's/^memory:.*/memory: 512/' {proxmox.CONF}",
    "a device was taken from it": f"sed -i /^dev1:/d {proxmox.CONF}",
    "a raw line went": f"sed -i /^lxc.prlimit/d {proxmox.CONF}",
    "somebody tagged it": f"sed -i 's/^tags: .*/&;mine/' {proxmox.CONF}",
    "the tools went": "rm -rf /opt/blackstart",
    "the environment went": "rm -rf /opt/ml-envs",
    "the environment is half there": "rm -f /opt/ml-envs/*/.complete",
    "the lock's copy was edited": "sed -i '1s/^/# mine\\n/' /opt/ml-envs/*.lock.txt",
    "the link was turned": f"ln -sfn /nowhere {ENV}",
    "the patch gate went": "rm -f /opt/blackstart/patch-gate",
    "the manifest of the patches went": f"rm -rf {SITE}/.blackstart-patches/manifest.json",
    "a patched file was edited": f"echo '# x' | tee -a {SITE}/sglang/srt/model_executor/model_runner.py",
    "sglang was removed": f"rm -rf {SITE}/sglang {SITE}/sglang-*",
    "the unit's file was edited": "echo '# mine' >>/etc/systemd/system/sglang.service",
    "the unit's file went": "rm -f /etc/systemd/system/sglang.service",
    "the server was stopped": "systemctl stop -- sglang.service",
    "the server was disabled": "systemctl disable -- sglang.service",
}  # fmt: skip


@pytest.fixture(scope="module")
def proxmox_layer(hosts: Hosts, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The layer of a Proxmox host, and the small locks in the place of the project's."""
    small = proxmox.small_locks(INVENTORY / "locks", hosts.folder / "small-locks")
    made = layer.make(hosts.folder / "layer-proxmox", booted=True)
    proxmox.add(made, proxmox.fetch(small, debs.cache("wheels")))
    patcher = pytest.MonkeyPatch()
    whole = locks.read
    patcher.setattr(locks, "read", lambda name: whole(name, small[0].parent))
    yield made
    patcher.undo()


def inventory_of(host: Host) -> Inventory:
    given: dict[str, Any] = {
        "through": "pve",
        "container_vmid": int(proxmox.VMID),
        "container_devices": ["/dev/null", "/dev/zero"],
        "ml_env_lock": "small",
        "server_profile": "glm-5-nvfp4",
        "server_flags": {"port": PORT},
        "server_ready_deadline_s": 0.05,
    }
    engine = Machine("glm5", ("all",), {name: Value(value, "the test") for name, value in given.items()}, "the test")
    return Inventory(Path("the test"), False, {"pve": fleets.machine("pve", host), "glm5": engine})


def converge(host: Host, roles: Sequence[Role[Any]], *, check: bool) -> list[MachineReport]:
    inventory = inventory_of(host)
    _, entrance = in_order()
    with Fleet(inventory, DEFAULTS, roles, entrance, fleets.Deaf()) as fleet:
        fleet.pause_s = 0.1
        return converge_fleet(fleet, list(inventory.machines.values()), Options(check=check, restart=True))


def truncated(role: Role[Any], count: int) -> Role[Any]:
    def state(variables: Any, facts: Sequence[Any]) -> State:
        whole = role.state(variables, facts)
        return replace(whole, resources=whole.resources[:count], verify=())

    return replace(role, state=state)


@dataclass(frozen=True)
class Start:
    """How far a machine was brought (so many whole roles, and so many resources of the next), and what drifted."""

    roles: int
    resources: int
    drifts: tuple[str, ...]

    def bring_about(self, host: Host) -> None:
        roles, _ = in_order()
        begun = [
            *roles[: self.roles],
            *(truncated(role, self.resources) for role in roles[self.roles : self.roles + 1]),
        ]
        converge(host, [truncated(role, 99) for role in begun], check=False)
        for drift in self.drifts:
            host.run("sh", "-c", DRIFTS[drift], check=False)  # some find nothing to drift yet


def play(hosts: Hosts, layer: Path, start: Start) -> list[str]:
    with hosts.one(layer) as host:
        start.bring_about(host)
        roles, _ = in_order()
        before = {path: entry(host.path(path)) for path in written(host)}
        checked = converge(host, roles, check=True)
        now = {path: entry(host.path(path)) for path in written(host)}
        touched = [path for path, found in now.items() if before.get(path) != found]
        ran = converge(host, roles, check=False)
        found = [f"the check touched {path}" for path in touched] + broken_promises(checked, ran)
        return [f"{start}: {promise}" for promise in found]


def test_from_nothing(hosts: Hosts, proxmox_layer: Path) -> None:
    assert play(hosts, proxmox_layer, Start(0, 0, ())) == []


def test_at_the_end_nothing_is_foreseen_and_nothing_done(hosts: Hosts, proxmox_layer: Path) -> None:
    roles, _ = in_order()
    with hosts.one(proxmox_layer) as host:
        Start(len(roles), 0, ()).bring_about(host)
        for check in (True, False):
            reports = converge(host, [truncated(role, 99) for role in roles], check=check)
            assert not any(report.failed for report in reports), [fleets.why(report) for report in reports]
            assert {record.state for report in reports for record in report.records} <= {"ok", "verified"}


@pytest.mark.parametrize("count", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_from_half_way(hosts: Hosts, proxmox_layer: Path, rng: random.Random, record: Recorder, count: int) -> None:
    total = len(in_order()[0])
    starts = [
        Start(
            rng.randrange(total + 1),
            rng.randrange(7),
            tuple(rng.sample(sorted(DRIFTS), rng.randrange(4))),
        )
        for _ in range(count)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        broken = list(pool.map(lambda start: play(hosts, proxmox_layer, start), starts))
    outcome = f"{sum(map(bool, broken))} promises broken"
    record("check, then run, on half-converged and drifted machines: every role's plan", f"{count} machines", outcome)
    assert [promise for promises in broken for promise in promises] == []
