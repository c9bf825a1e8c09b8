from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from roles.patches.decide import decide, decide_all
from roles.patches.definition import Patch
from roles.patches.status import outcomes
from roles.patches.tree import FetchedTree, record_hashes

from . import stock
from .stock import FILES, GATE, GATE_PATH, GUARD, GUARD_PATH


def _tree(**changed: str) -> FetchedTree:
    """The stock files with the gate or the guard in other words, and the RECORD of the stock ones."""
    files = dict(FILES)
    for name, text in changed.items():
        files[{"gate": GATE_PATH, "guard": GUARD_PATH}[name]] = text.encode()
    return FetchedTree("0.5.9", files, released=record_hashes(stock.record(FILES)))


def test_stock_needs_both(gate: Patch, guard: Patch) -> None:
    found = decide_all([gate, guard], _tree())
    assert [(outcome.state, outcome.file) for outcome in found] == [("needed", GATE_PATH), ("needed", GUARD_PATH)]
    assert "says no to flashinfer_cutlass" in found[0].detail and "AttributeError" in found[1].detail


def test_only_the_place_changes(gate: Patch, guard: Patch) -> None:
    for outcome in decide_all([gate, guard], _tree()):
        (edit,) = outcome.edits
        before, after = edit.before.splitlines(), edit.after.splitlines()
        removed = [line for line in before if line not in after]
        assert len(removed) <= 1
        ast.parse(edit.after)


def test_the_entry_is_added_where_the_release_left_it_out(gate: Patch) -> None:
    (edit,) = decide(gate, _tree()).edits
    assert (
        b'"flashinfer_mxfp4",\n            "flashinfer_cutlass",  # blackstart: sm120-autotune\n            # TODO'
        in edit.after
    )


def test_no_trace_is_not_applicable(gate: Patch, guard: Patch) -> None:
    tree = FetchedTree("0.5.4", {"sglang/srt/server_args.py": b"x = 1\n"})
    assert {outcome.state for outcome in decide_all([gate, guard], tree)} == {"not-applicable"}


def test_the_backend_that_makes_the_table_is_no_trace(guard: Patch) -> None:
    made = b"class NSAMetadata:\n    page_table_1_flattened: Optional[int] = None\nx = self.page_table_1_flattened\n"
    assert decide(guard, FetchedTree("0.5.5", {"sglang/srt/layers/nsa_backend.py": made})).state == "not-applicable"


def test_a_trace_outside_the_likely_folders_is_found(gate: Patch) -> None:
    tree = FetchedTree("9", {"sglang/new_home/gate.py": GATE.encode()})
    assert (decide(gate, tree).state, decide(gate, tree).file) == ("needed", "sglang/new_home/gate.py")


def test_a_gate_that_does_not_look_at_the_runner_is_not_applicable(gate: Patch) -> None:
    text = GATE.replace("disable_flashinfer_autotune", "enable_flashinfer_autotune").replace(
        "        if self", "        if not self", 1
    )
    text = text.replace("moe_runner_backend", "attention_backend").replace('"flashinfer_trtllm"', '"flashinfer"')
    tree = FetchedTree("0.5.6", {GATE_PATH: text.encode()})
    assert decide(gate, tree).state == "not-applicable"


def test_upstream_is_told_from_by_hand_by_the_record(gate: Patch) -> None:
    fixed = GATE.replace('# "flashinfer_cutlass"', '"flashinfer_cutlass"')
    released = FetchedTree(
        "0.5.13", {GATE_PATH: fixed.encode()}, released=record_hashes(stock.record({GATE_PATH: fixed.encode()}))
    )
    assert decide(gate, released).state == "upstream"
    by_hand = decide(gate, _tree(gate=fixed))
    assert (by_hand.state, by_hand.by, by_hand.detail.startswith("by hand")) == ("applied", "hand", True)


def test_without_a_record_the_shape_tells(gate: Patch, guard: Patch) -> None:
    """Releases that list the runner themselves keep the list in a variable; by hand it is where the stock list is."""
    by_hand = GATE.replace('# "flashinfer_cutlass"', '"flashinfer_cutlass"')
    outcome = decide(gate, FetchedTree("0.5.9", {GATE_PATH: by_hand.encode()}))
    assert (outcome.state, outcome.by) == ("applied", "hand") and "no RECORD" in outcome.detail
    upstream = by_hand.replace("if backend_str not in [", "moe_needs_autotune = backend_str in [").replace(
        "]:\n            return False", "]\n        if not moe_needs_autotune:\n            return False"
    )
    assert decide(gate, FetchedTree("0.5.13", {GATE_PATH: upstream.encode()})).state == "upstream"
    edited_elsewhere = FetchedTree(
        "0.5.13",
        {GATE_PATH: upstream.encode() + b"# mine\n"},
        released=record_hashes(stock.record({GATE_PATH: upstream.encode()})),
    )
    assert decide(gate, edited_elsewhere).state == "upstream"


def test_what_no_release_does_is_by_hand(guard: Patch) -> None:
    (edit,) = decide(guard, _tree()).edits
    outcome = decide(guard, FetchedTree("0.5.9", {**FILES, GUARD_PATH: edit.after}))
    assert (outcome.state, outcome.by) == ("applied", "hand")
    released = record_hashes(stock.record({GUARD_PATH: edit.after}))
    assert decide(guard, FetchedTree("9", {**FILES, GUARD_PATH: edit.after}, released=released)).state == "upstream"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("major < 9", "major < 9 or major == 12", "says no to flashinfer_trtllm on SM120"),
        ("return False\n\n        backend_str", "pass\n\n        backend_str", "although autotune is disabled"),
        ("major < 9", "major < 7", "capability .8, 0."),
        ("not in [", "in [", "says no to flashinfer_trtllm|also says yes"),
        ("def _should", "async def _should", "async"),
        ("backend_str not in", "unbound not in", "NameError"),
    ],
)
def test_what_behaves_strangely_has_drifted(gate: Patch, old: str, new: str, why: str) -> None:
    assert old in GATE
    outcome = decide(gate, _tree(gate=GATE.replace(old, new, 1)))
    assert outcome.state == "drifted" and outcome.edits == ()
    assert re.search(why, outcome.detail), outcome.detail


def test_source_that_is_no_python_here_has_drifted(gate: Patch) -> None:
    outcome = decide(gate, _tree(gate=GATE + "\ntype X[T: (int, str) = int] = list[T]\n"))
    assert outcome.state == "drifted" and "not read as Python" in outcome.detail and "line" in outcome.detail


def test_both_copies_of_a_function_are_patched_or_none(gate: Patch) -> None:
    copy = "sglang/srt/model_executor/copy.py"
    outcome = decide(gate, FetchedTree("9", {**FILES, copy: FILES[GATE_PATH]}))
    assert outcome.state == "needed" and {edit.path for edit in outcome.edits} == {GATE_PATH, copy}
    broken = GATE.replace("major < 9", "major < 9 or major == 12").encode()
    outcome = decide(gate, FetchedTree("9", {**FILES, copy: broken}))
    assert (outcome.state, outcome.edits, outcome.file) == ("drifted", (), copy)


def test_a_constant_that_another_file_imports_is_not_changed(gate: Patch) -> None:
    listed = 'KNOWN = ["flashinfer_trtllm", "flashinfer_mxfp4"]\n'
    start, end = GATE.index("["), GATE.index("]:")
    text = listed + GATE[:start] + "KNOWN" + GATE[end + 1 :]
    files = {**FILES, GATE_PATH: text.encode()}
    assert decide(gate, FetchedTree("9", files)).state == "needed"
    importing = {**files, "sglang/srt/other.py": b"from .model_runner import KNOWN\n"}
    outcome = decide(gate, FetchedTree("9", importing))
    assert outcome.state == "drifted" and "sglang/srt/other.py" in outcome.detail


def test_what_the_template_leans_on_has_to_be_there(guard: Patch) -> None:
    files = {path: content for path, content in FILES.items() if "forward_batch" not in path}
    outcome = decide(guard, FetchedTree("9", files))
    assert outcome.state == "drifted" and "fetch_mha_one_shot_kv_indices" in outcome.detail


def test_a_module_without_torch_cannot_take_the_guard(guard: Patch) -> None:
    outcome = decide(guard, _tree(guard=GUARD.replace("import torch\n", "")))
    assert outcome.state == "drifted" and "NameError" in outcome.detail


def test_another_signature_of_the_raw_reader_stops_the_guard(guard: Patch) -> None:
    text = (
        GUARD.replace("        dst_dtype: torch.dtype,\n", "")
        .replace(", dst_dtype\n", "\n")
        .replace("to(dst_dtype)", "to(1)")
    )
    assert decide(guard, _tree(guard=text)).state == "drifted"


def test_every_line_ending_stays(guard: Patch) -> None:
    files = {path: content.replace(b"\n", b"\r\n") for path, content in FILES.items()}
    (edit,) = decide(guard, FetchedTree("9", files)).edits
    assert edit.after.count(b"\n") == edit.after.count(b"\r\n") > edit.before.count(b"\n")


def test_the_order_of_outcomes_is_that_of_the_patches(source: Path, gate: Patch, guard: Patch) -> None:
    assert [outcome.patch.name for outcome in outcomes(source, [guard, gate])] == ["nsa-guard", "sm120-autotune"]
    assert [outcome.patch.name for outcome in outcomes(source, [gate, guard])] == ["sm120-autotune", "nsa-guard"]
