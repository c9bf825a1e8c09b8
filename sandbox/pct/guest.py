"""The containers themselves: what LXC says of them, and starting and stopping them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import time
from pathlib import Path

from sandbox.pct import conf, lxcconf, storage, store
from sandbox.pct.failure import DIED, PctError

_START_S = 30.0
_CAP_SYS_RESOURCE = 24
_UNIT = "pve-container@{}.service"
_LINKS = Path("/sys/class/net")


def init_pid(vmid: int) -> int | None:
    """The pid of the container's first process, as the host sees it; None where it does not run."""
    done = subprocess.run(
        ["lxc-info", "--name", str(vmid), "--pid", "--no-humanize"], capture_output=True, text=True, check=False
    )
    text = done.stdout.strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def running(vmid: int) -> bool:
    """Whether it runs; LXC's monitor listens on an abstract socket that carries the container's name."""
    socket = f"@/var/lib/lxc/{vmid}/command"
    named = any(line.endswith(socket) for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines())
    return named and init_pid(vmid) is not None


def start(vmid: int, config: conf.Conf) -> None:
    """Start it in the real one's order: devices, bridges, hook, mounts, LXC. Raises PctError."""
    config.apply_pending()
    devices = _ready(config.current.options)
    store.save(vmid, config)
    run_hook(vmid, config, "pre-start")
    for _, value in lxcconf.indexed(config.current.options, "mp"):
        volume = lxcconf.parse("mp", value)["volume"]
        if not storage.place(volume).exists():
            raise PctError(f"startup for container '{vmid}' failed: directory '{volume}' does not exist", DIED)
    launch(vmid, config, devices)
    run_hook(vmid, config, "post-start")


def _ready(options: dict[str, str]) -> list[lxcconf.Node]:
    """The devices, once everything outside the container that it needs is there."""
    try:
        devices = lxcconf.nodes(options)
    except PctError as error:
        # At a start the real one ends with 255 whatever is wrong with a device.
        raise PctError(error.text, DIED) from error
    for bridge in lxcconf.bridges(options):
        if not (_LINKS / bridge).exists():
            raise PctError(f"bridge '{bridge}' does not exist", DIED)
    return devices


def launch(vmid: int, config: conf.Conf, devices: list[lxcconf.Node]) -> None:
    """Make the nodes, write LXC's configuration, start the unit and wait until it runs. Raises PctError."""
    options = config.current.options
    _passthrough(vmid, devices, lxcconf.ID_SHIFT if lxcconf.unprivileged(options) else 0)
    controllers = frozenset(Path("/sys/fs/cgroup/cgroup.controllers").read_text(encoding="ascii").split())
    raw = _without_impossible_limits(config.current.raw)
    text = lxcconf.render(vmid, options, raw, devices, controllers)
    (lxcconf.LXC / str(vmid) / "config").write_text(text, encoding="utf-8")
    unit = _UNIT.format(vmid)
    subprocess.run(["systemctl", "reset-failed", unit], capture_output=True, check=False)
    subprocess.run(["systemctl", "start", unit], capture_output=True, check=False)
    _wait_until_running(vmid, unit)


def _without_impossible_limits(raw: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out resource limits where the machine may not raise them: LXC would not start the container."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    if effective >> _CAP_SYS_RESOURCE & 1:
        return raw
    for key, value in raw:
        if key.startswith("lxc.prlimit."):
            store.warn(f"SIMULATED pct: '{key}: {value}' is left out, this machine lacks CAP_SYS_RESOURCE")
    return [(key, value) for key, value in raw if not key.startswith("lxc.prlimit.")]


def _wait_until_running(vmid: int, unit: str) -> None:
    until = time.monotonic() + _START_S
    while not running(vmid):
        active = subprocess.run(["systemctl", "is-active", unit], capture_output=True, text=True, check=False)
        if active.stdout.strip() in ("failed", "inactive") or time.monotonic() > until:
            raise PctError(f"startup for container '{vmid}' failed", DIED)
        time.sleep(0.02)


def _passthrough(vmid: int, devices: list[lxcconf.Node], shift: int) -> None:
    """Make the nodes anew, with the numbers that the host's nodes have now."""
    folder = lxcconf.passthrough(vmid)
    unmount_passthrough(vmid)
    folder.mkdir(parents=True, exist_ok=True)
    if not devices:
        return
    # A file system of its own: a device node under nodev (/run, /tmp) could not be opened.
    mount = ["mount", "-t", "tmpfs", "-o", "mode=0755,size=64k", "passthrough", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PctError(f"command '{' '.join(mount)}' failed: {done.stderr.strip()}", DIED)
    for device in devices:
        target = folder / device.path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(target, device.kind | stat.S_IMODE(device.mode), os.makedev(device.major, device.minor))
        os.chmod(target, device.mode)
        os.chown(target, device.uid + shift, device.gid + shift)


def unmount_passthrough(vmid: int) -> None:
    """Take the nodes away. The unit does that too when it ends, so here it may be gone at any moment."""
    folder = lxcconf.passthrough(vmid)
    until = time.monotonic() + 5.0
    while os.path.ismount(folder):
        done = subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, text=True, check=False)
        if time.monotonic() > until:
            raise PctError(f"command 'umount --lazy {folder}' failed: {done.stderr.strip()}", DIED)


def stop(vmid: int) -> None:
    """End it at once."""
    _lxc_stop(vmid, "--kill")
    _wait_until_stopped(vmid, 10.0)


def shutdown(vmid: int, timeout_s: int, force: bool) -> None:
    """Ask its init to end; where that takes longer than timeout_s, kill it (force) or fail."""
    if timeout_s > 0 and _lxc_stop(vmid, "--nokill", "--timeout", str(timeout_s)):
        _wait_until_stopped(vmid, 10.0)
        return
    if not force:
        raise PctError(f"command 'lxc-stop -n {vmid} --nokill --timeout {timeout_s}' failed: exit code 1", DIED)
    stop(vmid)


def _lxc_stop(vmid: int, *options: str) -> bool:
    done = subprocess.run(["lxc-stop", "--name", str(vmid), *options], capture_output=True, check=False)
    return done.returncode == 0


def _wait_until_stopped(vmid: int, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while running(vmid):
        if time.monotonic() > until:
            raise PctError(f"container '{vmid}' does not stop", DIED)
        time.sleep(0.02)
    subprocess.run(["systemctl", "stop", _UNIT.format(vmid)], capture_output=True, check=False)
    unmount_passthrough(vmid)


def run_hook(vmid: int, config: conf.Conf, phase: str) -> None:
    """Run the container's hook script. A failure counts only before the start, as with the real one."""
    volume = config.current.options.get("hookscript")
    if not volume:
        return
    path = storage.script(volume)
    done = subprocess.run([str(path), str(vmid), phase], check=False)
    if done.returncode != 0:
        text = f"command '{path} {vmid} {phase}' failed: exit code {done.returncode}"
        if phase == "pre-start":
            raise PctError(f"hookscript error for {vmid} on {phase}: {text}", DIED)
        store.warn(f"hookscript error for {vmid} on {phase}: {text}")


def prepare(root: Path, vmid: int, options: dict[str, str]) -> None:
    """What a fresh root file system is given: its name and its hosts file, owned as the root itself is."""
    owner = root.stat()
    name = options.get("hostname", f"CT{vmid}")
    addresses = [lxcconf.parse("net", value).get("ip", "") for _, value in lxcconf.indexed(options, "net")]
    own = "".join(f"{ip.partition('/')[0]} {name}\n" for ip in addresses if re.match(r"\d+\.", ip))
    files = {
        "etc/hostname": f"{name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{own}",
        "etc/machine-id": "",
    }
    for relative, text in files.items():
        target = root / relative
        with contextlib.suppress(FileNotFoundError):
            target.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        os.chown(target, owner.st_uid, owner.st_gid)
