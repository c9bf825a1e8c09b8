"""/metrics in Prometheus' text format, with SGLang's names for what the simulated engine has."""

from __future__ import annotations

from sandbox.engine.runner import Runner


def exposition(model: str, runner: Runner, kv_tokens: int) -> str:
    schedule, totals = runner.schedule, runner.totals
    samples = [
        ("num_running_reqs", "gauge", "The number of running requests.", len(schedule.running)),
        ("num_queue_reqs", "gauge", "The number of requests in the waiting queue.", len(schedule.waiting)),
        ("num_used_tokens", "gauge", "The number of used tokens.", schedule.used_tokens),
        ("token_usage", "gauge", "The token usage.", round(schedule.used_tokens / kv_tokens, 6)),
        ("max_total_num_tokens", "gauge", "Maximum total number of tokens in the KV cache pool.", kv_tokens),
        ("gen_throughput", "gauge", "The generation throughput (token/s), simulated time.", totals.throughput),
        ("prompt_tokens_total", "counter", "Number of prefill tokens processed.", totals.prompt_tokens),
        ("generation_tokens_total", "counter", "Number of generation tokens processed.", totals.generated_tokens),
        ("num_requests_total", "counter", "Number of requests processed.", totals.requests),
    ]
    name = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines = []
    for metric, kind, meaning, value in samples:
        lines += [
            f"# HELP sglang:{metric} SIMULATED. {meaning}",
            f"# TYPE sglang:{metric} {kind}",
            f'sglang:{metric}{{model_name="{name}"}} {value}',
        ]
    return "\n".join(lines) + "\n"
