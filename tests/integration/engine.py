"""Environments of real SGLang releases without their GPU packages, and simulated engines running in them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from sandbox import model
from sandbox.wheelhouse import fill, pip_platforms
from tests.waiting import wait_for

PROJECT = Path(__file__).parents[2]
LOCK = PROJECT / "inventory" / "locks" / "sglang-0.5.9-sandbox.txt"
LOCKED_RELEASE = "0.5.9"


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blackstart" / "tests"


def wheel(release: str) -> Path:
    """SGLang's wheel of that release, downloaded once."""
    folder = cache() / "sglang" / release
    if not list(folder.glob("*.whl")):
        platforms = [f"--platform={tag}" for tag in ["manylinux_2_39_x86_64", *pip_platforms("x86_64")]]
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        command += [*platforms, "--python-version=3.11", f"sglang=={release}", "--dest", str(folder)]
        subprocess.run(command, check=True)
    (found,) = folder.glob("*.whl")
    return found


def environment(folder: Path, release: str = LOCKED_RELEASE) -> Path:
    """Install the sandbox's lock into a new environment, with that SGLang; its Python."""
    house = cache() / "wheelhouse"
    fill([LOCK], house, lambda said: None)
    uv = [sys.executable, "-m", "uv", "--quiet"]
    offline = ["--no-config", "--offline", "--no-index", "--link-mode=copy"]
    python = folder / "bin" / "python"
    subprocess.run([*uv, "venv", "--python", "3.11", "--no-python-downloads", str(folder)], check=True)
    where = ["--python", str(python)]
    install = [*uv, "pip", "sync", *offline, *where, "--find-links", str(house), "--require-hashes", str(LOCK)]
    subprocess.run(install, check=True)
    if release != LOCKED_RELEASE:
        subprocess.run([*uv, "pip", "install", *offline, "--no-deps", *where, str(wheel(release))], check=True)
    return python


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Engine:
    """A simulated engine in a process of its own, with its output in a file."""

    python: Path
    folder: Path
    flags: tuple[str, ...] = ()
    scale: float = 20.0
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_file = self.folder / f"engine-{self.port}.log"
        self.model = model.build(self.folder)
        command = [str(self.python), "-m", "sandbox.engine", "--model-path", str(self.model)]
        command += ["--served-model-name", "glm-5", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--quantization", "modelopt_fp4", "--mem-fraction-static", "0.95", *self.flags]
        variables = os.environ | {"PYTHONPATH": str(PROJECT), "SIMULATED_ENGINE_TIMESCALE": str(self.scale)}
        with self.log_file.open("w") as output:
            self.process = subprocess.Popen(command, cwd=self.folder, env=variables, stdout=output, stderr=output)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()
        wait_for(lambda: not self.children(), "the children to end")

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def children(self) -> dict[int, str]:
        """The titles of the running processes that it started, by process id."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                title = (entry / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if title.startswith("sglang::") and parent in (self.process.pid, 1) and self._mine(entry):
                found[int(entry.name)] = title
        return found

    def _mine(self, entry: Path) -> bool:
        try:
            return (entry / "cwd").readlink() == self.folder
        except OSError:
            return False

    def health(self) -> int | None:
        """The status of GET /health; None where nothing listens."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=30) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return None

    def ready(self) -> Engine:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.log
            return self.health() == 200

        wait_for(is_ready, f"{self.url} to be ready")
        return self

    def wait_for(self, text: str) -> None:
        wait_for(lambda: text in self.log, f"{text!r} in the log")
