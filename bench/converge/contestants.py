"""The tools that are compared: how each is started, and how what it says is read."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .inventories import write_all
from .workspace import DELAYED, HERE, PEERS, Workspace

PYINFRA_ROW = re.compile(r"^    \S.*?\s+(\d+) \(127\.", re.MULTILINE)
PYINFRA_DONE = re.compile(r"^    \[[^]]+\] Success", re.MULTILINE)
RECAP = re.compile(r"^\S+ .*\b(\d+) changed?\b.*\[\d+ execs?,", re.MULTILINE)
EQUALS = re.compile(r"\bchanged=(\d+)")


def changed_in_recap(output: str) -> int:
    """blackstart: one line a host, `h01  25 ok, 0 changed   [1 exec, 0.1 s]` (`change` in a check)."""
    return sum(map(int, RECAP.findall(output)))


def changed_equals(output: str) -> int:
    """The floor, plain Fabric and Ansible: `changed=N` on one line a host."""
    return sum(map(int, EQUALS.findall(output)))


def changed_in_pyinfra(output: str) -> int:
    """pyinfra: a line for each operation that did something; in a dry run a table with hosts for each that would."""
    return len(PYINFRA_DONE.findall(output)) + sum(map(int, PYINFRA_ROW.findall(output)))


READERS = {"recap": changed_in_recap, "equals": changed_equals, "pyinfra": changed_in_pyinfra}


@dataclass(frozen=True)
class Contestant:
    """`argv` converges, `check` says what would change. `says` names the reader of its output."""

    name: str
    venv: Path
    argv: tuple[str, ...]
    check: tuple[str, ...]
    says: str
    cwd: Path = HERE
    environment: Mapping[str, str] = field(default_factory=dict)

    def changed(self, output: str) -> int:
        return READERS[self.says](output)


def contestants(work: Workspace, count: int, *, delayed: bool = False) -> dict[str, Contestant]:
    """All of them, set up for the first `count` hosts; `delayed` puts host 1 behind the delaying proxy."""
    inventory = write_all(work, count, delayed=delayed)
    told = {
        "BENCH_WORK": str(work.root),
        "BENCH_HOSTS": str(count),
        "BENCH_OFFSET": str(DELAYED if delayed else 0),
    }
    everyone = [
        _ours(inventory),
        *(_floor(work, told, how) for how in ("paramiko", "mux", "ssh")),
        _fabric(work, told),
        _pyinfra(work, told),
        _ansible(work, inventory, count, "ansible-pipe", "ansible", "ansible.cfg"),
        _ansible(work, inventory, count, "mitogen", "mitogen", "mitogen.cfg"),
    ]
    return {contestant.name: contestant for contestant in everyone}


def _ours(inventory: Path) -> Contestant:
    inv = str(Path(sys.executable).with_name("inv"))
    argv = (inv, "-r", str(HERE), "up", "-i", str(inventory))
    return Contestant("blackstart", Path(sys.prefix), argv, (*argv, "--check"), "recap")


def _floor(work: Workspace, told: Mapping[str, str], how: str) -> Contestant:
    venv = work.venvs / "fabric"
    argv = (str(venv / "bin/python"), str(PEERS / "floor/batch.py"), how)
    return Contestant(f"floor-{how}", venv, argv, (*argv, "--dry"), "equals", environment=told)


def _fabric(work: Workspace, told: Mapping[str, str]) -> Contestant:
    venv = work.venvs / "fabric"
    argv = (str(venv / "bin/python"), str(PEERS / "fabric/naive.py"))
    return Contestant("fabric-naive", venv, argv, (*argv, "--dry"), "equals", environment=told)


def _pyinfra(work: Workspace, told: Mapping[str, str]) -> Contestant:
    venv = work.venvs / "pyinfra"
    program, files = str(venv / "bin/pyinfra"), ("inventory.py", "deploy.py")
    return Contestant(
        "pyinfra", venv, (program, "-y", *files), (program, "--dry", *files), "pyinfra", PEERS / "pyinfra", told
    )


def _ansible(
    work: Workspace, inventory: Path, count: int, name: str, environment: str, configuration: str
) -> Contestant:
    venv = work.venvs / environment
    program, playbook = str(venv / "bin/ansible-playbook"), str(PEERS / "ansible/site.yml")
    argv = (program, "-i", str(inventory / "hosts.ini"), "-f", str(count), playbook)
    told = {
        "ANSIBLE_CONFIG": str(PEERS / "ansible" / configuration),
        "ANSIBLE_LOCAL_TEMP": str(work.root / "ansible"),
        "ANSIBLE_SSH_ARGS": f"-F {work.ssh_config} -o ControlMaster=auto -o ControlPersist=60s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(work.control),
    }
    if name == "mitogen":
        (site,) = venv.glob("lib/python3*/site-packages") if venv.exists() else (venv,)
        told["ANSIBLE_STRATEGY_PLUGINS"] = str(site / "ansible_mitogen/plugins/strategy")
    return Contestant(name, venv, argv, (*argv, "--check"), "equals", environment=told)
