from sandbox.engine.batchlog import BatchLog
from sandbox.engine.schedule import Schedule, Sequence, Step
from tests.unit.sandbox.engine.test_schedule import Unit

PREFILL = Step(2.0, [Sequence(8, 1)], new_sequences=1, new_tokens=8, pending_tokens=5, running=3, queued=2)


def batch_log(settings, used=0):
    return BatchLog(settings, Schedule(Unit(), 8, 100, 1000, used_tokens=used), " TP0")


def test_prefill_as_releases_up_to_0_5_9_word_it(settle):
    assert batch_log(settle()).prefill_line(PREFILL) == (
        "Prefill batch, #new-seq: 1, #new-token: 8, #cached-token: 0, token usage: 0.00, #running-req: 3, "
        "#queue-req: 2, input throughput (token/s): 4.00, cuda graph: False"
    )


def test_prefill_as_releases_with_pending_tokens_word_it(settle):
    settings = settle()
    reporter = settings.release.root / "sglang/srt/managers/scheduler_metrics_mixin.py"
    reporter.write_text('msg += f"#pending-token: {n}, "')
    assert (
        batch_log(settings)
        .prefill_line(PREFILL)
        .endswith("#queue-req: 2, #pending-token: 5, cuda graph: False, input throughput (token/s): 4.00")
    )


def test_every_fortieth_decode_step_is_logged(settle, caplog):
    log = batch_log(settle("--disable-cuda-graph"), used=7)
    with caplog.at_level("INFO"):
        for _ in range(80):
            log.observe(Step(0.5, [Sequence(1, 9), Sequence(1, 9)], running=2))
    assert len(caplog.messages) == 2
    assert caplog.messages[0] == (
        "Decode batch, #running-req: 2, #token: 7, token usage: 0.00, cuda graph: False, "
        "gen throughput (token/s): 4.00, #queue-req: 0"
    )
    assert caplog.records[0].rank == " TP0"
