import json

from sandbox.engine import answers
from sandbox.engine.runner import Job, Ticket
from sandbox.engine.text import Plan, Words


def ticket(visible, tokens=4, prompt=3, plan=None, index=0):
    return Ticket(prompt, tokens, plan=plan or Plan(tokens, 10**6, "length"), visible=visible, index=index)


def body(event):
    assert event.startswith(b"data: ") and event.endswith(b"\n\n")
    return json.loads(event[6:])


def test_the_fast_chunk_writer_writes_what_the_slow_way_would():
    job = Job([ticket(1), ticket(1, index=3)])
    around = answers.envelope(job, "text_completion", 'a "quoted" näme of 2147483648')

    def piece(text):
        return {"text": text, "logprobs": None}

    write = answers.chunk_writer(around, piece)
    for text in (' 1"\\\n', "\0text\0", "é"):
        expected = {**around, "choices": [{"index": 3, **piece(text)}], "usage": None}
        assert body(write(job.tickets[1], text)) == expected


def test_usage_counts_each_prompt_once_however_often_it_was_answered():
    counts = answers.usage([ticket(4), ticket(4), ticket(2, prompt=5), ticket(2, prompt=5)], prompts=2)
    assert (counts["prompt_tokens"], counts["completion_tokens"], counts["total_tokens"]) == (8, 12, 20)


def test_finish_is_said_only_at_the_end():
    assert answers.finish(ticket(3)) == {"finish_reason": None, "matched_stop": None}
    stopped = ticket(4, plan=Plan(4, 5, "stop", " 3"))
    assert answers.finish(stopped) == {"finish_reason": "stop", "matched_stop": " 3"}


def test_text_is_cut_where_the_stop_string_begins():
    words, stopped = Words(), ticket(4, plan=Plan(4, len("[SIMULATED] 1"), "stop", " 2"))
    assert answers.text_of(words, stopped, 0, 4) == "[SIMULATED] 1"
    assert [answers.text_of(words, stopped, n, n + 1) for n in range(4)] == ["[SIMULATED]", " 1", "", ""]


def test_native_results_hold_all_text_so_far_and_why_they_ended():
    words, one = Words(), ticket(2)
    job = Job([one])
    assert answers.native(words, job, one, None)["meta_info"]["finish_reason"] is None
    one.visible = 4
    result = answers.native(words, job, one, [1, 2])
    assert result["text"] == "[SIMULATED] 1 2 3" and result["output_ids"] == [1, 2]
    assert result["meta_info"]["finish_reason"] == {"type": "length", "length": 4}


def test_every_kind_of_answer_says_simulated():
    job = Job([ticket(4)])
    for answer in (answers.envelope(job, "x", "m"), answers.native(Words(), job, job.tickets[0], None)["meta_info"]):
        assert "SIMULATED" in answer["system_fingerprint"]
