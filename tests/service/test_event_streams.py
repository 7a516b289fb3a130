"""A stream as the server sees it: alive when nothing comes, and ended when the client takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from service_stores import Service, events, opened

from beforehand.service.http.streams import EventStream, Streams
from beforehand.service.served import Served
from beforehand.service.subscriptions import Bell, Following, Interest


class Line:
    """The two ends of a connection."""

    def __init__(self, *, takes: bool = True) -> None:
        self.gone = asyncio.Event()
        self.said = b""
        self.takes = takes
        self.more = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        body = message.get("body", b"")
        if body and not self.takes:
            await asyncio.Event().wait()
        self.said += body
        self.more.set()

    async def until(self, text: bytes) -> None:
        while text not in self.said:
            self.more.clear()
            await asyncio.wait_for(self.more.wait(), 20)


def streaming(
    folder: Path, talk: Callable[[Service, Streams, EventStream], Awaitable[None]], **options: float
) -> None:
    with opened(folder) as service:
        service.ingest.report(events("a1"))
        served = Served(store=service.store, queries=service.queries)
        streams = Streams(Bell(service.store))
        following = Following(service.store, Interest(where="name = meant", past=0), after=0)
        asyncio.run(
            _call(talk, service, streams, EventStream(served, streams, following, holds=lambda: True, **options))
        )
        assert streams.open == 0


async def _call(talk: Callable[..., Awaitable[None]], *parts: Any) -> None:
    await talk(*parts)


def test_silence_is_broken_and_moves_the_cursor_past_what_was_not_meant(tmp_path: Path) -> None:
    async def talk(service: Service, _: Streams, stream: EventStream) -> None:
        line = Line()
        task = asyncio.ensure_future(stream({}, line.receive, line.send))
        await line.until(b"retry: 1000\nid: 0\n\nid: 1\n\n")
        await line.until(b": alive\n\n")
        await asyncio.to_thread(service.ingest.report, events("b1 meant"))
        await line.until(b'id: 2\nevent: notice\ndata: {"subscription":null,"cursor":2,')
        line.gone.set()
        await asyncio.wait_for(task, 20)

    streaming(tmp_path, talk, keep_alive=0.05)


def test_a_client_that_takes_nothing_is_disconnected(tmp_path: Path) -> None:
    async def talk(_: Service, streams: Streams, stream: EventStream) -> None:
        line = Line(takes=False)
        task = asyncio.ensure_future(stream({}, line.receive, line.send))
        await asyncio.sleep(0)
        assert streams.open == 1
        await asyncio.wait_for(task, 20)
        assert line.said == b""

    streaming(tmp_path, talk, send_seconds=0.05)


def test_a_client_that_goes_away_ends_its_stream_at_once(tmp_path: Path) -> None:
    async def talk(_: Service, __: Streams, stream: EventStream) -> None:
        line = Line()
        task = asyncio.ensure_future(stream({}, line.receive, line.send))
        await line.until(b"id: 0")
        line.gone.set()
        await asyncio.wait_for(task, 20)

    streaming(tmp_path, talk)
