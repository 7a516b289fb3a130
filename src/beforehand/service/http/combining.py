"""Reports of several requests in one transaction.

While the writer is at work, the batches that come wait; then all of them go together, up to the size of one batch,
and with them those that are just arriving (`LINGER_SECONDS` are waited at most). A transaction for each would cost
more, and events would wait in the store for others that came in the same moment.

Reporters that were answered together tend to come back together. Without waiting for them two halves would take turns
for ever, each with events that depend on the other half. So as many as were answered are waited for, until a share
(`RETURN_SHARE`) of the time that their transaction took has passed since: a reporter that comes alone is not held up.

1. A batch is answered when its transaction has ended. If that failed, nothing of it is there, and it may be sent
   again.
2. At most `Limits.writes_waiting_max` batches wait, and `Limits.bodies_bytes_max` of their texts, decompressed; one
   more is a `BusyError`.
3. A batch with which a transaction fails for a bug of ours is tried alone, so that it does not take others with it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.service.ingest import Ingest, Receipt
from beforehand.service.work import BusyError, Work

__all__ = ["LINGER_SECONDS", "RETURN_SHARE", "Combined"]

LINGER_SECONDS: Final = 0.1
RETURN_SHARE: Final = 0.25

Batch = Sequence[Event | Rejection]


class Combined:
    """The way of all reports to the writer; used from one event loop."""

    def __init__(
        self, ingest: Ingest, work: Work, *, events_max: int, waiting_max: int, waiting_bytes_max: int = 256 << 20
    ) -> None:
        self._ingest: Final = ingest
        self._work: Final = work
        self._events_max: Final = events_max
        self._waiting_max: Final = waiting_max
        self._waiting_bytes_max: Final = waiting_bytes_max
        self._waiting_bytes = 0  # Of those that wait or are being stored, as they were decompressed.
        self._queue: deque[tuple[Batch, asyncio.Future[Receipt]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._coming = 0  # Batches that are being read and decoded.
        self._returning = 0  # Batches that were answered last, and nothing has come for since.
        self._returning_until = 0.0  # When they are not waited for any longer.
        self._moved = asyncio.Event()  # Set when one of these changes.

    @contextmanager
    def coming(self) -> Iterator[None]:
        """A batch is being read and decoded in this block, and will be reported next."""
        self._coming += 1
        self._returning -= 1
        self._moved.set()
        try:
            yield
        finally:
            self._coming -= 1
            self._moved.set()

    async def report(self, batch: Batch, *, size: int = 0) -> Receipt:
        """Store a batch, whose text has this size; what became of it."""
        if len(self._queue) >= self._waiting_max:
            raise BusyError(f"{len(self._queue)} reports wait: send them again in a moment")
        if self._waiting_bytes and self._waiting_bytes + size > self._waiting_bytes_max:
            raise BusyError(f"reports of {self._waiting_bytes} bytes wait: send them again in a moment")
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._queue.append((batch, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        self._waiting_bytes += size
        try:
            return await future
        finally:
            self._waiting_bytes -= size

    async def _drain(self) -> None:
        while self._queue:
            await self._gather()
            group = [self._queue.popleft()]
            size = len(group[0][0])
            while self._queue and size + len(self._queue[0][0]) <= self._events_max:
                group.append(self._queue.popleft())
                size += len(group[-1][0])
            start = time.monotonic()
            await self._store(group)
            now = time.monotonic()
            self._returning, self._returning_until = len(group), now + RETURN_SHARE * (now - start)

    async def _gather(self) -> None:
        """Wait for those that are arriving or are about to, if there is room for them."""
        end = time.monotonic() + LINGER_SECONDS
        while sum(len(batch) for batch, _ in self._queue) < self._events_max:
            until = end if self._coming else min(end, self._returning_until) if self._returning > 0 else 0.0
            left = until - time.monotonic()
            if left <= 0:
                break
            self._moved.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), left)
            await asyncio.sleep(0)  # Whoever has decoded reports now.

    async def _store(self, group: list[tuple[Batch, asyncio.Future[Receipt]]]) -> None:
        try:
            receipts = await self._work.write(self._ingest.report_all, [batch for batch, _ in group])
        except (sqlite3.OperationalError, InputError, BusyError) as error:
            _fail(group, error)  # The disk, or a store that was closed: it would be the same for each.
        except Exception as error:  # noqa: BLE001  # Whatever it is, those who wait must hear of it.
            if len(group) == 1:
                _fail(group, error)
            else:
                for one in group:
                    await self._store([one])
        except BaseException:
            for _, future in group:
                future.cancel()
            raise
        else:
            for (_, future), receipt in zip(group, receipts, strict=True):
                if not future.done():  # Its client has gone.
                    future.set_result(receipt)


def _fail(group: list[tuple[Batch, asyncio.Future[Receipt]]], error: Exception) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(error)
