"""A machine's patches as one fileset: order, what the gate is told, and distributions that share a manifest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from roles.patches import committed
from roles.patches.changes import Change
from roles.patches.definition import DiffPatch, Prose
from roles.patches.facts import Installed
from roles.patches.manifest import FileRecord, Manifest, PatchRecord
from roles.patches.outcome import Edit, Outcome
from roles.patches.tree import FetchedTree, sha256

SITE = "/env/lib/python3.11/site-packages"
HOME = f"{SITE}/.blackstart-patches"


def patch(name: str, distribution: str = "sglang") -> DiffPatch:
    package = distribution.replace("-", "_")
    return DiffPatch(name, Path(), distribution, package, Prose(), "t" * 64, Path("x.diff"), (), ())


def installed(distribution: str = "sglang", **over: object) -> Installed:
    tree = FetchedTree("1.0", {}, distribution=distribution)
    found = Installed(SITE, tree, Manifest(), None, {}, None)
    return replace(found, **over)  # type: ignore[arg-type]


def applied(one: DiffPatch, path: str, manifest: Manifest | None = None) -> Change:
    base = manifest or Manifest()
    record = PatchRecord(one.distribution, "1.0", one.template_hash, "2026-01-01T00:00:00Z", (path,))
    files = {**base.files, path: FileRecord(sha256(b"stock"), sha256(b"patched"))}
    after = Manifest({**base.patches, one.name: record}, files)
    outcome = Outcome(one, "applied", "", path)
    return Change((Edit(path, b"stock", b"patched"),), {sha256(b"stock"): b"stock"}, after, (outcome,))


def test_stock_comes_first_and_the_manifest_last() -> None:
    made = committed.fileset([(installed(), applied(patch("one"), "sglang/a.py"))], {}, ("restart x",))
    paths = [item["path"] for item in made.spec["files"]]
    stock = f"{HOME}/stock/{sha256(b'stock')}"
    assert paths == [stock, f"{SITE}/sglang/a.py", f"{HOME}/gate.json", f"{HOME}/manifest.json"]
    assert made.spec["stale"] == [f"{SITE}/sglang/__pycache__/a.*.pyc"]
    assert made.notify == ("restart x",)


def test_a_record_alone_restarts_nothing() -> None:
    change = replace(applied(patch("one"), "sglang/a.py"), edits=(), stock={})
    tree = FetchedTree("1.0", {"sglang/a.py": b"patched"})
    made = committed.fileset([(installed(tree=tree), change)], {}, ("restart x",))
    assert [item["path"] for item in made.spec["files"]] == [f"{HOME}/gate.json", f"{HOME}/manifest.json"]
    assert made.notify == ()


def test_a_second_distribution_builds_on_the_first_ones_manifest() -> None:
    first, second = patch("one"), patch("two", "flashinfer-python")
    plans = {"one": "sglang/a.py", "two": "flashinfer/b.cu"}

    def plan(own: list[DiffPatch], found: Installed) -> Change:
        (one,) = own
        return applied(one, plans[one.name], found.manifest)

    both = {"sglang": installed(), "flashinfer-python": installed("flashinfer-python")}
    planned = committed.plan_each([first, second], both, plan)  # type: ignore[arg-type]
    made = committed.fileset(planned, {})
    manifests = [item for item in made.spec["files"] if item["path"].endswith("manifest.json")]
    assert len(manifests) == 1
    assert set(json.loads(manifests[0]["content"])["patches"]) == {"one", "two"}
    assert "/root/.cache/flashinfer/1.0/*/cached_ops" in made.spec["stale"]


def test_patches_that_a_run_is_not_about_stay_in_the_gate() -> None:
    whole = committed.gate_content([(installed(), applied(patch("one"), "sglang/a.py"))])
    manifest = applied(patch("one"), "sglang/a.py").manifest
    other = applied(patch("two"), "sglang/b.py", manifest)
    gate = json.loads(committed.gate_content([(installed(gate=whole, manifest=manifest), other)]))
    assert {name: one["state"] for name, one in gate["patches"].items()} == {"one": "applied", "two": "applied"}
    assert gate["patches"]["one"]["files"] == {"sglang/a.py": sha256(b"patched")}


def test_a_patch_without_a_record_is_held_to_its_file_too() -> None:
    by_hand = Outcome(patch("one"), "applied", "by hand", "sglang/a.py", by="hand")
    tree = FetchedTree("1.0", {"sglang/a.py": b"edited"})
    gate = json.loads(committed.gate_content([(installed(tree=tree), Change(outcomes=(by_hand,)))]))
    assert gate["patches"]["one"]["files"] == {"sglang/a.py": sha256(b"edited")}
