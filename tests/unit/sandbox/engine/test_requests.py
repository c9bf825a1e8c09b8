import pytest
from pydantic import ValidationError

from sandbox.engine.requests import BadRequest, ChatRequest, CompletionRequest, GenerateRequest, split_prompts

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_the_ways_to_give_prompts(prompt, prompts):
    assert split_prompts(prompt) == prompts
    assert CompletionRequest(prompt=prompt).prompts() == prompts


def test_no_prompt_is_refused():
    with pytest.raises(BadRequest):
        split_prompts([])


def test_defaults_are_the_real_server_s():
    assert CompletionRequest(prompt="x").max_tokens == 16
    assert ChatRequest(messages=MESSAGES).limit is None
    (parameters,) = GenerateRequest(text="x").parameters(1)
    assert parameters.max_new_tokens == 128


@pytest.mark.parametrize("body", [{}, {"prompt": 5}, {"prompt": "x", "max_tokens": 0}, {"prompt": "x", "n": 0}])
def test_bad_completions(body):
    with pytest.raises(ValidationError):
        CompletionRequest.model_validate(body)


@pytest.mark.parametrize(
    "body", [{}, {"messages": []}, {"messages": [{"content": "x"}]}, {"messages": MESSAGES, "max_tokens": -1}]
)
def test_bad_chats(body):
    with pytest.raises(ValidationError):
        ChatRequest.model_validate(body)


def test_the_newer_name_of_the_limit_wins():
    assert ChatRequest(messages=MESSAGES, max_tokens=5, max_completion_tokens=7).limit == 7


@pytest.mark.parametrize("body", [{}, {"text": "x", "input_ids": [1]}])
def test_generate_takes_text_or_ids_and_not_both(body):
    with pytest.raises(BadRequest):
        GenerateRequest.model_validate(body).prompts()


def test_generate_with_parameters_for_each_prompt():
    request = GenerateRequest(text=["a", "b"], sampling_params=[{"max_new_tokens": 1}, {"max_new_tokens": 2}])
    assert [parameters.max_new_tokens for parameters in request.parameters(2)] == [1, 2]
    with pytest.raises(BadRequest):
        request.parameters(3)


@pytest.mark.parametrize(
    ("body", "batch"),
    [({"text": "a"}, False), ({"text": ["a"]}, True), ({"input_ids": [1]}, False), ({"input_ids": [[1]]}, True)],
)
def test_what_is_answered_as_a_list(body, batch):
    assert GenerateRequest.model_validate(body).is_batch is batch


@pytest.mark.parametrize(("stop", "stops"), [(None, []), ("a", ["a"]), (["a", "b"], ["a", "b"])])
def test_stop_strings(stop, stops):
    assert CompletionRequest(prompt="x", stop=stop).stops == stops
