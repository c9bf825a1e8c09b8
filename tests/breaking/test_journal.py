"""Who did what, when, with which hashes; and what was replaced, kept as long as there is room for it."""

from __future__ import annotations

import datetime
import getpass
import hashlib
import itertools
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blackstart import resources
from blackstart.agent.store import KEPT

from . import fleets, rich
from .hosts import Host, Hosts
from .rounds import STATE


@pytest.fixture
def host(hosts: Hosts, layer_of: Callable[[bool], Path]) -> Iterator[Host]:
    with hosts.one(layer_of(True)) as made:
        yield made


def journal(host: Host) -> list[dict[str, Any]]:
    place = host.path(f"{STATE}/journal.jsonl")
    return [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_every_change_has_its_line(host: Host) -> None:
    begun = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    report = fleets.converge(host, rich.ROLE)
    assert not report.failed, fleets.why(report)
    entries = journal(host)
    changed = {name for name, state in fleets.states(report).items() if state == "changed"}
    assert changed <= {entry["resource"] for entry in entries}
    for entry in entries:
        assert entry["by"] == f"{getpass.getuser()}@{socket.gethostname()} pid {os.getpid()}"
        at = datetime.datetime.strptime(entry["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
        assert begun <= at <= datetime.datetime.now(datetime.UTC)


def test_what_changes_nothing_leaves_no_line(host: Host) -> None:
    fleets.converge(host, rich.ROLE)
    before = journal(host)
    fleets.converge(host, rich.ROLE)
    fleets.converge(host, rich.ROLE, check=True)
    assert journal(host) == before


def test_a_replaced_content_is_named_by_its_hash_and_kept_under_it(host: Host) -> None:
    texts = [f"version {number}\n" for number in range(4)]
    for text in texts:
        assert not fleets.converge(host, fleets.role_of(resources.file("/srv/file", text))).failed
    hashes = [None, *map(sha256, texts)]
    assert [(entry["before"], entry["after"]) for entry in journal(host)] == list(itertools.pairwise(hashes))
    for text in texts[:-1]:
        kept = host.path(f"{STATE}/replaced/{sha256(text)}")
        assert kept.read_text() == text
        assert kept.stat().st_mode & 0o777 == 0o600
    assert not fleets.converge(host, fleets.role_of(resources.absent("/srv/file"))).failed
    assert journal(host)[-1]["after"] is None
    assert host.path(f"{STATE}/replaced/{sha256(texts[-1])}").read_text() == texts[-1]
    assert host.path(f"{STATE}/replaced").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("years", [-1, 1], ids=["from the past", "from the future"])
def test_kept_contents_are_pruned_by_count(host: Host, years: int) -> None:
    """The one that was replaced just now stays, whatever the clock said when the others were."""
    folder = host.path(f"{STATE}/replaced")
    folder.mkdir(parents=True)
    now = datetime.datetime.now().timestamp()
    for number in range(KEPT + 5):
        place = folder / f"{number:064x}"
        place.write_text("old\n")
        os.utime(place, (now, now + years * 365 * 86400 + number))
    for text in ("first\n", "second\n"):
        assert not fleets.converge(host, fleets.role_of(resources.file("/srv/file", text))).failed
    kept = {path.name for path in folder.iterdir()}
    assert len(kept) == KEPT
    assert sha256("first\n") in kept
    assert f"{0:064x}" not in kept and f"{KEPT + 4:064x}" in kept


def test_a_content_that_is_replaced_again_counts_as_new(host: Host) -> None:
    place = host.path(f"{STATE}/replaced/{sha256('a' + chr(10))}")
    for text in ("a\n", "b\n"):
        fleets.converge(host, fleets.role_of(resources.file("/srv/file", text)))
    os.utime(place, (0, 0))
    for text in ("a\n", "b\n"):
        fleets.converge(host, fleets.role_of(resources.file("/srv/file", text)))
    assert place.stat().st_mtime > 0
