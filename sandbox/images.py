"""The image of the host and the template of its guests, built once and cached.

An image is named by a digest of all that goes into it. It is built beside its place and then renamed there, so
that a folder of that name is always a whole one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sandbox import packages
from sandbox.paths import Paths
from sandbox.run import follow

TEMPLATE = "debian-12-standard_12.7-1_amd64.tar.zst"
_RECIPE = Path(__file__).with_name("image")
# Used from the share by a running host: no part of the image.
_AT_RUN_TIME = "gpu-nodes"
_HOOKS = ("guest-template", "host-packages", "host-files")


def key() -> str:
    """The digest that names the image."""
    digest = hashlib.sha256()
    for part in (packages.SUITE, *packages.GUEST, "|", *packages.HOST, os.uname().machine):
        digest.update(part.encode() + b"\0")
    for path in sorted(p for p in _RECIPE.rglob("*") if p.is_file() and p.name != _AT_RUN_TIME):
        digest.update(str(path.relative_to(_RECIPE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def present(paths: Paths) -> Path | None:
    """The folder of the current image, if it is built: it holds `root` and the guest template."""
    folder = paths.images / key()
    return folder if folder.is_dir() else None


def build(paths: Paths, progress: Callable[[str, str], None]) -> Path:
    """Build what is absent.

    Raises:
        SandboxError: mmdebstrap fails (no mirror, no space, …); what it said is in the message.
    """
    found = present(paths)
    if found:
        return found
    paths.images.mkdir(parents=True, exist_ok=True)
    for left_over in paths.images.glob(".building-*"):
        _remove_tree(left_over)
    beside = paths.images / f".building-{os.getpid()}"
    (beside / "tmp").mkdir(parents=True)
    stage = "guest image"
    progress(stage, f"installing {len(packages.GUEST)} packages and what they need")
    started = time.monotonic()

    def line(text: str) -> None:
        nonlocal stage, started
        if "customize" in text and "host-packages" in text:
            progress(stage, f"done in {time.monotonic() - started:.0f} s")
            stage, started = "host image", time.monotonic()
            progress(stage, f"installing {', '.join(packages.HOST)} on top")

    follow(_argv(beside), line, env=_environment(beside), what="building the sandbox's images")
    progress(stage, f"done in {time.monotonic() - started:.0f} s")
    shutil.rmtree(beside / "tmp")
    (beside / "built").write_text(f"{time.time():.0f}\n", encoding="ascii")
    os.sync()
    beside.rename(paths.images / key())
    for other in paths.images.iterdir():
        if other.name != key():
            _remove_tree(other)
    return paths.images / key()


def _remove_tree(folder: Path, patience_s: float = 10.0) -> None:
    """Remove a folder in which processes that have just been killed may still finish a system call."""
    until = time.monotonic() + patience_s
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _argv(folder: Path) -> list[str]:
    # In namespaces of its own, and killed with its caller: no process and no mount of it outlives either.
    return [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "--"),
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"),
        "--include=" + ",".join(packages.GUEST),
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--aptopt={option}" for option in packages.apt_options()),
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{unread}/*" for unread in ("man", "doc", "info", "locale")),
        *(f"--customize-hook={_RECIPE / hook}" for hook in _HOOKS),
        packages.SUITE,
        str(folder / "root"),
        *packages.sources(),
    ]


def _environment(folder: Path) -> dict[str, str]:
    return {
        "GUEST_TEMPLATE": str(folder / TEMPLATE),
        "HOST_PACKAGES": " ".join(packages.HOST),
        "HOST_FILES": str(_RECIPE / "host"),
        "TMPDIR": str(folder / "tmp"),
    }
