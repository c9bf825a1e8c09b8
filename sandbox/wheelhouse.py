"""The wheelhouse: every wheel that the sandbox's locks name, fetched once and kept.

The guest has no route out, so the controller fetches for it, with this machine's own pip configuration
(proxy, index and certificates as they are). What is fetched is decided by the locks' hashes alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sandbox.errors import SandboxError

GUEST_PYTHON = "3.11"
GUEST_GLIBC_MINOR = 36
OLDEST_GLIBC_MINOR = 5
ARCHITECTURES = ("x86_64", "aarch64")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Requirement:
    """One pinned package of a lock: its normalised name, its version, and the sha256 of its known files."""

    name: str
    version: str
    sha256: frozenset[str]

    def as_pip_line(self) -> str:
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in sorted(self.sha256))
        return f"{self.name}=={self.version} {hashes}"


@dataclass(frozen=True)
class Seal:
    """What a verified wheel looked like; while it still looks so, it is not read again."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, wheel: Path) -> Seal:
        found = wheel.stat()
        return cls(found.st_size, found.st_mtime_ns)

    def holds_for(self, wheel: Path) -> bool:
        try:
            return Seal.of(wheel) == self
        except FileNotFoundError:
            return False


def fill(locks: Sequence[Path], into: Path, progress: Progress) -> list[Path]:
    """Bring every wheel that `locks` name into the folder `into`, and return their paths, sorted.

    A lock that was filled before costs one stat a wheel. Whatever is missing or damaged (a fill that was
    killed, a file that was cut) is fetched again; a wheel is in `into` only once its sha256 was checked.

    Raises SandboxError: a lock that cannot be read or pins a package without hashes, an architecture without
    wheels, no pip, or a download that failed.
    """
    texts = [_read(lock) for lock in locks]
    sealed = [_sealed_wheels(_marker(lock, text, into)) for lock, text in zip(locks, texts, strict=True)]
    if all(seals is not None for seals in sealed):
        return sorted({into / name for seals in sealed if seals for name in seals})
    into.mkdir(parents=True, exist_ok=True)
    with _one_filler(into, progress):
        wheels = [_fill_one(lock, text, into, progress) for lock, text in zip(locks, texts, strict=True)]
    return sorted({wheel for filled in wheels for wheel in filled})


def parse_lock(text: str, source: str) -> list[Requirement]:
    """The requirements of a lock in pip's hash-checking form. `source` names it in errors."""
    requirements = []
    for line in text.replace("\\\n", " ").splitlines():
        stripped = re.sub(r"(^|\s)#.*", "", line).strip()
        if not stripped:
            continue
        found = re.match(r"([A-Za-z0-9][\w.-]*)==([\w.!+-]+)(?=[\s;]|$)", stripped)
        sha256 = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})\b", stripped))
        if found is None or not sha256:
            raise SandboxError(
                f"{source}: {stripped[:80]!r} is not a package pinned with == and a sha256",
                "make the lock again with the command at the top of its .in file",
            )
        requirements.append(Requirement(_normalised(found[1]), found[2], sha256))
    if not requirements:
        raise SandboxError(f"{source} names no package", "restore it from the repository")
    return requirements


def pip_platforms(machine: str) -> list[str]:
    """pip's platform tags, best first, of a Debian 12 guest on this architecture."""
    minors = range(GUEST_GLIBC_MINOR, OLDEST_GLIBC_MINOR - 1, -1)
    return [f"manylinux_2_{minor}_{machine}" for minor in minors] + [
        f"manylinux2014_{machine}",
        f"linux_{machine}",
    ]


def _fill_one(lock: Path, text: str, into: Path, progress: Progress) -> list[Path]:
    marker = _marker(lock, text, into)
    seals = _sealed_wheels(marker)
    if seals is not None:
        return [into / name for name in seals]
    requirements = parse_lock(text, str(lock))
    present = _verified_wheels(requirements, into)
    missing = [requirement for requirement in requirements if requirement not in present]
    if missing:
        progress(f"{lock.name}: {len(missing)} of {len(requirements)} wheels to fetch")
        _fetch(missing, into, progress)
        present = _verified_wheels(requirements, into)
        absent = [requirement.name for requirement in requirements if requirement not in present]
        if absent:
            raise SandboxError(
                f"{lock.name}: pip fetched no wheel with a hash of the lock for {', '.join(absent)}",
                "check which index pip is configured for (pip config list), then run it again",
            )
    _write_marker(marker, present.values())
    progress(f"{lock.name}: {len(present)} wheels, verified")
    return list(present.values())


def _verified_wheels(requirements: Sequence[Requirement], into: Path) -> dict[Requirement, Path]:
    """Which requirements have a wheel here whose content is one that the lock names."""
    by_release = {(requirement.name, requirement.version): requirement for requirement in requirements}
    verified = {}
    for wheel in sorted(into.glob("*.whl")):
        name, _, rest = wheel.name.partition("-")
        requirement = by_release.get((_normalised(name), rest.partition("-")[0]))
        if requirement is None:
            continue
        if _sha256(wheel) in requirement.sha256:
            verified[requirement] = wheel
        else:
            wheel.unlink()
    return verified


def _fetch(missing: Sequence[Requirement], into: Path, progress: Progress) -> None:
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise SandboxError(f"the sandbox has no wheels for {machine}", f"run it on {' or '.join(ARCHITECTURES)}")
    # pip copies into its destination file by file; only whole files may appear in the wheelhouse.
    for leftover in into.glob(".incoming-*"):
        shutil.rmtree(leftover)
    incoming = Path(tempfile.mkdtemp(prefix=".incoming-", dir=into))
    try:
        wanted = incoming / "requirements.txt"
        wanted.write_text("".join(requirement.as_pip_line() + "\n" for requirement in missing))
        _pip_download(wanted, incoming, machine, len(missing), progress)
        for wheel in incoming.glob("*.whl"):
            os.chmod(wheel, 0o644)
            wheel.replace(into / wheel.name)
    finally:
        shutil.rmtree(incoming)


def _pip_download(wanted: Path, into: Path, machine: str, count: int, progress: Progress) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--progress-bar=off"]
    command += ["--no-deps", "--require-hashes", "--only-binary=:all:", "--disable-pip-version-check"]
    command += ["--implementation=cp", f"--python-version={GUEST_PYTHON}"]
    command += [f"--abi={abi}" for abi in ("cp" + GUEST_PYTHON.replace(".", ""), "abi3", "none")]
    command += [f"--platform={tag}" for tag in pip_platforms(machine)]
    command += ["--dest", str(into), "--requirement", str(wanted)]
    said: list[str] = []
    done = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        try:
            for line in pip.stdout:
                said.append(line.rstrip())
                collected = re.match(r"Collecting ([^ ]+)|Processing .*/([^/ -]+-[^/ -]+)-[^/ ]+\.whl", line)
                if collected:
                    done += 1
                    progress(f"wheel {done} of {count}: {collected[1] or collected[2]}")
        except BaseException:
            pip.kill()
            raise
    if pip.returncode != 0:
        raise _download_error(said)


def _download_error(said: Sequence[str]) -> SandboxError:
    text = "\n".join(said)
    errors = [line for line in said if line.startswith("ERROR")] or list(said[-3:])
    message = "pip could not fetch the wheels: " + " | ".join(errors)[:600]
    if "No module named pip" in text:
        return SandboxError(
            f"this Python ({sys.executable}) has no pip to fetch wheels with",
            f"run: {sys.executable} -m ensurepip",
        )
    if "DO NOT MATCH THE HASHES" in text:
        return SandboxError(
            "the index serves a file that is not the one locked: " + " | ".join(said[-8:])[:600],
            "check which index pip is configured for (pip config list); nothing of it was kept",
        )
    return SandboxError(message, "check the network and pip's configuration (pip config list), run it again")


@contextmanager
def _one_filler(into: Path, progress: Progress) -> Iterator[None]:
    with (into / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another run that fills {into}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(lock: Path) -> str:
    try:
        return lock.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"cannot read the lock {lock}: {error}", "restore it from the repository") from error


def _marker(lock: Path, text: str, into: Path) -> Path:
    key = f"{platform.machine()} {GUEST_PYTHON} {GUEST_GLIBC_MINOR}\n{text}"
    return into / f".{lock.stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _sealed_wheels(marker: Path) -> dict[str, Seal] | None:
    """The wheels that this marker vouches for; None where there is none or a wheel changed since."""
    try:
        recorded = json.loads(marker.read_text(encoding="utf-8"))
        seals = {name: Seal(**seal) for name, seal in recorded.items()}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError):  # a marker that is not one of ours: fill again
        return None
    intact = all(seal.holds_for(marker.parent / name) for name, seal in seals.items())
    return seals if intact else None


def _write_marker(marker: Path, wheels: Iterable[Path]) -> None:
    """Last of all: a fill that is killed before this is looked at again, and one after it is complete."""
    seals = {wheel.name: asdict(Seal.of(wheel)) for wheel in wheels}
    unfinished = marker.with_suffix(".new")
    unfinished.write_text(json.dumps(seals, indent=1), encoding="utf-8")
    unfinished.replace(marker)


def _sha256(wheel: Path) -> str:
    with wheel.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
