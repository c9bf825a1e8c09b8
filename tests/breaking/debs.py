"""Debian packages that some hosts need and this machine may lack: fetched by its apt, kept, never installed here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path


def cache(name: str) -> Path:
    """A folder for what is fetched once."""
    return Path(os.environ.get("BLACKSTART_CACHE") or Path.home() / ".cache" / "blackstart") / name


def fetch(names: Iterable[str]) -> list[Path]:
    """The packages' files, from the cache where they are there."""
    found = []
    for name in names:
        folder = cache("debs") / name
        folder.mkdir(parents=True, exist_ok=True)
        if not list(folder.glob("*.deb")):
            options = ["-o", "APT::Sandbox::User=root"]
            ran = subprocess.run(["apt-get", "download", *options, name], cwd=folder, capture_output=True, text=True)
            if ran.returncode != 0:
                raise AssertionError(f"apt cannot fetch {name}: {ran.stderr.strip()}; try apt-get update")
        found += sorted(folder.glob("*.deb"))
    return found


def unpack(packages: Iterable[Path], layer: Path) -> None:
    """Put what packages hold into a layer, which must not turn a link like /lib into a folder."""
    for link in Path("/").iterdir():
        if link.is_symlink() and not (layer / link.name).is_symlink():
            (layer / link.readlink()).mkdir(parents=True, exist_ok=True)
            (layer / link.name).symlink_to(link.readlink())
    for package in packages:
        packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
        argv = ["tar", "--extract", "--preserve-permissions", "--keep-directory-symlink", "--directory", str(layer)]
        subprocess.run(argv, input=packed, check=True)


def installed(pattern: str) -> list[str]:
    """The packages of this machine whose names match."""
    argv = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", pattern]
    lines = subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()
    return [line.split()[0] for line in lines if line.endswith(" installed")]


def paragraph(package: Path, place: str) -> str:
    """What an index of a repository says of a package that lies at `place` in it."""
    control = subprocess.run(["dpkg-deb", "--field", str(package)], check=True, capture_output=True, text=True).stdout
    digest = subprocess.run(["sha256sum", str(package)], check=True, capture_output=True, text=True).stdout.split()[0]
    return f"{control.rstrip()}\nFilename: ./{place}\nSize: {package.stat().st_size}\nSHA256: {digest}\n"
