from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.text import NATURAL_LENGTH, Words, plan
from sandbox.model import HIGHEST_NUMBER


@pytest.mark.parametrize(
    ("tokens", "text"), [(0, ""), (1, "[SIMULATED]"), (2, "[SIMULATED] 1"), (4, "[SIMULATED] 1 2 3")]
)
def test_the_count_is_in_plain_sight(tokens, text):
    assert Words().upto(tokens) == text


def test_numbers_start_again_after_the_tokenizer_s_highest():
    words = Words()
    assert words.between(HIGHEST_NUMBER, HIGHEST_NUMBER + 2) == f" {HIGHEST_NUMBER} 1"


@given(st.lists(st.integers(0, 300), min_size=2, max_size=6))
def test_pieces_add_up_to_the_whole(cuts):
    words, cuts = Words(), sorted(cuts)
    pieces = [words.between(first, last) for first, last in pairwise(cuts)]
    assert words.upto(cuts[0]) + "".join(pieces) == words.upto(cuts[-1])


def test_a_limit_is_met_exactly():
    planned = plan(Words(), 500, [])
    assert (planned.tokens, planned.finish_reason, planned.matched) == (500, "length", None)


def test_without_a_limit_the_answer_ends_by_itself():
    planned = plan(Words(), None, [])
    assert (planned.tokens, planned.finish_reason) == (NATURAL_LENGTH, "stop")


def test_a_stop_string_ends_the_text_before_it():
    words = Words()
    planned = plan(words, 100, [" 7", "absent", ""])
    assert (planned.finish_reason, planned.matched) == ("stop", " 7")
    assert words.upto(planned.tokens)[: planned.characters] == "[SIMULATED] 1 2 3 4 5 6"
    assert planned.tokens == 8


def test_the_earliest_of_several_stop_strings_counts():
    assert plan(Words(), 100, [" 9", " 3"]).matched == " 3"


def test_a_stop_string_beyond_the_limit_does_not_count():
    assert plan(Words(), 5, [" 9"]).finish_reason == "length"
