"""How prompts are made and counted: with the model's own tokenizer and chat template, from its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from sandbox.errors import SandboxError

# For a model whose folder has no chat template.
PLAIN_TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"


class Prompts:
    def __init__(self, folder: Path, chat_template: str | None) -> None:
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise SandboxError(
                f"{folder} has no tokenizer.json", "give the stand-in model's folder, made by the sandbox"
            )
        self._tokenizer: Any = Tokenizer.from_file(str(file))
        self._template = _template(folder, chat_template)

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text).ids)

    def chat(self, messages: Sequence[dict[str, Any]]) -> str:
        """The prompt of a conversation. Raises ValueError where the template refuses it."""
        try:
            return self._template.render(messages=messages, add_generation_prompt=True)
        except (jinja2.TemplateError, TypeError) as error:
            raise ValueError(f"the chat template refuses these messages: {error}") from error


def _template(folder: Path, chat_template: str | None) -> jinja2.Template:
    source = PLAIN_TEMPLATE
    configuration = folder / "tokenizer_config.json"
    if chat_template and Path(chat_template).is_file():
        source = Path(chat_template).read_text(encoding="utf-8")
    elif configuration.is_file():
        source = json.loads(configuration.read_text(encoding="utf-8")).get("chat_template") or source
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(source)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
