"""A transport that holds back what goes to some members: to see what an order is good for.

What is held back has no bound, and is lost when the transport is closed: it is for trials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from beforehand.runtime.transports.base import Identity, Take, Transport, TransportFigures

__all__ = ["DelayedTransport"]


class DelayedTransport:
    """Sends through `within`, `delays_s[NAME]` seconds later to those who are named. Their order stays."""

    def __init__(self, within: Transport, delays_s: Mapping[str, float]) -> None:
        self._within: Final = within
        self._delays: Final = dict(delays_s)
        self._held: Final[set[asyncio.TimerHandle]] = set()

    @property
    def figures(self) -> TransportFigures:
        return self._within.figures

    @property
    def packet_bytes_max(self) -> int:
        return self._within.packet_bytes_max

    async def start(self, identity: Identity, address: str, take: Take, position: bytes | None) -> None:
        await self._within.start(identity, address, take, position)

    def check(self, address: str) -> None:
        self._within.check(address)

    def meet(self, process: str, address: str) -> None:
        self._within.meet(process, address)

    def position(self) -> bytes:
        return self._within.position()

    def send(self, to: str, data: bytes) -> None:
        delay = self._delays.get(to)
        if delay is None:
            self._within.send(to, data)
            return

        def pass_on() -> None:
            self._held.discard(handle)
            self._within.send(to, data)

        handle = asyncio.get_running_loop().call_later(delay, pass_on)
        self._held.add(handle)

    async def close(self) -> None:
        for handle in self._held:
            handle.cancel()
        await self._within.close()
