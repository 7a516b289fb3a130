"""`GET /api/export`: all events of the store as native JSON Lines, as one stream (service/export.py).

At most `EXPORTS_MAX` at a time (503), for each holds a reader of the store, and while it does the store's journal on
the disk (the WAL) only grows. A client that takes nothing for `SEND_SECONDS`, or not all of it within
`EXPORT_SECONDS`, is given up, and so is one that is gone. A stream that does not end properly (its last chunk is
lacking) is not whole: every client of HTTP says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any, Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beforehand.events import Event
from beforehand.formats import to_json
from beforehand.service.export import exported
from beforehand.service.http.access import needs
from beforehand.service.http.errors import HttpError
from beforehand.service.http.schemas import ERRORS
from beforehand.service.http.streams import until_gone
from beforehand.service.served import Served
from beforehand.service.store import Store

__all__ = ["EXPORTS_MAX", "EXPORT_SECONDS", "SEND_SECONDS", "routes"]

EXPORTS_MAX: Final = 2
SEND_SECONDS: Final = 60.0
EXPORT_SECONDS: Final = 3_600.0
_CHUNK_BYTES: Final = 256 << 10
_LINES: Final[dict[str, Any]] = {
    "description": "Native events, one a line, of one moment of the store",
    "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
}


def routes(served: Served) -> APIRouter:
    """Export."""
    router = APIRouter(tags=["questions"])
    exports = _Exports()

    @router.get(
        "/api/export",
        summary="All events, for the pipeline",
        dependencies=[Depends(needs("read"))],
        responses={200: _LINES, **ERRORS},
    )
    async def export(
        execution: Annotated[str | None, Query(description="Only this execution")] = None,
        source: Annotated[str | None, Query(description="Refused: an imported file is not exported")] = None,
    ) -> Response:
        """Native JSON Lines; `beforehand analyze` reads them."""
        if source:
            raise HttpError(400, "an imported file is not exported, for you have it: leave source out")
        store = served.store
        if store is None:
            raise HttpError(409, "a history directory is served here: export it with beforehand export")
        if exports.open >= EXPORTS_MAX:
            raise HttpError(503, f"{EXPORTS_MAX} exports are under way: come back later", {"Retry-After": "10"})
        exports.open += 1
        lines = _Source(store)
        try:
            await run_sync(lines.begin, execution, limiter=exports.threads)
        except BaseException:
            exports.open -= 1
            lines.close()
            raise
        return _Exported(served, exports, lines)

    return router


class _Exports:
    def __init__(self) -> None:
        self.open = 0  # Changed in the event loop only.
        self.threads: Final = CapacityLimiter(EXPORTS_MAX)


class _Source:
    """The lines, in chunks; holds a reader of the store from `begin` to `close`."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._stack: Final = ExitStack()
        self._events: Iterator[Event] = iter(())

    def begin(self, execution: str | None) -> None:
        db = self._stack.enter_context(self._store.reading())
        self._events = exported(db, execution)

    def chunk(self) -> bytes:
        """The next lines; empty at the end."""
        lines: list[bytes] = []
        size = 0
        for event in self._events:
            lines.append(to_json(event) + b"\n")
            size += len(lines[-1])
            if size >= _CHUNK_BYTES:
                break
        return b"".join(lines)

    def close(self) -> None:
        self._stack.close()


class _Exported(Response):
    def __init__(self, served: Served, exports: _Exports, source: _Source) -> None:
        super().__init__(
            headers={"Content-Disposition": 'attachment; filename="events.jsonl"'}, media_type="application/x-ndjson"
        )
        del self.headers["content-length"]
        self._served: Final = served
        self._exports: Final = exports
        self._source: Final = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI)
        gone = asyncio.ensure_future(until_gone(receive))  # Nobody else says so: what is sent then is simply lost.
        end = time.monotonic() + EXPORT_SECONDS
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while not self._served.stopping.is_set() and not gone.done() and time.monotonic() < end:
                chunk = await run_sync(self._source.chunk, limiter=self._exports.threads)
                message = {"type": "http.response.body", "body": chunk, "more_body": bool(chunk)}
                await asyncio.wait_for(send(message), SEND_SECONDS)
                if not chunk:
                    return
        except (TimeoutError, OSError):
            pass  # The client takes nothing, or is gone: the stream is cut.
        finally:
            gone.cancel()
            self._exports.open -= 1
            self._source.close()
