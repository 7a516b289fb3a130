"""Where messages wait until all that they depend on is known.

Each waiting message is parked on the first entry that it misses, (process, count), and looked at again only
when that process reaches that count: no rescans. When it is parked again it is on another entry, so a message
is looked at no more often than its stamp has entries.

The gate has no lock of its own: whoever owns it calls it under the owner's lock. Outcomes are set under that
lock too, in the order of delivery, by whichever thread let the message through.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from beforehand.clocks.vector import VectorStamp
from beforehand.errors import BeforehandError, BufferFullError

__all__ = ["Gate", "Waiting"]

M = TypeVar("M")


class Waiting(Generic[M]):
    """One message at the gate. `outcome` is None while it waits; then the stamp of its delivery, or an error."""

    __slots__ = ("message", "missing", "needs", "outcome", "wake")

    def __init__(self, message: M, needs: VectorStamp, wake: Callable[[], None]) -> None:
        self.message: Final = message
        self.needs: Final = needs
        self.wake: Final = wake
        self.missing: tuple[str, int] | None = None
        self.outcome: VectorStamp | BeforehandError | None = None


class Gate(Generic[M]):
    def __init__(
        self,
        *,
        known: Callable[[str], int],
        deliver: Callable[[M], VectorStamp],
        waiting_max: int,
    ) -> None:
        """`known(p)` is how many events of p are known now; `deliver` takes a message over and may raise known."""
        self._known: Final = known
        self._deliver: Final = deliver
        self._waiting_max: Final = waiting_max
        self._parked: dict[str, list[tuple[int, int, Waiting[M]]]] = {}  # Per process a heap by count.
        self._size = 0  # Entries in all heaps; at most waiting_max.
        self._arrivals = 0  # Breaks ties in the heaps: first come, first served.

    def __len__(self) -> int:
        return self._size

    def missing(self, needs: VectorStamp) -> tuple[str, int] | None:
        """The first entry of `needs` that is not known yet."""
        for process, count in needs._all().items():
            if self._known(process) < count:
                return (process, count)
        return None

    def enter(self, waiting: Waiting[M]) -> None:
        """Deliver the message now if nothing is missing, and all that it lets through; else park it."""
        waiting.missing = self.missing(waiting.needs)
        if waiting.missing is None:
            self._let_through(waiting)
        elif self._size >= self._waiting_max:
            raise BufferFullError(what="messages waiting for earlier ones", limit=self._waiting_max)
        else:
            self._park(waiting)

    def leave(self, waiting: Waiting[M]) -> None:
        """A parked message gives up."""
        assert waiting.missing is not None
        process = waiting.missing[0]
        kept = [entry for entry in self._parked.pop(process) if entry[2] is not waiting]
        self._size -= 1
        if kept:
            heapify(kept)
            self._parked[process] = kept

    def waiting(self) -> list[Waiting[M]]:
        """The parked messages, in the order in which they were parked."""
        entries = [entry for heap in self._parked.values() for entry in heap]
        return [entry[2] for entry in sorted(entries, key=lambda entry: entry[1])]

    def _park(self, waiting: Waiting[M]) -> None:
        assert waiting.missing is not None
        process, count = waiting.missing
        heappush(self._parked.setdefault(process, []), (count, self._arrivals, waiting))
        self._arrivals += 1
        self._size += 1

    def _let_through(self, first: Waiting[M]) -> None:
        ready = [first]
        while ready:
            waiting = ready.pop()
            try:
                waiting.outcome = self._deliver(waiting.message)
            except BeforehandError as error:
                if waiting is first:
                    raise  # Its own caller hears of it; nothing has changed.
                waiting.outcome = error
            waiting.wake()
            ready.extend(self._woken())

    def _woken(self) -> list[Waiting[M]]:
        """Take out all that miss nothing any more; park anew those that now miss something else."""
        free: list[Waiting[M]] = []
        for process in list(self._parked):
            heap = self._parked[process]
            while heap and heap[0][0] <= self._known(process):
                waiting = heappop(heap)[2]
                self._size -= 1
                waiting.missing = self.missing(waiting.needs)
                if waiting.missing is None:
                    free.append(waiting)
                else:
                    self._park(waiting)
            if not heap:
                del self._parked[process]
        free.reverse()  # `ready` is a stack: the first to wake is delivered first.
        return free
