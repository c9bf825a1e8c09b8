"""Where the sandbox keeps its things, and the addresses and names it uses."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

HOSTNAME = "pve1"
# Documentation networks (RFC 5737): nobody's real hosts are hidden by them.
ADDRESS = "203.0.113.2"
MACHINE_ADDRESS = "203.0.113.1"
PREFIX_LENGTH = 30
GUEST_NETWORK = "198.51.100.0/24"

MACHINE_LINK = "blackstart0"
HOST_LINK = "blackstart1"
# Of the whole machine: there is one address, so there is one sandbox at a time, whatever its state root.
LOCK = Path("/run/lock/blackstart-sandbox.lock")


@dataclass(frozen=True)
class Paths:
    """Every path below one state root."""

    root: Path

    @classmethod
    def default(cls) -> Paths:
        """The state root named by BLACKSTART_SANDBOX_DIR, else /var/lib/blackstart-sandbox."""
        return cls(Path(os.environ.get("BLACKSTART_SANDBOX_DIR") or "/var/lib/blackstart-sandbox").absolute())

    @property
    def digest(self) -> bytes:
        """What names, in the kernel, the things that belong to this state root and to no other."""
        return hashlib.sha256(str(self.root).encode()).digest()

    @property
    def cgroup(self) -> str:
        return f"blackstart-sandbox-{self.digest.hex()[:8]}"

    def own(self) -> tuple[Path, ...]:
        """Everything that the sandbox ever makes directly below its root."""
        folders = (self.images, self.disk, self.vz, self.lxc, self.run, self.share, self.wheelhouse, self.models)
        keys = (self.client_key, self.host_key)
        return (*folders, *keys, *(key.with_name(f"{key.name}.pub") for key in keys), self.known_hosts)

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def disk(self) -> Path:
        """The host's own writes over its image, which outlive a stop."""
        return self.root / "disk"

    @property
    def vz(self) -> Path:
        """The host's storage `local`: templates and the guests' root file systems."""
        return self.root / "vz"

    @property
    def lxc(self) -> Path:
        return self.root / "lxc"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def keeper(self) -> Path:
        """Names the process that holds the namespaces (pid and start time, as JSON)."""
        return self.run / "keeper.json"

    @property
    def log(self) -> Path:
        return self.run / "keeper.log"

    @property
    def modules(self) -> Path:
        """The kernel modules that were loaded before the sandbox was started."""
        return self.run / "modules-before"

    @property
    def share(self) -> Path:
        return self.root / "share"

    @property
    def wheelhouse(self) -> Path:
        return self.root / "wheelhouse"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def client_key(self) -> Path:
        return self.root / "id_ed25519"

    @property
    def host_key(self) -> Path:
        return self.root / "ssh_host_ed25519_key"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"
