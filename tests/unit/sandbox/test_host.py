"""Bringing up and taking down, as far as it can be told without a container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox import cgroup, host, images, link, packages
from sandbox import preconditions as machine
from sandbox.errors import SandboxError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BLACKSTART_SANDBOX_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(host, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(machine, "reasons", lambda paths: [])
    monkeypatch.setattr(link, "foreign", lambda paths: None)
    monkeypatch.setattr(link, "remove", lambda: None)
    monkeypatch.setattr(cgroup, "remove", lambda paths: None)
    return tmp_path / "state"


def test_what_cannot_work_is_refused_with_every_reason_and_nothing_is_touched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "reasons", lambda paths: ["no root", "no overlayfs"])
    with pytest.raises(SandboxError) as caught:
        host.up(lambda *_: pytest.fail("it went on"))
    assert "no root; no overlayfs" in caught.value.message
    assert caught.value.remedy
    assert not root.exists()


def test_down_needs_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match="needs root"):
        host.down(lambda *_: None)


def test_without_anything_the_state_is_absent_and_everything_is_named_as_simulated(root: Path) -> None:
    status = host.status()
    assert (status["state"], status["guests"], status["image_age_s"]) == ("absent", [], None)
    assert len(status["simulated"]) >= 4
    assert status["address"] == "203.0.113.2"


def test_purge_removes_what_the_sandbox_made_and_nothing_else(root: Path) -> None:
    for name in ("images/x", "disk", "vz", "wheelhouse", "run"):
        (root / name).mkdir(parents=True)
    (root / "id_ed25519").touch()
    (root / ".mine").touch()
    host.down(lambda *_: None, purge=True)
    assert [path.name for path in root.iterdir()] == [".mine"]
    (root / ".mine").unlink()
    host.down(lambda *_: None, purge=True)
    assert not root.exists()


def test_down_keeps_image_disk_and_guests_and_wipe_the_image_only(root: Path) -> None:
    for name in ("images/x", "disk/upper", "vz/images/200"):
        (root / name).mkdir(parents=True)
    host.down(lambda *_: None)
    assert (root / "vz/images/200").exists() and (root / "disk/upper").exists()
    host.down(lambda *_: None, wipe=True)
    assert not (root / "vz").exists() and not (root / "disk").exists()
    assert (root / "images/x").exists()


def test_what_the_machine_refuses_is_told_without_a_traceback(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device", "/var/lib/somewhere")

    monkeypatch.setattr(packages, "absent", lambda: [])
    monkeypatch.setattr(images, "build", full)
    with pytest.raises(SandboxError, match=r"No space left on device \(/var/lib/somewhere\)"):
        host.up(lambda *_: None)


def test_absent_packages_are_installed_first_and_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[object] = []
    monkeypatch.setattr(packages, "absent", lambda: ["mmdebstrap", "zstd"])
    monkeypatch.setattr(packages, "install", lambda names, line: steps.append(list(names)))
    monkeypatch.setattr(images, "build", lambda paths, progress: steps.append("build") or root)
    assert host.build(lambda stage, text: steps.append((stage, text))) == root
    assert steps == [("apt", "installing mmdebstrap, zstd"), ["mmdebstrap", "zstd"], "build"]
