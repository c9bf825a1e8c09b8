from __future__ import annotations

from pathlib import Path

import pytest

from blackstart.errors import InputError
from roles.patches import definition
from roles.patches.code import prove
from roles.patches.definition import StructuralPatch

GOOD = """\
name: mine
title: Mine
trace:
  needles: [marker]
function:
  named: f
place:
  kind: membership
  among: [a]
  entry: b
template: entry.j2
proof: proof.py
"""
PROOF = (
    "def observe(load, kit): return {}\ndef judge(seen): return 'needs', 'x'\ndef may_change(c, b, a): return True\n"
)


def _folder(root: Path, yml: str = GOOD, proof: str = PROOF) -> Path:
    folder = root / "mine"
    folder.mkdir(parents=True)
    (folder / "patch.yml").write_text(yml, encoding="utf-8")
    (folder / "entry.j2").write_text('"{{ entry }}"\n', encoding="utf-8")
    (folder / "proof.py").write_text(proof, encoding="utf-8")
    return root


def test_a_good_one(tmp_path: Path) -> None:
    patch = definition.load("mine", _folder(tmp_path))
    assert isinstance(patch, StructuralPatch)
    assert (patch.distribution, patch.package, patch.trace.needles) == ("sglang", "sglang", (b"marker",))


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("title: Mine\n", "", 1, "title is missing"),
        ("title: Mine", "title: [Mine]", 2, "title must be text"),
        ("title: Mine", "titel: Mine\ntitle: Mine", 2, "no key 'titel'"),
        ("name: mine", "name: yours", 1, "not that of the folder"),
        ("needles: [marker]", "needles: marker", 4, "list of texts"),
        ("needles: [marker]", "needles: [marker]\n  pattern: '('", 5, "regular expression"),
        ("needles: [marker]", "needels: [marker]", 4, "needles is missing"),
        ("kind: membership", "kind: magic", 8, "kind is not known"),
        ("named: f", "named: '('", 6, "regular expression"),
        ("template: entry.j2", "template: other.j2", 11, "no file other.j2"),
        ("proof: proof.py", "proof: ../proof.py", 12, "no file"),
        ("place:\n", "place: here\nwas:\n", 7, "mapping"),
        ("title: Mine", "title: 'Mine", 0, "YAML"),
    ],
)
def test_a_bad_one_gives_file_and_line(tmp_path: Path, old: str, new: str, line: int, why: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=why) as caught:
        definition.load("mine", _folder(tmp_path, GOOD.replace(old, new)))
    file, _, number = caught.value.where.rpartition(":")
    assert file.endswith("mine/patch.yml")
    if line:
        assert abs(int(number) - line) <= 3


def test_a_name_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no patch 'yours'") as caught:
        definition.load("yours", _folder(tmp_path))
    assert "mine" in caught.value.remedy


def test_the_hash_changes_with_what_changes_the_patch(tmp_path: Path) -> None:
    first = definition.load("mine", _folder(tmp_path)).template_hash
    (tmp_path / "mine" / "entry.j2").write_text('"{{ entry }}", # other\n', encoding="utf-8")
    assert definition.load("mine", tmp_path).template_hash != first


@pytest.mark.parametrize(
    ("proof", "why"),
    [
        ("def observe(:\n", "cannot be read"),
        ("1 / 0\n", "does not load"),
        ("import os\n", "does not load"),
        ("def observe(load, kit): return {}\n", r"defines no judge\(\)"),
    ],
)
def test_a_bad_proof_is_an_input_error(tmp_path: Path, proof: str, why: str) -> None:
    patch = definition.load("mine", _folder(tmp_path, proof=proof))
    assert isinstance(patch, StructuralPatch)
    with pytest.raises(InputError, match=why):
        prove.load(patch.proof)


def test_the_shipped_patches_are_whole_and_say_what_they_must() -> None:
    patches = {patch.name: patch for patch in definition.load_all()}
    assert {"nsa-guard", "sm120-autotune"} <= set(patches)
    for name in ("nsa-guard", "sm120-autotune"):
        assert all(vars(patches[name].prose).values()), name
    guard = patches["nsa-guard"].prose
    assert "decode" in guard.limits and "--disable-chunked-prefix-cache" in guard.without_patch
    assert "--flashinfer-mla-disable-ragged" in guard.without_patch and "trtllm" in guard.without_patch
