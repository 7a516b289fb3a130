"""What was delivered and waits for the application, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from beforehand.runtime.member import Delivered
from beforehand.runtime.state_packets import Turn

__all__ = ["Inbox", "within"]


class Inbox:
    """Of one member. Its bound is kept by who fills it: what came in one step is not torn."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._waiting: Final[deque[Delivered]] = deque()
        self._arrived: Final = asyncio.Event()  # Something is here, or the end has come.
        self._room: Final = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self._limit

    def extend(self, delivered: Iterable[Delivered]) -> None:
        before = len(self._waiting)
        self._waiting.extend(delivered)
        if len(self._waiting) > before:
            self._arrived.set()

    def wake(self) -> None:
        """Whoever waits looks again."""
        self._arrived.set()

    def pop(self) -> Delivered:
        self._room.set()
        return self._waiting.popleft()

    async def wait(self) -> None:
        """Until something is here, or `wake` was called."""
        self._arrived.clear()
        await self._arrived.wait()

    def room(self) -> asyncio.Event:
        """Set when something is taken from now on."""
        self._room.clear()
        return self._room

    def turns(self) -> list[Turn]:
        """The starts of views that are still to be handled."""
        return [one for _, one in self._waiting if isinstance(one, Turn)]

    def holds_start(self, view: int) -> bool:
        """Whether the start of this view is still to be handled."""
        return any(turn.view.number == view for turn in self.turns())


async def within(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not for longer."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
