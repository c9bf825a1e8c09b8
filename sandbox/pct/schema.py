"""The options of a container, each with the check of its value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sandbox.pct import properties as p
from sandbox.pct.failure import FormatProblem

DEVICE = p.Properties(
    {
        "path": p.device_path,
        "mode": p.pattern(r"0[0-7]{3}"),
        "uid": p.integer(0),
        "gid": p.integer(0),
        "deny-write": p.boolean,
    },
    default="path",
    required=("path",),
)
NETWORK = p.Properties(
    {
        "name": p.pattern(r"[-_.\w\d]{2,15}"),
        "bridge": p.pattern(r"[-_.\w\d]+"),
        "hwaddr": p.looks_like(
            r"(?i)[a-f0-9][02468ace](?::[a-f0-9]{2}){5}", "value does not look like a valid unicast MAC address"
        ),
        "ip": p.ipv4_config,
        "gw": p.ipv4,
        "ip6": p.anything,
        "gw6": p.anything,
        "mtu": p.integer(64, 65535),
        "tag": p.integer(1, 4094),
        "trunks": p.anything,
        "rate": p.number(0, 1e9),
        "firewall": p.boolean,
        "link_down": p.boolean,
        "type": p.one_of("veth"),
        "host-managed": p.boolean,
    },
    required=("name",),
)
_VOLUME: dict[str, p.Check] = {
    "volume": p.anything,
    "size": p.anything,
    "acl": p.boolean,
    "ro": p.boolean,
    "quota": p.boolean,
    "replicate": p.boolean,
    "shared": p.boolean,
    "mountoptions": p.anything,
    "idmap": p.anything,
}
ROOTFS = p.Properties(_VOLUME, default="volume", required=("volume",))
MOUNT = p.Properties(
    {**_VOLUME, "mp": p.anything, "backup": p.boolean, "keepattrs": p.boolean},
    default="volume",
    required=("volume", "mp"),
)
FEATURES = p.Properties(
    {
        "nesting": p.boolean,
        "keyctl": p.boolean,
        "fuse": p.boolean,
        "mknod": p.boolean,
        "force_rw_sys": p.boolean,
        "mount": p.anything,
    }
)

PROPERTY_STRINGS: Mapping[str, p.Properties] = {
    "dev": DEVICE,
    "net": NETWORK,
    "mp": MOUNT,
    "rootfs": ROOTFS,
    "features": FEATURES,
}
_INDEXED = {"dev": 256, "net": 32, "mp": 256, "unused": 256}

OPTIONS: Mapping[str, p.Check] = {
    "arch": p.one_of("amd64", "i386", "arm64", "armhf", "riscv32", "riscv64"),
    "cmode": p.one_of("shell", "console", "tty"),
    "console": p.boolean,
    "cores": p.integer(1, 8192),
    "cpulimit": p.number(0, 8192),
    "cpuunits": p.integer(0, 500000),
    "debug": p.boolean,
    "description": p.anything,
    "hookscript": p.anything,
    "hostname": p.dns_name,
    "lock": p.one_of(
        "backup",
        "create",
        "destroyed",
        "disk",
        "fstrim",
        "migrate",
        "mounted",
        "rollback",
        "snapshot",
        "snapshot-delete",
    ),
    "memory": p.integer(16),
    "nameserver": p.anything,
    "onboot": p.boolean,
    "ostype": p.one_of(
        "debian",
        "devuan",
        "ubuntu",
        "centos",
        "fedora",
        "opensuse",
        "archlinux",
        "alpine",
        "gentoo",
        "nixos",
        "unmanaged",
    ),
    "protection": p.boolean,
    "searchdomain": p.anything,
    "startup": p.startup,
    "swap": p.integer(0),
    "tags": p.tags,
    "template": p.boolean,
    "timezone": p.anything,
    "tty": p.integer(0, 6),
    "unprivileged": p.boolean,
}
ONLY_CREATE: Mapping[str, p.Check] = {
    "bwlimit": p.number(0, 1e12),
    "force": p.boolean,
    "ignore-unpack-errors": p.boolean,
    "password": p.anything,
    "pool": p.anything,
    "restore": p.boolean,
    "ssh-public-keys": p.anything,
    "start": p.boolean,
    "storage": p.anything,
    "unique": p.boolean,
}
ONLY_SET: Mapping[str, p.Check] = {"delete": p.anything, "digest": p.anything, "revert": p.anything}
BOOLEANS = frozenset(name for name, check in {**OPTIONS, **ONLY_CREATE}.items() if check is p.boolean)


def split_index(name: str) -> tuple[str, int] | None:
    """`dev3` -> ("dev", 3); None for a name that has no number or a number too high."""
    found = re.fullmatch(r"(dev|net|mp|unused)(0|[1-9]\d*)", name)
    if not found or int(found[2]) >= _INDEXED[found[1]]:
        return None
    return found[1], int(found[2])


def known(name: str) -> bool:
    """Whether a container can have an option of this name."""
    return name in OPTIONS or name == "rootfs" or name == "features" or split_index(name) is not None


def properties_of(name: str) -> p.Properties | None:
    indexed = split_index(name)
    return PROPERTY_STRINGS.get(indexed[0] if indexed else name)


def check(name: str, value: str, *, in_file: bool = False) -> None:
    """Raise FormatProblem where the value does not fit the option; from a file it is named by its property alone."""
    schema = properties_of(name)
    if schema is not None:
        schema.parse(value, "" if in_file else name)
        return
    rule = OPTIONS.get(name) or ONLY_CREATE.get(name) or ONLY_SET.get(name)
    if rule is not None:
        rule(value)


def check_vmid(value: str) -> None:
    p.integer()(value)
    if not 100 <= int(value) <= 999_999_999:
        raise FormatProblem("invalid format - value does not look like a valid VM ID\n")
