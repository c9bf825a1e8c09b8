"""What clients may ask, checked as the real server checks it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

DEFAULT_COMPLETION_TOKENS = 16
DEFAULT_NATIVE_TOKENS = 128
TokenIds = list[int]


class BadRequest(ValueError):
    """The request is understood and refused; the message is for the client."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow")


class StreamOptions(_Request):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class _OpenAIRequest(_Request):
    model: str = "default"
    n: Annotated[int, Field(ge=1, le=128)] = 1
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else (self.stop or [])

    @property
    def wants_final_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def wants_usage_in_chunks(self) -> bool:
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)


class CompletionRequest(_OpenAIRequest):
    prompt: str | list[str] | TokenIds | list[TokenIds]
    max_tokens: Annotated[int, Field(gt=0)] | None = DEFAULT_COMPLETION_TOKENS
    echo: bool = False

    def prompts(self) -> list[str | TokenIds]:
        if not self.prompt or (isinstance(self.prompt, list) and not any(self.prompt)):
            raise BadRequest("Prompt cannot be empty")
        return split_prompts(self.prompt)


class ChatRequest(_OpenAIRequest):
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    max_completion_tokens: Annotated[int, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _every_message_has_a_role(self) -> ChatRequest:
        for number, message in enumerate(self.messages):
            if not isinstance(message.get("role"), str):
                raise ValueError(f"messages[{number}] has no role")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class SamplingParams(_Request):
    max_new_tokens: Annotated[int, Field(ge=0)] | None = DEFAULT_NATIVE_TOKENS
    n: Annotated[int, Field(ge=1, le=128)] = 1
    stop: str | list[str] | None = None
    ignore_eos: bool = False

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else (self.stop or [])


class GenerateRequest(_Request):
    text: str | list[str] | None = None
    input_ids: TokenIds | list[TokenIds] | None = None
    sampling_params: SamplingParams | list[SamplingParams] | None = None
    stream: bool = False

    @property
    def is_batch(self) -> bool:
        prompt = self.text if self.text is not None else self.input_ids
        return isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)

    def prompts(self) -> list[str | TokenIds]:
        if (self.text is None) == (self.input_ids is None):
            raise BadRequest("Either text or input_ids should be provided, not both and not neither.")
        return split_prompts(self.text if self.text is not None else self.input_ids)

    def parameters(self, count: int) -> list[SamplingParams]:
        """The sampling parameters of each of `count` prompts."""
        if not isinstance(self.sampling_params, list):
            return [self.sampling_params or SamplingParams()] * count
        if len(self.sampling_params) != count:
            raise BadRequest(f"{count} prompts and {len(self.sampling_params)} sampling_params")
        return self.sampling_params


def split_prompts(prompt: str | list[str] | TokenIds | list[TokenIds] | None) -> list[str | TokenIds]:
    """One prompt or a list of them, each as text or as token ids."""
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise BadRequest("The prompt is empty.")
    if isinstance(prompt[0], int):
        return [[int(token) for token in prompt if isinstance(token, int)]]
    return [item for item in prompt if not isinstance(item, int)]
