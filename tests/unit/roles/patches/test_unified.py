from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blackstart.errors import InputError
from roles.patches import definition, unified
from roles.patches.decide import decide
from roles.patches.definition import DiffPatch
from roles.patches.diff_parse import FileDiff, read_diff
from roles.patches.tree import FetchedTree, record_hashes

from .stock import record

OLD = "".join(f"line {n}\n" for n in range(1, 41))
NEW = OLD.replace("line 10\n", "line ten\nline ten and a half\n").replace("line 30\n", "")
PATH = "sglang/srt/one.py"
OTHER = "sglang/srt/two.py"


def _diff(files: dict[str, tuple[str, str]], context: int = 3) -> str:
    return "".join(
        line
        for path, (old, new) in files.items()
        for line in difflib.unified_diff(
            old.splitlines(True), new.splitlines(True), f"a/python/{path}", f"b/python/{path}", n=context
        )
    )


def _patch(root: Path, diff: str | bytes, yml: str = "") -> DiffPatch:
    folder = root / "mine"
    folder.mkdir(exist_ok=True)
    (folder / "mine.diff").write_bytes(diff.encode() if isinstance(diff, str) else diff)
    if yml:
        (folder / "patch.yml").write_text(f"title: Mine\n{yml}", encoding="utf-8")
    patch = definition.load("mine", root)
    assert isinstance(patch, DiffPatch)
    return patch


def _tree(released: dict[str, str] | None = None, **files: str) -> FetchedTree:
    named = {f"sglang/srt/{name}.py": text.encode() for name, text in files.items()}
    hashes = {f"sglang/srt/{name}.py": text.encode() for name, text in (released or {}).items()}
    return FetchedTree("0.5.9", named, released=record_hashes(record(hashes)))


@pytest.mark.parametrize("new", [f"line 0\n{OLD}", f"{OLD}line 41\n", f"line 0\n{OLD}line 41\n"])
def test_what_is_added_at_a_files_beginning_or_end_is_known_once_it_is_there(tmp_path: Path, new: str) -> None:
    patch = _patch(tmp_path, _diff({PATH: (OLD, new)}))
    needed = decide(patch, _tree(one=OLD))
    assert needed.state == "needed" and [edit.after.decode() for edit in needed.edits] == [new]
    assert decide(patch, _tree(one=new)).state == "upstream"


def test_the_states_are_told_by_dry_runs_both_ways(tmp_path: Path) -> None:
    patch = _patch(tmp_path, _diff({PATH: (OLD, NEW)}))
    needed = decide(patch, _tree(one=OLD))
    assert needed.state == "needed" and [edit.after.decode() for edit in needed.edits] == [NEW]
    assert decide(patch, _tree(one=NEW)).state == "upstream"
    assert decide(patch, _tree({"one": NEW}, one=NEW)).state == "upstream"
    by_hand = decide(patch, _tree({"one": OLD}, one=NEW))
    assert (by_hand.state, by_hand.by) == ("applied", "hand")


def test_hunks_move_with_the_code(tmp_path: Path) -> None:
    patch = _patch(tmp_path, _diff({PATH: (OLD, NEW)}))
    moved = "new above\n" * 7 + OLD
    outcome = decide(patch, _tree(one=moved))
    assert outcome.state == "needed" and "at other lines" in outcome.detail
    assert outcome.edits[0].after.decode() == "new above\n" * 7 + NEW


def test_no_fuzz(tmp_path: Path) -> None:
    """One changed line of context is drift, shown beside what is there."""
    patch = _patch(tmp_path, _diff({PATH: (OLD, NEW)}))
    outcome = decide(patch, _tree(one=OLD.replace("line 8\n", "line eight\n")))
    assert outcome.state == "drifted" and outcome.edits == ()
    assert "hunk 1 of sglang/srt/one.py (line 7) does not fit" in outcome.detail
    shown = [line for line in outcome.detail.splitlines() if line.startswith("!")]
    assert [part.strip() for part in shown[0][1:].split("|")] == ["line 8", "line eight"]


def test_the_second_hunk_that_fails_is_named(tmp_path: Path) -> None:
    patch = _patch(tmp_path, _diff({PATH: (OLD, NEW)}))
    assert "hunk 2 of" in decide(patch, _tree(one=OLD.replace("line 31\n", "line thirty-one\n"))).detail


def test_lines_that_are_there_twice_are_not_guessed(tmp_path: Path) -> None:
    block = "a = 1\nb = 2\nc = 3\n"
    patch = _patch(tmp_path, _diff({PATH: (block, block.replace("b = 2", "b = 3"))}))
    twice = decide(patch, _tree(one="first\n" + block + "between\n" + block))
    assert twice.state == "drifted" and "more than once (lines 2, 6)" in twice.detail
    at_its_own_line = decide(patch, _tree(one=block + "between\n" + block))
    assert at_its_own_line.edits[0].after.decode() == block.replace("b = 2", "b = 3") + "between\n" + block


def test_a_diff_too_short_to_tell_both_ways_apart(tmp_path: Path) -> None:
    patch = _patch(tmp_path, _diff({PATH: ("x\n", "y\n")}, context=0))
    outcome = decide(patch, _tree(one="y\nx\n"))
    assert outcome.state == "drifted" and "both" in outcome.detail


def test_several_files_or_none(tmp_path: Path) -> None:
    patch = _patch(tmp_path, _diff({PATH: (OLD, NEW), OTHER: (OLD, NEW)}))
    assert {edit.path for edit in decide(patch, _tree(one=OLD, two=OLD)).edits} == {PATH, OTHER}
    half = decide(patch, _tree(one=OLD, two=NEW))
    assert (half.state, half.file) == ("drifted", PATH)
    assert half.detail == f"half there: {OTHER} has it, {PATH} does not"
    assert decide(patch, _tree(one=OLD, two=OLD.replace("line 9\n", "9\n"))).edits == ()


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    old = OLD.replace("line 9\n", "a_line_that_says_enough_to_be_found(again)\n")
    patch = _patch(tmp_path, _diff({PATH: (old, old.replace("line 10\n", "line ten\n"))}))
    assert decide(patch, _tree(two=OLD)).state == "not-applicable"
    moved = decide(patch, _tree(two=old))
    assert moved.state == "drifted" and f"its code is in {OTHER}" in moved.detail


def test_crlf_is_kept(tmp_path: Path) -> None:
    patch = _patch(tmp_path, _diff({PATH: (OLD, NEW)}))
    outcome = decide(patch, _tree(one=OLD.replace("\n", "\r\n")))
    assert outcome.edits[0].after.decode() == NEW.replace("\n", "\r\n")


def test_a_diff_that_was_saved_with_crlf(tmp_path: Path) -> None:
    patch = _patch(tmp_path, _diff({PATH: (OLD, NEW)}).replace("\n", "\r\n"))
    assert decide(patch, _tree(one=OLD)).edits[0].after.decode() == NEW


NO_NEWLINE = "\\ No newline at end of file\n"


@pytest.mark.parametrize(("old_ended", "new_ended"), [(True, False), (False, True), (False, False)])
def test_the_end_of_a_file_without_a_newline(tmp_path: Path, old_ended: bool, new_ended: bool) -> None:
    old, new = "a\nb" + "\n" * old_ended, "a\nc" + "\n" * new_ended
    lines = ["--- a/x/sglang/srt/one.py\n", "+++ b/x/sglang/srt/one.py\n", "@@ -1,2 +1,2 @@\n", " a\n", "-b\n"]
    diff = "".join([*lines, "" if old_ended else NO_NEWLINE, "+c\n", "" if new_ended else NO_NEWLINE])
    patch = _patch(tmp_path, diff)
    assert decide(patch, _tree(one=old)).edits[0].after.decode() == new
    assert decide(patch, _tree(one=old + "more\n" if old_ended else old + "\n")).state == (
        "needed" if old_ended else "drifted"
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefgh"), max_size=30),
    st.lists(st.sampled_from("abcdefghxyz"), max_size=30),
    st.integers(0, 4),
)
def test_what_difflib_makes_goes_there_and_back(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], context: int
) -> None:
    """Whatever applies gives the new text, and its reverse the old one; nothing else is ever written."""
    before, after = ("".join(f"{n} {c}\n" for n, c in enumerate(lines)) for lines in (old, new))
    diff = _diff({PATH: (before, after)}, context)
    if not diff:
        return
    root = tmp_path_factory.mktemp("diffs")
    try:
        (found,), _ = read_diff(_patch(root, diff).diff, "sglang")
    except InputError as error:
        assert "no line of context" in error.message
        return
    assert isinstance(found, FileDiff)
    forth = unified.fit(found.hunks, before.encode())
    assert forth.failed is None and unified.apply_at(found.hunks, forth.at, before.encode()) == after.encode()
    back = unified.fit(found.undoing(), after.encode())
    if back.failed is None:
        assert unified.apply_at(found.undoing(), back.at, after.encode()) == before.encode()


# Only some of its files


def test_a_diff_that_also_changes_tests_is_refused_until_it_is_said_what_to_take(tmp_path: Path) -> None:
    """Reported by users: only some files of a pull request are needed."""
    diff = _diff({PATH: (OLD, NEW), OTHER: (OLD, NEW)}) + "--- a/test/t.py\n+++ b/test/t.py\n@@ -1 +1 @@\n-a\n+b\n"
    with pytest.raises(InputError, match="files outside sglang/") as caught:
        decide(_patch(tmp_path, diff), _tree(one=OLD))
    assert caught.value.found == "b/test/t.py"
    taken = _patch(tmp_path, diff, f"include: [{PATH}]\n")
    assert [edit.path for edit in decide(taken, _tree(one=OLD, two="other\n")).edits] == [PATH]


def test_include_has_to_name_something(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="include names what the diff does not change") as caught:
        decide(_patch(tmp_path, _diff({PATH: (OLD, NEW)}), "include: [sglang/other.py]\n"), _tree(one=OLD))
    assert PATH in caught.value.remedy


def test_what_is_expected_afterwards_has_to_be_there(tmp_path: Path) -> None:
    diff = _diff({PATH: (OLD, NEW)})
    assert decide(_patch(tmp_path, diff, "expect: [line ten]\n"), _tree(one=OLD)).state == "needed"
    outcome = decide(_patch(tmp_path, diff, "expect: [line eleven and a half]\n"), _tree(one=OLD))
    assert outcome.state == "drifted" and "eleven and a half" in outcome.detail


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        ("", "changes no file"),
        ("hello\n", "changes no file"),
        ("--- a/sglang/x.py\n+++ b/sglang/x.py\n", "has no hunk"),
        ("@@ -1 +1 @@\n-a\n+b\n", "outside any file"),
        ("--- a/sglang/x.py\n+++ b/sglang/x.py\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n", "shorter than its header"),
        ("--- a/sglang/x.py\n+++ b/sglang/x.py\n@@ -1,2 +1,1 @@\n a\n b\n", "longer than its header"),
        ("--- a/sglang/x.py\n+++ b/sglang/x.py\n@@ -1,0 +2 @@\n+c\n", "no line of context"),
        ("--- /dev/null\n+++ b/sglang/x.py\n@@ -0,0 +1 @@\n+c\n", "makes a new file"),
        ("--- a/sglang/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n", "removes a file"),
        ("rename from sglang/a.py\nrename to sglang/b.py\n", "renames a file"),
        ("GIT binary patch\n", "binary"),
        (_diff({PATH: (OLD, NEW)}) * 2, "comes up twice"),
        ('--- "a/sglang/\\303.py"\n+++ "b/sglang/\\303.py"\n@@ -1 +1 @@\n-a\n+b\n', "quoted"),
    ],
)
def test_what_is_no_diff_for_us_says_why(tmp_path: Path, diff: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        decide(_patch(tmp_path, diff), _tree(one=OLD))
    assert "mine.diff" in caught.value.where


def test_a_path_that_climbs_out_is_outside(tmp_path: Path) -> None:
    diff = "--- a/sglang/../../etc/x\n+++ b/sglang/../../etc/x\n@@ -1 +1 @@\n-a\n+b\n"
    with pytest.raises(InputError):
        decide(_patch(tmp_path, diff), _tree(one=OLD))


def test_an_empty_line_of_context_may_have_lost_its_blank(tmp_path: Path) -> None:
    diff = "--- a/sglang/srt/one.py\n+++ b/sglang/srt/one.py\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"
    assert decide(_patch(tmp_path, diff), _tree(one="a\n\nb\n")).edits[0].after == b"a\n\nc\n"
