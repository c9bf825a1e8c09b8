"""The shell lines that lead to the agent on a machine: become root where the login is not, have a Python, start it.

POSIX sh only. What they announce on stdout is JSON lines, as the agent's own events are; each begins with an empty
line, since a start file of the login shell may have left one open.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import bundle

# sudo reads a password from stdin only where it needs one; sent unasked, it would become the program's first line.
BECOME_ROOT = """\
say() { printf '\\n%s\\n' "$1"; }
if [ "$(id -u)" = 0 ]; then say '{"e":"become","password":false}'; exec "$@"; fi
if ! command -v sudo >/dev/null; then say '{"e":"refused","by":"no sudo"}'; exit 126; fi
if sudo -n true 2>/dev/null; then say '{"e":"become","password":false}'; exec sudo -n "$@"; fi
say '{"e":"become","password":true}'
exec sudo -S -p '' /bin/sh -c 'printf "\\n%s\\n" "{\\"e\\":\\"root\\"}"; exec "$@"' sh "$@"
"""

# Debian's python3-minimal lacks json, which is why the interpreter alone does not tell.
HAVE_PYTHON = """\
python=$1; bootstrap=$2; install=$3
usable() {
  [ -x "$python" ] || return 1
  [ "$python" = /usr/bin/python3 ] || return 0
  for library in /usr/lib*/python3*/json/__init__.py; do [ -e "$library" ] && return 0; done
  return 1
}
if ! usable; then
  if [ -z "$install" ]; then
    printf '\\n%s\\n' '{"e":"missing","what":"python3"}'
    exec cat >/dev/null
  fi
  printf '\\n%s\\n' '{"e":"installing","what":"python3"}'
  export DEBIAN_FRONTEND=noninteractive
  { apt-get install -y --no-install-recommends python3 ||
    { apt-get update && apt-get install -y --no-install-recommends python3; }; } </dev/null >&2
  usable || { printf '\\n%s\\n' '{"e":"refused","by":"no python"}'; exec cat >/dev/null; }
fi
cd /
exec /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \\
  "$python" -IS -c "$bootstrap"
"""


def as_root(argv: Sequence[str]) -> list[str]:
    """`argv` run as root by whoever logs in: as it is for root, through sudo for others."""
    return ["/bin/sh", "-c", BECOME_ROOT, "sh", *argv]


def agent(python: str, *, install: bool = True) -> list[str]:
    """The agent, in a clean environment, under an absolute Python that is installed where it is missing.

    Without `install` a missing one is announced, and what is sent to it lost.
    """
    return ["/bin/sh", "-c", HAVE_PYTHON, "sh", python, bundle.BOOTSTRAP, "install" if install else ""]
