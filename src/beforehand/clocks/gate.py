"""Where messages wait until all that they depend on is known.

Each waiting message is parked on the first entry that it misses, (process, count), and looked at again only
when that process reaches that count: no rescans. When it is parked again it is on another entry, so a message
is looked at no more often than its stamp has entries.

The gate only tells who may go: a message that misses nothing any more is *free*, and whoever waits with it is woken
to take it. What is known only grows, so a free message stays free. If nobody takes it (its caller was cancelled),
nothing has happened: it was not delivered, and what depends on it goes on waiting.

The gate has no lock of its own: whoever owns it calls it under the owner's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from beforehand.clocks.vector import VectorStamp
from beforehand.errors import BufferFullError

__all__ = ["Gate", "Waiting"]

DEAD_MAX: Final = 64

M = TypeVar("M")


class Waiting(Generic[M]):
    """One message at the gate. `missing` is the entry that it is parked on, or None when it is free."""

    __slots__ = ("left", "message", "missing", "needs", "wake")

    def __init__(self, message: M, needs: VectorStamp, wake: Callable[[], None]) -> None:
        self.message: Final = message
        self.needs: Final = needs
        self.wake: Final = wake  # Called once, when the message becomes free after it was parked. Must not raise.
        self.missing: tuple[str, int] | None = None
        self.left = False  # It gave up; its entry in a heap is dead.


class Gate(Generic[M]):
    def __init__(self, *, known: Callable[[str], int], waiting_max: int) -> None:
        """`known(p)` is how many events of p are known now."""
        self._known: Final = known
        self._waiting_max: Final = waiting_max
        self._parked: dict[str, list[tuple[int, int, Waiting[M]]]] = {}  # Per process a heap by count.
        self._size = 0  # Live entries in all heaps; at most waiting_max.
        self._dead = 0  # Entries of those that left, not yet taken out; at most _size + DEAD_MAX.
        self._arrivals = 0  # Breaks ties in the heaps: first come, first served.

    def __len__(self) -> int:
        """How many are parked."""
        return self._size

    def missing(self, needs: VectorStamp) -> tuple[str, int] | None:
        """The first entry of `needs` that is not known yet."""
        for process, count in needs._all().items():
            if self._known(process) < count:
                return (process, count)
        return None

    def enter(self, waiting: Waiting[M]) -> None:
        """Park the message, unless it is free already."""
        waiting.missing = self.missing(waiting.needs)
        if waiting.missing is None:
            return
        if self._size >= self._waiting_max:
            raise BufferFullError(what="messages waiting for earlier ones", limit=self._waiting_max)
        self._park(waiting)

    def leave(self, waiting: Waiting[M]) -> None:
        """A message gives up. Its entry stays in the heap until many are dead: thousands may give up at once."""
        if waiting.missing is None or waiting.left:
            return
        waiting.left = True
        self._size -= 1
        self._dead += 1
        if self._dead > self._size + DEAD_MAX:
            self._sweep()

    def release(self, grown: Iterable[str]) -> None:
        """More is known of the processes in `grown`: wake all that are free now."""
        for process in grown:
            heap = self._parked.get(process)
            if heap is None:
                continue
            while heap and heap[0][0] <= self._known(process):
                waiting = heappop(heap)[2]
                if waiting.left:
                    self._dead -= 1
                    continue
                self._size -= 1
                waiting.missing = self.missing(waiting.needs)
                if waiting.missing is None:
                    waiting.wake()
                else:
                    self._park(waiting)
            if not heap:
                del self._parked[process]

    def waiting(self) -> list[Waiting[M]]:
        """The parked messages, in the order in which they were parked."""
        entries = [entry for heap in self._parked.values() for entry in heap if not entry[2].left]
        return [entry[2] for entry in sorted(entries, key=lambda entry: entry[1])]

    def _sweep(self) -> None:
        live = {p: [entry for entry in heap if not entry[2].left] for p, heap in self._parked.items()}
        self._parked = {p: heap for p, heap in live.items() if heap}
        for heap in self._parked.values():
            heapify(heap)
        self._dead = 0

    def _park(self, waiting: Waiting[M]) -> None:
        assert waiting.missing is not None
        process, count = waiting.missing
        heappush(self._parked.setdefault(process, []), (count, self._arrivals, waiting))
        self._arrivals += 1
        self._size += 1
