"""40 and more mutations of every distinct function: judged first by what they really do, then by the patch."""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roles.patches.decide import Edit, Outcome, decide
from roles.patches.definition import Patch
from roles.patches.tree import FetchedTree

from . import oracles
from .mutations import EASY, Mutation, mutations
from .subjects import GATE, GUARD, Subject, subjects

pytestmark = pytest.mark.wheels

# What the guard needs besides, which stands in another file of every release.
ONE_SHOT = {"sglang/srt/model_executor/batch.py": b"def fetch_mha_one_shot_kv_indices(self):\n    return None\n"}


def test_every_mutation_of_every_gate(folders: dict[str, Path], patches: dict[str, Patch]) -> None:
    _check_all(subjects(folders, GATE), patches[GATE], at_least=11)


def test_every_mutation_of_every_guard(folders: dict[str, Path], patches: dict[str, Patch]) -> None:
    _check_all(subjects(folders, GUARD), patches[GUARD], at_least=7)


def _check_all(found: list[Subject], patch: Patch, at_least: int) -> None:
    assert len(found) >= at_least
    wrong, ends = [], Counter[str]()
    for subject in found:
        made = mutations(subject)
        assert len({tuple(sorted(m.files.items())) for m in made}) >= 40
        for mutation in made:
            outcome = decide(patch, FetchedTree("0", {**ONE_SHOT, **mutation.files}))
            ends[outcome.state] += 1
            problem = _problem(subject, mutation, outcome)
            if problem:
                wrong.append(f"{subject.version}, {mutation.name}: {problem}\n    {outcome.state}: {outcome.detail}")
    assert not wrong, "\n".join([f"{len(wrong)} of {ends.total()} ({dict(ends)}):", *wrong])


def _problem(subject: Subject, mutation: Mutation, outcome: Outcome) -> str:
    """What is wrong with the outcome, by what the mutated function does; "" if nothing."""
    if not outcome.detail.strip():
        return "it says nothing"
    truth, before = _truth(subject, mutation, mutation.files[mutation.home])
    if outcome.state == "drifted":
        return "" if mutation.kind != EASY or truth in ("strange", "fails") else f"drifted, but it {truth}"
    if truth == "unrelated":
        return "" if outcome.state == "not-applicable" else "it does not look at the runner"
    if truth == "behaves":
        return "" if outcome.state in ("upstream", "applied") else "it behaves already"
    if truth != "needs" or outcome.state != "needed":
        return f"it {truth}"
    return _edit_problem(subject, mutation, outcome, before)


def _truth(subject: Subject, mutation: Mutation, content: bytes) -> tuple[str, Any]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    name = mutation.function
    try:
        return _gate_truth(text, name) if subject.patch == GATE else _guard_truth(text, name)
    except (SyntaxError, AssertionError, TypeError, NameError, RuntimeError, AttributeError, ValueError):
        return "fails", None


def _gate_truth(text: str, name: str) -> tuple[str, Any]:
    answers = oracles.ask_gate(text, name)
    by_runner = {
        runner: {key[1:]: yes for key, yes in answers.items() if key[0] == runner} for runner in oracles.RUNNERS
    }
    if all(same == by_runner["auto"] for same in by_runner.values()) and answers["auto", (12, 0), False]:
        return "unrelated", answers
    sound = (
        answers["flashinfer_trtllm", (12, 0), False]
        and answers["flashinfer_trtllm", (10, 0), False]
        and not any(yes for (_, capability, disabled), yes in answers.items() if disabled or capability[0] < 9)
        and not answers["triton", (12, 0), False]
        and not answers["auto", (12, 0), False]
    )
    if not sound:
        return "strange", answers
    return ("behaves" if answers["flashinfer_cutlass", (12, 0), False] else "needs"), answers


def _guard_truth(text: str, name: str) -> tuple[str, Any]:
    answers = oracles.ask_guard(text, name)
    if answers["table", True] != oracles.expected(oracles.TABLE):
        return "strange", answers
    fallen = [
        answer == oracles.expected(oracles.BATCH) for (metadata, _), answer in answers.items() if metadata != "table"
    ]
    return ("behaves" if all(fallen) else "needs"), answers


def _edit_problem(subject: Subject, mutation: Mutation, outcome: Outcome, before: Any) -> str:
    problems = [_one_edit_problem(subject, mutation, edit, before) for edit in outcome.edits]
    return next((problem for problem in problems if problem), "" if problems else "needed without an edit")


def _one_edit_problem(subject: Subject, mutation: Mutation, edit: Edit, before: Any) -> str:
    truth, after = _truth(subject, mutation, edit.after)
    if truth != "behaves":
        return f"patched it {truth}"
    meant = {key for key in before if (key[0] == "flashinfer_cutlass" if subject.patch == GATE else key[0] != "table")}
    others = [key for key in before if key not in meant and before[key] != after[key]]
    if others:
        return f"the edit changes {others[:2]} as well"
    old, new = (content.splitlines(keepends=True) for content in (edit.before, edit.after))
    changes = [
        code for code in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if code[0] != "equal"
    ]
    if sum(code[2] - code[1] for code in changes) > 3:
        return "the edit replaces more than the statement"
    if b"\r\n" in edit.before and b"\n" in edit.after.replace(b"\r\n", b""):
        return "line endings are mixed"
    return ""
