"""Logging in the shape of SGLang's and uvicorn's."""

from __future__ import annotations

import logging
import sys

DATE = "%Y-%m-%d %H:%M:%S"

engine = logging.getLogger("sglang")
access = logging.getLogger("uvicorn.access")


def configure(level: str, http_level: str | None) -> None:
    """SGLang's lines on stderr and the access lines on stdout, as the real server has them.

    A scheduler's line carries its rank in the brackets: pass it as `extra={"rank": " TP0"}`.
    """
    formatter = logging.Formatter("[%(asctime)s%(rank)s] %(message)s", DATE, defaults={"rank": ""})
    errors = logging.StreamHandler(sys.stderr)
    errors.setFormatter(formatter)
    logging.basicConfig(level=_number(level), handlers=[errors], force=True)
    requests = logging.StreamHandler(sys.stdout)
    requests.setFormatter(formatter)
    access.handlers = [requests]
    access.propagate = False
    access.setLevel(_number(http_level or level))


def say(text: str, rank: str = "") -> None:
    engine.info(text, extra={"rank": rank})


def uvicorn(text: str, level: int = logging.INFO) -> None:
    """A line of the HTTP server's own."""
    engine.log(level, "%s%s", f"{logging.getLevelName(level)}:".ljust(10), text)


def answered(client: str, request: str, status: int, phrase: str) -> None:
    access.info('INFO:     %s - "%s" %d %s', client, request, status, phrase)


def _number(level: str) -> int:
    found = logging.getLevelName(level.upper())
    return found if isinstance(found, int) else logging.INFO
