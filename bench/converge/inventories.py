"""The inventories of N hosts, for the tools that read one."""

from __future__ import annotations

from pathlib import Path

from .workspace import PORT, Workspace, address, label


def blackstart_inventory(work: Workspace, count: int, *, delayed: bool = False) -> str:
    lines = [
        "all:",
        "  vars:",
        f"    port: {PORT}",
        f"    identity_file: {work.identity}",
        f"    known_hosts: {work.known_hosts}",
        "  hosts:",
    ]
    for number in range(1, count + 1):
        lines += [f"    {label(number)}:", f"      address: {address(number, delayed=delayed)}"]
    return "\n".join(lines) + "\n"


def ansible_inventory(work: Workspace, count: int, *, delayed: bool = False) -> str:
    # Port, user and key stand in the ssh_config that every OpenSSH client of the benchmark reads.
    hosts = [f"{label(n)} ansible_host={address(n, delayed=delayed)}" for n in range(1, count + 1)]
    return "\n".join(["[all]", *hosts]) + "\n"


def write_all(work: Workspace, count: int, *, delayed: bool = False) -> Path:
    """The folder with hosts.yml and hosts.ini for this many hosts."""
    folder = work.inventories / (f"{count}-delayed" if delayed else str(count))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.yml").write_text(blackstart_inventory(work, count, delayed=delayed))
    (folder / "hosts.ini").write_text(ansible_inventory(work, count, delayed=delayed))
    return folder
