"""What is looked at on the real machine: rights, space, routes, cgroups, processes, modules."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import cgroup, identity, link, modules, preconditions
from sandbox.paths import Paths

ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth1	007100CB	00000000	0001	0	0	0	00FFFFFF	0	0	0
"""


def test_routes_are_read_from_the_kernels_table() -> None:
    found = list(preconditions.routes(ROUTES))
    assert found == [
        ("eth0", ipaddress.IPv4Network("0.0.0.0/0")),
        ("eth0", ipaddress.IPv4Network("192.0.2.0/24")),
        ("eth1", ipaddress.IPv4Network("203.0.113.0/24")),
    ]


def test_a_machine_on_the_sandboxs_own_network_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "route"
    monkeypatch.setattr(preconditions, "_ROUTES", table)
    table.write_text(ROUTES.replace("007100CB", "007200CB"))
    assert list(preconditions._network()) == []
    table.write_text(ROUTES)
    assert list(preconditions._network()) == [
        "eth1 already leads to 203.0.113.0/24, which holds the sandbox's own address 203.0.113.2"
    ]


def test_another_user_than_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert any("needs root" in reason for reason in preconditions.reasons(Paths(Path("/var/lib/none"))))


def test_another_system_than_linux_is_refused_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert preconditions.reasons(Paths(Path("/nowhere"))) == ["the sandbox needs Linux (this is darwin)"]


@pytest.mark.parametrize("root", ["/tmp/a,b", "/tmp/a:b", "/tmp/a b"])
def test_a_root_that_mount_options_cannot_hold_is_refused(root: str) -> None:
    assert any("mount options cannot hold" in reason for reason in preconditions._place(Paths(Path(root))))


def test_a_folder_of_somebody_else_is_never_taken_as_state_root(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "wheelhouse").mkdir()
    assert not [reason for reason in preconditions._place(Paths(tmp_path)) if "not the sandbox's" in reason]
    (tmp_path / "thesis.tex").touch()
    assert any("thesis.tex" in reason for reason in preconditions._place(Paths(tmp_path)))
    assert any("not the sandbox's" in reason for reason in preconditions._place(Paths(Path("/"))))


@pytest.mark.parametrize("below", ["", "not/yet"])
def test_a_file_where_the_state_root_would_be_is_refused_and_holds_no_sandbox(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    paths = Paths(tmp_path / "file" / below)
    assert any("is no folder" in reason for reason in preconditions._place(paths))
    assert identity.load(paths.keeper) is None


def test_too_little_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "_FREE_BYTES", 1 << 60)
    assert any("GiB free" in reason for reason in preconditions._place(Paths(tmp_path / "not/yet")))


@pytest.mark.parametrize(
    ("mountinfo", "expected"),
    [
        ("30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"),
        (
            "31 30 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
            "40 30 0:36 / /sys/fs/cgroup/unified rw shared:8 master:1 - cgroup2 cgroup2 rw\n",
            "/sys/fs/cgroup/unified",
        ),
        ("31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", None),
        ("", None),
    ],
)
def test_cgroup2_is_found_alone_and_beside_version_1(mountinfo: str, expected: str | None) -> None:
    found = cgroup.hierarchy(mountinfo)
    assert (str(found) if found else None) == expected


def test_a_process_is_known_again_and_its_successor_is_not(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        found = identity.Identity.of(process.pid)
        assert found is not None
        identity.save(found, tmp_path / "keeper.json")
        assert identity.load(tmp_path / "keeper.json") == found
        other = json.loads((tmp_path / "keeper.json").read_text()) | {"start": found.start + 1}
        (tmp_path / "other.json").write_text(json.dumps(other))
        assert identity.load(tmp_path / "other.json") is None
        earlier = json.loads((tmp_path / "keeper.json").read_text()) | {"boot": "another boot"}
        (tmp_path / "earlier.json").write_text(json.dumps(earlier))
        assert identity.load(tmp_path / "earlier.json") is None
    finally:
        process.kill()
    # A zombie still has its pid and its start time, but it holds nothing any more.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert identity.load(tmp_path / "keeper.json") is None
    process.wait()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "start": 1, "boot": "b"}'])
def test_a_file_cut_short_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "keeper.json").write_text(text)
    assert identity.load(tmp_path / "keeper.json") is None


def test_every_state_root_has_names_of_its_own_in_the_kernel() -> None:
    one, other = Paths(Path("/var/lib/one")), Paths(Path("/var/lib/other"))
    assert one.cgroup != other.cgroup
    assert link.hardware_address(one) != link.hardware_address(other)
    first = int(link.hardware_address(one).split(":")[0], 16)
    assert first & 3 == 2, "locally administered, and not multicast"


def test_only_modules_that_came_and_that_nobody_uses_are_unloaded() -> None:
    text = "veth 40960 0 - Live 0x0\nbridge 421888 1 br_netfilter, Live 0x0\nllc 16384 2 bridge,stp, Live 0x0\n"
    assert modules.names(text) == {"veth", "bridge", "llc"}
    assert modules.unused(text) == {"veth"}
    assert modules.unused("") == modules.names("") == frozenset()
