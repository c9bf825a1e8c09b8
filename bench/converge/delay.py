"""A TCP proxy on loopback that makes the way to host 1 long: each direction takes half of the given round trip.

python -m bench.converge.delay ROUND_TRIP_S
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Every byte arrives `delay_s` after it was sent, in order, however much is on its way."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                with contextlib.suppress(OSError):  # it may have left already
                    writer.write_eof()
                return
            writer.write(data)

    delivery = asyncio.create_task(deliver())
    try:
        while data := await reader.read(65536):
            queue.put_nowait((loop.time() + delay_s, data))
    except ConnectionError:
        pass  # for the other side it is an end like any other
    queue.put_nowait((loop.time() + delay_s, b""))
    await delivery


async def serve(round_trip_s: float, near: str, far: str) -> None:
    """Whoever connects to `near` talks to `far`; both are HOST:PORT."""

    async def connected(near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far_in, far_out = await asyncio.open_connection(*_place(far))
        for writer in (near_out, far_out):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.gather(_carry(near_in, far_out, round_trip_s / 2), _carry(far_in, near_out, round_trip_s / 2))
        finally:
            near_out.close()
            far_out.close()

    server = await asyncio.start_server(connected, *_place(near))
    async with server:
        await server.serve_forever()


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), sys.argv[2], sys.argv[3]))
