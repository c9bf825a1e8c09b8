"""The connection is cut, at random bytes of either direction: the controller says so in time, the next run mends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blackstart.session import SILENCE_S
from blackstart.ssh import CONNECT_TIMEOUT_S
from tests.waiting import wait_for

from . import controllers, rounds
from .conftest import Recorder
from .controllers import Ran
from .hosts import Host, Hosts
from .proxy import BROKEN, DIRECTIONS, Cut, Manner, Proxy
from .rounds import Outcome, Undisturbed

AT_ONCE = 3
IN_TIME_S = SILENCE_S + CONNECT_TIMEOUT_S + 15
"""A stalled connection is noticed by silence; starting and ending of a controller on a busy machine come on top."""


@pytest.fixture(scope="module")
def undisturbed(hosts: Hosts, layer_of: Callable[[bool], Path]) -> Undisturbed:
    return Undisturbed.watch(hosts, layer_of(True))


def near_address(host: Host) -> str:
    return host.address.replace("127.0.2.", "127.0.3.")


def up_through(proxy: Proxy, host: Host, folder: Path) -> Ran:
    address = near_address(host)
    known = folder / "known_hosts"
    known.write_text(host.keys.known_hosts.read_text().replace("127.0.2.", "127.0.3."))
    inventory = controllers.write_inventory(
        folder / "inventory", {"host": controllers.variables(host, address=address, known_hosts=str(known))}
    )
    with proxy.listening(address):
        return controllers.up(inventory, "--restart", "--json")


def play(hosts: Hosts, undisturbed: Undisturbed, cut: Cut, folder: Path) -> Outcome:
    folder.mkdir()
    with hosts.one(undisturbed.layer) as host:
        proxy = Proxy(host.address, host.port, cut)
        started = time.monotonic()
        ran = up_through(proxy, host, folder)
        seconds = time.monotonic() - started
        outcome = Outcome(proxy.was_cut, seconds=seconds, retried=ran.code == 0 and ran.machine["retries"] > 0)
        outcome.problems += judge(ran, undisturbed)
        if seconds > IN_TIME_S:
            outcome.problems.append(f"noticed only after {seconds:.0f} s")
        # The agent finishes its resource and ends, whatever became of its controller.
        wait_for(lambda: not host.agents(), "an end of the agent")
        rounds.hold_to_account(host, undisturbed, outcome)
        return outcome


def judge(ran: Ran, undisturbed: Undisturbed) -> list[str]:
    """A controller whose connection was cut says so; or it was cut so early that it has begun again by itself, or so
    late that all was done."""
    if "Traceback" in ran.out + ran.err:
        return [f"a traceback: {ran.out}{ran.err}"]
    if ran.code == 0:
        lacking = set(undisturbed.seconds) - {resource["name"] for resource in ran.machine["resources"]}
        return [f"all is well, it says, but for {name}" for name in lacking]
    if ran.code != 1 or ran.machine.get("error", {}).get("stage") != "connect":
        return [f"code {ran.code}: {ran.out}{ran.err}"]
    return []


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.soak)])
def test_the_connection_is_cut(
    hosts: Hosts, undisturbed: Undisturbed, rng: random.Random, record: Recorder, tmp_path: Path, count: int
) -> None:
    with hosts.one(undisturbed.layer) as host:
        proxy = Proxy(host.address, host.port)
        (tmp_path / "measure").mkdir()
        assert up_through(proxy, host, tmp_path / "measure").code == 0
    cuts = []
    for number in range(count):
        direction = DIRECTIONS[number % 2]
        manner: Manner = "stall" if number % 20 == 7 else rng.choice(BROKEN)
        cuts.append(Cut(direction, rng.randrange(1, proxy.carried[direction]), manner))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        playing = {
            f"{number}: {cut}": pool.submit(play, hosts, undisturbed, cut, tmp_path / str(number))
            for number, cut in enumerate(cuts)
        }
        outcomes = {label: future.result() for label, future in playing.items()}
    wrong = sum(bool(outcome.problems) for outcome in outcomes.values())
    stalls = [outcome.seconds for outcome, cut in zip(outcomes.values(), cuts, strict=True) if cut.manner == "stall"]
    others = [outcome.seconds for outcome, cut in zip(outcomes.values(), cuts, strict=True) if cut.manner != "stall"]
    retried = sum(outcome.retried for outcome in outcomes.values())
    waited = f"the controller ended within {max(others):.1f} s, after a stall within {max(stalls or [0]):.0f} s"
    record(
        "connection cut at a random byte of either direction",
        f"{sum(outcome.struck for outcome in outcomes.values())} of {count} cut, {len(stalls)} of them by a stall",
        f"{wrong} wrong; {waited}; {retried} connected anew by themselves",
    )
    assert rounds.told(outcomes) == []
    assert all(outcome.struck for outcome in outcomes.values())
