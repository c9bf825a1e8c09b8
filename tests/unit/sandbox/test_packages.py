"""Which packages, from where, by which way."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import packages
from sandbox.errors import SandboxError

TARGETS = """\
Debian bookworm http://mirror.example/debian/ main
Debian bookworm http://mirror.example/debian/ contrib
Debian bookworm-updates http://mirror.example/debian/ main
Debian bookworm-security http://mirror.example/debian-security/ main
Node Source nodistro https://deb.example/node_20.x main
cloud-sdk-bookworm bookworm https://packages.example/apt main
Debian bookworm http://mirror.example/debian/ main
"""
DUMP = """\
APT "";
Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::CAInfo "/etc/ssl/ours.pem";
Acquire::Check-Valid-Until "false";
Acquire::cdrom::mount "/media/cdrom/";
Acquire::Retries "3";
DPkg::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";
"""


def test_the_machines_own_mirrors_of_debian_12_are_used_and_no_other_source() -> None:
    assert packages.sources_from(TARGETS) == [
        "deb http://mirror.example/debian/ bookworm main",
        "deb http://mirror.example/debian-security/ bookworm-security main",
    ]


def test_before_the_first_update_no_source_is_known_as_debians() -> None:
    assert packages.sources_from("$(ORIGIN) $(CODENAME) http://mirror.example/debian/ main\n") == []
    assert packages.sources_from("") == []


def test_without_a_mirror_of_debian_12_the_machine_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_index_targets", lambda: "Ubuntu jammy http://archive.example/ubuntu main\n")
    updates: list[bool] = []
    monkeypatch.setattr(packages, "_update", lambda line: updates.append(True))
    with pytest.raises(SandboxError, match="no mirror of Debian 12"):
        packages.sources()
    assert updates == [True]


def test_the_machines_proxy_and_certificates_go_along_and_its_hooks_do_not() -> None:
    assert packages.apt_options_from(DUMP) == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::https::CAInfo "/etc/ssl/ours.pem";',
        'Acquire::Check-Valid-Until "false";',
        'Acquire::Retries "3";',
    ]


def test_what_is_absent_is_named_by_package_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packages, "KEYRING", tmp_path)
    monkeypatch.setattr(packages, "NEEDED", {"sh": "dash", "no-such-1": "util-linux", "no-such-2": "util-linux"})
    assert packages.absent() == ["util-linux"]
    monkeypatch.setattr(packages, "KEYRING", tmp_path / "absent")
    assert packages.absent() == ["debian-archive-keyring", "util-linux"]
