"""The Debian packages: what the real machine needs, and what the images carry."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.run import follow, run

# program -> package. LXC is not among them: it runs from the host image, and so adds no unit here.
NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "zstd": "zstd",
    "tar": "tar",
    "ip": "iproute2",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "pivot_root": "util-linux",
}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

SUITE = "bookworm"
GUEST = ("systemd", "systemd-sysv", "dbus", "iproute2", "procps", "python3", "ca-certificates", "zstd")
HOST = ("lxc", "openssh-server")

_HANDED_ON = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries", "Acquire::ForceIPv")


def absent() -> list[str]:
    """The packages that the real machine still needs, in a fixed order."""
    path = ":".join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))
    missing = {package for program, package in NEEDED.items() if shutil.which(program, path=path) is None}
    if not KEYRING.exists():
        missing.add("debian-archive-keyring")
    return sorted(missing)


_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l"}
_PATIENT = ("-o", "DPkg::Lock::Timeout=120")


def install(names: Iterable[str], line: Callable[[str], None]) -> None:
    """Install packages on the real machine, without the ones that they only recommend.

    Raises:
        SandboxError: apt cannot (no network, no such package, a held lock).
    """
    # Where dpkg was killed half-way it keeps what it had not written yet here, and apt refuses to work.
    if any(Path("/var/lib/dpkg/updates").iterdir()):
        follow(["dpkg", "--configure", "-a"], line, env=_QUIET, what="dpkg --configure -a")
    _update(line)
    argv = ["apt-get", *_PATIENT, "install", "--yes", "--no-install-recommends", *names]
    follow(argv, line, env=_QUIET, what="apt-get install")
    still = absent()
    if still:
        raise SandboxError(f"still absent after apt-get install: {', '.join(still)}", "install them by hand")


def _update(line: Callable[[str], None]) -> None:
    follow(["apt-get", *_PATIENT, "update"], line, env=_QUIET, what="apt-get update")


def sources() -> list[str]:
    """The machine's own Debian 12 mirrors as one-line sources.

    Raises:
        SandboxError: apt names none.
    """
    found = sources_from(_index_targets())
    if not found:
        # Before the first update apt knows the names of its sources, but not whose they are.
        _update(lambda _: None)
        found = sources_from(_index_targets())
    if not found:
        raise SandboxError("apt names no mirror of Debian 12", "add one to /etc/apt/sources.list, then apt-get update")
    return found


def _index_targets() -> str:
    return run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(ORIGIN) $(CODENAME) $(REPO_URI) $(COMPONENT)",
            "Created-By: Packages",
        ],
        what="reading apt's sources",
    )


def sources_from(text: str) -> list[str]:
    """Pick, from lines of `ORIGIN CODENAME URI COMPONENT`, what the images are built from; none without Debian 12."""
    found: list[str] = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 4:
            continue
        origin, codename, uri, component = fields
        if origin == "Debian" and codename in (SUITE, f"{SUITE}-security") and component == "main":
            found.append(f"deb {uri} {codename} main")
    if not any(f" {SUITE} " in source for source in found):
        return []
    return list(dict.fromkeys(found))


def apt_options() -> list[str]:
    """The machine's own ways to a mirror (proxy, certificates, date checks), as apt configuration lines."""
    return apt_options_from(run(["apt-config", "dump"], what="reading apt's configuration"))


def apt_options_from(dump: str) -> list[str]:
    return [
        line for line in dump.splitlines() if line.startswith(_HANDED_ON) and not line.rstrip().endswith('""' + ";")
    ]
