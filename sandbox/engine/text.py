"""What a simulated completion says.

The N tokens of a completion read "[SIMULATED] 1 2 3 ... N-1": with the stand-in model's tokenizer each of
these words is one token, so the count is in plain sight.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.model import HIGHEST_NUMBER, MARK

# Tokens of an answer whose request sets no limit.
NATURAL_LENGTH = 64


class Words:
    """The endless text that every completion is the beginning of, with the end of each token in it."""

    def __init__(self) -> None:
        self._text = MARK
        self._ends = [0, len(MARK)]

    def upto(self, tokens: int) -> str:
        """The first so many tokens."""
        self._grow(tokens)
        return self._text[: self._ends[tokens]]

    def between(self, first: int, last: int) -> str:
        """The tokens after the first `first` up to and with number `last`."""
        self._grow(last)
        return self._text[self._ends[first] : self._ends[last]]

    def tokens_over(self, characters: int) -> int:
        """How many tokens it takes to cover so many characters of text that was asked for before."""
        return bisect_left(self._ends, characters)

    def _grow(self, tokens: int) -> None:
        if tokens < len(self._ends):
            return
        pieces = [f" {(number - 1) % HIGHEST_NUMBER + 1}" for number in range(len(self._ends) - 1, tokens * 2)]
        end = self._ends[-1]
        for piece in pieces:
            end += len(piece)
            self._ends.append(end)
        self._text += "".join(pieces)


@dataclass(frozen=True)
class Plan:
    """What will be answered: how many tokens, where the text ends, and why."""

    tokens: int
    characters: int
    finish_reason: str
    matched: str | None = None


def plan(words: Words, max_tokens: int | None, stops: Sequence[str]) -> Plan:
    """The completion under a limit and stop strings; the text stops before a stop string that it would hold."""
    limit = NATURAL_LENGTH if max_tokens is None else max_tokens
    text = words.upto(limit)
    found = [(text.find(stop), stop) for stop in stops if stop and stop in text]
    if found:
        start, stop = min(found)
        return Plan(words.tokens_over(start + len(stop)), start, "stop", stop)
    return Plan(limit, len(text), "stop" if max_tokens is None else "length")
