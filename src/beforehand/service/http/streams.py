"""Notices as server-sent events (the `text/event-stream` of the HTML standard).

    id: 123                 the cursor: a client that comes back with `Last-Event-ID: 123` misses nothing and gets
    event: notice           nothing twice
    data: {"subscription": ..., "cursor": 123, "event": ...}

1. `event: gap` says that notices may be lacking, for retention removed them.
2. When nothing comes, every `KEEP_ALIVE_SECONDS` an `id` without data, or a comment, shows that the line is alive: it
   moves the client's cursor past what was not meant for it.
3. What is not taken within `SEND_SECONDS` is given up and the connection is closed: the client comes back. What waits
   for a slow client is one page at most, and what the transport holds.
4. The stream ends when the service does; and when `holds` says that the client may no longer have it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beforehand.service.deadlines import OverdueError
from beforehand.service.served import Served
from beforehand.service.subscriptions import Bell, Following, Notice, Page

__all__ = ["KEEP_ALIVE_SECONDS", "SEND_SECONDS", "STREAMS_MAX", "EventStream", "Streams", "until_gone"]

STREAMS_MAX: Final = 256
KEEP_ALIVE_SECONDS: Final = 15.0
SEND_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.5  # How soon a stream sees that the service ends.
_HELD_SECONDS: Final = 0.1  # Until a notice that has to wait is looked at again.


class Streams:
    """All streams of a service: they share what waits for the store and the threads that read it."""

    def __init__(self, bell: Bell) -> None:
        self.bell: Final = bell
        self.readers: Final = CapacityLimiter(2)
        self.open = 0  # Changed in the event loop only.


class EventStream(Response):
    """The notices of one subscriber, from a cursor on, until the client goes away or the service ends."""

    def __init__(
        self,
        served: Served,
        streams: Streams,
        following: Following,
        *,
        holds: Callable[[], bool],
        keep_alive: float = KEEP_ALIVE_SECONDS,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        super().__init__(
            status_code=200,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            media_type="text/event-stream",
        )
        del self.headers["content-length"]
        self._served: Final = served
        self._streams: Final = streams
        self._following: Final = following
        self._holds: Final = holds  # Asked in a thread, after each look.
        self._keep_alive: Final = keep_alive
        self._send_seconds: Final = send_seconds
        self._told = following.cursor  # The cursor that the client knows.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI)
        self._streams.open += 1
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._write(send, b"retry: 1000\nid: %d\n\n" % self._told)
            await self._follow(send, gone)
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            pass  # It takes nothing: the connection is closed, and the client may come back.
        finally:
            gone.cancel()
            self._streams.open -= 1

    async def _follow(self, send: Send, gone: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        spoken = loop.time()
        while not gone.done() and not self._served.stopping.is_set():
            try:
                page = await run_sync(self._page, limiter=self._streams.readers)
            except OverdueError:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if page is None:
                return
            if page.notices:
                await self._write(send, b"".join(map(_event, page.notices)))
                self._told, spoken = page.notices[-1].cursor, loop.time()
                continue
            if loop.time() - spoken >= self._keep_alive:
                alive = b": alive\n\n" if self._told == page.cursor else b"id: %d\n\n" % page.cursor
                await self._write(send, alive)
                self._told, spoken = page.cursor, loop.time()
            if page.held:
                await asyncio.sleep(_HELD_SECONDS)
            else:
                left = max(spoken + self._keep_alive - loop.time(), 0.01)
                await self._pause(gone, page.cursor, min(left, _LOOK_SECONDS))

    def _page(self) -> Page | None:
        page = self._following.page()
        return page if self._holds() else None

    async def _pause(self, gone: asyncio.Future[None], after: int, seconds: float) -> None:
        """Until there is news, the client goes away, or the time has passed."""
        news = asyncio.ensure_future(self._streams.bell.wait(after, seconds))
        both: list[asyncio.Future[Any]] = [news, gone]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not news.done():
                news.cancel()

    async def _write(self, send: Send, data: bytes) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": True}
        await asyncio.wait_for(send(message), self._send_seconds)


def _event(notice: Notice) -> bytes:
    kind = b"gap" if notice.is_gap else b"notice"
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (notice.cursor, kind, notice.body)  # JSON has no line breaks.


async def until_gone(receive: Receive) -> None:
    """Returns when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
