"""The model against the recorded series that it was fitted to, each point within TOLERANCE.

The record is one run a level without repeats, so nothing here claims more than 10 %.
"""

import random
from dataclasses import dataclass

import pytest

from sandbox.engine.latency import Latency
from sandbox.engine.schedule import Schedule, Sequence

TOLERANCE = 0.10


class SeededLengths:
    """The lengths that bench_serving draws: numpy's legacy generator, seed 1, uniform in [1, full].

    `full` is a power of two here, for which numpy takes the low bits of one 32-bit draw each. Python's
    generator is the same Mersenne Twister, so its state can be set as numpy seeds it.
    """

    def __init__(self, seed: int) -> None:
        key = [seed]
        for position in range(1, 624):
            last = key[-1]
            key.append((1812433253 * (last ^ (last >> 30)) + position) & 0xFFFFFFFF)
        self._draws = random.Random()
        self._draws.setstate((3, (*key, 624), None))

    def draw(self, full: int, count: int) -> list[int]:
        return [1 + (self._draws.getrandbits(32) & (full - 1)) for _ in range(count)]


@dataclass
class Run:
    seconds: float
    inputs: int
    outputs: int
    mean_e2e: float

    @property
    def total_throughput(self) -> float:
        return (self.inputs + self.outputs) / self.seconds

    @property
    def output_throughput(self) -> float:
        return self.outputs / self.seconds


def simulate(prompts: int, input_len: int = 256, output_len: int = 128, tuned: bool = True) -> Run:
    lengths = SeededLengths(1)
    inputs, outputs = lengths.draw(input_len, prompts), lengths.draw(output_len, prompts)
    schedule = Schedule(Latency(tuned), max_running=1024, chunk=8192, kv_tokens=10**9)
    for prompt_tokens, output_tokens in zip(inputs, outputs, strict=True):
        schedule.add(Sequence(prompt_tokens, output_tokens))
    now, finished = 0.0, 0.0
    while not schedule.idle:
        step = schedule.step()
        now += step.seconds
        finished += now * sum(sequence.finished for sequence in step.advanced)
    return Run(now, sum(inputs), sum(outputs), finished / prompts)


def near(value: float):
    return pytest.approx(value, rel=TOLERANCE)


def test_the_lengths_are_bench_serving_s():
    lengths = SeededLengths(1)
    assert sum(lengths.draw(256, 64)) == 9166
    assert sum(lengths.draw(128, 64)) == 3731


@pytest.mark.parametrize(("prompts", "total_throughput"), [(64, 700.08), (256, 1846.23), (512, 2800.25), (1024, 3740)])
def test_autotuned_256_in_128_out(prompts, total_throughput):
    assert simulate(prompts).total_throughput == near(total_throughput)


@pytest.mark.parametrize(("prompts", "total_throughput"), [(256, 1383.44), (512, 2205.48)])
def test_autotuned_128_in_128_out(prompts, total_throughput):
    assert simulate(prompts, input_len=128).total_throughput == near(total_throughput)


@pytest.mark.parametrize(("prompts", "output_throughput"), [(1024, 1600), (2048, 1640)])
def test_queueing_beyond_1024_running_requests(prompts, output_throughput):
    assert simulate(prompts, input_len=128).output_throughput == near(output_throughput)


@pytest.mark.parametrize(("prompts", "total_throughput"), [(64, 757), (256, 879)])
def test_without_autotune(prompts, total_throughput):
    assert simulate(prompts, tuned=False).total_throughput == near(total_throughput)


@pytest.mark.parametrize(("prompts", "mean_e2e"), [(64, 9.92), (256, 17.49), (512, 24.59)])
def test_mean_latency_of_a_request(prompts, mean_e2e):
    assert simulate(prompts).mean_e2e == near(mean_e2e)


def test_one_request_takes_28_7_seconds_for_236_tokens():
    schedule = Schedule(Latency(True), max_running=1024, chunk=8192, kv_tokens=10**9)
    schedule.add(Sequence(38, 236))
    seconds = 0.0
    while not schedule.idle:
        seconds += schedule.step().seconds
    assert seconds == pytest.approx(28.729, rel=0.01)


def test_an_untuned_kernel_costs_nothing_in_small_batches_and_much_in_large_ones():
    tuned, untuned = Latency(True), Latency(False)
    assert untuned.decode_step(64) == tuned.decode_step(64)
    assert untuned.decode_step(256) > 3 * tuned.decode_step(256)


def test_steps_grow_with_the_batch():
    steps = [Latency(True).decode_step(running) for running in range(1, 1025)]
    assert steps == sorted(steps) and len(set(steps)) == len(steps)
