"""A ladder's levels as commands, its results as data, and the recorded series beside them. No I/O but files read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from blackstart import resources
from blackstart.errors import InputError, VerifyError
from blackstart.paths import INVENTORY
from blackstart.resources import Resource
from roles.server.state import Variables as ServerVariables

BASELINES = INVENTORY / "baselines"


class Level(BaseModel):
    """One rung: `prompts` requests at once, each asking for at most `output_len` tokens."""

    model_config = ConfigDict(extra="forbid")
    prompts: int = Field(ge=1)
    output_len: int = Field(ge=1)


class Variables(ServerVariables):
    """roles/bench/defaults.yml, which says what each means, and the server's that is measured."""

    bench_levels: list[Level] = Field(min_length=1)
    bench_input_len: int = Field(ge=1)
    bench_range_ratio: float = Field(ge=0, le=1)
    bench_seed: int
    bench_request_rate: float | Literal["inf"]
    bench_dataset: str
    bench_baseline: str
    bench_level_timeout_s: float = Field(gt=0)
    bench_folder: str = Field(pattern="^/")


def chosen_levels(variables: Variables, text: str) -> list[Level]:
    """The levels that `--levels 1,64` names, or all; one that is not declared asks for as much as the last one is.

    Raises InputError for what is no list of positive numbers.
    """
    if not text:
        return variables.bench_levels
    declared = {level.prompts: level for level in variables.bench_levels}
    chosen = []
    for word in text.split(","):
        if not word.strip().isdecimal() or int(word) < 1:
            raise InputError("levels are numbers of prompts, comma separated", where="--levels", found=text)
        prompts = int(word)
        fallback = Level(prompts=prompts, output_len=variables.bench_levels[-1].output_len)
        chosen.append(declared.get(prompts, fallback))
    return chosen


def output_file(variables: Variables, series: str, level: Level) -> str:
    return f"{variables.bench_folder}/{series}-{level.prompts}.jsonl"


def level_resource(variables: Variables, series: str, level: Level) -> Resource:
    """bench_serving at one level, on the engine's own machine."""
    profile = variables.profile()
    argv = [f"{variables.ml_env_link}/bin/python", "-m", "sglang.bench_serving"]
    options: dict[str, object] = {
        "backend": "sglang-oai",
        "host": "127.0.0.1",
        "port": variables.port(),
        "model": variables.served_model(),
        "tokenizer": profile.flags.get("model-path", profile.model),
        "dataset-name": variables.bench_dataset,
        "random-input-len": variables.bench_input_len,
        "random-output-len": level.output_len,
        "random-range-ratio": variables.bench_range_ratio,
        "request-rate": variables.bench_request_rate,
        "num-prompts": level.prompts,
        "seed": variables.bench_seed,
        "output-file": output_file(variables, series, level),
    }
    argv += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return resources.command(
        f"{level.prompts} prompts",
        argv,
        env={"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
        timeout=variables.bench_level_timeout_s,
        remedy="see whether the server lives: inv server.status, inv server.logs",
    )


def result_of(text: str, level: Level, machine: str) -> dict[str, Any]:
    """The record that bench_serving appended, with the level as `prompts` first. Its bare Infinity is read as text.

    Raises VerifyError where requests failed, or no whole record is there: the level was not stable.
    """
    record = _last_record(text)
    if record is None:
        raise VerifyError(
            f"level {level.prompts} left no result",
            where=machine,
            found=text.strip()[-200:] or "nothing",
            remedy="inv server.logs shows why; the level below it held",
        )
    for bulky in ("input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"):
        record.pop(bulky, None)
    if record.get("completed") != level.prompts:
        raise VerifyError(
            f"level {level.prompts}: not every request was completed",
            where=machine,
            found=f"{record.get('completed')} of {level.prompts}",
            remedy="inv server.logs shows why; the level below it held",
        )
    return {"prompts": level.prompts, **record}


def _last_record(text: str) -> dict[str, Any] | None:
    """The last line's record; None for a line that was cut off or is something else."""
    try:
        record = json.loads((text.strip().splitlines() or [""])[-1], parse_constant=lambda name: name)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def recorded(name: str, level: Level) -> dict[str, Any]:
    """Series name → the recorded level, of those in a baseline that ran this level. Raises InputError."""
    if not name:
        return {}
    path = BASELINES / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in BASELINES.glob("*.json")))
        raise InputError(f"there is no baseline {name!r}", where="bench_baseline", found=f"known: {known}")
    series: Sequence[dict[str, Any]] = json.loads(path.read_text())["series"]
    return {
        one["name"]: found
        for one in series
        for found in one["levels"]
        if found["prompts"] == level.prompts and "workload" in one and "total_throughput" in found
    }


def series_file(inventory: Path, series: str) -> Path:
    """Where a run's records are kept, beside the inventory that they belong to."""
    return inventory / "series" / f"{series}.jsonl"
