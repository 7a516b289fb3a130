"""Connections: how many at once, and how long one may keep us waiting for the head of a request.

Uvicorn speaks the protocol (`H11Protocol`); it knows no bound on connections that have not asked anything. Beyond
`Limits.connections_max`, or `connections_per_address_max` of one address, a new connection is closed at once. One
whose first head is not here within `head_seconds_max`, or whose next one is not within that and the time that idle
connections are kept, is closed too. So is one that takes nothing of an answer for `stalled_seconds_max`: Uvicorn
would wait for it for ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from beforehand.service.http.limits import Limits

__all__ = ["KEEP_ALIVE_SECONDS", "bounded"]

KEEP_ALIVE_SECONDS = 65


def bounded(limits: Limits) -> type[H11Protocol]:
    """The protocol with these limits."""
    held: Counter[str] = Counter()  # Connections by address.

    class Bounded(H11Protocol):
        _address = ""
        _since = 0.0  # When the head of a request began to be waited for.
        _watch: asyncio.TimerHandle | None = None
        _stalled: tuple[int, float] | None = None  # What of an answer was not taken, and since when.

        def connection_made(self, transport: Any) -> None:
            address = str((transport.get_extra_info("peername") or ("",))[0])
            if len(self.connections) >= limits.connections_max or held[address] >= limits.connections_per_address_max:
                transport.abort()
                return
            super().connection_made(transport)
            self._address = address
            held[address] += 1
            self._since = self.loop.time()
            self._watch = self.loop.call_later(limits.head_seconds_max, self._look)

        def data_received(self, data: bytes) -> None:
            if self.transport is not None:  # None: refused.
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._watch is not None:
                self._watch.cancel()
            if self.transport is not None:
                held[self._address] -= 1
                if not held[self._address]:
                    del held[self._address]
                super().connection_lost(exc)

        def on_response_complete(self) -> None:
            self._since = self.loop.time()
            super().on_response_complete()

        def _look(self) -> None:
            if self._is_stalled():
                self.transport.abort()
                return
            if self.cycle is None or self.cycle.response_complete:
                patience = limits.head_seconds_max + (KEEP_ALIVE_SECONDS if self.cycle is not None else 0)
                if self.loop.time() - self._since >= patience:
                    self.transport.close()  # When what is left of an answer was taken.
            self._watch = self.loop.call_later(limits.head_seconds_max, self._look)

        def _is_stalled(self) -> bool:
            size, now = self.transport.get_write_buffer_size(), self.loop.time()
            if not size or self._stalled is None or self._stalled[0] != size:
                self._stalled = (size, now) if size else None
            return self._stalled is not None and now - self._stalled[1] >= limits.stalled_seconds_max

    return Bounded
