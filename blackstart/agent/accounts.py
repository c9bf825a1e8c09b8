"""System users and groups."""

import os
import pwd

from .kind import Kind, Refused, Verdict
from .run import run


class Group(Kind):
    """A system group. One that a killed groupadd left without its shadow entry is given one."""

    def check(self) -> Verdict:
        group = self.spec["group"]
        if not self.world.knows_group(group):
            return Verdict(True, "+ group " + group)
        lacking = _lacks_shadow(self, "/etc/group", "/etc/gshadow", group)
        return Verdict(lacking, "+ shadow entry of group " + group)

    def apply(self) -> None:
        group = self.spec["group"]
        _do(["grpconv"] if self.world.gid(group) is not None else ["groupadd", "-r", group])
        self.context.store.journal(resource=self.name, group=group)

    def predict(self) -> None:
        self.world.would_add_group(self.spec["group"], self.name)


class User(Kind):
    """A system user without a password, with a primary group, a home and a shell.

    One that a killed useradd left without its shadow entry is given one.
    """

    def check(self) -> Verdict:
        user, group = self.spec["user"], self.spec["group"]
        if not self.world.knows_user(user):
            if not self.world.knows_group(group):
                raise Refused("there is no group %s for user %s" % (group, user), "create the group first")
            return Verdict(True, "+ user " + user)
        if self.world.would_have_user(user):
            return Verdict(False)
        found = pwd.getpwnam(user)
        differing = [
            "%s: %s %s -> %s" % (user, what, old, new)
            for what, old, new in (
                ("home", found.pw_dir, self.spec["home"]),
                ("shell", found.pw_shell, self.spec["shell"]),
            )
            if old != new
        ]
        if self._lacks_shadow():
            differing.append("+ shadow entry of user " + user)
        return Verdict(bool(differing), "\n".join(differing))

    def apply(self) -> None:
        user = self.spec["user"]
        shape = ["-d", self.spec["home"], "-s", self.spec["shell"]]
        if self.world.uid(user) is None:
            _do(["useradd", "-r", "-M", "-g", self.spec["group"], *shape, user])
        else:
            if self._lacks_shadow():
                _do(["pwconv"])
                _do(["usermod", "-p", "!", user])  # as useradd leaves it
            _do(["usermod", *shape, user])
        self.context.store.journal(resource=self.name, user=user, home=self.spec["home"], shell=self.spec["shell"])

    def _lacks_shadow(self) -> bool:
        return _lacks_shadow(self, "/etc/passwd", "/etc/shadow", self.spec["user"])

    def predict(self) -> None:
        self.world.would_add_user(self.spec["user"], self.name)


def _lacks_shadow(kind: Kind, plain: str, shadow: str, name: str) -> bool:
    """Whether a local account has no entry in the shadow file; one that we may not read lacks nothing."""
    if kind.world.is_empty or not os.access(shadow, os.R_OK):
        return False
    return _is_listed(kind, plain, name) and not _is_listed(kind, shadow, name)


def _is_listed(kind: Kind, path: str, name: str) -> bool:
    content = kind.world.read(path) or b""
    return any(line.startswith(name.encode() + b":") for line in content.splitlines())


def _do(argv: "list[str]") -> None:
    ran = run(argv)
    if ran.status != 0:
        raise Refused("%s ended with %d\n%s" % (" ".join(argv), ran.status, ran.tail()))
