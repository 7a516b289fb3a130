"""What ordering clocks do with an arriving message: refuse it, recognise a repetition, let it wait, deliver it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event as ThreadEvent
from threading import RLock
from typing import Final

from beforehand.clocks.gate import Gate, Waiting
from beforehand.clocks.ordering_stamp import OrderingStamp
from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.vector import VectorStamp
from beforehand.errors import (
    BeforehandError,
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
        self._entries_max: Final = entries_max
        self._gate: Final = Gate[OrderingStamp](known=known, deliver=deliver, waiting_max=waiting_max)
        self._seen: dict[str, SequenceSet] = {}  # Delivered, per sender; at most entries_max.
        self._at_gate: set[tuple[str, int]] = set()  # (sender, number) of those that wait; at most waiting_max.
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
            return _result(self._enter(stamp, _nobody))

    def deliver(self, stamp: OrderingStamp, *, timeout: float | None) -> VectorStamp:
        done = ThreadEvent()
        with self.lock:
            self._refuse(stamp)
            waiting = self._enter(stamp, done.set)
        if waiting.outcome is None and not done.wait(timeout):
            self._give_up(waiting)
        return _result(waiting)

    async def deliver_async(self, stamp: OrderingStamp, *, timeout: float | None) -> VectorStamp:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def wake() -> None:
            # The delivery may be made by another thread, or when this loop has already been closed.
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        with self.lock:
            self._refuse(stamp)
            waiting = self._enter(stamp, wake)
        if waiting.outcome is None:
            try:
                await asyncio.wait_for(done.wait(), timeout)
            except TimeoutError:
                self._give_up(waiting)
            except asyncio.CancelledError:
                with self.lock:
                    if waiting.outcome is None:
                        self._leave(waiting)
                raise
        return _result(waiting)

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
        self._refuse_impossible(stamp)

    def _enter(self, stamp: OrderingStamp, wake: Callable[[], None]) -> Waiting[OrderingStamp]:
        key = (stamp.sender, stamp.to[self._process])

        def done() -> None:
            self._at_gate.discard(key)
            if not isinstance(waiting.outcome, BeforehandError):
                self._seen.setdefault(key[0], SequenceSet()).add(key[1])
            wake()

        waiting = Waiting(stamp, self._needs(stamp), done)
        self._gate.enter(waiting)
        if waiting.outcome is None:
            self._at_gate.add(key)
        return waiting

    def _leave(self, waiting: Waiting[OrderingStamp]) -> None:
        self._gate.leave(waiting)
        self._at_gate.discard((waiting.message.sender, waiting.message.to[self._process]))

    def _give_up(self, waiting: Waiting[OrderingStamp]) -> None:
        """The deadline has passed: take the message out, unless it was delivered in the last moment."""
        with self.lock:
            if waiting.outcome is None:
                missing = waiting.missing
                assert missing is not None
                self._leave(waiting)
                raise DeliveryTimeoutError(missing=missing)


def _nobody() -> None:
    """The caller looks at the outcome itself."""


def _result(waiting: Waiting[OrderingStamp]) -> VectorStamp:
    outcome = waiting.outcome
    assert outcome is not None
    if isinstance(outcome, BeforehandError):
        raise outcome
    return outcome
