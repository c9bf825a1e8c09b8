"""The desired state of vars.yml as one role: 25 resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from blackstart import resources
from blackstart.plan import Facts, Probe, State
from blackstart.render import render
from blackstart.resources import Resource

from .workspace import TEMPLATES


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Directory(_Data):
    path: str
    mode: str
    owner: str
    group: str


class Template(_Data):
    src: str
    dest: str
    mode: str


class Line(_Data):
    path: str
    line: str


class File(_Data):
    dest: str
    content: str
    mode: str


class Guard(_Data):
    cmd: str
    creates: str


class Link(_Data):
    path: str
    target: str


class Variables(_Data):
    """vars.yml, and the name of the machine."""

    inventory_hostname: str
    svc_user: str
    svc_group: str
    restart_sec: int
    model_path: str
    tp_size: int
    http_port: int
    mem_fraction: float
    gpus: list[int]
    nccl: dict[str, str | int]
    uvm_disable_hmm: int
    force_p2p: str
    cgroup_majors: list[int]
    venv: str
    venv_site: str
    rotate_period: str
    rotate_keep: int
    directories: list[Directory]
    templates: list[Template]
    lines: list[Line]
    files: list[File]
    guards: list[Guard]
    link: Link


def probes(variables: Variables) -> Sequence[Probe]:
    """The state depends on no facts."""
    return ()


def state(variables: Variables, facts: Facts) -> State:
    return State(
        [
            resources.group(variables.svc_group),
            resources.user(variables.svc_user, group=variables.svc_group, home=f"/home/{variables.svc_user}"),
            *(resources.directory(d.path, mode=d.mode, owner=d.owner, group=d.group) for d in variables.directories),
            *_rendered(variables),
            *(resources.lines(wanted.path, [wanted.line]) for wanted in variables.lines),
            *(resources.file(file.dest, file.content, mode=file.mode) for file in variables.files),
            resources.packages("rsync"),
            resources.command(
                "pip setuptools",
                [f"{variables.venv}/bin/pip", "install", "setuptools"],
                creates=f"{variables.venv_site}/setuptools",
            ),
            *(resources.command(g.creates, ["/bin/sh", "-c", g.cmd], creates=g.creates) for g in variables.guards),
            resources.link(variables.link.path, variables.link.target),
        ]
    )


def _rendered(variables: Variables) -> Sequence[Resource]:
    given: dict[str, Any] = {**dict(variables), "host_label": variables.inventory_hostname}
    return [
        resources.file(template.dest, render(template.src, root=TEMPLATES, **given), mode=template.mode)
        for template in variables.templates
    ]
