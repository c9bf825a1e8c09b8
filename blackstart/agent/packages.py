"""Debian packages."""

import os
import re
from typing import List

from .kind import Kind, Refused, Verdict
from .run import run

NONINTERACTIVE = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l"}
LOCK_WAIT_S = 60

# apt's own words for a lock that is held and for a mirror or a name server that is ill.
PASSING = re.compile(
    r"Could not get lock|Unable to acquire the dpkg frontend lock|is another process using it"
    r"|locked by another process"
    r"|\b50[0234] +\w|Temporary failure resolving|Connection (refused|reset|timed out)|Could not connect"
)


def _in_pieces() -> List[str]:
    """Packages that died while they were unpacked: dpkg wants them unpacked anew before it does anything else."""
    ran = run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\\t${Package}\\n"])
    states = [line.split("\t") for line in ran.output.splitlines() if "\t" in line]
    return [name for state, name in states if state[2:3] == "R"]


class Apt(Kind):
    """Packages that are installed and configured. A dpkg run that was killed half-way is finished first."""

    def _missing(self) -> List[str]:
        wanted: List[str] = [name for name in self.spec["packages"] if not self.world.would_have(name)]
        if self.world.is_empty or not wanted:
            return wanted
        ran = run(["dpkg-query", "-W", "-f", "${Package}\t${Status}\n", *wanted])
        if ran.status == 127:
            raise Refused("this machine has no dpkg", "packages are declared for Debian and its relatives")
        installed = {line.split("\t")[0] for line in ran.output.splitlines() if line.endswith(" ok installed")}
        return [name for name in wanted if name not in installed]

    def check(self) -> Verdict:
        missing = self._missing()
        return Verdict(bool(missing), "\n".join("+ package " + name for name in missing), " ".join(missing))

    def apply(self) -> str:
        missing = self._missing()
        self.context.store.journal(resource=self.name, installed=missing)
        if os.path.isdir("/var/lib/dpkg/updates") and os.listdir("/var/lib/dpkg/updates"):
            # Whether it could is told by what is then left in pieces.
            run(["dpkg", "--configure", "-a"], env=NONINTERACTIVE, on_line=self.context.say)
        options = ["-o", "DPkg::Lock::Timeout=%d" % LOCK_WAIT_S, "-o", "Dpkg::Options::=--force-confold"]
        install = ["apt-get", "install", "-y", "--no-install-recommends", *options, *missing]
        in_pieces = _in_pieces()
        if in_pieces:
            install += ["--reinstall", *in_pieces]
        first = run(install, env=NONINTERACTIVE, on_line=self.context.say)
        if first.status != 0:
            # Most often the package lists are older than the mirror.
            self._run(["apt-get", "update", *options])
            self._run(install)
        return " ".join(missing)

    def _run(self, argv: List[str]) -> None:
        ran = run(argv, env=NONINTERACTIVE, on_line=self.context.say)
        if ran.status != 0:
            message = "%s ended with %d\n%s" % (" ".join(argv), ran.status, ran.tail())
            raise Refused(message, "see what apt says on this machine", passing=bool(PASSING.search(ran.output)))

    def predict(self) -> None:
        self.world.would_install(self.spec["packages"])
        for path in self.spec.get("provides", []):
            if self.world.entry(path).kind == "absent":
                self.world.would_provide(path, self.name)
        for user in self.spec.get("users", []):
            if self.world.uid(user) is None:
                self.world.would_add_user(user, self.name)
                self.world.would_add_group(user, self.name)
