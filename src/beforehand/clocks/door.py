"""What ordering clocks do with an arriving message: refuse it, recognise a repetition, let it wait, deliver it.

  P1  A message is delivered at most once, and only when all that it needs is known here.
  P2  A message that is refused, or whose caller gives up (timeout, cancellation), has changed nothing: it may be
      tried again, and what depends on it goes on waiting.
  P3  Per sender, messages are delivered by their numbers 1, 2, 3, …: one that does not wait for those before it is a
      peer's fault, refused.

Bounds: `waiting_max` messages wait (see `gate`), `entries_max` senders are remembered. One lock, which is the owner's
too, so that deciding and delivering are one step; nobody waits while holding it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Event as ThreadEvent
from threading import RLock
from typing import Final

from beforehand.clocks.gate import Gate, Waiting
from beforehand.clocks.ordering_stamp import OrderingStamp
from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.vector import VectorStamp
from beforehand.errors import (
    BufferFullError,
    DeliveryTimeoutError,
    DuplicateMessageError,
    LocalProtocolError,
    RemoteProtocolError,
)

__all__ = ["Door"]

_NOTHING: Final = VectorStamp()


class Door:
    """Of one process. Its lock is also its owner's: `known`, `refuse` and `deliver` are called under it."""

    def __init__(
        self,
        process: str,
        *,
        known: Callable[[str], int],
        refuse: Callable[[OrderingStamp], None],
        deliver: Callable[[OrderingStamp], VectorStamp],
        entries_max: int,
        waiting_max: int,
    ) -> None:
        if not process:
            raise LocalProtocolError("a process needs a name")
        self._process: Final = process
        self._refuse_impossible: Final = refuse
        self._deliver: Final = deliver
        self._entries_max: Final = entries_max
        self._gate: Final = Gate[OrderingStamp](known=known, waiting_max=waiting_max)
        self._seen: dict[str, SequenceSet] = {}  # Delivered, per sender; at most entries_max.
        self._at_gate: set[tuple[str, int]] = set()  # (sender, number) of those that callers wait with.
        self.lock: Final = RLock()

    def deliverable(self, stamp: OrderingStamp) -> bool:
        with self.lock:
            self._refuse(stamp)
            return self._gate.missing(self._needs(stamp)) is None

    def try_deliver(self, stamp: OrderingStamp) -> VectorStamp | None:
        with self.lock:
            self._refuse(stamp)
            if self._gate.missing(self._needs(stamp)) is not None:
                return None
            return self._take(stamp)

    def deliver(self, stamp: OrderingStamp, *, timeout: float | None) -> VectorStamp:
        free = ThreadEvent()
        with self.lock:
            self._refuse(stamp)
            waiting = self._enter(stamp, free.set)
            if waiting.missing is None:
                return self._leave_with(waiting)
        try:
            free.wait(timeout)
        except BaseException:
            self._give_up(waiting)
            raise
        return self._leave_in_time(waiting)

    async def deliver_async(self, stamp: OrderingStamp, *, timeout: float | None) -> VectorStamp:
        loop = asyncio.get_running_loop()
        free = asyncio.Event()

        def wake() -> None:
            # The message is set free by whichever thread delivered what it missed, perhaps when this loop is no more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(free.set)

        with self.lock:
            self._refuse(stamp)
            waiting = self._enter(stamp, wake)
            if waiting.missing is None:
                return self._leave_with(waiting)
        try:
            await asyncio.wait_for(free.wait(), timeout)
        except TimeoutError:
            pass  # It may have become free in the last moment.
        except BaseException:
            self._give_up(waiting)
            raise
        return self._leave_in_time(waiting)

    def waiting(self) -> list[tuple[OrderingStamp, tuple[str, int]]]:
        with self.lock:
            return [(w.message, w.missing) for w in self._gate.waiting() if w.missing is not None]

    def _needs(self, stamp: OrderingStamp) -> VectorStamp:
        return stamp.table.get(self._process, _NOTHING)

    def _refuse(self, stamp: OrderingStamp) -> None:
        number = stamp.to.get(self._process)
        if number is None:
            raise RemoteProtocolError(f"a message from {stamp.sender!r} is not addressed to {self._process!r}")
        seen = self._seen.get(stamp.sender)
        if (stamp.sender, number) in self._at_gate or (seen is not None and number in seen):
            raise DuplicateMessageError(sender=stamp.sender, sequence=number)
        if seen is None and len(self._seen) >= self._entries_max:
            raise BufferFullError(what=f"senders known to {self._process!r}", limit=self._entries_max)
        for row in stamp.table.values():
            # What the sender knows to have been sent, it knew before this send. A row beyond that, or one that waits
            # for the message itself, would hold messages up for ever.
            if not row <= stamp.time or row[stamp.sender] >= stamp.time[stamp.sender]:
                raise RemoteProtocolError(f"a message from {stamp.sender!r} has a table that its own time denies")
        self._refuse_impossible(stamp)

    def _enter(self, stamp: OrderingStamp, wake: Callable[[], None]) -> Waiting[OrderingStamp]:
        waiting = Waiting(stamp, self._needs(stamp), wake)
        self._gate.enter(waiting)
        self._at_gate.add(self._key(stamp))
        return waiting

    def _leave_in_time(self, waiting: Waiting[OrderingStamp]) -> VectorStamp:
        """The wait is over: deliver the message if it is free; else its deadline has passed."""
        with self.lock:
            if waiting.missing is not None:
                missing = waiting.missing
                self._give_up(waiting)
                raise DeliveryTimeoutError(missing=missing)
            return self._leave_with(waiting)

    def _leave_with(self, waiting: Waiting[OrderingStamp]) -> VectorStamp:
        self._at_gate.discard(self._key(waiting.message))
        return self._take(waiting.message)

    def _give_up(self, waiting: Waiting[OrderingStamp]) -> None:
        """Nobody waits with the message any more: it was not delivered."""
        with self.lock:
            self._gate.leave(waiting)
            self._at_gate.discard(self._key(waiting.message))

    def _take(self, stamp: OrderingStamp) -> VectorStamp:
        """Deliver a free message and wake those that it sets free."""
        sender, number = self._key(stamp)
        last = self._seen[sender].mark if sender in self._seen else 0
        if number != last + 1:
            # Every table names the message before it, so honest ones come in order, and the set has no gaps.
            raise RemoteProtocolError(f"message {number} from {sender!r} does not wait for message {last + 1}")
        delivered = self._deliver(stamp)
        self._seen.setdefault(sender, SequenceSet()).add(number)
        self._gate.release(stamp.time._all())
        return delivered

    def _key(self, stamp: OrderingStamp) -> tuple[str, int]:
        return (stamp.sender, stamp.to[self._process])
