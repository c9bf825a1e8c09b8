"""Makes the namespaces that the stand-in host lives in, and the process that holds them.

Everything that the sandbox mounts or links is inside these namespaces. When the last of their processes
ends, however it ends, the kernel takes all of it away: there is nothing on the real machine to clean up.

Run as `python -m sandbox.keeper STATE_ROOT IMAGE_ROOT`. It prints the pid of the holder, waits for a line on
stdin (the caller moves its network link in meanwhile), and the holder becomes `init.py` in the image.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from sandbox import cgroup, system
from sandbox.paths import HOSTNAME, Paths

# Where the image, as the root of the namespace, shows the state root.
INSIDE = "/mnt"
_NODES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}


def hold(paths: Paths, image: Path) -> int:
    """Fork the holder into new namespaces, say its pid, and leave it alone."""
    group = cgroup.ours(paths)
    assert group is not None, "preconditions() has looked for cgroup2"
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    system.unshare(
        system.CLONE_NEWCGROUP
        | system.CLONE_NEWNS
        | system.CLONE_NEWNET
        | system.CLONE_NEWIPC
        | system.CLONE_NEWUTS
        | system.CLONE_NEWPID
    )
    holder = os.fork()
    if holder:
        print(holder, flush=True)
        return 0
    # The end of the caller before its line means that it died, and that nobody will ask for this sandbox.
    if sys.stdin.readline().strip() != "go":
        return 1
    _furnish(paths.root, image)
    return _become_init()


def _become_init() -> NoReturn:
    # Nothing of the caller goes along: neither its streams (standard error is the log) nor its environment.
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    argv = ["python3", "-ISu", f"{INSIDE}/share/sandbox/init.py", INSIDE, HOSTNAME]
    os.execve("/usr/bin/python3", argv, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"})


def _furnish(state: Path, image: Path) -> None:
    """Make the image the root of this mount namespace, with a proc, sysfs and cgroup2 of its own."""
    system.mount("none", "/", "", system.MS_REC | system.MS_PRIVATE)
    system.bind(image, image, read_only=True)
    system.bind(state, image / INSIDE[1:])
    plain = system.MS_NOSUID | system.MS_NODEV | system.MS_NOEXEC
    system.mount("proc", image / "proc", "proc", plain)
    # A sysfs belongs to the network namespace it was mounted in: the old one would not show our links.
    system.mount("sysfs", image / "sys", "sysfs", plain)
    system.mount("cgroup2", image / "sys/fs/cgroup", "cgroup2", plain)
    for scratch in ("run", "tmp", "dev"):
        system.mount("tmpfs", image / scratch, "tmpfs", system.MS_NOSUID, "mode=755,size=16m")
    _devices(image / "dev")
    _root_disk(state, image / INSIDE[1:])
    os.chdir(image)
    subprocess.run(["pivot_root", ".", "tmp"], check=True)
    os.chroot(".")
    os.chdir("/")
    system.detach("/tmp")
    subprocess.run(["/usr/sbin/ip", "link", "set", "lo", "up"], check=True)
    # A cgroup that has processes hands no controllers on. LXC leaves out this name, systemd's, when it looks where
    # process 1 is, and so makes the host's cgroup beside this one and not below it.
    holder = Path("/sys/fs/cgroup/init.scope")
    holder.mkdir(exist_ok=True)
    (holder / "cgroup.procs").write_text("0", encoding="ascii")


def _devices(dev: Path) -> None:
    for name, minor in _NODES.items():
        os.mknod(dev / name, 0o666 | 0o020000, os.makedev(1, minor))
        os.chmod(dev / name, 0o666)
    os.mknod(dev / "tty", 0o666 | 0o020000, os.makedev(5, 0))
    (dev / "pts").mkdir()
    system.mount("devpts", dev / "pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5")
    (dev / "ptmx").symlink_to("pts/ptmx")
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (dev / name).symlink_to(target)


def _root_disk(state: Path, inside: Path) -> None:
    """The host's root: its own writes (on the machine's disk) over the image."""
    lower = os.readlink(state / "disk/image")
    options = f"lowerdir={state}/images/{lower}/root,upperdir={state}/disk/upper,workdir={state}/disk/work"
    system.mount("blackstart-sandbox", inside / "disk/root", "overlay", 0, options)


if __name__ == "__main__":
    sys.exit(hold(Paths(Path(sys.argv[1])), Path(sys.argv[2])))
