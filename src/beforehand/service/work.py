"""Where blocking work of requests is done: in threads, never in the event loop; bounded, with two separate queues.

1. Readers and the writer do not take each other's threads: reports are stored while questions are slow, and the
   other way round. At most `reads_max` questions and one batch are at work.
2. At most `reads_waiting_max` and `writes_waiting_max` calls wait; one more is a `BusyError`, and nothing of it was
   begun.
3. A question has `read_seconds_max` from the time it was asked: `OverdueError`. Work that was begun goes on in its
   thread when its request was given up; it ends by the same deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from beforehand.errors import BeforehandError
from beforehand.service.deadlines import within
from beforehand.service.http.limits import Limits

__all__ = ["BusyError", "Work"]

P = ParamSpec("P")
T = TypeVar("T")


class BusyError(BeforehandError):
    """There is more to do than may wait. The call was not begun."""


class _Queue:
    def __init__(self, at_work: int, waiting: int) -> None:
        self.limiter: Final = CapacityLimiter(at_work)
        self.room: Final = at_work + waiting
        self.taken = 0  # Changed in the event loop only.


class Work:
    """Of one service; used from one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._reads: Final = _Queue(limits.reads_max, limits.reads_waiting_max)
        self._writes: Final = _Queue(1, limits.writes_waiting_max)
        self._prepared: Final = _Queue(1, limits.writes_waiting_max)

    async def read(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask something of the store."""
        end = time.monotonic() + self._limits.read_seconds_max

        def limited() -> T:
            with within(end - time.monotonic()):
                return call(*args, **kwargs)

        return await self._run(self._reads, limited, "questions")

    async def prepare(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Read what is to be written: decompress, decode. Beside the writer, which is in SQLite much of its time."""
        return await self._run(self._prepared, partial(call, *args, **kwargs), "reports")

    async def write(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Change something; one at a time."""
        return await self._run(self._writes, partial(call, *args, **kwargs), "reports")

    async def _run(self, queue: _Queue, call: Callable[[], T], what: str) -> T:
        if queue.taken >= queue.room:
            raise BusyError(f"{queue.taken} {what} are at work or wait: ask again in a moment")
        queue.taken += 1
        try:
            return await run_sync(call, limiter=queue.limiter)
        finally:
            queue.taken -= 1
