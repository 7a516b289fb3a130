"""Where messages wait: each parked on the first thing that it misses, and looked at again only when that comes.

No rescans. A message that is woken and misses something else is parked again on that; a protocol that asks for its
n conditions in a fixed order parks a message at most n times. The room has a limit per sender, so that no peer can
fill it for the others, and so that there is always room for what the others wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

from beforehand.errors import BufferFullError

__all__ = ["PENDING_MAX", "Parking"]

PENDING_MAX: Final = 10_000
"""How many messages of one sender may wait, where nothing else is said."""

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")


class Parking(Generic[S, T]):
    """Items of senders, parked on spots. A spot is anything hashable that will come about once, such as (process,
    7)."""

    def __init__(self, *, sender_of: Callable[[T], str], limit: int = PENDING_MAX) -> None:
        self._sender_of: Final = sender_of
        self._limit: Final = limit
        self._spots: dict[S, dict[int, T]] = {}  # Per spot the items by order of arrival.
        self._counts: dict[str, int] = {}  # Items per sender; at most `limit` each.
        self._arrivals = 0

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __iter__(self) -> Iterator[T]:
        """All items in the order in which they were parked."""
        items = [pair for spot in self._spots.values() for pair in spot.items()]
        return iter([item for _, item in sorted(items, key=lambda pair: pair[0])])

    def refuse_if_full(self, sender: str) -> None:
        """Raise BufferFullError if one more item of `sender` has no room."""
        if self._counts.get(sender, 0) >= self._limit:
            raise BufferFullError(what=f"messages of {sender!r} that wait for earlier ones", limit=self._limit)

    def park(self, spot: S, item: T) -> None:
        """Let `item` wait for `spot`. The caller has asked `refuse_if_full`, or the item was here before."""
        self._spots.setdefault(spot, {})[self._arrivals] = item
        self._arrivals += 1
        sender = self._sender_of(item)
        self._counts[sender] = self._counts.get(sender, 0) + 1

    def wake(self, spot: S) -> list[T]:
        """`spot` has come: the items that waited for it, which are no longer here."""
        items = list(self._spots.pop(spot, {}).values())
        for item in items:
            sender = self._sender_of(item)
            self._counts[sender] -= 1
            if not self._counts[sender]:
                del self._counts[sender]
        return items

    def spots(self) -> list[tuple[S, T]]:
        """Each item with the spot it waits for, in the order in which they were parked."""
        entries = [(arrival, spot, item) for spot, items in self._spots.items() for arrival, item in items.items()]
        return [(spot, item) for _, spot, item in sorted(entries, key=lambda entry: entry[0])]
