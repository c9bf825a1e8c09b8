"""One exec of the agent on one machine: requests go in as frames, events come out as lines, until it is closed.

The machine's lock is held by the agent from its first change to the session's end.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import bundle, entry
from .errors import BlackstartError, CheckError, ConnectError
from .plan import Facts, Probe
from .transports import Channel, Transport

SILENCE_S = 30.0
"""The agent gives a sign of life every 2 s; this much silence means that the machine or the way to it is gone."""

INSTALL_S = 600.0
"""Patience while the machine installs its Python."""

MAX_NOISE = 65536
"""Bytes that a login shell's start files may print before the agent speaks."""

SUDO_S = 10.0
"""Patience with sudo, which asks again where a password is wrong, and then waits."""

DEBIANS_PYTHON = "/usr/bin/python3"

Event = dict[str, Any]


def controller_name() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()} pid {os.getpid()}"


class _Silence(ConnectError):
    """Nothing was heard for as long as patience lasts."""


class Session:
    """Use as a context manager. `execs` counts what was started on the machine: 1 however many requests it answered."""

    def __init__(
        self,
        transport: Transport,
        *,
        python: str = DEBIANS_PYTHON,
        password: Callable[[], str] | None = None,
        installs: bool = True,
    ) -> None:
        """`password` is asked for sudo's, once and only where the machine wants one.

        Debian's Python is installed where it is missing and this `installs`; else that is a CheckError.
        """
        self._transport = transport
        self._python = python
        self._password = password
        self._installs = installs
        self._patience = SILENCE_S
        self._greeted = False
        self._noise = 0
        self._answering = False
        self._channel: Channel | None = None
        self._left = False
        self._buffer = b""
        self.execs = 0

    @property
    def where(self) -> str:
        return self._transport.where

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            if kind is KeyboardInterrupt:  # whoever leaves does not wait for the agent to finish what it has in hand
                self._channel.hang_up()
            self._channel.close()
            self._channel = None

    def hang_up(self) -> None:
        """From another thread: the agent finishes its resource and ends; this side hears no more of it.

        Nothing is begun any more, even where the machine is only being connected to.
        """
        self._left = True
        if self._channel is not None:
            self._channel.hang_up()

    def start(self) -> None:
        """Start the agent ahead of its first request. That changes nothing: a missing Python is not installed yet."""
        self._started(ahead=True)

    def _started(self, *, ahead: bool = False) -> Channel:
        if self._channel is None:
            self._answering, self._greeted, self._noise, self._buffer = False, False, 0, b""
            self._patience = SILENCE_S
            install = self._installs and not ahead and self._python == DEBIANS_PYTHON
            self._require_presence()
            self._channel = self._transport.start_as_root(entry.agent(self._python, install=install))
            self.execs += 1
            if not self._transport.login_is_root:
                self._become_root(self._channel)
            self._channel.send(bundle.program())
        return self._channel

    def _require_presence(self) -> None:
        if self._left:
            raise ConnectError("left before it was asked", where=self.where)

    def _become_root(self, channel: Channel) -> None:
        """The machine says whether sudo wants a password; sent unasked, it would be read as the program."""
        event = self._next_event()
        if event["e"] == "refused":
            raise self._refused(event)
        if not event.get("password"):
            return
        if self._password is None:
            raise ConnectError(
                "sudo asks for a password",
                where=self.where,
                remedy="run on a terminal, give sudo_password in the inventory, or allow this login NOPASSWD",
            )
        channel.send(self._password().encode() + b"\n")
        self._patience = SUDO_S
        try:
            self._next_event()
        except _Silence:
            raise ConnectError(
                "sudo refused the password", where=self.where, remedy="see sudo_password in the inventory"
            ) from None
        self._patience = SILENCE_S

    def _refused(self, event: Event) -> ConnectError:
        if event["by"] == "no sudo":
            remedy = "log in as root, or install sudo there"
            return ConnectError("the login is not root, and there is no sudo", where=self.where, remedy=remedy)
        remedy = "install Python 3.8 or newer there, or name it as python: in the inventory"
        return ConnectError("there is no usable Python, and apt could not install one", where=self.where, remedy=remedy)

    def request(self, operation: str, **fields: Any) -> Iterator[Event]:
        """The events that answer a request, signs of life left out. Raises ConnectError and CheckError."""
        channel = self._started()
        self._require_presence()
        while self._answering:  # whoever asked before did not listen to the end
            self._answering = self._next_event()["e"] != "end"
        body = json.dumps({"op": operation, "controller": controller_name(), **fields}).encode()
        frame = b"%d\n" % len(body) + body
        channel.send(frame)
        self._answering = True
        while True:
            event = self._next_event()
            match event["e"]:
                case "end":
                    self._answering = False
                    return
                case "alive":
                    continue
                case "installing":
                    self._patience = INSTALL_S
                    continue
                case "missing":
                    self.__exit__(None, None, None)
                    if self._python != DEBIANS_PYTHON:
                        raise ConnectError(
                            "the Python that the inventory names is not there",
                            where=self.where,
                            found=self._python,
                            remedy="correct python:, or leave it out for Debian's",
                        )
                    if not self._installs:
                        raise CheckError(
                            "there is no usable Python, and only what may change a machine installs it",
                            where=self.where,
                            remedy="inv up does, or install python3 there",
                        )
                    self._started().send(frame)
                case "refused":
                    raise self._refused(event)
                case "held":
                    raise held_error(self.where, event["holder"])
                case "broken":
                    raise CheckError(event["message"], where=self.where, found=event["found"], remedy=event["remedy"])
                case "fault":
                    raise CheckError(
                        "the agent met a fault of its own",
                        where=self.where,
                        found=event["trace"].strip().splitlines()[-1],
                        remedy="please report it with this trace:\n" + event["trace"],
                    )
                case _:
                    self._patience = SILENCE_S
                    yield event

    def _next_event(self) -> Event:
        while True:
            line = self._next_line()
            if not line:
                continue
            event = _event(line)
            if event is not None:
                self._greeted = True
                return event
            self._noise += len(line) + 1
            if self._greeted or self._noise > MAX_NOISE:
                raise ConnectError(
                    "something on the machine writes into the agent's output",
                    where=self.where,
                    found=line[:200].decode("utf-8", "replace"),
                    remedy="a login shell's start file must print nothing when it is not interactive",
                )

    def _next_line(self) -> bytes:
        assert self._channel is not None
        while b"\n" not in self._buffer:
            try:
                part = self._channel.receive(self._patience)
            except TimeoutError:
                raise _Silence(
                    f"no sign of life for {self._patience:g} s",
                    where=self.where,
                    remedy="run again; what was begun is finished then",
                ) from None
            if not part:
                raise self._ended_early()
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _ended_early(self) -> BlackstartError:
        assert self._channel is not None
        status, stderr = self._channel.close()
        self._channel = None
        last = stderr.strip().splitlines()[-3:]
        return ConnectError(
            f"the agent ended early with {status}",
            where=self.where,
            found="\n".join(last) or "no output",
            remedy="run again; what was begun is finished then",
        )

    def probe(self, groups: Mapping[str, Sequence[Probe]], *, empty: bool = False) -> dict[str, tuple[Facts, str]]:
        """Group name → (answers in the questions' order, digest of the answers).

        With `empty` the answers are those of a machine that does not exist yet.
        """
        asked = {name: list(probes) for name, probes in groups.items()}
        return {
            event["group"]: (event["answers"], event["digest"])
            for event in self.request("probe", groups=asked, empty=empty)
        }

    def converge(self, plan: Mapping[str, Any]) -> Iterator[Event]:
        """Carry out a plan (see plan.plan_to_wire); yields start, output, done and stale events as they come."""
        return self.request("converge", plan=plan)


def _event(line: bytes) -> Event | None:
    """An event of the agent or of what leads to it; None for whatever else there is in a line."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("e"), str) else None


def held_error(where: str, holder: Mapping[str, Any]) -> CheckError:
    return CheckError(
        "another controller works on this machine",
        where=where,
        found=f"{holder.get('controller', 'unknown')}, since {holder.get('since', 'unknown')}",
        remedy="wait for it to end; its lock ends with it",
    )
