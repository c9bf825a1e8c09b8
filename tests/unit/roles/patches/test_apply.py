"""Applying and reverting on whole trees: odd ones, tampered ones, and what happens to a tree between two runs."""

from __future__ import annotations

import difflib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from blackstart.errors import CheckError, InputError
from roles.patches import changes, definition
from roles.patches.apply import adopt, apply, revert
from roles.patches.definition import Patch
from roles.patches.manifest import Manifest
from roles.patches.status import status
from roles.patches.store import Store
from roles.patches.tree import STATE_FOLDER, FetchedTree, FolderTree, record_hashes

from . import stock
from .stock import FILES, GATE, GATE_PATH, GUARD_PATH


def _states(folder: Path, *patches: Patch) -> dict[str, str]:
    return {patch["name"]: patch["state"] for patch in status(folder, patches)["patches"]}


def test_there_and_back(source: Path, gate: Patch, guard: Patch) -> None:
    before = stock.contents(source)
    first = apply(source, [gate, guard])
    assert first.as_dict()["changed"] == [GATE_PATH, GUARD_PATH]
    assert _states(source, gate, guard) == {"sm120-autotune": "applied", "nsa-guard": "applied"}
    again = apply(source, [gate, guard])
    assert again.as_dict()["changed"] == [] and "completed" not in again.as_dict()
    back = revert(source, ["sm120-autotune", "nsa-guard"], [gate, guard])
    assert {outcome.state for outcome in back.outcomes} == {"needed"} and stock.contents(source) == before


def test_the_manifest_holds_release_template_date_and_hashes(source: Path, gate: Patch) -> None:
    apply(source, [gate])
    data = json.loads((source / STATE_FOLDER / "manifest.json").read_bytes())
    record = data["patches"]["sm120-autotune"]
    assert record["release"] == "0.5.9" and record["template"] == gate.template_hash and record["date"].endswith("Z")
    hashes = data["files"][GATE_PATH]
    assert (source / STATE_FOLDER / "stock" / hashes["before"]).read_bytes() == FILES[GATE_PATH]


def test_check_writes_nothing(source: Path, gate: Patch) -> None:
    before = stock.contents(source)
    result = apply(source, [gate], check=True)
    assert result.as_dict()["changed"] == [GATE_PATH] and stock.contents(source) == before


def test_one_of_two_can_be_taken_out(source: Path, gate: Patch, guard: Patch) -> None:
    apply(source, [gate, guard])
    revert(source, ["nsa-guard"], [gate, guard])
    assert _states(source, gate, guard) == {"sm120-autotune": "applied", "nsa-guard": "needed"}
    assert (source / GUARD_PATH).read_bytes() == FILES[GUARD_PATH]


def _diff_patch(root: Path, name: str, path: str, before: str, after: str) -> Patch:
    folder = root / "patches" / name
    folder.mkdir(parents=True, exist_ok=True)
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
    (folder / f"{name}.diff").write_text("".join(lines), encoding="utf-8")
    return definition.load(name, root / "patches")


@pytest.fixture
def beside(tmp_path: Path) -> Patch:
    """A patch of the user's own on the gate's file."""
    return _diff_patch(tmp_path, "quieter", GATE_PATH, GATE, GATE.replace("major < 9:", "major < 8:"))


def test_two_patches_of_one_file(source: Path, beside: Patch, tmp_path: Path) -> None:
    second = _diff_patch(tmp_path, "comment", GATE_PATH, GATE, GATE.replace("# TODO:", "# NOTE:"))
    before = stock.contents(source)
    patches = [beside, second]
    apply(source, [beside])
    apply(source, [second], patches)
    both = (source / GATE_PATH).read_bytes()
    assert b"major < 8" in both and b"# NOTE:" in both
    revert(source, [beside.name], patches)
    assert (source / GATE_PATH).read_bytes() == FILES[GATE_PATH].replace(b"# TODO:", b"# NOTE:")
    said = status(source, patches)["patches"]
    assert [patch["state"] for patch in said] == ["needed", "applied"]
    assert said[1]["detail"].startswith("applied to sglang 0.5.9 on ")
    revert(source, ["comment"], patches)
    assert stock.contents(source) == before


def test_a_patch_cannot_be_put_back_without_its_definition(source: Path, tmp_path: Path, beside: Patch) -> None:
    second = _diff_patch(tmp_path, "comment", GATE_PATH, GATE, GATE.replace("# TODO:", "# NOTE:"))
    apply(source, [beside, second])
    before = stock.contents(source)
    with pytest.raises(CheckError, match="definition is not there"):
        revert(source, [beside.name], [beside])
    assert stock.contents(source) == before


def test_a_patch_whose_template_changed_is_renewed_from_stock(source: Path, tmp_path: Path) -> None:
    old = _diff_patch(tmp_path, "comment", GATE_PATH, GATE, GATE.replace("# TODO:", "# NOTE:"))
    apply(source, [old])
    new = _diff_patch(tmp_path, "comment", GATE_PATH, GATE, GATE.replace("# TODO:", "# WARNING:"))
    said = status(source, [new])["patches"][0]
    assert said["state"] == "applied" and "has changed since" in said["detail"]
    apply(source, [new])
    assert (source / GATE_PATH).read_bytes() == FILES[GATE_PATH].replace(b"# TODO:", b"# WARNING:")
    revert(source, ["comment"], [new])
    assert (source / GATE_PATH).read_bytes() == FILES[GATE_PATH]


# Between two runs


def test_a_reinstall_that_wipes_a_patch_is_seen(source: Path, gate: Patch) -> None:
    """Reported by users: patches inside site-packages vanish on reinstall."""
    apply(source, [gate])
    stock.install(source)
    said = status(source, [gate])["patches"][0]
    assert said["state"] == "needed" and "not as it left them" in said["detail"]
    apply(source, [gate])
    assert _states(source, gate) == {"sm120-autotune": "applied"}


def test_a_revert_after_a_reinstall_only_forgets(source: Path, gate: Patch) -> None:
    before = stock.contents(source)
    apply(source, [gate])
    stock.install(source)
    revert(source, ["sm120-autotune"], [gate])
    assert stock.contents(source) == before


def test_a_manifest_from_another_release(source: Path, gate: Patch) -> None:
    apply(source, [gate])
    shutil.rmtree(source / "sglang-0.5.9.dist-info")
    newer = {**FILES, GATE_PATH: GATE.replace("# TODO", "# STILL TODO").encode()}
    stock.install(source, newer, release="0.5.10")
    said = status(source, [gate])
    assert said["sglang_version"] == "0.5.10" and said["patches"][0]["state"] == "needed"
    assert "sglang 0.5.9" in said["patches"][0]["detail"]
    apply(source, [gate])
    assert Store(source).manifest().release("sm120-autotune") == "sglang 0.5.10"
    revert(source, ["sm120-autotune"], [gate])
    assert (source / GATE_PATH).read_bytes() == newer[GATE_PATH]


def test_two_environments_of_different_releases(tmp_path: Path, gate: Patch) -> None:
    old = stock.install(tmp_path / "a")
    fixed = {**FILES, GATE_PATH: GATE.replace('# "flashinfer_cutlass"', '"flashinfer_cutlass"').encode()}
    new = stock.install(tmp_path / "b", fixed, release="0.5.13")
    for folder in (old, new):
        apply(folder, [gate])
    assert (_states(old, gate), _states(new, gate)) == ({"sm120-autotune": "applied"}, {"sm120-autotune": "upstream"})
    assert not (new / STATE_FOLDER).exists()


def test_a_tampered_stock_copy_is_not_put_back(source: Path, gate: Patch) -> None:
    apply(source, [gate])
    (blob,) = (source / STATE_FOLDER / "stock").iterdir()
    blob.write_bytes(b"evil = True\n")
    before = stock.contents(source)
    with pytest.raises(CheckError, match="tampered"):
        revert(source, ["sm120-autotune"], [gate])
    assert stock.contents(source) == before


def test_a_missing_stock_copy_is_said(source: Path, gate: Patch) -> None:
    apply(source, [gate])
    shutil.rmtree(source / STATE_FOLDER / "stock")
    with pytest.raises(CheckError, match="stock copy is missing"):
        revert(source, ["sm120-autotune"], [gate])


def test_a_file_edited_after_it_was_patched_is_not_overwritten(source: Path, gate: Patch) -> None:
    apply(source, [gate])
    file = source / GATE_PATH
    file.write_bytes(file.read_bytes() + b"# mine\n")
    before = stock.contents(source)
    with pytest.raises(CheckError, match="changed after sm120-autotune was applied"):
        revert(source, ["sm120-autotune"], [gate])
    assert stock.contents(source) == before
    assert _states(source, gate) == {"sm120-autotune": "applied"}


def test_a_line_added_after_the_patch_does_not_cost_the_way_back(source: Path, gate: Patch) -> None:
    result = apply(source, [gate])
    file = source / result.outcomes[0].file
    patched = file.read_bytes()
    file.write_bytes(patched + b"# mine\n")
    assert apply(source, [gate]).outcomes[0].state == "applied"
    assert file.read_bytes() == patched + b"# mine\n"
    with pytest.raises(CheckError, match="changed after"):
        revert(source, [gate.name], [gate])
    file.write_bytes(patched)
    assert revert(source, [gate.name], [gate]).outcomes[0].state == "needed"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 9}', b'{"format": 1, "patches": {}, "files": 3}'])
def test_a_damaged_manifest_is_said(source: Path, gate: Patch, content: bytes) -> None:
    apply(source, [gate])
    (source / STATE_FOLDER / "manifest.json").write_bytes(content)
    with pytest.raises(InputError, match="manifest is damaged"):
        status(source, [gate])


# By hand


def _by_hand(folder: Path) -> None:
    file = folder / GATE_PATH
    file.write_text(GATE.replace('# "flashinfer_cutlass"', '"flashinfer_cutlass"'), encoding="utf-8")


def test_what_was_done_by_hand_is_said_left_alone_and_not_reverted(source: Path, gate: Patch) -> None:
    _by_hand(source)
    before = stock.contents(source)
    said = status(source, [gate])["patches"][0]
    assert said["state"] == "applied" and said["detail"].startswith("by hand")
    assert apply(source, [gate]).as_dict()["changed"] == []
    with pytest.raises(CheckError, match="was not put there by us"):
        revert(source, ["sm120-autotune"], [gate])
    assert stock.contents(source) == before


def test_adopting_records_what_was_done_by_hand(source: Path, gate: Patch) -> None:
    _by_hand(source)
    adopt(source, [gate])
    assert "adopted" in status(source, [gate])["patches"][0]["detail"]
    with pytest.raises(CheckError, match="no stock copy"):
        revert(source, ["sm120-autotune"], [gate])
    stock.install(source)
    assert _states(source, gate) == {"sm120-autotune": "needed"}


def test_there_is_nothing_to_adopt_in_stock(source: Path, gate: Patch) -> None:
    before = stock.contents(source)
    assert adopt(source, [gate]).outcomes[0].state == "needed" and stock.contents(source) == before


def test_an_edit_of_another_patch_is_no_hand_edit(tmp_path: Path, gate: Patch) -> None:
    fixed = GATE.replace('# "flashinfer_cutlass"', '"flashinfer_cutlass"')
    folder = stock.install(tmp_path / "site", {**FILES, GATE_PATH: fixed.encode()}, release="0.5.13")
    apply(folder, [_diff_patch(tmp_path, "comment", GATE_PATH, fixed, fixed.replace("# TODO:", "# NOTE:"))])
    assert _states(folder, gate) == {"sm120-autotune": "upstream"}


# Odd trees


def test_crlf_files_stay_crlf(tmp_path: Path, gate: Patch, guard: Patch) -> None:
    crlf = {path: content.replace(b"\n", b"\r\n") for path, content in FILES.items()}
    folder = stock.install(tmp_path / "site", crlf)
    apply(folder, [gate, guard])
    for path in (GATE_PATH, GUARD_PATH):
        assert b"\n" not in (folder / path).read_bytes().replace(b"\r\n", b"")
    revert(folder, ["sm120-autotune", "nsa-guard"], [gate, guard])
    assert (folder / GATE_PATH).read_bytes() == crlf[GATE_PATH]


def test_a_syntax_error_beside_is_no_matter_and_in_the_file_is_drift(source: Path, gate: Patch) -> None:
    (source / "sglang/srt/broken.py").write_text("def broken(:\n", encoding="utf-8")
    assert _states(source, gate) == {"sm120-autotune": "needed"}
    (source / GATE_PATH).write_text(GATE + "def broken(:\n", encoding="utf-8")
    before = stock.contents(source)
    assert apply(source, [gate]).outcomes[0].state == "drifted" and stock.contents(source) == before


def test_a_drift_is_never_silence(source: Path, gate: Patch) -> None:
    """Reported by users: a patch that prints "marker not found - skipping" and exits 0."""
    (source / GATE_PATH).write_text(GATE.replace("major < 9", "major < 9 or major == 12"), encoding="utf-8")
    (outcome,) = apply(source, [gate]).outcomes
    assert outcome.state == "drifted" and outcome.file == GATE_PATH and "line 7" in outcome.detail


def test_a_missing_file_is_no_trace(source: Path, gate: Patch) -> None:
    (source / GATE_PATH).unlink()
    assert _states(source, gate) == {"sm120-autotune": "not-applicable"}


def test_an_environment_without_record(tmp_path: Path, gate: Patch) -> None:
    folder = stock.install(tmp_path / "site", recorded=False)
    before = stock.contents(folder)
    apply(folder, [gate])
    revert(folder, ["sm120-autotune"], [gate])
    assert stock.contents(folder) == before


def test_a_package_that_is_a_link_is_read_but_not_written(tmp_path: Path, gate: Patch) -> None:
    real = stock.install(tmp_path / "real")
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sglang").symlink_to(real / "sglang")
    (folder / "sglang-0.5.9.dist-info").symlink_to(real / "sglang-0.5.9.dist-info")
    assert _states(folder, gate) == {"sm120-autotune": "needed"}
    before = stock.contents(real)
    with pytest.raises(InputError, match="link to another place"):
        apply(folder, [gate])
    assert stock.contents(real) == before and not (folder / STATE_FOLDER).exists()


def test_a_folder_that_is_reached_through_a_link_is_fine(source: Path, tmp_path: Path, gate: Patch) -> None:
    """/root/ml-env is a link to one of several environments."""
    (tmp_path / "env").symlink_to(source)
    assert apply(tmp_path / "env", [gate]).outcomes[0].state == "applied"


@pytest.mark.parametrize("written", [".", "../site-packages", "./"])
def test_a_relative_folder(source: Path, gate: Patch, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.chdir(source)
    before = stock.contents(source)
    assert apply(Path(written), [gate]).as_dict()["changed"] == [GATE_PATH]
    revert(Path(written), ["sm120-autotune"], [gate])
    assert stock.contents(source) == before


def test_an_editable_install_says_where_its_source_is(tmp_path: Path, gate: Patch) -> None:
    folder = stock.install(tmp_path / "site", {})
    origin = {"url": "file:///src/sglang/python", "dir_info": {"editable": True}}
    (folder / "sglang-0.5.9.dist-info" / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    with pytest.raises(InputError, match="editable") as caught:
        status(folder, [gate])
    assert "/src/sglang/python" in str(caught.value)
    stock.install(tmp_path / "src")
    assert _states(tmp_path / "src", gate) == {"sm120-autotune": "needed"}


@pytest.mark.parametrize(("make", "why"), [(False, "no such folder"), (True, "holds no sglang/")])
def test_a_folder_that_is_none(tmp_path: Path, gate: Patch, make: bool, why: str) -> None:
    if make:
        (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match=why):
        status(tmp_path / "x", [gate])


def test_a_checkout_says_which_folder_is_meant(tmp_path: Path, gate: Patch) -> None:
    stock.install(tmp_path / "checkout" / "python")
    with pytest.raises(InputError, match="holds no sglang/") as caught:
        status(tmp_path / "checkout", [gate])
    assert str(tmp_path / "checkout" / "python") in caught.value.remedy


def test_the_package_itself_is_not_its_folder(source: Path, gate: Patch) -> None:
    with pytest.raises(InputError, match="the package itself") as caught:
        status(source / "sglang", [gate])
    assert str(source) in caught.value.remedy


def test_two_records_of_one_distribution(source: Path, gate: Patch) -> None:
    (source / "sglang-0.5.8.dist-info").mkdir()
    with pytest.raises(InputError, match="two releases"):
        status(source, [gate])


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("_version.py", "__version__ = version = '0.5.9'\n", "0.5.9"),
        ("version.py", '__version__ = "0.5.6.post1"\n', "0.5.6.post1"),
        ("version.py", "from x import __version__\n", "unknown"),
    ],
)
def test_the_version_without_a_dist_info(tmp_path: Path, file: str, text: str, version: str) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / file).write_text(text, encoding="utf-8")
    assert FolderTree(tmp_path).version() == version


def test_linked_folders_do_not_lead_round_in_a_circle(source: Path, gate: Patch) -> None:
    (source / "sglang" / "srt" / "again").symlink_to(source / "sglang")
    assert _states(source, gate) == {"sm120-autotune": "needed"}


# As a plan, for a machine


def test_a_plan_from_fetched_files_is_that_of_the_folder(source: Path, gate: Patch, guard: Patch) -> None:
    tree = FetchedTree("0.5.9", FILES, released=record_hashes(stock.record(FILES)))
    planned = changes.plan_apply([gate, guard], tree, Manifest(), lambda _: None, "2026-01-01T00:00:00Z")
    apply(source, [gate, guard])
    assert {edit.path: edit.after for edit in planned.edits} == {
        path: (source / path).read_bytes() for path in (GATE_PATH, GUARD_PATH)
    }
    assert planned.manifest.files == Store(source).manifest().files


def test_patches_of_another_distribution_stay_recorded(source: Path, gate: Patch) -> None:
    other = changes.plan_apply([gate], FolderTree(source), Manifest(), lambda _: None, "2026-01-01T00:00:00Z").manifest
    record = replace(other.patches["sm120-autotune"], distribution="flashinfer-python", files=("flashinfer/x.py",))
    held = Manifest({"theirs": record}, {"flashinfer/x.py": other.files[GATE_PATH]})
    tree = FetchedTree("0.5.9", FILES)
    planned = changes.plan_apply([gate], tree, held, lambda _: None, "2026-01-01T00:00:00Z")
    assert set(planned.manifest.patches) == {"theirs", "sm120-autotune"}
