from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.schedule import Schedule, Sequence


@dataclass
class Unit:
    """Every step takes a second."""

    def decode_step(self, running):
        return 1.0

    def prefill_step(self, tokens):
        return 1.0


def schedule(max_running=8, chunk=100, kv_tokens=1000):
    return Schedule(Unit(), max_running, chunk, kv_tokens)


def test_prefill_gives_the_first_token_and_decode_the_others():
    engine, one = schedule(), Sequence(10, 3)
    engine.add(one)
    step = engine.step()
    assert step.is_prefill and step.new_tokens == 10 and step.new_sequences == 1 and one.produced == 1
    assert not engine.step().is_prefill and one.produced == 2
    assert engine.step().advanced == [one] and one.finished and engine.idle


def test_a_one_token_answer_ends_with_its_prefill():
    engine, one = schedule(), Sequence(10, 1)
    engine.add(one)
    engine.step()
    assert one.finished and engine.idle and engine.used_tokens == 0


def test_prefill_comes_before_decode():
    engine, first, second = schedule(), Sequence(10, 5), Sequence(10, 5)
    engine.add(first)
    engine.step()
    engine.add(second)
    assert engine.step().is_prefill and first.produced == 1 and second.produced == 1


def test_a_long_prompt_is_cut_into_chunks_and_the_rest_is_pending():
    engine, long = schedule(), Sequence(250, 2)
    engine.add(long)
    steps = [engine.step() for _ in range(3)]
    assert [step.new_tokens for step in steps] == [100, 100, 50]
    assert [step.pending_tokens for step in steps] == [150, 50, 0]
    assert [len(step.advanced) for step in steps] == [0, 0, 1]
    assert [step.new_sequences for step in steps] == [1, 0, 0]


def test_at_most_max_running_at_once():
    engine = schedule(max_running=2)
    for _ in range(5):
        engine.add(Sequence(1, 3))
    step = engine.step()
    assert len(engine.running) == 2 and step.queued == 3
    while not engine.idle:
        engine.step()
        assert len(engine.running) <= 2


def test_a_sequence_waits_until_all_that_it_will_hold_fits():
    engine, first, second = schedule(kv_tokens=100), Sequence(40, 20), Sequence(40, 20)
    engine.add(first)
    engine.add(second)
    engine.step()
    assert engine.running == [first]
    while not first.finished:
        engine.step()
    engine.step()
    assert engine.running == [second]


def test_one_that_is_larger_than_the_cache_still_runs_alone():
    engine, large = schedule(kv_tokens=10), Sequence(40, 20)
    engine.add(large)
    engine.step()
    assert engine.running == [large]


def test_dropping_frees_what_was_held():
    engine, running, waiting = schedule(max_running=1), Sequence(10, 5), Sequence(10, 5)
    engine.add(running)
    engine.add(waiting)
    engine.step()
    engine.drop(running)
    engine.drop(waiting)
    engine.drop(waiting)
    assert engine.idle and engine.used_tokens == 0


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 20)), min_size=1, max_size=30),
    st.integers(1, 8),
    st.integers(1, 120),
    st.integers(1, 900),
)
def test_everyone_gets_exactly_what_was_asked_and_the_cache_empties(asked, max_running, chunk, kv_tokens):
    engine = schedule(max_running, chunk, kv_tokens)
    sequences = [Sequence(*lengths) for lengths in asked]
    for sequence in sequences:
        engine.add(sequence)
    tokens = 0
    while not engine.idle:
        step = engine.step()
        assert step.seconds > 0 and len(engine.running) <= max_running
        tokens += len(step.advanced)
    assert all(sequence.produced == sequence.output_tokens for sequence in sequences)
    assert tokens == sum(output for _, output in asked)
    assert engine.used_tokens == 0
