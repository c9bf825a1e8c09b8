"""System users and groups."""

import os
import pwd
from typing import List

from .kind import Kind, Refused, Verdict
from .run import run
from .world import Unknown, group_name


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
        self.context.store.journal(resource=self.name, group=group)
        if self.world.gid(group) is None:
            _do(["groupadd", "-r", group])
        else:
            _do(["grpconv"])
            _do(["groupmod", "-p", "!", group])  # as groupadd leaves it

    def predict(self) -> None:
        if not self.world.knows_group(self.spec["group"]):
            self.world.would_add_group(self.spec["group"], self.name)


class User(Kind):
    """A system user without a password, with a primary group, a home and a shell.

    One that a killed useradd left without its shadow entry is given one.
    """

    def check(self) -> Verdict:
        user, group = self.spec["user"], self.spec["group"]
        if not self.world.knows_group(group):
            raise Refused("there is no group %s for user %s" % (group, user), "create the group first")
        if not self.world.knows_user(user):
            return Verdict(True, "+ user " + user)
        if self.world.would_have_user(user):
            return Verdict(False)
        differing = self._differing(pwd.getpwnam(user))
        if self._lacks_shadow():
            differing.append("+ shadow entry of user " + user)
        return Verdict(bool(differing), "\n".join(differing))

    def _differing(self, found: pwd.struct_passwd) -> List[str]:
        # Groups are told apart by number: one number may have several names.
        group = group_name(found.pw_gid) if self._is_of_another_group(found.pw_gid) else self.spec["group"]
        return [
            "%s: %s %s -> %s" % (self.spec["user"], what, old, self.spec[what])
            for what, old in (("group", group), ("home", found.pw_dir), ("shell", found.pw_shell))
            if old != self.spec[what]
        ]

    def _is_of_another_group(self, gid: int) -> bool:
        try:
            return self.world.gid(self.spec["group"]) != gid
        except Unknown:
            return True  # a group that is yet to be made is nobody's

    def apply(self) -> None:
        user = self.spec["user"]
        named = {what: self.spec[what] for what in ("user", "group", "home", "shell")}
        self.context.store.journal(resource=self.name, **named)
        shape = ["-g", self.spec["group"], "-d", self.spec["home"], "-s", self.spec["shell"]]
        if self.world.uid(user) is None:
            _do(["useradd", "-r", "-M", *shape, user])
        else:
            if self._lacks_shadow():
                _do(["pwconv"])
                _do(["usermod", "-p", "!", user])  # as useradd leaves it, and so the next
                _do(["chage", "-m", "-1", "-M", "-1", "-W", "-1", user])
            _do(["usermod", *shape, user])

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
