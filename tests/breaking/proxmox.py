"""What makes a host look like a Proxmox one to the roles: stand-ins for pct and lxc-info that keep a container's
configuration and state as files. What is entered is the host itself, with a state folder of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sandbox import wheelhouse

VMID = "200"
CONF = f"/etc/pve/lxc/{VMID}.conf"
WHEELS = "/srv/wheelhouse"

PCT = """\
#!/bin/sh
# A stand-in for pct.
set -eu
verb=$1 vmid=$2
shift 2
conf=/etc/pve/lxc/$vmid.conf state=/run/stand-in-lxc/$vmid
options() {
  while [ $# -gt 0 ]; do
    key=${1#--}
    [ ! -e "$conf.new" ] || { grep -v "^$key:" "$conf.new" >"$conf.newer" || :; mv "$conf.newer" "$conf.new"; }
    echo "$key: $2" >>"$conf.new"
    shift 2
  done
}
case $verb in
create) shift; : >"$conf.new"; options "$@"; echo "arch: amd64" >>"$conf.new"; mv "$conf.new" "$conf" ;;
set) cp "$conf" "$conf.new"; options "$@"; mv "$conf.new" "$conf" ;;
start) mkdir -p /run/stand-in-lxc /var/lib/inside; echo RUNNING >"$state" ;;
exec)
  [ -e "$state" ] || { echo "container $vmid not running" >&2; exit 255; }
  [ "$1" != -- ] || shift
  exec unshare --mount --propagation private sh -ec '
    mkdir -p /var/lib/blackstart && mount --bind /var/lib/inside /var/lib/blackstart && exec "$@"' sh "$@" ;;
*) echo "the stand-in for pct does not know $verb" >&2; exit 1 ;;
esac
"""

LXC_INFO = """\
#!/bin/sh
# A stand-in for lxc-info -n ID -s -H.
cat "/run/stand-in-lxc/$2" 2>/dev/null || echo STOPPED
"""


def add(layer: Path, wheels: Sequence[Path]) -> None:
    """Put the stand-ins and the wheels into a layer."""
    for name, text in (("pct", PCT), ("lxc-info", LXC_INFO)):
        place = layer / "usr" / "sbin" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755)
    (layer / "etc/pve/lxc").mkdir(parents=True)
    (layer / WHEELS.lstrip("/")).mkdir(parents=True)
    for wheel in wheels:
        (layer / WHEELS.lstrip("/") / wheel.name).write_bytes(wheel.read_bytes())


def small_locks(locks: Path, into: Path) -> list[Path]:
    """Locks of SGLang alone, without all that it depends on, and of uv: enough to be installed and patched."""
    whole = (locks / "sglang-0.5.9-sandbox.txt").read_text().splitlines(keepends=True)
    start = next(number for number, line in enumerate(whole) if line.startswith("sglang=="))
    lines = [whole[start]]
    for line in whole[start + 1 :]:
        if not line.startswith(" "):
            break
        lines.append(line)
    into.mkdir()
    small = into / "small.txt"
    small.write_text("".join(line for line in lines if "# via" not in line))
    uv = into / "uv.txt"
    uv.write_text((locks / "uv.txt").read_text())
    return [small, uv]


def fetch(locks: Sequence[Path], cache: Path) -> list[Path]:
    """The wheels of these locks, from the cache where they are there."""
    return wheelhouse.fill(locks, cache, lambda text: None)
