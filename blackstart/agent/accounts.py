"""System users and groups."""

import pwd

from .kind import Kind, Refused, Verdict
from .run import run


class Group(Kind):
    """A system group."""

    def check(self) -> Verdict:
        return Verdict(not self.world.knows_group(self.spec["group"]), "+ group " + self.spec["group"])

    def apply(self) -> None:
        _do(["groupadd", "-r", self.spec["group"]])

    def predict(self) -> None:
        self.world.would_add_group(self.spec["group"], self.name)


class User(Kind):
    """A system user without a password, with a primary group, a home and a shell."""

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
        return Verdict(bool(differing), "\n".join(differing))

    def apply(self) -> None:
        shape = ["-d", self.spec["home"], "-s", self.spec["shell"]]
        if self.world.uid(self.spec["user"]) is None:
            _do(["useradd", "-r", "-M", "-g", self.spec["group"], *shape, self.spec["user"]])
        else:
            _do(["usermod", *shape, self.spec["user"]])

    def predict(self) -> None:
        self.world.would_add_user(self.spec["user"], self.name)


def _do(argv: "list[str]") -> None:
    ran = run(argv)
    if ran.status != 0:
        raise Refused("%s ended with %d\n%s" % (" ".join(argv), ran.status, ran.tail()))
