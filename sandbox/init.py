"""Process 1 of the sandbox's namespaces: runs the stand-in host and takes in orphans.

Runs with the image's own Python, alone (no other module of this package), and lives as long as the host's
container: a sandbox either runs whole or not at all.
"""

from __future__ import annotations

import os
import sys


def main(state: str, name: str) -> int:
    container = os.posix_spawn(
        "/usr/bin/lxc-start",
        [
            *("lxc-start", "--foreground", "--lxcpath", f"{state}/lxc", "--name", name),
            *("--logfile", f"{state}/run/lxc.log", "--logpriority", "WARN"),
        ],
        os.environ,
    )
    while True:
        pid, status = os.wait()
        if pid == container:
            return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
