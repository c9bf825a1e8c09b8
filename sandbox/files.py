"""The files below the state root that a stand-in host is started from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from sandbox import container, images, share
from sandbox.keeper import INSIDE
from sandbox.paths import ADDRESS, HOSTNAME, Paths
from sandbox.run import run


def prepare(paths: Paths, image: Path, say: Callable[[str], None]) -> None:
    """The files that the namespaces are made from; each is left alone where it is there already."""
    # A host's root is no business of the real machine's other users; the ids of its guests pass through.
    _folder(paths.root, 0o711)
    for folder in (paths.wheelhouse, paths.models, paths.share, paths.run, paths.lxc, paths.lxc / HOSTNAME):
        _folder(folder)
    _keys(paths)
    share.refresh(paths.share)
    _disk(paths, image, say)
    for folder in (paths.vz, paths.vz / "template", paths.vz / "template/cache"):
        _folder(folder)
    _linked(image / images.TEMPLATE, paths.vz / "template/cache" / images.TEMPLATE)
    (paths.lxc / HOSTNAME / "config").write_text(container.config(INSIDE), encoding="utf-8")


def _keys(paths: Paths) -> None:
    for key, comment in ((paths.client_key, "blackstart-sandbox"), (paths.host_key, f"root@{HOSTNAME}")):
        public = key.with_name(f"{key.name}.pub")
        if not (key.exists() and public.exists()):
            key.unlink(missing_ok=True)
            public.unlink(missing_ok=True)
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", key], what="making an SSH key")
    # The address is the sandbox's own, so this file names no other host.
    kind, material, *_ = paths.host_key.with_name(f"{paths.host_key.name}.pub").read_text().split()
    paths.known_hosts.write_text(f"{ADDRESS} {kind} {material}\n", encoding="ascii")


def _disk(paths: Paths, image: Path, say: Callable[[str], None]) -> None:
    """The host's own layer over the image; a layer over another image would be neither the one nor the other."""
    named = paths.disk / "image"
    if named.is_symlink() and os.readlink(named) != image.name:
        say("the image is a new one: starting with a fresh disk and no guests")
    if not named.is_symlink() or os.readlink(named) != image.name:
        forget_disk(paths)
        for part in ("", "work", "root", "upper", "upper/etc", "upper/etc/ssh"):
            _folder(paths.disk / part)
        for part in ("upper/root", "upper/root/.ssh"):
            _folder(paths.disk / part, 0o700)
    for key in (paths.host_key, paths.host_key.with_name(f"{paths.host_key.name}.pub")):
        shutil.copy2(key, paths.disk / "upper/etc/ssh" / key.name)
    _authorize(paths.client_key.with_name(f"{paths.client_key.name}.pub"), paths.disk / "upper/root/.ssh")
    if not named.is_symlink():
        named.symlink_to(image.name)


def _authorize(public: Path, folder: Path) -> None:
    """Let the key in, beside those that were added on the host."""
    authorized = folder / "authorized_keys"
    key = public.read_text(encoding="ascii")
    there = authorized.read_text(encoding="utf-8") if authorized.exists() else ""
    if key not in there:
        authorized.write_text(there + key, encoding="utf-8")
        authorized.chmod(0o600)


def _folder(path: Path, mode: int = 0o755) -> None:
    """Make a folder with this mode, whatever the caller's umask is."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def forget_disk(paths: Paths) -> None:
    """Forget the host's disk and its guests. The name of its image goes first: without it, it is no disk."""
    (paths.disk / "image").unlink(missing_ok=True)
    for folder in (paths.disk, paths.vz):
        if folder.exists():
            shutil.rmtree(folder)


def _linked(source: Path, target: Path) -> None:
    if target.exists() and target.stat().st_ino == source.stat().st_ino:
        return
    beside = target.with_name(f".{target.name}")
    beside.unlink(missing_ok=True)
    os.link(source, beside)
    beside.replace(target)
