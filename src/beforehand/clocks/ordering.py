"""Ordering clocks: messages are received in an order that respects causality, and any event can be stamped.

Guarantees, for processes that send and deliver through their ordering clocks:
  P1  Causal order: if send(m) → send(m') and both go to p, then p delivers m before m'.
  P2  Exact stamps: e → f iff time(e) < time(f), for local events, sends and deliveries alike.
  P3  No duplication: a message is delivered once, however often and however late it arrives again.
  P4  Liveness: when all messages sent have arrived, none waits.

Assumes that messages are not lost for ever (a lost one holds up those that depend on it: deliver with
a timeout, look at `waiting()`), unique process names, and no stampless messages (see `peers`).

Source: Berry 1995, section 4.3 (ovt_send, ovt_deliver, ovt_before) and 3.4.2 (observers), after Schiper, Eggli
and Sandoz 1989. Besides its vector clock a process keeps a *table*: for each destination, the stamp of the last
message known to have been sent to it. The whole table travels with every message and is merged at delivery. A
message may be delivered at p when p's clock covers the table's entry for p.

Why P1 holds: m' carries in its table for p a stamp that covers send(m), because send(m) put it there and every
hop of the chain to send(m') merged it on. p's clock covers send(m) only by delivering m, or something after it
that itself waited for m.

Deviations: the paper copies the stamp and then increments the clock, which needs clocks that start at 1, for
the entry of a first message would else be empty and hold nothing up; we increment first. A message may go to
many processes: it names them all, and each receiver enters the others into its table. Messages are numbered per
pair, for P3; the paper assumes channels that do not repeat.

Cost: O(processes²) per message in the worst case, in time and bytes; in practice the entries of the processes that
are talked to.
"""

from __future__ import annotations

from typing import Final

from beforehand.clocks.door import Door
from beforehand.clocks.ordering_stamp import OrderingStamp
from beforehand.clocks.peers import PeerPolicy
from beforehand.clocks.table_changes import TableChanges
from beforehand.clocks.vector import ENTRIES_MAX, VectorClock, VectorStamp
from beforehand.errors import BufferFullError, ImpossibleStampError, LocalProtocolError

__all__ = ["ObserverClock", "OrderingClock"]

WAITING_MAX: Final = 10_000
_NOTHING: Final = VectorStamp()


class OrderingClock:
    """The ordering clock of one process. Thread-safe; one delivery at a time, in causal order.

    Of the three ways to deliver, `deliver` blocks the calling thread (so a server needs more threads than
    messages that can wait at once), `deliver_async` suspends the calling task, `try_deliver` never waits.
    """

    def __init__(
        self,
        process: str,
        *,
        entries_max: int = ENTRIES_MAX,
        waiting_max: int = WAITING_MAX,
        peer_policy: PeerPolicy = PeerPolicy.REFUSE,
    ) -> None:
        self.process: Final = process
        self._clock: Final = VectorClock(process, entries_max=entries_max, peer_policy=peer_policy)
        self._entries_max: Final = entries_max
        self._table: dict[str, VectorStamp] = {}  # At most entries_max rows.
        self._sent: dict[str, int] = {}  # Messages sent so far, per destination; at most entries_max.
        self._changes: TableChanges | None = None  # Until somebody asks.
        self._door: Final = Door(
            process,
            known=lambda p: self._clock.stamp()[p],
            refuse=self._refuse,
            deliver=self._take_over,
            entries_max=entries_max,
            waiting_max=waiting_max,
        )
        self._lock: Final = self._door.lock

    def tick(self) -> VectorStamp:
        """A local event: its stamp."""
        with self._lock:
            return self._clock.tick()

    def stamp(self) -> VectorStamp:
        """The stamp of the last event, without making one."""
        with self._lock:
            return self._clock.stamp()

    def send(self, *to: str) -> OrderingStamp:
        """One message goes to all of `to`: the stamp that it must carry (ovt_send).

        A message to oneself needs no clock: it is received at once, before anything else.
        """
        with self._lock:
            self._refuse_destinations(to)
            return self._send(to, self._clock.tick())

    def send_since(self, to: str, count: int) -> tuple[OrderingStamp, dict[str, int], dict[str, dict[str, int]]]:
        """As `send`, to one process; and what changed after our event `count`: entries of the time, and of the table.

        Whoever knows our event `count` has all the rest, or has no use for it (see `table_changes`). Asked for the
        first time, everything has changed.
        """
        with self._lock:
            self._refuse_destinations((to,))
            time, changes = self._clock.tick_since(count)
            if self._changes is None:
                self._changes = TableChanges(self._table, self._clock.count)
            rows = self._changes.since(self._table, count)
            return self._send((to,), time), changes, rows

    def known(self, process: str) -> int:
        """How many events of `process` are known here."""
        with self._lock:
            return self._clock.stamp()[process]

    @property
    def count(self) -> int:
        """How many events there were so far."""
        return self._clock.count

    def deliverable(self, stamp: OrderingStamp) -> bool:
        """Whether the message could be delivered now without violating causal order."""
        return self._door.deliverable(stamp)

    def try_deliver(self, stamp: OrderingStamp) -> VectorStamp | None:
        """Deliver the message if that is allowed now: the stamp of its delivery, or None to try again later."""
        return self._door.try_deliver(stamp)

    def deliver(self, stamp: OrderingStamp, *, timeout: float | None = None) -> VectorStamp:
        """Wait until the message may be delivered, and deliver it (ovt_deliver): the stamp of its delivery.

        After DeliveryTimeoutError the message was not delivered and may be tried again.
        """
        return self._door.deliver(stamp, timeout=timeout)

    async def deliver_async(self, stamp: OrderingStamp, *, timeout: float | None = None) -> VectorStamp:
        """The same for a task. A cancelled wait did not deliver."""
        return await self._door.deliver_async(stamp, timeout=timeout)

    def waiting(self) -> list[tuple[OrderingStamp, tuple[str, int]]]:
        """The messages that wait, each with the first (process, count) that it misses."""
        return self._door.waiting()

    def receive_unstamped(self, peer: str, *, carries_result: bool = True) -> VectorStamp:
        """A message without a stamp arrives from `peer`; see `peers`."""
        with self._lock:
            return self._clock.receive_unstamped(peer, carries_result=carries_result)

    @property
    def unrecorded(self) -> dict[str, int]:
        """Messages taken without a stamp, per peer."""
        return self._clock.unrecorded

    def _refuse_destinations(self, to: tuple[str, ...]) -> None:
        if not to or "" in to or self.process in to or len(set(to)) < len(to):
            raise LocalProtocolError("a message needs distinct destinations other than its sender")
        if (
            len(self._sent.keys() | set(to)) > self._entries_max
            or len(self._table.keys() | set(to)) > self._entries_max
        ):
            raise BufferFullError(what=f"destinations of clock {self.process!r}", limit=self._entries_max)

    def _send(self, to: tuple[str, ...], time: VectorStamp) -> OrderingStamp:
        numbers = {destination: self._sent.get(destination, 0) + 1 for destination in to}
        stamp = OrderingStamp(self.process, numbers, time, dict(self._table))
        self._sent.update(numbers)
        for destination in to:
            if self._changes is not None:
                self._changes.replaced(destination, self._table.get(destination), time, self._clock)
            self._table[destination] = time  # Covers what stood there: we knew of that when we sent.
        return stamp

    def _refuse(self, stamp: OrderingStamp) -> None:
        made, claimed = self._clock.count, stamp.time[self.process]
        if claimed > made:
            raise ImpossibleStampError(process=self.process, claimed=claimed, made=made)

    def _take_over(self, stamp: OrderingStamp) -> VectorStamp:
        news = {p: t for p, t in stamp.table.items() if p != self.process}
        for destination in stamp.to:
            if destination != self.process:
                news[destination] = stamp.time  # Covers the row: the sender knew of that when it sent.
        if len(self._table.keys() | news.keys()) > self._entries_max:
            raise BufferFullError(what=f"rows of the table of clock {self.process!r}", limit=self._entries_max)
        result = self._clock.receive(stamp.time)
        for destination, time in news.items():
            held = self._table.get(destination, _NOTHING)
            grown = held.merged(time)
            if self._changes is not None and grown is not held:
                self._changes.merged(destination, held, time, self._clock.count)
            self._table[destination] = grown
        return result


class ObserverClock:
    """Receives in causal order without taking part (Berry 1995, 3.4.2): it sends nothing and has no events.

    It keeps one vector, the maximum of all stamps it has received. Those who report to it must name it as a
    destination when they send, so that their tables record it.
    """

    def __init__(self, process: str, *, entries_max: int = ENTRIES_MAX, waiting_max: int = WAITING_MAX) -> None:
        self.process: Final = process
        self._known = VectorStamp()
        self._entries_max: Final = entries_max
        self._door: Final = Door(
            process,
            known=lambda p: self._known[p],
            refuse=self._refuse,
            deliver=self._take_over,
            entries_max=entries_max,
            waiting_max=waiting_max,
        )

    def stamp(self) -> VectorStamp:
        """All that has been observed."""
        with self._door.lock:
            return self._known

    def deliverable(self, stamp: OrderingStamp) -> bool:
        """Whether the message could be delivered now without violating causal order."""
        return self._door.deliverable(stamp)

    def try_deliver(self, stamp: OrderingStamp) -> VectorStamp | None:
        """As `OrderingClock.try_deliver`; the result is what is known after the delivery."""
        return self._door.try_deliver(stamp)

    def deliver(self, stamp: OrderingStamp, *, timeout: float | None = None) -> VectorStamp:
        """As `OrderingClock.deliver`."""
        return self._door.deliver(stamp, timeout=timeout)

    async def deliver_async(self, stamp: OrderingStamp, *, timeout: float | None = None) -> VectorStamp:
        """As `OrderingClock.deliver_async`."""
        return await self._door.deliver_async(stamp, timeout=timeout)

    def waiting(self) -> list[tuple[OrderingStamp, tuple[str, int]]]:
        """The messages that wait, each with the first (process, count) that it misses."""
        return self._door.waiting()

    def _refuse(self, stamp: OrderingStamp) -> None:
        if claimed := stamp.time[self.process]:
            raise ImpossibleStampError(process=self.process, claimed=claimed, made=0)

    def _take_over(self, stamp: OrderingStamp) -> VectorStamp:
        known = self._known.merged(stamp.time)
        if len(known) > self._entries_max:
            raise BufferFullError(what=f"processes known to observer {self.process!r}", limit=self._entries_max)
        self._known = known
        return known
