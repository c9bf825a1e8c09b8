"""The HTTP surface over the real schedule, in-process; only the tokenizer is a stand-in."""

import asyncio
import json

import pytest
from aiohttp.test_utils import TestClient, TestServer

from sandbox.engine.frontend import Frontend, Status
from sandbox.engine.latency import Latency
from sandbox.engine.logs import access
from sandbox.engine.runner import Runner
from sandbox.engine.schedule import Schedule
from sandbox.engine.surface import application

TestClient.__test__ = TestServer.__test__ = False


class SplitWords:
    """Counts words where the real one counts tokens."""

    def count(self, text):
        return len(text.split())

    def ids(self, text):
        return list(range(self.count(text)))

    def chat(self, messages):
        if messages[-1]["role"] == "unheard of":
            raise ValueError("no such role")
        return " ".join(str(message["content"]) for message in messages)


@pytest.fixture
def ask(settle):
    """ask(scenario, **settings): run `await scenario(client, frontend)` against a serving engine."""

    def run(scenario, *, scale=1e6, status=Status.UP, **more):
        async def whole():
            settings = settle(scale=scale, served_model_name="glm-5", **more)
            schedule = Schedule(Latency(True), 8, 1000, 10_000)
            runner = Runner(schedule, scale, lambda step: None)
            frontend = Frontend(settings, runner, SplitWords(), lambda: None, status=status)
            driving = asyncio.create_task(runner.run())
            server = TestServer(application(frontend))
            async with TestClient(server) as client:
                try:
                    return await asyncio.wait_for(scenario(client, frontend), 30)
                finally:
                    driving.cancel()

        return asyncio.run(whole())

    return run


def post(path, body, **headers):
    async def scenario(client, frontend):
        async with client.post(path, json=body, headers=headers) as response:
            return response.status, dict(response.headers), await response.text()

    return scenario


def get(path, **headers):
    async def scenario(client, frontend):
        async with client.get(path, headers=headers) as response:
            return response.status, dict(response.headers), await response.text()

    return scenario


def events(text):
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def completion(**more):
    return {"model": "glm-5", "prompt": "two words", "max_tokens": 5, **more}


def chat(**more):
    return {"model": "glm-5", "messages": [{"role": "user", "content": "two words"}], "max_tokens": 5, **more}


def test_a_completion(ask):
    status, headers, text = ask(post("/v1/completions", completion()))
    body = json.loads(text)
    assert status == 200 and headers["X-Simulated"] == "blackstart"
    assert "SIMULATED" in body["system_fingerprint"]
    (choice,) = body["choices"]
    assert choice["text"] == "[SIMULATED] 1 2 3 4" and choice["finish_reason"] == "length"
    assert body["usage"]["prompt_tokens"] == 2 and body["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("tokens", [1, 2, 17, 500])
def test_max_tokens_is_met_exactly_streaming_and_not(ask, tokens):
    for more in ({"ignore_eos": True}, {}):
        body = json.loads(ask(post("/v1/completions", completion(max_tokens=tokens, **more)))[2])
        assert body["usage"]["completion_tokens"] == len(body["choices"][0]["text"].split()) == tokens
    options = {"stream": True, "stream_options": {"include_usage": True}}
    streamed = events(ask(post("/v1/completions", completion(max_tokens=tokens, **options)))[2])
    text = "".join(event["choices"][0]["text"] for event in streamed[:-1])
    assert len(text.split()) == tokens
    assert streamed[-1]["choices"] == [] and streamed[-1]["usage"]["completion_tokens"] == tokens
    assert [event["choices"][0]["finish_reason"] for event in streamed[:-1]][-1] == "length"
    assert all("SIMULATED" in event["system_fingerprint"] for event in streamed)


def test_without_usage_asked_for_no_chunk_has_it(ask):
    streamed = events(ask(post("/v1/completions", completion(stream=True)))[2])
    assert all(event["usage"] is None and event["choices"] for event in streamed)


def test_usage_in_every_chunk(ask):
    options = {"stream": True, "stream_options": {"continuous_usage_stats": True}}
    streamed = events(ask(post("/v1/completions", completion(**options)))[2])
    counts = [event["usage"]["completion_tokens"] for event in streamed]
    assert counts == sorted(counts) and counts[-1] == 5


def test_several_prompts_and_several_answers(ask):
    body = json.loads(ask(post("/v1/completions", completion(prompt=["one", "two words"], n=2)))[2])
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert body["usage"]["prompt_tokens"] == 3 and body["usage"]["completion_tokens"] == 20


def test_echo_repeats_the_prompt(ask):
    body = json.loads(ask(post("/v1/completions", completion(echo=True)))[2])
    assert body["choices"][0]["text"].startswith("two words[SIMULATED]")
    streamed = events(ask(post("/v1/completions", completion(echo=True, stream=True)))[2])
    assert streamed[0]["choices"][0]["text"].startswith("two words[SIMULATED]")


def test_a_stop_string_ends_the_answer(ask):
    for stream in (False, True):
        text = ask(post("/v1/completions", completion(stop=" 3", max_tokens=50, stream=stream)))[2]
        parts = events(text) if stream else [json.loads(text)]
        assert "".join(part["choices"][0]["text"] for part in parts) == "[SIMULATED] 1 2"
        assert parts[-1]["choices"][0]["finish_reason"] == "stop"
        assert parts[-1]["choices"][0]["matched_stop"] == " 3"


def test_a_chat_completion(ask):
    body = json.loads(ask(post("/v1/chat/completions", chat()))[2])
    message = body["choices"][0]["message"]
    assert body["object"] == "chat.completion" and message["role"] == "assistant"
    assert message["content"] == "[SIMULATED] 1 2 3 4" and body["usage"]["completion_tokens"] == 5


def test_a_streamed_chat_has_a_role_first_and_a_reason_last(ask):
    streamed = events(ask(post("/v1/chat/completions", chat(stream=True)))[2])
    deltas = [event["choices"][0]["delta"] for event in streamed]
    assert deltas[0]["role"] == "assistant" and deltas[0]["content"] == ""
    assert "".join(delta["content"] or "" for delta in deltas) == "[SIMULATED] 1 2 3 4"
    reasons = [event["choices"][0]["finish_reason"] for event in streamed]
    assert reasons[-1] == "length" and not any(reasons[:-1])


def test_a_chat_without_a_limit_ends_by_itself(ask):
    body = json.loads(ask(post("/v1/chat/completions", chat(max_tokens=None)))[2])
    assert body["choices"][0]["finish_reason"] == "stop" and body["usage"]["completion_tokens"] > 5


def test_generate_streams_all_text_so_far(ask):
    body = {"text": "a b", "sampling_params": {"max_new_tokens": 3}, "stream": True}
    streamed = events(ask(post("/generate", body))[2])
    assert streamed[-1]["text"] == "[SIMULATED] 1 2"
    assert streamed[-1]["meta_info"]["completion_tokens"] == 3
    assert all(streamed[-1]["text"].startswith(event["text"]) for event in streamed)


def test_generate_answers_one_with_an_object_and_a_batch_with_a_list(ask):
    one = json.loads(ask(post("/generate", {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 2}}))[2])
    assert one["meta_info"]["prompt_tokens"] == 3 and len(one["output_ids"]) == 2
    assert len(json.loads(ask(post("/generate", {"text": ["a", "b"]}))[2])) == 2


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/completions", {"model": "glm-5"}, "prompt"),
        ("/v1/completions", completion(max_tokens=0), "max_tokens"),
        ("/v1/completions", completion(prompt="x " * 1000), "longer than the model's context length"),
        ("/v1/completions", completion(max_tokens=999), "Requested token count exceeds"),
        ("/v1/completions", completion(prompt=[]), "empty"),
        ("/v1/chat/completions", chat(messages=[]), "messages"),
        ("/v1/chat/completions", chat(messages=[{"role": "unheard of", "content": ""}]), "no such role"),
        ("/generate", {}, "text or input_ids"),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": -1}}, "max_new_tokens"),
        ("/v1/completions", [], "body"),
    ],
)
def test_bad_input_is_a_400_that_says_what(ask, path, body, message):
    status, headers, text = ask(post(path, body))
    answer = json.loads(text)
    assert status == 400 and headers["X-Simulated"] == "blackstart"
    assert message in answer.get("message", answer.get("error", {}).get("message", ""))


def test_what_is_no_json_is_a_400(ask):
    async def scenario(client, frontend):
        answers = []
        for data, kind in ((b"{", "application/json"), (b"{}", "text/plain"), (b"\xff", "application/json")):
            async with client.post("/v1/completions", data=data, headers={"Content-Type": kind}) as response:
                answers.append((response.status, (await response.json())["code"]))
        return answers

    assert ask(scenario) == [(400, 400)] * 3


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/generate", 405)])
def test_unknown_paths_and_methods(ask, method, path, status):
    assert ask(get(path))[0] == status


def test_health_follows_the_server_s_life(ask):
    async def scenario(client, frontend):
        seen = []
        for status, draining in ((Status.STARTING, False), (Status.UP, False), (Status.UP, True)):
            frontend.status, frontend.draining = status, draining
            for path in ("/health", "/health_generate"):
                async with client.get(path) as response:
                    seen.append(response.status)
        return seen

    assert ask(scenario) == [503, 503, 200, 200, 503, 503]


def test_models(ask):
    (card,) = json.loads(ask(get("/v1/models"))[2])["data"]
    assert card["id"] == "glm-5" and card["max_model_len"] == 1000
    assert json.loads(ask(get("/v1/models/glm-5"))[2])["id"] == "glm-5"
    assert ask(get("/v1/models/other"))[0] == 404


@pytest.mark.parametrize("path", ["/get_server_info", "/server_info"])
def test_server_info_says_that_it_is_simulated_and_how_fast(ask, path):
    info = json.loads(ask(get(path), scale=5000.0)[2])
    assert info["simulated"] is True and info["simulated_time_scale"] == 5000.0
    assert info["version"] == "0.5.9" and info["tp_size"] == 1 and info["internal_states"]


@pytest.mark.parametrize("path", ["/get_model_info", "/model_info"])
def test_model_info(ask, path):
    info = json.loads(ask(get(path))[2])
    assert info["is_generation"] is True and info["architectures"] == ["Glm"] and info["simulated"] is True


def test_the_cache_is_flushed_only_while_nothing_runs(ask):
    async def scenario(client, frontend):
        async with client.post("/flush_cache") as idle:
            job = frontend.start([("x", 100, [])])
            async with client.get("/flush_cache") as busy:
                frontend.runner.close(job)
                return idle.status, busy.status

    assert ask(scenario, scale=1.0) == (200, 400)


def test_metrics_are_there_only_when_enabled(ask):
    async def scenario(client, frontend):
        async with client.post("/v1/completions", json=completion()) as response:
            await response.read()
        async with client.get("/metrics") as response:
            return response.status, await response.text()

    assert ask(scenario)[0] == 404
    status, text = ask(scenario, enable_metrics=True)
    assert status == 200
    assert 'sglang:generation_tokens_total{model_name="glm-5"} 5\n' in text
    assert 'sglang:num_requests_total{model_name="glm-5"} 1\n' in text
    assert all("SIMULATED" in line for line in text.splitlines() if line.startswith("# HELP"))


def test_an_api_key_guards_all_but_health_and_metrics(ask):
    options = {"api_key": "open sesame", "enable_metrics": True}
    assert ask(get("/v1/models"), **options)[0] == 401
    assert ask(get("/v1/models", Authorization="Bearer open sesame"), **options)[0] == 200
    assert ask(get("/health"), **options)[0] == ask(get("/metrics"), **options)[0] == 200


def test_a_client_that_goes_away_frees_its_place(ask):
    async def scenario(client, frontend):
        response = await client.post("/v1/completions", json=completion(max_tokens=900, stream=True))
        await response.content.readline()
        response.close()
        for _ in range(500):
            if not frontend.runner.jobs and frontend.runner.schedule.idle:
                return True
            await asyncio.sleep(0.01)
        return False

    assert ask(scenario, scale=2.0)


def test_requests_are_logged_as_uvicorn_logs_them(ask, caplog):
    access.addHandler(caplog.handler)
    try:
        with caplog.at_level("INFO", logger="uvicorn.access"):
            ask(get("/v1/models?x=1"))
    finally:
        access.removeHandler(caplog.handler)
    assert any(
        message.startswith("INFO:     127.0.0.1:") and message.endswith('- "GET /v1/models?x=1 HTTP/1.1" 200 OK')
        for message in caplog.messages
    )


@pytest.mark.parametrize("prompt", ["", [], [""], ["", ""], [[]]])
def test_an_empty_prompt_is_refused_in_the_real_servers_words(ask, prompt):
    status, _, text = ask(post("/v1/completions", completion(prompt=prompt)))
    assert (status, json.loads(text)["message"]) == (400, "Prompt cannot be empty")


def test_sampling_params_may_be_null(ask):
    assert ask(post("/generate", {"text": "two words", "sampling_params": None}))[0] == 200


@pytest.mark.parametrize("body", ["[" * 100_000, '{"prompt": "\\ud800"}', '{"prompt": "a", "model": "\\ud800"}'])
def test_a_body_that_cannot_be_read_is_the_clients_fault(ask, body):
    async def scenario(client, frontend):
        headers = {"Content-Type": "application/json"}
        async with client.post("/v1/completions", data=body, headers=headers) as response:
            return response.status, (await response.json())["message"]

    status, message = ask(scenario)
    assert status == 400 and message.startswith("JSON decode error")
