"""Stand-ins for the commands that would reach the kernel, and for pveversion. Each says that it is SIMULATED."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PVE_VERSION = "9.1.1"
# What these stand-ins were told, so that a later question gets a consistent answer. Gone at the next boot.
_STATE = Path("/run/blackstart-simulated")
_REAL_SYSCTL = "/sbin/sysctl.real"


def pveversion(argv: Sequence[str]) -> int:
    """`pveversion [--verbose]`: on standard output as the real one, marked on standard error."""
    print("SIMULATED pveversion: this is no Proxmox", file=sys.stderr)
    kernel = Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
    if list(argv) in (["-v"], ["--verbose"]):
        print(f"proxmox-ve: 9.1.0 (running kernel: {kernel})")
        print(f"pve-manager: {_PVE_VERSION} (running version: {_PVE_VERSION}/simulated)")
        print("pve-container: 6.1.10\nlxc-pve: 5.0.2-simulated")
    else:
        print(f"pve-manager/{_PVE_VERSION}/simulated (running kernel: {kernel})")
    return 0


def modprobe(argv: Sequence[str]) -> int:
    """Loads nothing; remembers what it was asked for, for lsmod."""
    names = [word for word in argv if not word.startswith("-") and "=" not in word]
    removing = any(word in ("-r", "--remove") for word in argv)
    return _remember(names, loaded=not removing, command="modprobe")


def rmmod(argv: Sequence[str]) -> int:
    return _remember([word for word in argv if not word.startswith("-")], loaded=False, command="rmmod")


def _remember(names: Sequence[str], *, loaded: bool, command: str) -> int:
    print(f"SIMULATED {command}: the real kernel's modules are left alone", file=sys.stderr)
    folder = _STATE / "modules"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        file = folder / name.replace("-", "_").replace("/", "_")
        if loaded:
            file.touch()
        else:
            file.unlink(missing_ok=True)
    return 0


def lsmod(_: Sequence[str]) -> int:
    print("SIMULATED lsmod: the modules that the stand-in modprobe was asked for", file=sys.stderr)
    print("Module                  Size  Used by")
    folder = _STATE / "modules"
    for file in sorted(folder.iterdir()) if folder.is_dir() else []:
        print(f"{file.name:<19} {16384:>8}  0")
    return 0


def nothing(name: str) -> Callable[[Sequence[str]], int]:
    def command(_: Sequence[str]) -> int:
        print(f"SIMULATED {name}: does nothing here", file=sys.stderr)
        return 0

    return command


def sysctl(argv: Sequence[str]) -> int:
    """Reads pass through to the real command; what would be written is remembered and shown from then on."""
    writes, reads = sort_sysctl(argv, _read_file)
    if writes:
        print("SIMULATED sysctl: the real kernel's settings are left alone", file=sys.stderr)
        folder = _STATE / "sysctl"
        folder.mkdir(parents=True, exist_ok=True)
        for key, value in writes:
            (folder / key).write_text(value, encoding="utf-8")
            if not any(word in ("-q", "--quiet") for word in argv):
                print(f"{key} = {value}")
        return 0
    bare = any(re.fullmatch(r"-[a-z]*n[a-z]*|--values", word) for word in argv)
    keys = [word.replace("/", ".") for word in reads if not word.startswith("-")]
    if keys and all((_STATE / "sysctl" / key).is_file() for key in keys):
        for key in keys:
            value = (_STATE / "sysctl" / key).read_text(encoding="utf-8")
            print(value if bare else f"{key} = {value}")
        return 0
    return subprocess.run([_REAL_SYSCTL, *reads], check=False).returncode


def _read_file(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


def sort_sysctl(argv: Sequence[str], read: Callable[[str], str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Part a command line into (key, value) pairs to write and the words that only read.

    `-w` is implied by `=`; `-p FILE` and `--load=FILE` name files of assignments; `--system` all of them.
    """
    writes: list[tuple[str, str]] = []
    reads: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word in ("-w", "--write"):
            continue
        if word in ("-p", "--load") or word.startswith("--load="):
            files = [word.partition("=")[2]] if "=" in word else _files_after(words)
            for file in files:
                writes += assignments(read(file))
        elif word == "--system":
            for pattern in ("/usr/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d"):
                for file in sorted(str(path) for path in Path(pattern).glob("*.conf")):
                    writes += assignments(read(file))
        elif "=" in word and not word.startswith("-"):
            writes += assignments(word)
        else:
            reads.append(word)
    return writes, reads


def _files_after(words: list[str]) -> list[str]:
    files = []
    while words and not words[0].startswith("-"):
        files.append(words.pop(0))
    return files or ["/etc/sysctl.conf"]


def assignments(text: str) -> list[tuple[str, str]]:
    """The `key = value` lines of a sysctl file, without comments; a leading `-` (ignore failures) is dropped."""
    found = []
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        key = key.strip().removeprefix("-").strip()
        if equals and key and not key.startswith(("#", ";")):
            found.append((key.replace("/", "."), value.strip()))
    return found


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "pveversion": pveversion,
    "modprobe": modprobe,
    "rmmod": rmmod,
    "lsmod": lsmod,
    "insmod": nothing("insmod"),
    "depmod": nothing("depmod"),
    "sysctl": sysctl,
}
