"""`pct create` and `pct destroy`."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

from sandbox.pct import conf, guest, lxcconf, properties, schema, storage, store
from sandbox.pct.failure import DIED, NO_ENTRY, PctError

_NOT_HERE = ("restore", "force", "unique", "ignore-unpack-errors")
_WITHOUT_EFFECT = ("password", "pool", "bwlimit")
_DEFAULTS = {"arch": "amd64", "memory": "512", "swap": "512", "ostype": "debian"}


def create(vmid: int, ostemplate: str, given: Mapping[str, str]) -> None:
    """Make a container. A killed create leaves `lock: create` behind, as the real one does. Raises PctError."""
    for name in _NOT_HERE:
        if properties.is_true(given.get(name)):
            raise PctError(f"SIMULATED pct: 'create --{name}' is not implemented in the sandbox", DIED)
    for name in _WITHOUT_EFFECT:
        if name in given:
            store.warn(f"SIMULATED pct: '--{name}' has no effect in the sandbox")
    options = {name: value for name, value in given.items() if schema.known(name)}
    if store.path(vmid).exists():
        raise PctError(f"CT {vmid} already exists on node '{store.NODE}'", NO_ENTRY)
    _refuse_what_cannot_be(vmid, ostemplate, options, given)
    archive = storage.template(ostemplate, vmid)
    with store.alone(vmid):
        store.reserve(vmid)
        try:
            config = _build(vmid, archive, options, given)
        except (PctError, OSError):
            storage.remove(vmid)
            store.remove(vmid)
            raise
        store.save(vmid, config)
    if properties.is_true(given.get("start")):
        guest.start(vmid, config)


def _refuse_what_cannot_be(vmid: int, ostemplate: str, options: Mapping[str, str], given: Mapping[str, str]) -> None:
    volume = _volume_of(options.get("rootfs", ""))
    for named in (ostemplate, volume):
        if named and not named.startswith("/"):
            storage.storage(named.partition(":")[0])
    if "hookscript" in options:
        storage.script(options["hookscript"])
    keys = given.get("ssh-public-keys")
    if keys and not Path(keys).is_file():
        raise PctError(f"unable to open file '{keys}' - No such file or directory", NO_ENTRY)
    lxcconf.nodes(options)


def _volume_of(value: str) -> str:
    return schema.ROOTFS.parse(value)["volume"] if value else ""


def _build(vmid: int, archive: Path, options: dict[str, str], given: Mapping[str, str]) -> conf.Conf:
    section = conf.Section(options=dict(_DEFAULTS) | options)
    section.description = section.options.pop("description", "")
    _drop_false(section.options)
    _volumes(vmid, section.options, given.get("storage", "local"))
    for index, value in lxcconf.indexed(section.options, "net"):
        section.options[f"net{index}"] = network(value)
    root = storage.place(lxcconf.parse("rootfs", section.options["rootfs"])["volume"])
    storage.extract(archive, root, lxcconf.unprivileged(section.options))
    print(f"Detected container architecture: {section.options['arch']}", flush=True)
    guest.prepare(root, vmid, section.options)
    _authorize(root, given.get("ssh-public-keys"))
    return conf.Conf(current=section)


def _drop_false(options: dict[str, str]) -> None:
    """A privileged container has no `unprivileged` line."""
    if not properties.is_true(options.get("unprivileged")):
        options.pop("unprivileged", None)


def _volumes(vmid: int, options: dict[str, str], fallback: str) -> None:
    """Give every new volume its name and its directory; a bind mount's source must be there."""
    root = schema.ROOTFS.parse(options.get("rootfs", f"{fallback}:4"))
    options["rootfs"] = schema.ROOTFS.render(_allocated(vmid, 0, root))
    for index, value in lxcconf.indexed(options, "mp"):
        parts = schema.MOUNT.parse(value)
        if storage.is_new(parts["volume"]):
            options[f"mp{index}"] = schema.MOUNT.render(_allocated(vmid, index + 1, parts))
        elif not storage.place(parts["volume"]).is_dir():
            gone = f"directory '{parts['volume']}' does not exist"
            raise PctError(f"mounting container failed\nunable to create CT {vmid} - {gone}", DIED)


def _allocated(vmid: int, index: int, parts: dict[str, str]) -> dict[str, str]:
    if storage.is_new(parts["volume"]):
        parts["volume"], parts["size"] = storage.allocate(parts["volume"], vmid, index)
        storage.place(parts["volume"]).mkdir(parents=True, exist_ok=True)
    return parts


def network(value: str) -> str:
    """A netN with the hardware address and type that the real one adds."""
    parts = schema.NETWORK.parse(value)
    if "hwaddr" not in parts:
        parts["hwaddr"] = "BC:24:11:" + ":".join(f"{random.randrange(256):02X}" for _ in range(3))
    parts["type"] = parts.get("type", "veth")
    return schema.NETWORK.render(parts)


def _authorize(root: Path, keys: str | None) -> None:
    if not keys:
        return
    owner = root.stat()
    folder = root / "root/.ssh"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "authorized_keys"
    file.write_text(Path(keys).read_text(encoding="utf-8"), encoding="utf-8")
    file.chmod(0o600)
    for path in (folder, file):
        os.chown(path, owner.st_uid, owner.st_gid)


def destroy(vmid: int, *, force: bool, purge: bool) -> None:
    """Remove a container and its volumes. Raises PctError where it runs (unless forced) or is locked."""
    config = store.load(vmid)
    with store.alone(vmid):
        # What a killed create left can only be removed by force, as with the real one.
        if not force:
            store.refuse_locked(config)
        if properties.is_true(config.current.options.get("protection")):
            raise PctError(f"can't remove CT {vmid} - protection mode enabled", DIED)
        if guest.running(vmid):
            if not force:
                raise PctError(f"unable to destroy CT {vmid} - container is running", DIED)
            guest.stop(vmid)
        guest.unmount_passthrough(vmid)
        storage.remove(vmid)
        _remove_lxc(vmid)
        if purge:
            print(f"purging CT {vmid} from related configurations..", flush=True)
        store.remove(vmid)


def _remove_lxc(vmid: int) -> None:
    folder = lxcconf.LXC / str(vmid)
    (folder / "config").unlink(missing_ok=True)
    for path in (lxcconf.passthrough(vmid), folder):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
