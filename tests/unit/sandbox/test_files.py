"""The files that a host is made from: share, image, disk, keys."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import files, images, packages, share
from sandbox.errors import SandboxError
from sandbox.paths import Paths


def package(folder: Path) -> Path:
    source = folder / "sandbox"
    (source / "pct").mkdir(parents=True)
    (source / "__init__.py").write_text("")
    (source / "pct/cli.py").write_text("print('one')\n")
    (source / "hook").write_text("#!/bin/sh\n")
    (source / "hook").chmod(0o700)
    return source


def test_the_share_follows_the_package(tmp_path: Path) -> None:
    source = package(tmp_path)
    share.refresh(tmp_path / "share", source)
    copy = tmp_path / "share/sandbox"
    assert (copy / "pct/cli.py").read_text() == "print('one')\n"
    assert (copy / "hook").stat().st_mode & 0o777 == 0o755
    assert (copy / "pct/cli.py").stat().st_mode & 0o777 == 0o644
    assert list((copy / "pct/__pycache__").glob("cli.*.pyc"))

    before = (copy / "__init__.py").stat().st_ino
    (source / "pct/cli.py").write_text("print('two')\n")
    os.utime(source / "pct/cli.py", (1, 1))
    (source / "hook").unlink()
    (source / "new.py").write_text("")
    share.refresh(tmp_path / "share", source)
    assert (copy / "pct/cli.py").read_text() == "print('two')\n"
    assert not (copy / "hook").exists()
    assert (copy / "new.py").exists()
    assert (copy / "__init__.py").stat().st_ino == before, "what did not change was not written"

    (source / "pct/cli.py").unlink()
    share.refresh(tmp_path / "share", source)
    assert not list((copy / "pct").rglob("cli*"))


def test_a_half_built_image_is_none_and_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths(tmp_path)
    left = paths.images / ".building-1"
    (left / "root").mkdir(parents=True)
    other = paths.images / "0123456789abcdef"
    other.mkdir()
    assert images.present(paths) is None
    said: list[str] = []

    def mmdebstrap(argv: list[str], line: Callable[[str], None], **_: object) -> None:
        folder = next(paths.images.glob(".building-*"))
        (folder / "root").mkdir()
        line("I: running --customize-hook in shell: sh -c '/image/host-packages'")

    monkeypatch.setattr(images, "follow", mmdebstrap)
    monkeypatch.setattr(packages, "sources", lambda: ["deb http://mirror.example/debian bookworm main"])
    monkeypatch.setattr(packages, "apt_options", lambda: [])
    built = images.build(paths, lambda stage, text: said.append(stage))

    assert built == images.present(paths)
    assert [path.name for path in paths.images.iterdir()] == [built.name]
    assert said == ["guest image", "guest image", "host image", "host image"]
    assert images.build(paths, lambda *_: pytest.fail("built twice")) == built


def test_a_failed_build_is_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SandboxError("building the sandbox's images failed (exit 1)", "see above")

    monkeypatch.setattr(images, "follow", fails)
    monkeypatch.setattr(packages, "sources", lambda: [])
    monkeypatch.setattr(packages, "apt_options", lambda: [])
    with pytest.raises(SandboxError):
        images.build(Paths(tmp_path), lambda *_: None)
    assert images.present(Paths(tmp_path)) is None


def test_the_recipe_names_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = images.key()
    monkeypatch.setattr(packages, "HOST", (*packages.HOST, "less"))
    assert images.key() != before


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[Paths, Path]:
    paths = Paths(tmp_path / "state")
    image = paths.images / "aaaa"
    image.mkdir(parents=True)
    (image / images.TEMPLATE).write_bytes(b"template")
    files.prepare(paths, image, lambda text: pytest.fail(text))
    return paths, image


def test_a_host_is_prepared_once_and_then_left_alone(prepared: tuple[Paths, Path]) -> None:
    paths, image = prepared
    key = paths.client_key.read_bytes()
    authorized = paths.disk / "upper/root/.ssh/authorized_keys"
    authorized.write_text(authorized.read_text() + "ssh-ed25519 AAAA somebody's own\n")
    (paths.disk / "upper/etc/motd").write_text("mine")
    files.prepare(paths, image, lambda text: pytest.fail(text))
    assert paths.client_key.read_bytes() == key
    assert authorized.read_text().count("\n") == 2
    assert (paths.disk / "upper/etc/motd").read_text() == "mine"
    public = paths.host_key.with_name("ssh_host_ed25519_key.pub").read_text().split()[1]
    assert public in paths.known_hosts.read_text()
    assert (paths.vz / "template/cache" / images.TEMPLATE).stat().st_ino == (image / images.TEMPLATE).stat().st_ino


def test_half_a_key_pair_is_made_anew(prepared: tuple[Paths, Path]) -> None:
    paths, image = prepared
    paths.client_key.with_name("id_ed25519.pub").unlink()
    files.prepare(paths, image, lambda text: pytest.fail(text))
    derived = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(paths.client_key)], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert derived in (paths.disk / "upper/root/.ssh/authorized_keys").read_text()


def test_modes_do_not_follow_the_callers_umask(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "state")
    image = paths.images / "aaaa"
    image.mkdir(parents=True)
    (image / images.TEMPLATE).write_bytes(b"template")
    before = os.umask(0o077)
    try:
        files.prepare(paths, image, lambda text: pytest.fail(text))
    finally:
        os.umask(before)
    for folder in (
        paths.share,
        paths.wheelhouse,
        paths.models,
        paths.vz,
        paths.disk / "upper",
        paths.disk / "upper/etc",
    ):
        assert folder.stat().st_mode & 0o777 == 0o755, folder
    assert paths.client_key.stat().st_mode & 0o777 == 0o600


def test_another_image_means_a_fresh_disk_and_says_so(prepared: tuple[Paths, Path]) -> None:
    paths, image = prepared
    (paths.disk / "upper/etc/motd").write_text("mine")
    (paths.vz / "images/200").mkdir(parents=True)
    newer = image.with_name("bbbb")
    image.rename(newer)
    said: list[str] = []
    files.prepare(paths, newer, said.append)
    assert said == ["the image is a new one: starting with a fresh disk and no guests"]
    assert not (paths.disk / "upper/etc/motd").exists()
    assert not (paths.vz / "images/200").exists()


def test_a_disk_whose_making_was_cut_short_is_made_anew(prepared: tuple[Paths, Path]) -> None:
    paths, image = prepared
    (paths.disk / "image").unlink()
    (paths.disk / "upper/etc/half").touch()
    files.prepare(paths, image, lambda text: pytest.fail(text))
    assert not (paths.disk / "upper/etc/half").exists()
    assert (paths.disk / "image").readlink() == Path(image.name)
