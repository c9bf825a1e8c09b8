"""The roles, in the order in which they are applied; imported where they are used, so that listing tasks is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blackstart.fleet import Fleet
    from blackstart.front import Door
    from blackstart.plan import Entrance, Role


def in_order() -> tuple[list[Role[Any]], Entrance[Any]]:
    """Every role, and the one that says how containers are entered."""
    from blackstart.plan import Entrance, Role
    from roles.container import state as container
    from roles.ml_env import state as ml_env
    from roles.patches import state as patches
    from roles.server import state as server

    made = Role("container", lambda: container.Variables, container.host_probes, container.host_state, on_host=True)
    entered = Role("container", lambda: container.Variables, container.inside_probes, container.inside_state)
    roles: list[Role[Any]] = [
        made,
        entered,
        Role("ml_env", lambda: ml_env.Variables, ml_env.probes, ml_env.state),
        Role("patches", lambda: patches.Variables, patches.probes, patches.state),
        Role("server", lambda: server.Variables, server.probes, server.state),
    ]
    return roles, Entrance(made, container.enter, container.running)


def open_fleet(door: Door) -> Fleet:
    """The machines of a task's inventory, ready to be talked to; use as a context manager."""
    from blackstart.fleet import Fleet

    roles, entrance = in_order()
    # A Proxmox host without a container is no engine: the environment must not land on the host itself.
    return Fleet(door.inventory, door.defaults, roles, entrance, door.console, bare=False)
