"""`pct list`, `status`, `config` and `pending`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

from sandbox.pct import conf, guest, lxcconf, storage, store


def listing() -> str:
    """The table of all containers; nothing at all where there is none."""
    rows = []
    for vmid in store.ids():
        options = store.load(vmid).current.options
        state = "running" if guest.running(vmid) else "stopped"
        rows.append((str(vmid), state, options.get("lock", ""), options.get("hostname", f"CT{vmid}")))
    if not rows:
        return ""
    return "".join(
        f"{row[0]:<10} {row[1]:<10} {row[2]:<12} {row[3]:<20}\n" for row in [("VMID", "Status", "Lock", "Name"), *rows]
    )


def status(vmid: int, verbose: bool) -> str:
    config = store.load(vmid)
    state = "running" if guest.running(vmid) else "stopped"
    if not verbose:
        return f"status: {state}\n"
    options = config.current.options
    used = shutil.disk_usage(storage.ROOT)
    facts = {
        "cpus": options.get("cores", str(os.cpu_count() or 1)),
        "disk": str(used.used if state == "running" else 0),
        "diskread": "0",
        "diskwrite": "0",
        "maxdisk": str(used.total if state == "running" else _size(options)),
        "maxmem": str(int(options.get("memory", "512")) * 1024**2),
        "maxswap": str(int(options.get("swap", "512")) * 1024**2),
        "mem": "0",
        "name": options.get("hostname", f"CT{vmid}"),
        "netin": "0",
        "netout": "0",
        "status": state,
    }
    if "lock" in options:
        facts["lock"] = options["lock"]
    return "".join(f"{key}: {value}\n" for key, value in sorted(facts.items()))


def _size(options: Mapping[str, str]) -> int:
    """Bytes of the root file system as configured; the real one takes 4 GiB for one without a limit."""
    size = lxcconf.parse("rootfs", options["rootfs"]).get("size", "") if "rootfs" in options else ""
    return (int(float(size[:-1])) if size.endswith("G") else 4) * 1024**3


def config(vmid: int, *, current: bool, snapshot: str | None) -> str:
    """The configuration; unless the current one is asked for, as it will be after the next start."""
    found = store.load(vmid)
    section = found.snapshots.get(snapshot, conf.Section()) if snapshot else found.current
    options = dict(section.options if current or snapshot else found.after_pending())
    if section.description:
        options["description"] = conf.encode(section.description)
    lines = [f"{key}: {value}" for key, value in sorted(options.items())]
    lines += [f"{key}: {value}" for key, value in section.raw]
    return "".join(f"{line}\n" for line in lines)


def pending(vmid: int) -> str:
    return "".join(f"{line}\n" for line in _pending(store.load(vmid)))


def _pending(found: conf.Conf) -> Iterator[str]:
    current = found.current.options
    for key in sorted({*current, *found.pending}):
        if key in current:
            yield f"cur {key}: {current[key]}"
        if key in found.pending:
            yield f"new {key}: {found.pending[key]}"
        if key in found.pending_delete:
            yield f"del {key}: {current.get(key, '')}"
