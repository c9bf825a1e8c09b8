"""`pct set` and `pct unlock`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sandbox.pct import conf, create, guest, lxcconf, schema, storage, store
from sandbox.pct.failure import DIED, NO_ENTRY, PctError

# What a running container takes at once; the rest waits in [pve:pending] for its next start (PVE 8).
_AT_ONCE = frozenset(
    (
        *("cores", "cpulimit", "cpuunits", "description", "hookscript", "lock", "memory"),
        *("onboot", "protection", "startup", "swap", "tags", "timezone"),
    )
)
_READ_ONLY = ("unprivileged", "arch", "ostype", "rootfs")


def change(vmid: int, given: Mapping[str, str]) -> None:
    """Change a container's configuration. Raises PctError."""
    for name in ("revert", "digest"):
        if name in given:
            raise PctError(f"SIMULATED pct: 'set --{name}' is not implemented in the sandbox", DIED)
    with store.alone(vmid):
        config = store.load(vmid)
        _refuse(given, config)
        store.refuse_locked(config)
        live = guest.running(vmid)
        for name in re.split(r"[,;\s]+", given.get("delete", "")):
            if name:
                _delete(config, name, live)
        for name, value in given.items():
            if schema.known(name):
                _set(vmid, config, name, value, live)
        store.save(vmid, config)
        if not live:
            # The real one writes LXC's configuration here, and so looks at every device after it has saved.
            lxcconf.nodes(config.current.options)


def _refuse(given: Mapping[str, str], config: conf.Conf) -> None:
    for name, value in given.items():
        if name == "unprivileged" or (name in _READ_ONLY and config.current.options.get(name) != value):
            raise PctError(f"unable to modify read-only option: '{name}'", DIED)
        if (indexed := schema.split_index(name)) and indexed[0] == "dev":
            lxcconf.node(value)
    if "hookscript" in given:
        storage.script(given["hookscript"])


def _delete(config: conf.Conf, name: str, live: bool) -> None:
    if not schema.known(name):
        raise PctError(f"400 Parameter verification failed.\ndelete: unknown option '{name}'", NO_ENTRY)
    if name == "description":
        config.current.description = ""
        return
    if name in ("memory", "swap", "rootfs", "arch", "ostype", "unprivileged"):
        raise PctError(f"unable to delete required option '{name}'", DIED)
    config.pending.pop(name, None)
    if name not in config.current.options:
        store.warn(f"cannot delete '{name}' - not set in current configuration!")
    elif live and name not in _AT_ONCE:
        config.pending_delete = sorted({*config.pending_delete, name})
    else:
        del config.current.options[name]


def _set(vmid: int, config: conf.Conf, name: str, value: str, live: bool) -> None:
    if name == "description":
        config.current.description = value
        return
    indexed = schema.split_index(name)
    if indexed and indexed[0] == "net":
        value = create.network(value)
    if indexed and indexed[0] == "mp":
        value = _volume(vmid, indexed[1], value)
    config.pending_delete = [other for other in config.pending_delete if other != name]
    if live and name not in _AT_ONCE:
        if config.current.options.get(name) == value:
            config.pending.pop(name, None)
        else:
            config.pending[name] = value
    else:
        config.current.options[name] = value
        config.pending.pop(name, None)


def _volume(vmid: int, index: int, value: str) -> str:
    parts = schema.MOUNT.parse(value)
    if not storage.is_new(parts["volume"]):
        return value
    parts["volume"], parts["size"] = storage.allocate(parts["volume"], vmid, index + 1)
    storage.place(parts["volume"]).mkdir(parents=True, exist_ok=True)
    return schema.MOUNT.render(parts)


def unlock(vmid: int) -> None:
    with store.alone(vmid):
        config = store.load(vmid)
        if config.current.options.pop("lock", None) is None:
            raise PctError("no lock found trying to remove any lock", DIED)
        store.save(vmid, config)
