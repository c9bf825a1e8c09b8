"""A role with every kind of resource, in the relations to each other that go wrong most easily."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pydantic import BaseModel

from blackstart import resources
from blackstart.plan import Facts, Probe, Role, State
from blackstart.resources import Replacement, Resource, Restart
from blackstart.secrets import reveal

from .layer import PACKAGE, PACKAGE_USER, tool_archive

UNIT = "sample.service"
HANDLER = f"restart {UNIT}"
FOLDER = f"/var/lib/{PACKAGE}"
SET_NAME = "the set"


class Variables(BaseModel):
    """`rich_token` refers to a secret."""

    inventory_hostname: str
    rich_token: dict[str, str] | None = None

    def token(self) -> str:
        return reveal(self.rich_token, "rich_token") if self.rich_token else "no secret"


def defaults() -> dict[str, object]:
    """As roles/*/defaults.yml would declare them."""
    return {"rich_token": None}


def settings() -> str:
    return "".join(f"setting-{number} = {number}\n" for number in range(200))


def big() -> str:
    return "0123456789abcdef" * (3 << 16)


def probes(variables: Variables) -> Sequence[Probe]:
    return [{"probe": "files", "pattern": "/srv/rich-set/*.py"}]


def state(variables: Variables, facts: Facts) -> State:
    """The set's new contents derive from what is found, as those of source patches do."""
    return State([*declared(variables), *done(variables, facts[0])], {HANDLER: Restart(UNIT)})


def declared(variables: Variables) -> list[Resource]:
    """What is declared: a check predicts it exactly."""
    return [
        resources.packages(
            PACKAGE, provides=[f"/etc/{PACKAGE}.conf", FOLDER, f"{FOLDER}/README"], users=[PACKAGE_USER]
        ),
        resources.group("richers"),
        resources.user("rich", group="richers", home="/srv/rich"),
        resources.directory("/srv/rich", mode="0750", owner="rich", group="richers"),
        resources.directory("/srv/rich/deep/er/est"),
        resources.file("/srv/rich/settings.conf", settings(), notify=(HANDLER,)),
        resources.file("/srv/rich/token", variables.token(), mode="0600", owner="rich", secret=True),
        resources.file("/etc/rich/old.conf", "new = yes\n"),
        resources.file("/srv/rich/big", big(), mode="0640", group="richers"),
        resources.lines("/etc/rich/modules", ["nvidia", "nvidia-uvm"], before="# end"),
        resources.lines("/etc/rich/new-lines", ["first", "second"], mode="0640"),
        resources.link("/srv/rich/current", "deep/er"),
        resources.link("/etc/rich/link", "old.conf"),
        resources.file("/srv/rich/current/inside", "behind a link\n"),
        resources.absent("/etc/rich/obsolete"),
        resources.absent("/etc/rich/old-tree", recursive=True),
        resources.tree("/srv/rich-tree", owner="rich", group="richers"),
        resources.unit("other.service", enabled=True, running=True),
    ]


def done(variables: Variables, found: dict[str, dict[str, str]]) -> list[Resource]:
    """What programs do, and what builds on it."""
    return [
        resources.lines(f"/etc/{PACKAGE}.conf", ["added = yes"], before="# end"),
        resources.directory(f"{FOLDER}/extra", owner=PACKAGE_USER, group=PACKAGE_USER),
        resources.command(
            "made in steps", ["sh", "-ec", STEPS, "sh", "/srv/rich/made"], creates="/srv/rich/made/complete"
        ),
        resources.file("/srv/rich/made/settings", "in a made folder\n"),
        resources.command(
            "a line", ["sh", "-ec", "echo by-command >>/etc/rich/by-command"],
            line={"path": "/etc/rich/by-command", "line": "by-command"},
        ),
        resources.command(
            "fed", ["sh", "-ec", "cat >/srv/rich/.fed && mv /srv/rich/.fed /srv/rich/fed"],
            stdin="fed by stdin\n" * 5000, creates="/srv/rich/fed",
        ),
        resources.archive("/srv/tool", "/srv/source/tool.tar", [hashlib.sha256(tool_archive()).hexdigest()]),
        resources.fileset(SET_NAME, [_replacement(path, file) for path, file in sorted(found.items())]),
        resources.job(
            "long work", ["sh", "-ec", JOB], creates="/srv/rich/job-done", credentials={"token": variables.token()}
        ),
    ]  # fmt: skip


# Each can be killed anywhere and begun again, as whatever a role runs must be: the mark of completion comes last.
STEPS = """
mkdir -p "$1"
for part in 1 2 3 4 5; do echo "part $part" >"$1/part-$part"; done
touch "$1/complete"
"""
JOB = """
echo started
test -n "$(cat "$CREDENTIALS_DIRECTORY/token")"
for part in 1 2 3; do echo "part $part"; echo "$part" >/srv/rich/job-part-$part; done
touch /srv/rich/job-done
"""


def _replacement(path: str, file: dict[str, str]) -> Replacement:
    old = file["text"].encode()
    return Replacement(path, old.replace(b"state = 'old'", b"state = 'new'"), hashlib.sha256(old).hexdigest())


ROLE: Role[Variables] = Role("rich", lambda: Variables, probes, state)
