"""How `pct` fails: a text on standard error and an exit code."""

from __future__ import annotations

from collections.abc import Mapping

# Perl's `die` ends with errno where that is set, else with 255: hence 2 (ENOENT) for many plain errors.
DIED = 255
NO_ENTRY = 2


class PctError(Exception):
    """The command ends with `text` (no final newline) and `code`."""

    def __init__(self, text: str, code: int = DIED) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class FormatProblem(Exception):
    """A value that its schema refuses; the text is what stands after `KEY: ` and keeps its own newlines."""


def bad_parameters(problems: Mapping[str, str], usage: str) -> PctError:
    """The error for values that their schemas refuse. problems: option name -> FormatProblem's text."""
    lines = "".join(f"{name}: {text}\n" for name, text in problems.items())
    return PctError(f"400 Parameter verification failed.\n{lines}{usage}", NO_ENTRY)
