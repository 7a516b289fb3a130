"""A proxy between members that delays what passes, and cuts connections with what is under way in them."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeAlias

__all__ = ["bad_wires"]

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def bad_wires(
    members: Mapping[str, str], seed: int, *, delay_s: float = 0.02, cut: float = 0.01
) -> Iterator[dict[str, str]]:
    """Other addresses for the same members; `cut` is how likely a piece of data is the last of its connection."""
    loop, choose = asyncio.new_event_loop(), random.Random(seed)
    places: dict[str, str] = {}
    servers: list[asyncio.Server] = []
    cuts = 0

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            await asyncio.sleep(choose.uniform(0, delay_s))
            if choose.random() < cut:
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()

    def between(host: str, port: int) -> Serve:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal cuts
            other: asyncio.StreamWriter | None = None
            with suppress(OSError, asyncio.CancelledError):
                back, other = await asyncio.open_connection(host, port)
                ways = [asyncio.create_task(pipe(reader, other)), asyncio.create_task(pipe(back, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                cuts += 1
            for end in (writer, other):
                if end is not None:
                    end.transport.abort()

        return serve

    async def start() -> None:
        for name, address in members.items():
            host, _, port = address.rpartition(":")
            server = await asyncio.start_server(between(host, int(port)), "127.0.0.1", 0)
            servers.append(server)
            places[name] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield places
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for server in servers:
            server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()
        assert cuts or not cut, "nothing was cut: this tested nothing"
