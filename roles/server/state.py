"""The unit of the engine is there, enabled and running; afterwards the engine answers and completes a prompt."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, Field

from blackstart import resources
from blackstart.errors import InputError
from blackstart.plan import Facts, Probe, State
from blackstart.render import render
from blackstart.resources import Restart

from . import profile as profiles
from . import systemd
from .profile import Flag, Profile, VariableName

COMPLETION = "completion"
"""Name of the verification whose detail is the engine's answer to the probe prompt."""

PATCH_GATE = "/opt/blackstart/patch-gate"
"""Installed by the role patches."""

DEFAULT_PORT = 30000
"""SGLang's own default of --port."""


class Variables(BaseModel):
    """roles/server/defaults.yml, which says what each means, and the link of the environment."""

    server_profile: str
    server_unit: str = Field(pattern=r"^[A-Za-z0-9:_.@-]+\.service$")
    server_launcher: list[str]
    server_flags: dict[str, Flag]
    server_environment: dict[VariableName, str | None]
    server_limits: dict[str, str]
    server_ready_deadline_s: float = Field(gt=0)
    server_stop_timeout_s: int = Field(gt=0)
    server_probe_prompt: str
    ml_env_link: str
    inventory_hostname: str

    def profile(self) -> Profile:
        """The named profile with this place's own flags and environment laid over it. Raises InputError."""
        return profiles.merged(profiles.read(self.server_profile), self.server_flags, self.server_environment)

    def argv(self) -> list[str]:
        """The engine's whole command."""
        return [f"{self.ml_env_link}/bin/python", *self.server_launcher, *profiles.arguments(self.profile().flags)]

    def port(self) -> int:
        port = self.profile().flags.get("port", DEFAULT_PORT)
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
            where = f"profile {self.server_profile}"
            raise InputError("port is a number from 1 to 65535", where=where, found=repr(port))
        return port

    def url(self, path: str) -> str:
        """A URL of the engine as seen on its own machine."""
        return f"http://127.0.0.1:{self.port()}{path}"

    def served_model(self) -> str:
        flags = self.profile().flags
        return str(flags.get("served-model-name", flags.get("model-path", "default")))


def unit_text(variables: Variables) -> str:
    """The unit file."""
    profile = variables.profile()
    assignments = sorted((name, value) for name, value in profile.environment.items() if value is not None)
    return render(
        "server/sglang.service.j2",
        profile=variables.server_profile,
        environment=[systemd.quote_assignment(name, value) for name, value in assignments],
        command_line=systemd.command_line(variables.argv()),
        gate=systemd.command_line(gate_argv(variables)) if profile.patches else "",
        stop_timeout_s=variables.server_stop_timeout_s,
        limits=variables.server_limits,
    )


def profile_of(text: str) -> str | None:
    """The profile that a unit file of ours was written from, which a restart may have chosen over the inventory's."""
    found = re.search(r"^X-Blackstart-Profile=(.+)$", text, re.M)
    return found[1] if found else None


def gate_argv(variables: Variables) -> list[str]:
    """The check before each start that the patches which the profile requires are in the installed sources."""
    site = f"{variables.ml_env_link}/lib/python3*/site-packages"
    mend = f"inv patch.apply --limit {variables.inventory_hostname}"
    return ["/usr/bin/python3", "-IS", PATCH_GATE, site, mend, *variables.profile().patches]


def probes(variables: Variables) -> list[Probe]:
    return [{"probe": "listener", "port": variables.port()}]


def state(variables: Variables, facts: Facts) -> State:
    """Raises InputError for an unknown profile and for a port that another process holds."""
    _require_port(variables, facts[0])
    unit = variables.server_unit
    restart = f"restart {unit}"
    path = f"/etc/systemd/system/{unit}"
    return State(
        resources=[
            resources.file(path, unit_text(variables), notify=(restart,)),
            resources.unit(unit, enabled=True, running=True),
        ],
        handlers={restart: Restart(unit)},
        verify=verify(variables),
    )


def verify(variables: Variables) -> list[resources.Resource]:
    """The engine is ready, and completes one prompt."""
    body = {
        "model": variables.served_model(),
        "prompt": variables.server_probe_prompt,
        "max_tokens": 24,
        "temperature": 0,
    }
    remedy = f"see its log: inv server.logs, or journalctl -u {variables.server_unit} in the container"
    deadline = variables.server_ready_deadline_s
    unit = variables.server_unit
    return [
        resources.http("ready", variables.url("/health"), deadline=deadline, unit=unit, remedy=remedy),
        resources.http(COMPLETION, variables.url("/v1/completions"), deadline=120, unit=unit, body=body, remedy=remedy),
    ]


def _require_port(variables: Variables, holder: dict[str, Any] | None) -> None:
    if holder is None or holder["unit"] == variables.server_unit:
        return
    unit = f", unit {holder['unit']}" if holder["unit"] else ""
    raise InputError(
        f"port {variables.port()} is in use by another process",
        where=f"profile {variables.server_profile}",
        found=f"{holder['name']} (pid {holder['pid']}{unit})",
        remedy="stop it, or set another port: --set 'server_flags={port: 30001}'",
    )
