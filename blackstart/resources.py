"""Resources as data: what a role's state is made of, and what travels to the agent.

Each function makes one resource; the agent's class of the same kind documents what it does with it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JSON = Any
JOB = "job"


@dataclass(frozen=True)
class Resource:
    """One thing with a desired state. `spec` holds the kind's own fields."""

    kind: str
    name: str
    spec: Mapping[str, JSON] = field(default_factory=dict)
    notify: tuple[str, ...] = ()

    def to_wire(self, identity: str) -> dict[str, JSON]:
        return {"id": identity, "kind": self.kind, "name": self.name, "notify": list(self.notify), **self.spec}


@dataclass(frozen=True)
class Restart:
    """A handler: restart a unit, if it runs, once the person allows it."""

    unit: str

    def to_wire(self) -> dict[str, JSON]:
        return {"unit": self.unit}


def directory(path: str, *, mode: str = "0755", owner: str = "root", group: str = "root") -> Resource:
    return Resource("directory", f"directory {path}", {"path": path, "mode": mode, "owner": owner, "group": group})


def tree(path: str, *, owner: str, group: str) -> Resource:
    """A directory that, with all below it, belongs to these; links that leave it are refused."""
    return Resource("tree", f"tree {path}", {"path": path, "owner": owner, "group": group})


def file(
    path: str,
    content: str,
    *,
    mode: str | None = "0644",
    owner: str | None = "root",
    group: str | None = "root",
    secret: bool = False,
    notify: tuple[str, ...] = (),
) -> Resource:
    """A file with this content. Mode, owner and group that are None are left to the file system."""
    spec = {"path": path, "content": content, "mode": mode, "owner": owner, "group": group, "secret": secret}
    return Resource("file", f"file {path}", spec, notify)


def link(path: str, target: str, *, notify: tuple[str, ...] = ()) -> Resource:
    return Resource("link", f"link {path}", {"path": path, "target": target}, notify)


def lines(path: str, wanted: Sequence[str], *, mode: str | None = "0644", before: str = "") -> Resource:
    """Lines that a file holds, in its part before the first line that begins with `before`."""
    return Resource("lines", f"lines in {path}", {"path": path, "lines": list(wanted), "mode": mode, "before": before})


def absent(path: str, *, recursive: bool = False) -> Resource:
    return Resource("absent", f"absent {path}", {"path": path, "recursive": recursive})


def packages(*names: str, provides: Sequence[str] = (), users: Sequence[str] = ()) -> Resource:
    """Debian packages; `provides` and `users` name what later resources of the plan need of them."""
    spec = {"packages": list(names), "provides": list(provides), "users": list(users)}
    return Resource("apt", "packages " + " ".join(names), spec)


def group(name: str) -> Resource:
    return Resource("group", f"group {name}", {"group": name})


def user(name: str, *, group: str, home: str = "/nonexistent", shell: str = "/usr/sbin/nologin") -> Resource:
    return Resource("user", f"user {name}", {"user": name, "group": group, "home": home, "shell": shell})


def unit(name: str, *, enabled: bool | None = None, running: bool | None = None) -> Resource:
    return Resource("unit", f"unit {name}", {"unit": name, "enabled": enabled, "running": running})


def command(
    name: str,
    argv: Sequence[str],
    *,
    creates: str = "",
    line: Mapping[str, str] | None = None,
    provides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float | None = None,
    capture: bool = False,
    remedy: str = "",
    notify: tuple[str, ...] = (),
) -> Resource:
    """A program that runs while its guards (`creates`, `line`) do not hold; `timeout` in seconds."""
    spec = {
        "argv": list(argv),
        "creates": creates,
        "line": dict(line) if line else None,
        "provides": list(provides),
        "env": dict(env or {}),
        "stdin": stdin,
        "timeout": timeout,
        "capture": capture,
        "remedy": remedy,
    }
    return Resource("command", name, spec, notify)


def job(
    name: str,
    argv: Sequence[str],
    *,
    creates: str = "",
    provides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    credentials: Mapping[str, str] | None = None,
    remedy: str = "",
) -> Resource:
    """Long work that is started once and attached to; done while `creates` is there, else once it has ended well.

    Its identity is its name, its words and its environment: changed work is new work.
    """
    spec: dict[str, JSON] = {
        "argv": list(argv),
        "creates": creates,
        "provides": list(provides),
        "env": dict(env or {}),
        "credentials": dict(credentials or {}),
        "remedy": remedy,
    }
    digest = hashlib.sha256(json.dumps([name, argv, spec["env"]], sort_keys=True).encode()).hexdigest()[:12]
    word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return Resource(JOB, name, {**spec, "job": f"{word}-{digest}"})


def archive(
    path: str, source: str, sha256: Sequence[str], *, provides: Sequence[str] = (), remedy: str = ""
) -> Resource:
    """A wheel, zip or tar on the machine (`source` may be a pattern) with one of these hashes, unpacked at `path`."""
    spec = {"path": path, "source": source, "sha256": list(sha256), "provides": list(provides), "remedy": remedy}
    return Resource("archive", f"archive {path}", spec)


@dataclass(frozen=True)
class Replacement:
    """One file of a set: its new content, and the sha256 of what may be replaced (None: nothing is there yet)."""

    path: str
    content: bytes
    replaces: str | None
    quiet: bool = False


def fileset(
    name: str,
    files: Sequence[Replacement],
    *,
    stale: Sequence[str] = (),
    detail: str = "",
    notify: tuple[str, ...] = (),
) -> Resource:
    """Files that change together; the last one is written last. `stale` are globs of derived files to remove."""
    spec = {
        "files": [
            {
                "path": item.path,
                "content": item.content.decode("utf-8", "surrogateescape"),
                "replaces": item.replaces,
                "quiet": item.quiet,
            }
            for item in files
        ],
        "stale": list(stale),
        "detail": detail,
    }
    return Resource("fileset", name, spec, notify)


def undecided(name: str, *, after: str, problem: str, remedy: str = "") -> Resource:
    """What cannot be planned before `after` was applied; an error with this `problem` if it is still so then."""
    return Resource("undecided", name, {"after": after, "problem": problem, "remedy": remedy})


def booted(*, deadline: float, tolerates: Sequence[str] = ()) -> Resource:
    """systemd is up within `deadline` seconds, degraded at most by the units named."""
    return Resource("booted", "systemd is up", {"deadline": deadline, "tolerates": list(tolerates)})


def opens(name: str, paths: Sequence[str], *, remedy: str = "") -> Resource:
    return Resource("opens", name, {"paths": list(paths), "remedy": remedy})


def http(
    name: str, url: str, *, deadline: float, unit: str = "", body: JSON | None = None, remedy: str = ""
) -> Resource:
    """A URL that answers 200 within `deadline` seconds while `unit` is alive; POST with a JSON `body`."""
    return Resource("http", name, {"url": url, "deadline": deadline, "unit": unit, "body": body, "remedy": remedy})
