"""The sandbox and the real machine: nothing of it stays, nothing of it reaches out, and it heals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.paths import ADDRESS, Paths
from tests.integration.sandbox_lab import PROJECT, TEMPLATE, Lab, eventually, lab

pytestmark = pytest.mark.sandbox

# Counters and clocks of the kernel, which change by themselves.
VOLATILE = re.compile(
    r"^(fs\.(dentry-state|inode-nr|inode-state|file-nr|aio-nr|quota\.)|kernel\.(ns_last_pid|pty\.nr|random\.)|"
    r"net\.netfilter\.nf_conntrack_count|kernel\.tainted|vm\.stat_refresh)"
)


@pytest.fixture(scope="module")
def machine() -> Iterator[Lab]:
    with lab() as made:
        yield made


def snapshot(lab: Lab) -> dict[str, list[str]]:
    """What the real machine looks like to somebody who uses it."""
    sysctls = [line for line in lab.run("/sbin/sysctl", "-a").stdout.splitlines() if not VOLATILE.match(line)]
    assert len(sysctls) > 200
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    modules = Path("/proc/modules")
    units = subprocess.run(
        ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--type=service,mount,socket,timer"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return {
        "sysctls": sorted(sysctls),
        "mounts": sorted(mounts),
        "modules": sorted(line.split()[0] for line in modules.read_text().splitlines()) if modules.exists() else [],
        "links": sorted(lab.run("ip", "-o", "link").stdout.splitlines()),
        "addresses": sorted(lab.run("ip", "-o", "address").stdout.splitlines()),
        "routes": sorted(lab.run("ip", "route").stdout.splitlines()),
        "units": sorted(line.split()[0] for line in units.splitlines() if "session" not in line),
        "cgroups": [str(path) for path in lab.group().parent.glob(f"{lab.group().name}*")],
    }


def test_the_real_machine_is_the_same_before_and_after(machine: Lab) -> None:
    before = snapshot(machine)
    machine.up()
    during = snapshot(machine)
    assert during["mounts"] == before["mounts"], "not even while it runs"
    machine.ok("sysctl -w vm.swappiness=3 kernel.numa_balancing=0; modprobe nvidia; sysctl --system")
    machine.ok(f"pct create 100 {TEMPLATE} --rootfs local:0 --unprivileged 0 && pct start 100")
    machine.ok("pct exec 100 -- sh -c '! echo 3 > /proc/sys/vm/swappiness'")

    done = machine.call("down")

    assert done.returncode == 0, done.stderr
    assert snapshot(machine) == before
    assert machine.keeper() is None


def test_down_twice_is_down(machine: Lab) -> None:
    for _ in range(2):
        done = machine.call("down")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["state"] == "stopped"


def test_up_on_a_running_sandbox_changes_nothing_and_takes_no_time(machine: Lab) -> None:
    machine.up()
    keeper = machine.keeper()
    started = time.monotonic()
    machine.up()
    assert time.monotonic() - started < 0.5
    assert keeper is not None and machine.keeper() == keeper


def test_nothing_on_the_host_reaches_the_real_kernel(machine: Lab) -> None:
    machine.up()
    for attempt in (
        "echo 3 > /proc/sys/vm/swappiness",
        "echo h > /proc/sysrq-trigger",
        "echo 1 > /sys/kernel/uevent_seqnum",
        "date -s @0",
        "dmesg",
        "mknod /tmp/kmsg c 1 11 && cat /tmp/kmsg",
        "mknod /tmp/mem c 1 1 && head -c1 /tmp/mem",
        # Every disk that the kernel knows, by its number.
        "for dev in $(cat /sys/class/block/*/dev); do mknod /tmp/d$dev b $(echo $dev | tr : ' '); "
        "head -c1 /tmp/d$dev > /dev/null && exit 0; done; exit 1",
        "python3 -c 'import ctypes; exit(0 if ctypes.CDLL(None).reboot(0) == 0 else 1)'",
    ):
        done = machine.ssh(attempt)
        assert done.returncode != 0, attempt
    held = int(machine.ok("grep CapBnd /proc/self/status").split()[1], 16)
    for name, bit in (("SYS_MODULE", 16), ("SYS_RAWIO", 17), ("SYS_BOOT", 22), ("SYS_TIME", 25), ("SYSLOG", 34)):
        assert not held >> bit & 1, f"CAP_{name}"
    assert machine.ok("ip route show default") == ""
    machine.ok("sysctl.real -w net.ipv4.ip_forward=1")  # its own network is its own


def test_its_key_and_only_its_key_is_let_in(machine: Lab, tmp_path: Path) -> None:
    machine.up()
    other = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    known = f"UserKnownHostsFile={machine.paths.known_hosts}"
    plain = ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", known]
    refused = machine.run(*plain, "-i", str(other), f"root@{ADDRESS}", "true")
    assert refused.returncode == 255 and "Permission denied (publickey)" in refused.stderr
    password = machine.run(*plain, "-o", "PreferredAuthentications=password", f"root@{ADDRESS}", "true")
    assert "Permission denied (publickey)" in password.stderr
    assert machine.ok("hostname") == "pve1\n"


def test_after_a_kill_of_everything_up_brings_all_of_it_back(machine: Lab) -> None:
    machine.up()
    machine.ok(f"pct create 110 {TEMPLATE} --rootfs local:0 --unprivileged 0 --onboot 1 && pct start 110")
    machine.ok("pct exec 110 -- sh -c 'echo kept > /root/file; sync'")
    keeper = machine.keeper()
    (machine.group() / "cgroup.kill").write_text("1")
    eventually(lambda: machine.keeper() is None, "the keeper is gone")
    assert json.loads(machine.call("status").stdout)["state"] == "stopped"

    machine.up()

    assert machine.keeper() not in (None, keeper)
    assert machine.ok("pct status 110") == "status: running\n"
    assert machine.ok("pct exec 110 -- cat /root/file") == "kept\n"
    assert {"id": "110", "name": "CT110", "state": "running"} in json.loads(machine.call("status").stdout)["guests"]


def test_a_killed_keeper_takes_everything_along(machine: Lab) -> None:
    machine.up()
    keeper = machine.keeper()
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    group = machine.group()
    eventually(lambda: "populated 0" in (group / "cgroup.events").read_text(), "no process is left")
    eventually(lambda: "blackstart0" not in machine.run("ip", "-o", "link").stdout, "the link is gone")
    machine.up()
    assert machine.ok("hostname") == "pve1\n"


def test_a_host_whose_sshd_is_gone_is_broken_and_is_mended(machine: Lab) -> None:
    machine.up()
    machine.ssh("systemctl stop ssh.service ssh.socket; systemctl kill --signal=KILL ssh.service")
    status = json.loads(machine.call("status").stdout)
    assert status["state"] == "broken" and "sshd" in status["reason"]
    machine.up()
    assert json.loads(machine.call("status").stdout)["state"] == "running"


def test_an_up_that_is_killed_while_it_starts_is_no_hindrance(machine: Lab) -> None:
    machine.call("down")
    environment = dict(os.environ) | {"BLACKSTART_SANDBOX_DIR": str(machine.paths.root)}
    code = "from sandbox import host; host.up(lambda *_: None)"
    argv = ["nsenter", "--target", str(machine.holder), "--net", "--", sys.executable, "-c", code]
    starting = subprocess.Popen(argv, env=environment, cwd=PROJECT)
    eventually(lambda: machine.paths.keeper.exists(), "it has got as far as the keeper")
    starting.kill()
    starting.wait()
    machine.up()
    assert machine.ok("hostname") == "pve1\n"


def test_another_state_root_is_refused_while_this_one_runs(machine: Lab) -> None:
    machine.up()
    keeper = machine.keeper()
    other = machine.paths.root.with_name(f"{machine.paths.root.name}-other")
    for what in ("up", "down"):
        done = machine.call(what, root=other)
        assert done.returncode == 3
        assert str(machine.paths.root) in done.stderr
    assert not other.exists(), "nothing was touched"
    assert keeper is not None and machine.keeper() == keeper


def test_wipe_forgets_the_guests_and_keeps_the_image(machine: Lab) -> None:
    machine.up()
    machine.ok(f"pct create 120 {TEMPLATE} --rootfs local:0 --unprivileged 0")
    done = machine.call("down", "wipe")
    status = json.loads(done.stdout)
    assert status["guests"] == [] and status["image"]
    machine.up()
    assert machine.ok("pct list") == ""


def test_a_build_that_is_killed_leaves_no_process_and_no_mount(tmp_path: Path) -> None:
    """In the machine's own network, for it downloads; killed as soon as packages are being unpacked."""
    paths = Paths(tmp_path / "state")
    code = "import sys; from pathlib import Path; from sandbox import images; from sandbox.paths import Paths; "
    code += "images.build(Paths(Path(sys.argv[1])), lambda *_: None)"
    building = subprocess.Popen([sys.executable, "-c", code, str(paths.root)], cwd=PROJECT)
    eventually(lambda: any(paths.images.glob(".building-*/root/usr/bin")), "packages are being unpacked", 60)
    building.kill()
    building.wait()
    eventually(lambda: not _mentioned(str(paths.root)), "mmdebstrap and what it started are gone")
    assert str(paths.root) not in Path("/proc/self/mounts").read_text()
    assert not [path for path in paths.images.iterdir() if not path.name.startswith(".building-")]


def _mentioned(text: str) -> list[str]:
    """The command lines that contain the text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in line:
            found.append(line)
    return found


def test_the_host_is_handed_the_controllers_that_the_machine_has(machine: Lab) -> None:
    machine.up()
    group = machine.group()
    controllers = set((group.parent / "cgroup.subtree_control").read_text().split())
    assert set(machine.ok("cat /sys/fs/cgroup/cgroup.controllers").split()) == controllers
    assert (group / "lxc.payload.pve1").is_dir()


# The stand-in host is a machine with systemd and nothing but cgroup2: what a plain Debian 12 is, and this may not be.
_WITHIN = """
import json, pathlib, subprocess
from sandbox import host, packages
packages.NEEDED, packages.KEYRING = {}, pathlib.Path("/")  # without a way out nothing could be installed
def look():
    listing = ["systemctl", "list-units", "--all", "--plain", "--no-legend"]
    units = subprocess.run(listing, capture_output=True, text=True)
    groups = [str(p) for p in pathlib.Path("/sys/fs/cgroup").rglob("*blackstart*")]
    names = sorted(line.split()[0] for line in units.stdout.splitlines() if "session" not in line)
    return [names, pathlib.Path("/proc/self/mounts").read_text(), groups]
before = look()
host.up(lambda *_: None)
state = host.status()["state"]
host.down(lambda *_: None)
print(json.dumps([host.preconditions(), state, before == look()]))
"""


def test_it_works_on_a_machine_with_systemd_and_cgroup2_alone(machine: Lab) -> None:
    machine.up()
    nested = machine.paths.vz / "nested"
    nested.mkdir()
    subprocess.run(["cp", "--archive", "--link", str(machine.paths.images), str(nested / "images")], check=True)
    (machine.paths.vz / "within.py").write_text(_WITHIN, encoding="utf-8")
    root = "BLACKSTART_SANDBOX_DIR=/var/lib/vz/nested PYTHONPATH=/srv/blackstart-sandbox"
    # In a network of its own: on the host's, the address that it would take is the host's.
    said = machine.ok(f"{root} unshare --net sh -c 'ip link set lo up && python3 /var/lib/vz/within.py'")
    assert json.loads(said) == [[], "running", True]
