"""A host for `pct` in a folder: its files are real, its devices, bridges and running containers are data."""

from __future__ import annotations

import os
import stat
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandbox.pct import cli, guest, lxcconf, storage, store

SGLANG = """\
arch: amd64
cores: 2
dev0: /dev/nvidia0,mode=0666
dev1: /dev/nvidiactl,mode=0666
dev2: /dev/nvidia-uvm,mode=0666
features: nesting=1
hostname: sglang
memory: 2048
net0: name=eth0,bridge=vmbr0,hwaddr=BC:24:11:54:B4:CA,ip=192.0.2.50/24,type=veth
onboot: 1
ostype: debian
rootfs: local:200/subvol-200-disk-0.subvol,size=0T
startup: order=5,up=10
swap: 0
"""
NAMELESS = """\
arch: amd64
memory: 512
net0: name=eth0,bridge=vmbr9,hwaddr=BC:24:11:00:00:01,ip=10.0.0.1/24,type=veth
ostype: debian
rootfs: local:203/subvol-203-disk-0.subvol,size=0T
swap: 512
"""


@dataclass
class World:
    """What a case may change before it runs a command."""

    root: Path
    running: set[int] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    bridges: set[str] = field(default_factory=lambda: {"vmbr0"})

    def write(self, vmid: int, text: str) -> None:
        (self.root / "etc/pve/lxc" / f"{vmid}.conf").write_text(text, encoding="utf-8")

    def read(self, vmid: int) -> str:
        return (self.root / "etc/pve/lxc" / f"{vmid}.conf").read_text(encoding="utf-8")

    def remove(self, vmid: int) -> None:
        (self.root / "etc/pve/lxc" / f"{vmid}.conf").unlink(missing_ok=True)

    def script(self, name: str, text: str, mode: int) -> None:
        path = self.root / "vz/snippets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def stat(self, path: str) -> os.stat_result:
        """Any path below /dev is a character device 1:3, unless the case says that it is absent."""
        if not path.startswith("/dev/") or path in self.absent or path in ("/dev/nvidia99", "/dev/nvidia77"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return _Device(stat.S_IFCHR | 0o666, os.makedev(1, 3))  # type: ignore[return-value]

    def pct(self, *argv: str) -> int:
        return cli.main(argv)


@dataclass
class _Device:
    st_mode: int
    st_rdev: int


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    for folder in ("etc/pve/lxc", "vz/template/cache", "vz/images", "lxc", "lock", "net"):
        (tmp_path / folder).mkdir(parents=True)
    for template in ("debian-12-mini_12.0_amd64.tar.gz", "debian-12-standard_12.99-1_amd64.tar.zst"):
        (tmp_path / "vz/template/cache" / template).touch()
    (tmp_path / "net/vmbr0").touch()
    made.write(200, SGLANG)
    made.write(203, NAMELESS)
    monkeypatch.setattr(store, "FOLDER", tmp_path / "etc/pve/lxc")
    monkeypatch.setattr(store, "_LOCKS", tmp_path / "lock")
    monkeypatch.setattr(storage, "ROOT", tmp_path / "vz")
    monkeypatch.setattr(storage, "_STORAGES", {"local": tmp_path / "vz"})
    monkeypatch.setattr(lxcconf, "LXC", tmp_path / "lxc")
    monkeypatch.setattr(guest, "_LINKS", tmp_path / "net")
    fake_os = types.SimpleNamespace(stat=made.stat, major=os.major, minor=os.minor, cpu_count=lambda: 8)
    monkeypatch.setattr(lxcconf, "os", fake_os)
    monkeypatch.setattr(guest, "running", lambda vmid: vmid in made.running)
    monkeypatch.setattr(guest, "launch", lambda vmid, config, devices: made.running.add(vmid))
    monkeypatch.setattr(guest, "stop", made.running.discard)
    monkeypatch.setattr(guest, "shutdown", lambda vmid, timeout, force: made.running.discard(vmid))
    monkeypatch.setattr(guest, "prepare", lambda *_: None)
    monkeypatch.setattr(guest, "unmount_passthrough", lambda vmid: None)
    monkeypatch.setattr(storage, "_unpack", _nothing_to_unpack)
    return made


def _nothing_to_unpack(*_: Any) -> int:
    return 0
