"""What the host must hold so that the container is there, ours, as declared and running; and how it is entered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from blackstart import resources
from blackstart.errors import CheckError, InputError
from blackstart.plan import Facts, Probe, State
from blackstart.resources import Resource

from . import config

TAG = "blackstart"
"""The Proxmox tag that says that a container is ours."""

MODPROBE_REMEDY = "load the driver on the host: nvidia-modprobe -c 0 -u (one run a card), then run again"


RawLine = Annotated[str, StringConstraints(pattern=r"^[^\[\n][^\n]*$")]
"""One line; `[` would begin a snapshot's section, in which the container does not look."""


class Mount(BaseModel):
    """A folder of the host that appears inside."""

    model_config = ConfigDict(extra="forbid")
    source: str = Field(pattern="^/")
    target: str = Field(pattern="^/")
    read_only: bool = True

    def option(self) -> str:
        return f"{self.source},mp={self.target},ro={int(self.read_only)}"


class Variables(BaseModel):
    """roles/container/defaults.yml, which says what each means."""

    container_vmid: int = Field(ge=100, le=999_999_999)
    container_hostname: str = Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)?$")
    inventory_hostname: str
    server_unit: str
    container_template: str
    container_rootfs: str
    container_unprivileged: bool
    container_memory_mib: int = Field(ge=16)
    container_swap_mib: int = Field(ge=0)
    container_cores: int | None
    container_net0: str
    container_features: str
    container_onboot: bool
    container_startup: str
    container_devices: list[str]
    container_device_mode: str = Field(pattern="^0[0-7]{3}$")
    container_mounts: list[Mount]
    container_raw_lines: list[RawLine]
    container_adopt: bool
    container_boot_deadline_s: float = Field(gt=0)
    container_tolerated_units: list[str]

    @property
    def conf(self) -> str:
        return f"/etc/pve/lxc/{self.container_vmid}.conf"


def enter(variables: Variables, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` inside, needing neither sshd nor an address there."""
    return ["pct", "exec", str(variables.container_vmid), "--", *argv]


def host_probes(variables: Variables) -> list[Probe]:
    """The configuration, LXC's own word on whether it runs, and the nodes. `pct` would cost half a second a call."""
    vmid = variables.container_vmid
    return [
        {"probe": "file", "path": variables.conf},
        {"probe": "run", "argv": ["lxc-info", "-n", str(vmid), "-s", "-H"]},
        {"probe": "entry", "path": f"/etc/pve/qemu-server/{vmid}.conf"},
        *({"probe": "entry", "path": path} for path in variables.container_devices),
    ]


def running(variables: Variables, facts: Facts) -> bool:
    status: str = facts[1]["output"]
    return status.strip() == "RUNNING"


def wanted_options(variables: Variables) -> dict[str, str]:
    """The container's options as `pct` takes and writes them."""
    options = {
        "hostname": variables.container_hostname or variables.inventory_hostname,
        "memory": str(variables.container_memory_mib),
        "swap": str(variables.container_swap_mib),
        "net0": variables.container_net0,
        "features": variables.container_features,
        "onboot": str(int(variables.container_onboot)),
        "startup": variables.container_startup,
        "tags": TAG,
    }
    if variables.container_cores is not None:
        options["cores"] = str(variables.container_cores)
    for number, path in enumerate(variables.container_devices):
        options[f"dev{number}"] = f"{path},mode={variables.container_device_mode}"
    for number, mount in enumerate(variables.container_mounts):
        options[f"mp{number}"] = mount.option()
    return {key: value for key, value in options.items() if value}


def host_state(variables: Variables, facts: Facts) -> State:
    """Raises InputError where the id belongs to somebody else, CheckError where the host lacks what it must pass on."""
    present = config.parse(facts[0]["text"]) if facts[0] else None
    _require_ours(variables, present, facts[2]["kind"] != "absent")
    _require_devices(variables, facts[3:])
    wanted = wanted_options(variables)
    wished: list[Resource] = [_create(variables, wanted)]
    if present is not None:
        wanted["tags"] = _with_ours(present.get("tags", ""))
        changes = config.differing(present, wanted)
        if changes:
            wished.append(_set(variables, present, changes))
    if variables.container_raw_lines:
        wished.append(resources.lines(variables.conf, variables.container_raw_lines, mode=None, before="["))
    if not running(variables, facts):
        start = ["pct", "start", str(variables.container_vmid)]
        wished.append(resources.command(f"start container {variables.container_vmid}", start, timeout=120))
    return State(wished)


def _with_ours(tags: str) -> str:
    """A container's tags with ours among them: the others are somebody's, and stay."""
    present = [tag for tag in tags.split(";") if tag]
    return ";".join(present if TAG in present else [*present, TAG])


def _require_ours(variables: Variables, present: dict[str, str] | None, is_vm: bool) -> None:
    vmid = variables.container_vmid
    choose = "choose another container_vmid"
    if is_vm:
        raise InputError(f"id {vmid} is a virtual machine's", where=f"container_vmid {vmid}", remedy=choose)
    if present is None:
        return
    if "lock" in present:
        raise CheckError(
            f"container {vmid} is locked",
            found=f"lock: {present['lock']}",
            remedy=f"wait for that to end; if it died: pct unlock {vmid}",
        )
    if TAG not in present.get("tags", "").split(";") and not variables.container_adopt:
        raise InputError(
            f"container {vmid} is there and is not ours",
            where=f"container_vmid {vmid}",
            found=f"hostname {present.get('hostname', '?')}, tags {present.get('tags', 'none')}",
            remedy=f"{choose}, or take it over with --set container_adopt=true",
        )
    if ("1" if variables.container_unprivileged else "0") != present.get("unprivileged", "0"):
        raise InputError(
            f"container {vmid} cannot change between privileged and unprivileged",
            where="container_unprivileged",
            found=f"unprivileged: {present.get('unprivileged', '0')}",
            remedy="say in the inventory what it is, or destroy it and let it be made anew",
        )


def _require_devices(variables: Variables, entries: Facts) -> None:
    for path, entry in zip(variables.container_devices, entries, strict=True):
        if entry["kind"] == "absent":
            raise CheckError(f"the host has no {path} to pass on", remedy=MODPROBE_REMEDY)
        if entry["kind"] != "special file":
            raise CheckError(
                f"{path} on the host is no device node",
                found=f"a {entry['kind']}",
                remedy=f"remove it; {MODPROBE_REMEDY}",
            )


def _create(variables: Variables, wanted: dict[str, str]) -> Resource:
    vmid = str(variables.container_vmid)
    argv = ["pct", "create", vmid, variables.container_template, "--rootfs", variables.container_rootfs]
    argv += ["--unprivileged", str(int(variables.container_unprivileged))]
    argv += [word for key, value in wanted.items() for word in (f"--{key}", value)]
    return resources.command(f"container {vmid}", argv, creates=variables.conf, timeout=600)


def _set(variables: Variables, present: dict[str, str], changes: dict[str, str]) -> Resource:
    """One call for all options: each costs half a second, and it takes all or none."""
    vmid = str(variables.container_vmid)
    argv = ["pct", "set", vmid, *(word for key, value in changes.items() for word in (f"--{key}", value))]
    return resources.command(f"options of container {vmid}: {', '.join(changes)}", argv, timeout=60)


def inside_probes(variables: Variables) -> list[Probe]:
    return []


def inside_state(variables: Variables, facts: Facts) -> State:
    """systemd is up, and every node opens: a wrong rule or mode shows here and not in a CUDA error later."""
    return State(
        [
            resources.booted(
                deadline=variables.container_boot_deadline_s,
                # The engine's own unit is another role's to judge.
                tolerates=[*variables.container_tolerated_units, variables.server_unit],
            ),
            resources.opens(
                "GPU nodes open",
                variables.container_devices,
                remedy="check devN in the container's configuration and restart it: pct reboot "
                f"{variables.container_vmid}",
            ),
        ]
    )
