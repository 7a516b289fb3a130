"""Events that wait, in memory: what the table `waits` has, so that what is woken is not read from the store again.

Either *whole*, every event of the table is here, or nothing is, and the table is asked. It begins whole when nothing
waits. It stops being whole when more than `Settings.waiting_kept` events or `WEIGHT_MAX` bytes would be here, and
when the writer forgets what it knows (a transaction was undone, the tables were changed, processes were forgotten);
then it is whole again once the table is empty.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from beforehand.service.ledger import Key, Pending

__all__ = ["Spot", "Waiting"]

Spot = tuple[int, int] | tuple[int, str]
"""What is waited for: an event, or a message of an execution."""

WEIGHT_MAX: Final = 256 << 20
"""Bytes, about: of contents, and of clocks at `_ENTRY` for each entry."""
_ENTRY: Final = 80


class Waiting:
    """Of one writer. What it holds belongs to the transaction that runs; if that is undone, `forget`."""

    def __init__(self, events_max: int, *, weight_max: int = WEIGHT_MAX) -> None:
        self._events_max: Final = events_max
        self._weight_max: Final = weight_max
        self._by_spot: dict[Spot, dict[Key, Pending]] = {}
        self._spots: dict[Key, Spot] = {}
        self._weight = 0
        self._whole = False

    def __contains__(self, key: Key) -> bool:
        return key in self._spots

    def is_whole(self, db: sqlite3.Connection) -> bool:
        """Whether all that waits is here. Ask when nothing is gathered that the tables do not have."""
        if not self._whole:
            self._whole = db.execute("SELECT 1 FROM waits LIMIT 1").fetchone() is None
        return self._whole

    def add(self, spot: Spot, event: Pending) -> None:
        """It waits from now on."""
        if not self._whole:
            return
        self._by_spot.setdefault(spot, {})[event.key] = event
        self._spots[event.key] = spot
        self._weight += _weight(event)
        if len(self._spots) > self._events_max or self._weight > self._weight_max:
            self.forget()

    def take(self, spots: Iterable[Spot]) -> list[Pending]:
        """Those that wait for one of these; they wait no longer."""
        found: list[Pending] = []
        for spot in spots:
            events = self._by_spot.pop(spot, None)
            if events:
                found += events.values()
                for key, event in events.items():
                    del self._spots[key]
                    self._weight -= _weight(event)
        return found

    def discard(self, key: Key) -> None:
        """It was woken by the table."""
        spot = self._spots.pop(key, None)
        if spot is not None:
            events = self._by_spot[spot]
            self._weight -= _weight(events.pop(key))
            if not events:
                del self._by_spot[spot]

    def forget(self) -> None:
        """Hold nothing until nothing waits."""
        self._by_spot.clear()
        self._spots.clear()
        self._weight = 0
        self._whole = False


def _weight(event: Pending) -> int:
    return len(event.content or b"") + len(event.reported or b"") + _ENTRY * len(event.clock or ()) + 500
