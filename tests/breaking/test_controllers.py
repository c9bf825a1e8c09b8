"""Two controllers at once: on each machine one works, and the other is told who does."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

from . import controllers, gated
from .conftest import Recorder
from .controllers import Ran
from .hosts import Host, Hosts, send

HOSTS = 8


@pytest.fixture
def fleet_of_hosts(hosts: Hosts, layer_of: Callable[[bool], Path]) -> Iterator[dict[str, Host]]:
    with hosts.several(layer_of(False), HOSTS) as made:
        yield {f"host{number}": host for number, host in enumerate(made)}


@pytest.fixture
def inventory(fleet_of_hosts: dict[str, Host], tmp_path: Path) -> Path:
    machines = {name: controllers.variables(host) for name, host in fleet_of_hosts.items()}
    return controllers.write_inventory(tmp_path / "inventory", machines)


def start(inventory: Path, gate: str) -> subprocess.Popen[str]:
    return controllers.start(inventory, "--set", f"gated_by={gate}", "--json", task="gated")


def start_and_see_at_work(inventory: Path, fleet: dict[str, Host], gate: str) -> subprocess.Popen[str]:
    """A controller that waits at the gate of every host, with the lock of each in its agent's hands."""
    controller = start(inventory, gate)
    for name, host in fleet.items():
        wait_for(functools.partial(gated.is_reached, host, gate), f"{name} at the gate")
    return controller


def sessions(host: Host) -> tuple[int, int]:
    """How many execs sshd has seen begin, and how many end."""
    log = host.path("/run/sshd.log").read_text()
    return log.count("Starting session: command"), log.count("Close session:")


def is_quiet(host: Host) -> bool:
    """sshd writes down a session's end some time after the controller has gone."""
    begun, ended = sessions(host)
    return begun == ended


def is_decided(host: Host, gate: str, seen: tuple[int, int]) -> bool:
    """Both have come since `seen`, one waits at the gate and the other is gone; that it is not there proves nothing."""
    begun, ended = seen
    return sessions(host) == (begun + 2, ended + 1) and gated.is_reached(host, gate)


def is_told_of(found: str, pid: int) -> bool:
    """Whether a loser was told the winner's name and number, and since when it works there."""
    return re.fullmatch(rf"\S+@\S+ pid {pid}, since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found) is not None


def by_name(ran: Ran) -> dict[str, dict[str, object]]:
    return {machine["name"]: machine for machine in ran.machines}


@pytest.mark.parametrize("rounds", [4, pytest.param(50, marks=pytest.mark.soak)])
def test_of_two_at_once_one_works_and_the_other_is_told(
    fleet_of_hosts: dict[str, Host], inventory: Path, record: Recorder, rounds: int
) -> None:
    wins = [0, 0]
    for number in range(rounds):
        gate = f"/run/gate-{number}"
        for name, host in fleet_of_hosts.items():
            wait_for(functools.partial(is_quiet, host), f"{name} quiet")
        seen = {name: sessions(host) for name, host in fleet_of_hosts.items()}
        both = [start(inventory, gate), start(inventory, gate)]
        for name, host in fleet_of_hosts.items():
            wait_for(functools.partial(is_decided, host, gate, seen[name]), f"{name} decided")
        for host in fleet_of_hosts.values():
            gated.open_gate(host, gate)
        told = [by_name(controllers.finish(controller)) for controller in both]
        for name, host in fleet_of_hosts.items():
            lost = [n for n in (0, 1) if "error" in told[n][name]]
            assert len(lost) == 1, (number, name, told)
            winner = 1 - lost[0]
            wins[winner] += 1
            assert told[winner][name]["changed"] == 3
            error = told[lost[0]][name]["error"]
            assert error["message"] == "another controller works on this machine"  # type: ignore[index]
            assert is_told_of(error["found"], both[winner].pid), (number, name, error)  # type: ignore[index]
            assert host.path("/srv/after").read_text() == f"after {gate}\n"
        assert [controller.returncode for controller in both] == [
            int(any("error" in machine for machine in machines.values())) for machines in told
        ]
    record(
        f"two controllers at once on {HOSTS} hosts",
        f"{rounds} rounds",
        f"{sum(wins)} decided, {wins[0]} to {wins[1]}; each loser was told the winner's name, number and time",
    )


def test_a_dead_controllers_lock_lasts_until_its_agent_is_done(
    fleet_of_hosts: dict[str, Host], inventory: Path
) -> None:
    """The agent finishes its resource and no other; whoever comes meanwhile is told, whoever comes then works."""
    first = start_and_see_at_work(inventory, fleet_of_hosts, "/run/gate-1")
    first.kill()
    first.communicate()
    told = controllers.up(inventory, "--set", "gated_by=/run/gate-2", "--json", task="gated")
    assert told.code == 1
    for machine in told.machines:
        assert is_told_of(machine["error"]["found"], first.pid), machine
    for host in fleet_of_hosts.values():
        gated.open_gate(host, "/run/gate-1")
        wait_for(lambda host=host: not host.agents(), "the agent's end")  # type: ignore[misc]
        assert not host.path("/srv/after").exists(), "it went on without its controller"
        gated.open_gate(host, "/run/gate-2")
    last = controllers.up(inventory, "--set", "gated_by=/run/gate-2", "--json", task="gated")
    assert last.code == 0, last


def test_a_dead_agents_lock_is_taken_over_at_once(fleet_of_hosts: dict[str, Host], inventory: Path) -> None:
    first = start_and_see_at_work(inventory, fleet_of_hosts, "/run/gate-1")
    for host in fleet_of_hosts.values():
        host.kill_all()
        gated.open_gate(host, "/run/gate-2")
    told = controllers.finish(first)
    assert told.code == 1
    assert {machine["error"]["stage"] for machine in told.machines} == {"connect"}
    second = controllers.up(inventory, "--set", "gated_by=/run/gate-2", "--json", task="gated")
    assert second.code == 0, second


def test_what_a_dead_agent_left_running_is_not_run_a_second_time_beside_itself(
    fleet_of_hosts: dict[str, Host], inventory: Path
) -> None:
    first = start_and_see_at_work(inventory, fleet_of_hosts, "/run/gate-1")
    for host in fleet_of_hosts.values():
        send(signal.SIGKILL, host.agents())
        gated.open_gate(host, "/run/gate-2")
    controllers.finish(first)
    told = controllers.up(inventory, "--set", "gated_by=/run/gate-2", "--json", task="gated")
    assert told.code == 1
    for machine in told.machines:
        assert re.match(r"what a dead run left running: process \d+, sh", machine["error"]["found"]), machine
    for host in fleet_of_hosts.values():
        gated.open_gate(host, "/run/gate-1")
    second = controllers.up(inventory, "--set", "gated_by=/run/gate-2", "--json", task="gated")
    assert second.code == 0, second
