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

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event as ThreadEvent
from threading import RLock
from typing import ClassVar, Final, Self

from beforehand.clocks.gate import Gate, Waiting
from beforehand.clocks.peers import PeerPolicy
from beforehand.clocks.relation import Relation
from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.vector import ENTRIES_MAX, VectorClock, VectorStamp
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, Stamp, StampKind, Writer, name_bytes
from beforehand.errors import (
    BeforehandError,
    BufferFullError,
    DeliveryTimeoutError,
    DuplicateMessageError,
    ImpossibleStampError,
    LocalProtocolError,
    RemoteProtocolError,
    StampDecodeError,
)

__all__ = ["ObserverClock", "OrderingClock", "OrderingStamp"]

WAITING_MAX: Final = 10_000

_NOTHING: Final = VectorStamp()


@dataclass(frozen=True, slots=True)
class OrderingStamp(Stamp):
    """What a message carries. `compare` is that of `time`, the stamp of its send event."""

    sender: str
    to: Mapping[str, int]  # Per destination, the message's number among those from this sender to it, from 1.
    time: VectorStamp
    table: Mapping[str, VectorStamp]  # Per destination, the last message known to go there before this one.

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.sender or not self.to or "" in self.to or self.sender in self.to:
            raise LocalProtocolError("a message needs a sender and destinations, and none of them is the sender")
        if not all(1 <= number <= VALUE_MAX for number in self.to.values()):
            raise LocalProtocolError("messages are numbered from 1")
        if not self.time[self.sender]:
            raise LocalProtocolError("the stamp does not count its own send event")
        if "" in self.table or not all(len(stamp) for stamp in self.table.values()):
            raise LocalProtocolError("the table has an empty entry")

    def compare(self, other: OrderingStamp) -> Relation:
        return self.time.compare(other.time)

    def __lt__(self, other: OrderingStamp) -> bool:
        """The send of this message happened before that of `other`."""
        return self.time < other.time

    def __hash__(self) -> int:
        return hash((self.sender, self.time))

    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        names = sorted({self.sender, *self.to, *self.time, *self.table, *(p for s in self.table.values() for p in s)})
        position = {name: at for at, name in enumerate(names)}
        writer = Writer(StampKind.ORDERING)
        writer.names([name_bytes(name) for name in names])
        writer.varint(position[self.sender])
        _write_sparse(writer, position, self.to)
        _write_sparse(writer, position, self.time._all())
        rows = sorted(self.table)
        _write_positions(writer, [position[name] for name in rows])
        for name in rows:
            _write_sparse(writer, position, self.table[name]._all())
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT) -> Self:
        reader = Reader(data, StampKind.ORDERING, limit=limit)
        names = reader.names()
        sender_at = reader.varint()
        if sender_at >= len(names):
            raise StampDecodeError("it names a process that it does not list")
        to = _read_sparse(reader, names)
        time = VectorStamp._of(_read_sparse(reader, names))
        table = {
            name: VectorStamp._of(_read_sparse(reader, names))
            for name in [names[at] for at in _read_positions(reader, len(names))]
        }
        reader.end()
        used = {names[sender_at], *to, *time._all(), *table, *(p for s in table.values() for p in s._all())}
        if len(used) != len(names):
            raise StampDecodeError("it lists a process that it does not use")
        try:
            return cls(names[sender_at], to, time, table)
        except LocalProtocolError as error:
            raise StampDecodeError(str(error)) from None


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
        self._door: Final = _Door(
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
            if not to or "" in to or self.process in to or len(set(to)) < len(to):
                raise LocalProtocolError("a message needs distinct destinations other than its sender")
            if (
                len(self._sent.keys() | set(to)) > self._entries_max
                or len(self._table.keys() | set(to)) > self._entries_max
            ):
                raise BufferFullError(what=f"destinations of clock {self.process!r}", limit=self._entries_max)
            time = self._clock.tick()
            numbers = {destination: self._sent.get(destination, 0) + 1 for destination in to}
            stamp = OrderingStamp(self.process, numbers, time, dict(self._table))
            self._sent.update(numbers)
            for destination in to:
                self._table[destination] = time  # Covers what stood there: we knew of that when we sent.
            return stamp

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

    def _refuse(self, stamp: OrderingStamp) -> None:
        made = self._clock.stamp()[self.process]
        claimed = max((s[self.process] for s in (stamp.time, *stamp.table.values())), default=0)
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
            held = self._table.get(destination)
            self._table[destination] = time if held is None else held.merged(time)
        return result


class ObserverClock:
    """Receives in causal order without taking part (Berry 1995, 3.4.2): it sends nothing and has no events.

    It keeps one vector, the maximum of all stamps it has received. Those who report to it must name it as a
    destination when they send, so that their tables record it.
    """

    def __init__(self, process: str, *, entries_max: int = ENTRIES_MAX, waiting_max: int = WAITING_MAX) -> None:
        self.process: Final = process
        self._known = _NOTHING
        self._entries_max: Final = entries_max
        self._door: Final = _Door(
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
        claimed = max((s[self.process] for s in (stamp.time, *stamp.table.values())), default=0)
        if claimed:
            raise ImpossibleStampError(process=self.process, claimed=claimed, made=0)

    def _take_over(self, stamp: OrderingStamp) -> VectorStamp:
        known = self._known.merged(stamp.time)
        if len(known) > self._entries_max:
            raise BufferFullError(what=f"processes known to observer {self.process!r}", limit=self._entries_max)
        self._known = known
        return known


class _Door:
    """What both clocks do with an arriving message: refuse, recognise repetitions, wait, deliver."""

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


def _write_positions(writer: Writer, positions: list[int]) -> None:
    """Increasing positions, as steps: each is at least 1 from the one before (the first from -1)."""
    writer.varint(len(positions))
    before = -1
    for at in positions:
        writer.varint(at - before - 1)
        before = at


def _read_positions(reader: Reader, size: int) -> list[int]:
    positions: list[int] = []
    at = -1
    for _ in range(reader.count()):
        at += reader.varint() + 1
        if at >= size:
            raise StampDecodeError("it names a process that it does not list")
        positions.append(at)
    return positions


def _write_sparse(writer: Writer, position: Mapping[str, int], entries: Mapping[str, int]) -> None:
    names = sorted(entries)
    _write_positions(writer, [position[name] for name in names])
    writer.integers([entries[name] for name in names])


def _read_sparse(reader: Reader, names: list[str]) -> dict[str, int]:
    positions = _read_positions(reader, len(names))
    counts = reader.integers(len(positions))
    if 0 in counts:
        raise StampDecodeError("an entry is zero, which is not in canonical form")
    return {names[at]: count for at, count in zip(positions, counts, strict=True)}
