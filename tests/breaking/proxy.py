"""A proxy on loopback that cuts the first connection through it, after so many bytes in one direction."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Direction = Literal["to the machine", "to the controller"]
Manner = Literal["reset", "end", "stall"]
DIRECTIONS: tuple[Direction, Direction] = ("to the machine", "to the controller")
BROKEN: tuple[Manner, Manner] = ("reset", "end")
BLOCK = 16384


@dataclass(frozen=True)
class Cut:
    """`stall` loses whatever comes after, in both directions, until the controller gives up."""

    direction: Direction
    after: int
    manner: Manner


@dataclass
class Proxy:
    """Carries connections to a host; `carried` counts bytes."""

    host: str
    port: int
    cut: Cut | None = None
    was_cut: bool = False
    carried: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIRECTIONS, 0))

    @contextlib.contextmanager
    def listening(self, address: str) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server((address, self.port)))
            accepting = threading.Thread(target=self._accept, args=(listener,))
            accepting.start()
            stack.callback(accepting.join)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            yield

    def _accept(self, listener: socket.socket) -> None:
        carriers = []
        with contextlib.suppress(OSError):  # shut down: it is over
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((self.host, self.port))
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                carriers.append(threading.Thread(target=_Connection(self, near, far).carry))
                carriers[-1].start()
        for carrier in carriers:
            carrier.join()


class _Connection:
    """One thread for both directions: a socket that another thread waits for would not be reset by its closing."""

    def __init__(self, proxy: Proxy, near: socket.socket, far: socket.socket) -> None:
        self._proxy = proxy
        self._near = near
        self._far = far
        self._stalled = False

    def carry(self) -> None:
        with self._near, self._far, contextlib.suppress(OSError):
            while self._pass_on():
                pass

    def _pass_on(self) -> bool:
        """Carry what has come; whether the connection lives."""
        # Of a stalled connection only the controller's end is ever seen to go.
        for source in select.select([self._near] if self._stalled else [self._near, self._far], [], [])[0]:
            block = source.recv(BLOCK)
            if not block:
                return False
            if self._stalled:
                continue
            sink, direction = (self._far, DIRECTIONS[0]) if source is self._near else (self._near, DIRECTIONS[1])
            part = self._allowed(block, direction)
            sink.sendall(part)
            if len(part) < len(block):
                return self._sever()
        return True

    def _allowed(self, block: bytes, direction: Direction) -> bytes:
        """The part of a block that is carried."""
        proxy = self._proxy
        carried = proxy.carried[direction]
        proxy.carried[direction] += len(block)
        cut = proxy.cut
        if cut is None or proxy.was_cut or cut.direction != direction or carried + len(block) <= cut.after:
            return block
        proxy.was_cut = True
        return block[: cut.after - carried]

    def _sever(self) -> bool:
        assert self._proxy.cut is not None
        self._stalled = self._proxy.cut.manner == "stall"
        if self._proxy.cut.manner == "reset":
            for end in (self._near, self._far):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return self._stalled
