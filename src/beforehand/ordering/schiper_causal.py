"""Causal order with ordering clocks: a vector per destination that is talked to, instead of a whole matrix.

Guarantees:
  P1  Causal order: if send(m) → send(m') and both go to p, then p delivers m before m'.
  P2  No duplication: a message is delivered once, however often it arrives.
  P3  Liveness: when all messages sent have arrived, none waits.
  P4  A message to oneself is delivered at once.

Assumes a fixed group (a `View`) and channels that lose nothing for ever; they may repeat and reorder. Source: Berry
1995, section 4.3 (ovt_send, ovt_deliver), after Schiper, Eggli and Sandoz 1989. Besides its vector a process keeps a
*table*: for each destination a vector that covers all sends known to have gone there. The whole table travels with
every message and is merged at delivery. p delivers a message when p's vector covers the message's row for p.

Why it holds. The vector counts sends. P1: send(m) puts its vector into the row of p, and every hop of the chain to
send(m') merges whole tables, not only rows of those who take part (a → c: m1, a → b: m2, b → c: m3: b never heard
from c, yet c must wait), so the row for p in m' covers send(m). p's vector covers send(m) only by delivering m, or a
message sent after m, which p did not deliver before m, by induction over p's deliveries. P2: for the same reason p
delivers the messages of one sender in the order of their numbers (each pair has its own), so one count per sender
tells repetitions. P3: of what p has not delivered, take one with none of the others in its past: its row for p is the
merger of sends to p that are delivered, and their vectors are merged into p's.

Place. The vector of m' covers that of every m with send(m) → send(m') and counts one more of its own sender, so the
sum grows. A message to oneself alone counts nothing: it stands behind all of its sum, as in `causal_unicast`.

Deviations. `OrderingClock` is the same algorithm for threads: it blocks the caller and makes a stamp for every event.
Here the vector counts sends that leave the process only: deliveries need no stamp, and the numbers stay smaller. The
paper increments after copying; we increment first, see `beforehand.clocks.ordering`. A multicast names all its
destinations, and each receiver enters the others into its table.

Waiting: a message is parked on the first entry of its row that the vector lacks, in a heap per process (`Gate`),
for entries can jump. What becomes free at once is delivered in the order of its places, so the state alone decides.
Room: at most `pending_max` of each sender wait. A full room cannot block: the message of P3 never enters it, nor does
an earlier one of the same sender stand before it on a link that keeps its order.

Cost: as many vectors per message as destinations are known, O(n²) in time and numbers at worst, parked at most n
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, ClassVar, Final

from beforehand.clocks.gate import Gate, Waiting
from beforehand.clocks.ordering_stamp import OrderingStamp
from beforehand.clocks.vector import VectorStamp
from beforehand.clocks.view import View
from beforehand.errors import (
    BufferFullError,
    ClockExhaustedError,
    FutureStampError,
    ImpossibleStampError,
    InvariantError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering.admission import admit
from beforehand.ordering.effects import Deliver, Effect, Effects, Place, Refused, Sent
from beforehand.ordering.message import NUMBER_MAX, Level, Message
from beforehand.ordering.parking import PENDING_MAX
from beforehand.ordering.protocol import (
    Channels,
    Destinations,
    Held,
    Missing,
    Owed,
    Pending,
    Report,
    Traits,
    destinations,
    service_level,
)

__all__ = ["SchiperCausal", "SchiperPacket"]

AHEAD_MAX: Final = 2**40
"""A count further ahead of ours is forged: it would use up the range of the vector."""

_NOTHING: Final = VectorStamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchiperPacket:
    """A message, the vector of its send, its numbers on the way to each destination, and the sender's table."""

    message: Message
    stamp: OrderingStamp

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        stamp = self.stamp
        if type(stamp) is not OrderingStamp or type(stamp.to) is not dict or type(stamp.table) is not dict:
            raise ValueError("it carries no ordering stamp")
        if stamp.sender != self.message.sender or set(stamp.to) != set(self.message.others):
            raise ValueError("the stamp is of another process than the message, or goes to others")
        if not all(type(n) is int and 1 <= n <= self.message.number for n in stamp.to.values()):
            raise ValueError("a number of the stamp is below 1 or above that of the message itself")
        if not all(type(v) is VectorStamp for v in (stamp.time, *stamp.table.values())):
            raise ValueError("the stamp is not made of vectors")
        own = stamp.time[stamp.sender]
        if not all(row <= stamp.time and row[stamp.sender] < own for row in stamp.table.values()):
            # What the sender knows to have been sent, it knew before this send. A row beyond that, or one that waits
            # for the message itself, would hold messages up for ever.
            raise ValueError("the stamp has a table that its own time denies")


@dataclass(frozen=True, slots=True)
class SchiperSnapshot:
    number: int
    time: VectorStamp
    table: tuple[tuple[str, VectorStamp], ...]
    sent: tuple[tuple[str, int], ...]
    delivered: tuple[tuple[str, int], ...]
    waiting: tuple[SchiperPacket, ...]


class SchiperCausal:
    traits: ClassVar[Traits] = Traits(
        name="schiper-causal",
        paper="001 section 4.3",
        fifo=True,
        causal=True,
        total=False,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL,),
    )

    def __init__(self, process: str, view: View, *, number: int = 0, pending_max: int = PENDING_MAX) -> None:
        """`number` is the last one that this process gave to a message before; `pending_max` counts per sender."""
        view.position(process)
        self.process: Final = process
        self.view: Final = view
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._time = _NOTHING  # Per member, the sends known; ours: those that left us.
        self._table: dict[str, VectorStamp] = {}  # Per other member, what is known to have been sent to it.
        self._sent: dict[str, int] = {}  # Messages sent so far, per destination.
        self._delivered: dict[str, int] = {}  # Messages delivered so far, per sender.
        self._empty_room()

    def send(
        self, payload: bytes, to: Iterable[str] | None = None, *, now: int, level: Level | None = None
    ) -> list[Effect]:
        chosen = destinations(self.traits, self.view, self.process, to)
        message = Message(
            sender=self.process,
            number=self._number + 1,
            to=chosen,
            payload=payload,
            level=service_level(self.traits, level),
        )
        others = message.others
        count = self._time[self.process] + 1
        if count > NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)
        time = self._time.merged(VectorStamp({self.process: count})) if others else self._time
        effects = Effects()
        effects.happen(Sent(message=message, place=_place(message, time)))
        if self.process in chosen:
            effects.happen(Deliver(message=message, place=_place(message, time)))  # P4.
        if others:
            numbers = {p: self._sent.get(p, 0) + 1 for p in others}
            stamp = OrderingStamp(self.process, numbers, time, dict(self._table))
            effects.transmit(others, SchiperPacket(message=message, stamp=stamp))
            self._sent.update(numbers)
            self._table.update(dict.fromkeys(others, time))  # It covers what stood there: we knew of that.
        self._time = time
        self._number += 1
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, SchiperPacket, packet, sender=sender)
        self._refuse_impossible(packet.stamp)
        number = packet.stamp.to[self.process]
        done = self._delivered.get(sender, 0)
        if number <= done or number in self._waiting.get(sender, {}):
            return []  # P2.
        if self._gate.missing(self._needs(packet)) is None:
            if number != done + 1:
                raise RemoteProtocolError(f"message {packet.message.id} does not wait for the one before it")
        elif len(self._waiting.get(sender, {})) >= self._pending_max:
            raise BufferFullError(what=f"messages of {sender!r} that wait for earlier ones", limit=self._pending_max)
        effects = Effects()
        effects.changed = True
        self._enter(packet)
        self._deliver_free(effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        return [
            Pending(
                message=waiting.message.message,
                waits_for=Missing(process=waiting.missing[0], what=Owed.MESSAGE, number=waiting.missing[1]),
            )
            for waiting in self._gate.waiting()
            if waiting.missing is not None
        ]

    def missing(self) -> list[Missing]:
        """The sends that waiting messages name and that none of the waiting messages is: by count of sends."""
        here = {(p, packet.stamp.time[p]) for p, packets in self._waiting.items() for packet in packets.values()}
        named = {waiting.missing for waiting in self._gate.waiting() if waiting.missing is not None}
        return sorted(Missing(process=p, what=Owed.MESSAGE, number=count) for p, count in named - here)

    def stable(self) -> Mapping[str, int]:
        return {}  # Vectors say what was sent and known, not who has received it.

    def report(self) -> Report:
        packets = [waiting.message for waiting in self._gate.waiting()]
        return Report(held=tuple(Held(message=p.message, place=_place(p.message, p.stamp.time)) for p in packets))

    def snapshot(self) -> SchiperSnapshot:
        return SchiperSnapshot(
            self._number,
            self._time,
            tuple(sorted(self._table.items(), key=lambda row: row[0])),
            tuple(sorted(self._sent.items())),
            tuple(sorted(self._delivered.items())),
            tuple(packets[n] for _, packets in sorted(self._waiting.items()) for n in sorted(packets)),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not SchiperSnapshot:
            raise LocalProtocolError("this is not a snapshot of SchiperCausal")
        self._number, self._time, self._table = snapshot.number, snapshot.time, dict(snapshot.table)
        self._sent, self._delivered = dict(snapshot.sent), dict(snapshot.delivered)
        self._empty_room()
        for packet in snapshot.waiting:
            self._enter(packet)

    def check_invariants(self) -> None:
        waiting = [w.message for w in self._gate.waiting()]
        if len(waiting) != sum(map(len, self._waiting.values())):
            raise InvariantError("P2: what waits is not what is known to wait")
        for packet in waiting:
            if self._gate.missing(self._needs(packet)) is None:
                raise InvariantError(f"P3: {packet.message.id} waits for nothing")
        if not all(row <= self._time for row in self._table.values()):
            raise InvariantError("P1: the table knows of sends that the vector does not")

    def _refuse_impossible(self, stamp: OrderingStamp) -> None:
        for process in (*stamp.time, *stamp.table):
            if process not in self.view:
                raise RemoteProtocolError(f"a stamp of {stamp.sender!r} names {process!r}, which is not in the view")
        claimed, made = stamp.time[self.process], self._time[self.process]
        if claimed > made:
            raise ImpossibleStampError(process=self.process, claimed=claimed, made=made)
        ahead = max(stamp.time[p] - self._time[p] for p in stamp.time)
        if ahead > AHEAD_MAX:
            raise FutureStampError(ahead=ahead, limit=AHEAD_MAX, unit="messages")

    def _needs(self, packet: SchiperPacket) -> VectorStamp:
        return packet.stamp.table.get(self.process, _NOTHING)

    def _enter(self, packet: SchiperPacket) -> None:
        """Let the packet wait for what it misses; if it misses nothing it is free."""
        place, number = _place(packet.message, packet.stamp.time), packet.stamp.to[self.process]

        def free() -> None:
            heappush(self._free, (place, number, packet))  # Of two honest messages the places differ.

        self._waiting.setdefault(packet.message.sender, {})[number] = packet
        waiting = Waiting(packet, self._needs(packet), free)
        self._gate.enter(waiting)
        if waiting.missing is None:
            free()

    def _deliver_free(self, effects: Effects) -> None:
        while self._free:
            place, number, packet = heappop(self._free)
            sender = packet.message.sender
            waiting = self._waiting[sender]
            del waiting[number]
            if not waiting:
                del self._waiting[sender]
            if number != self._delivered.get(sender, 0) + 1:
                # Every honest table names the message before. This one is the sender's to answer for, no one else's.
                why = f"message {packet.message.id} did not wait for the one before it"
                effects.happen(Refused(process=sender, why=why))
                continue
            self._delivered[sender] = number
            self._merge(packet.stamp)
            effects.happen(Deliver(message=packet.message, place=place))
            self._gate.release(sorted(packet.stamp.time))

    def _merge(self, stamp: OrderingStamp) -> None:
        """Know all that the sender knew: its vector and its whole table, and that this message went to the others."""
        self._time = self._time.merged(stamp.time)
        news = {**stamp.table, **dict.fromkeys(stamp.to, stamp.time)}  # Its time covers the rows that it replaces.
        for destination in sorted(news.keys() - {self.process}):
            self._table[destination] = self._table.get(destination, _NOTHING).merged(news[destination])

    def _empty_room(self) -> None:
        self._gate = Gate[SchiperPacket](
            known=lambda p: self._time[p], waiting_max=self._pending_max * len(self.view.processes)
        )
        self._waiting: dict[str, dict[int, SchiperPacket]] = {}  # Those at the gate, per sender by number.
        self._free: list[tuple[Place, int, SchiperPacket]] = []  # Those that miss nothing; empty between two calls.


def _place(message: Message, time: VectorStamp) -> Place:
    return (sum(time.to_dict().values()), 0 if message.others else 1, message.sender, message.number)
