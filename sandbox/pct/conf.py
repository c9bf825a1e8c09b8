"""The configuration file of a container, /etc/pve/lxc/ID.conf: parse and render, losing nothing."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field

from sandbox.pct import schema
from sandbox.pct.failure import FormatProblem

_SECTION = re.compile(r"^\[(?:(pve:pending)|([a-z][a-z0-9_\-]+))\]\s*$", re.IGNORECASE)
_RAW = re.compile(r"^(lxc\.[a-z0-9_\-.]+)(?::|\s*=)\s*(.*?)\s*$")
_WRITTEN_BY_SNAPSHOTS = ("parent", "snaptime", "snapstate")
_OPTION = re.compile(r"^([a-z][a-z_]*\d*):\s*(.+?)\s*$")

_RAW_ALLOWED = re.compile(
    r"^lxc\.(cgroup2?\.|prlimit\.|net\.|mount(\.(entry|auto|fstab))?$|apparmor\.|cap\.(drop|keep)$|idmap$|hook\.|"
    r"environment(\.runtime|\.hooks)?$|sysctl\.(kernel\.(sem|msg|shm)|fs\.mqueue)|seccomp\.|signal\.|include$|"
    r"selinux\.|rootfs\.(options|mount)$|console\.|pty\.max$|tty\.max$|kmsg$|autodev$|init\.|ephemeral$|proc\.|log\.|"
    r"start\.|group$|no_new_privs$|time\.offset\.|uts\.name$|namespace\.|monitor\.)"
)
_RAW_REFUSED = re.compile(r"^lxc\.rootfs\.path$")


@dataclass
class Section:
    """One block of `key: value` lines, the raw `lxc.*` lines after it, and its comment."""

    options: dict[str, str] = field(default_factory=dict)
    raw: list[tuple[str, str]] = field(default_factory=list)
    description: str = ""

    def text(self) -> str:
        """As the real one writes it: comment, options by name, raw lines in their order."""
        comment = "".join(f"#{encode(line)}\n" for line in self.description.splitlines())
        options = "".join(f"{key}: {value}\n" for key, value in sorted(self.options.items()))
        return comment + options + "".join(f"{key}: {value}\n" for key, value in self.raw)


@dataclass
class Conf:
    """A container's configuration: what holds, what waits for the next start, and its snapshots."""

    current: Section = field(default_factory=Section)
    pending: dict[str, str] = field(default_factory=dict)
    pending_delete: list[str] = field(default_factory=list)
    snapshots: dict[str, Section] = field(default_factory=dict)

    def text(self) -> str:
        out = self.current.text()
        if self.pending or self.pending_delete:
            out += "\n[pve:pending]\n"
            if self.pending_delete:
                out += f"delete: {','.join(sorted(self.pending_delete))}\n"
            out += "".join(f"{key}: {value}\n" for key, value in sorted(self.pending.items()))
        for name, section in sorted(self.snapshots.items()):
            out += f"\n[{name}]\n{section.text()}"
        return out

    def after_pending(self) -> dict[str, str]:
        """The options as they will be once the container has been started anew."""
        kept = {k: v for k, v in self.current.options.items() if k not in self.pending_delete}
        return kept | self.pending

    def apply_pending(self) -> None:
        self.current.options = self.after_pending()
        self.pending, self.pending_delete = {}, []


def parse(text: str, vmid: int, warn: Callable[[str], None]) -> Conf:
    """Read a configuration, warning as the real one does.

    A line that cannot be read is left out (and so is gone after the next write). A value that does not fit its
    option stays, for the command that uses it to fail on.
    """
    conf = Conf()
    section = conf.current
    in_pending = False
    for line in text.splitlines():
        named = _SECTION.match(line)
        if not line.strip():
            continue
        if named:
            in_pending = named[1] is not None
            if not in_pending:
                section = conf.snapshots[named[2]] = Section()
        elif line.startswith("#"):
            section.description += _decode(line[1:]) + "\n"
        elif raw := _RAW.match(line):
            _raw_line(section, raw[1], raw[2], line, vmid, warn)
        elif option := _OPTION.match(line):
            if in_pending and option[1] == "delete":
                conf.pending_delete = [name for name in re.split(r"[,;\s]+", option[2]) if name]
            elif in_pending:
                conf.pending[option[1]] = option[2]
            elif option[1] == "description":
                section.description = _decode(option[2])
            else:
                _check(option[1], option[2], vmid, warn)
                section.options[option[1]] = option[2]
        else:
            warn(f"vm {vmid} - unable to parse config: {line}")
    return conf


def _check(name: str, value: str, vmid: int, warn: Callable[[str], None]) -> None:
    try:
        if not schema.known(name) and name not in _WRITTEN_BY_SNAPSHOTS:
            raise FormatProblem(f"unknown setting '{name}'\n")
        schema.check(name, value, in_file=True)
    except FormatProblem as problem:
        warn(f"vm {vmid} - unable to parse value of '{name}' - {str(problem).removeprefix('invalid format - ')}")


def _raw_line(section: Section, key: str, value: str, line: str, vmid: int, warn: Callable[[str], None]) -> None:
    if key.startswith("lxc.cgroup."):
        warn(f"vm {vmid} - {key} is deprecated, this will be a hard error in the future!")
    if _RAW_REFUSED.match(key) or not _RAW_ALLOWED.match(key):
        warn(f"vm {vmid} - unable to parse config: {line}")
        return
    section.raw.append((key, value))


# All that is printable but `%` and `:`, as PVE::Tools::encode_text has it.
_PLAIN = " !\"#$&'()*+,-./;<=>?@[\\]^_`{|}~"


def encode(text: str) -> str:
    """A text on one line, as a description is written and shown."""
    return urllib.parse.quote(text, safe=_PLAIN)


def _decode(text: str) -> str:
    return urllib.parse.unquote(text)
