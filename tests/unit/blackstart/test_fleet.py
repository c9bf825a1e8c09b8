import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blackstart.fleet import Fleet
from blackstart.inventory import Inventory
from blackstart.machine import Machine, Value
from blackstart.plan import Entrance, Role, State
from blackstart.ssh import SSH
from blackstart.transports import Local, Through

ROLE = Role("web", lambda: dict, lambda variables: (), lambda variables, facts: State([]))


def machine(name, **variables):
    return Machine(name, ("all",), {key: Value(value, "a test") for key, value in variables.items()}, "a test")


HOST = machine("host", address="198.51.100.1", port=2222, user="ada")
GUEST = machine("guest", through="host")
ALONE = machine("alone", address="198.51.100.2")
HERE = machine("here", local=True)


@pytest.fixture
def open_fleet(monkeypatch):
    def open_fleet(**options):
        monkeypatch.setattr("blackstart.fleet.resolve", lambda machine, defaults, model: {"of": machine.name})
        inventory = Inventory(Path("a test"), False, {one.name: one for one in (HOST, GUEST, ALONE, HERE)})
        enter = Entrance(ROLE, lambda variables, argv: ["enter", variables["of"], *argv], lambda variables, facts: True)
        return Fleet(inventory, {}, [ROLE], enter, None, **options)

    return open_fleet


def test_each_machine_is_reached_in_its_own_way(open_fleet):
    with open_fleet() as fleet:
        assert [type(fleet.transport(one)) for one in (HOST, GUEST, ALONE, HERE)] == [SSH, Through, SSH, Local]
        assert not fleet.transport(HOST).login_is_root and not fleet.transport(GUEST).login_is_root
        assert fleet.transport(ALONE).login_is_root


def test_a_way_is_made_once_and_shared_by_all_that_go_it(open_fleet):
    with open_fleet() as fleet:
        assert fleet.transport(HOST) is fleet.transport(HOST)
        assert fleet.transport(GUEST)._outer is fleet.transport(HOST)
        assert fleet.transport(GUEST)._enter(["id"]) == ["enter", "guest", "id"]


def test_threads_that_ask_at_once_share_one_way(open_fleet, monkeypatch):
    made = []
    both = threading.Barrier(2)

    def slowly(fleet, machine, make=Fleet._make_transport):
        made.append(machine.name)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # only a second maker of the same way comes here too
        return make(fleet, machine)

    monkeypatch.setattr(Fleet, "_make_transport", slowly)
    with open_fleet() as fleet, ThreadPoolExecutor(2) as pool:
        one, other = pool.map(fleet.transport, [HOST, HOST])
    assert made == ["host"]
    assert one is other


@pytest.mark.parametrize(("bare", "carrying"), [(True, ["alone", "here"]), (False, ["here"])])
def test_who_holds_others_carries_no_roles_and_others_where_it_is_said(open_fleet, bare, carrying):
    with open_fleet(bare=bare) as fleet:
        assert [one.name for one in (HOST, ALONE, HERE) if fleet.carries_roles(one)] == carrying


def test_sudos_password_is_that_of_the_machine_that_is_logged_in_to(open_fleet, monkeypatch):
    monkeypatch.setenv("SUDO", "let me in")
    reference = Value({"env": "SUDO"}, "hosts.yml:3")
    monkeypatch.setitem(HOST.variables, "sudo_password", reference)
    with open_fleet() as fleet:
        assert fleet.session(GUEST)._password() == "let me in"
