"""Waiting for changes of a store from an event loop: one thread waits for all who do.

`wait` returns when there are changes after a cursor, or after its timeout; what comes between a look and the wait is
not missed. The thread ends by itself a while after nobody waits any more, and begins anew when somebody does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Final

from beforehand.service.store import Store

__all__ = ["Bell"]

_PIECE: Final = 1.0  # Seconds between two looks for whether anybody waits still.


class Bell:
    """Of one store. `wait` may be used from any event loop."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._lock: Final = threading.Lock()
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self._thread: threading.Thread | None = None

    async def wait(self, after: int, timeout: float) -> bool:
        """Whether there are changes after this cursor; waits for the first, `timeout` seconds at most."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiting[future] = loop
            if self._thread is None:
                self._thread = threading.Thread(target=self._ring, name="beforehand-bell", daemon=True)
                self._thread.start()
        try:
            # Looked at after it was put down to be woken: a change between the two wakes it.
            if self._store.cursor <= after:
                with suppress(TimeoutError):
                    await asyncio.wait_for(future, timeout)
        finally:
            with self._lock:
                self._waiting.pop(future, None)
        return self._store.cursor > after

    def _ring(self) -> None:
        heard = self._store.cursor
        self._wake()  # For what came before `heard` was read.
        while True:
            begun = time.monotonic()
            if self._store.wait(heard, timeout=_PIECE):
                heard = self._store.cursor
                self._wake()
            else:
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        return
                if time.monotonic() - begun < _PIECE / 2:
                    time.sleep(_PIECE / 10)  # The store was closed: nothing more will come.

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future, loop in waiting.items():
            with suppress(RuntimeError):  # The loop was closed.
                loop.call_soon_threadsafe(_finish, future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
