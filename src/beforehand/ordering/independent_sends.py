"""Causal order of declared dependencies: what a process sends is not ordered unless it says so.

Guarantees, where the *past* of a message is what it was declared to come after, the past of that, and so on:
  P1  Order: m is delivered at p after all messages of its past that go to p.
  P2  Independence: a message waits for messages of its past only, whoever sent them. Two messages of one sender of
      which neither is in the past of the other never hold each other up.
  P3  No duplication: a message is delivered once, however often it arrives.
  P4  Liveness: when all messages sent have arrived, none waits.
  P5  A message to oneself is delivered at once.
In the sense of →, where all events of a process are ordered, this is neither causal nor FIFO: that is its purpose. It
is causal over the declared dependencies, as if each send stood in a process of its own that had received, just
before, what the message is declared to come after.

Assumes channels that lose nothing for ever; they may repeat and reorder. Source: Garg, problem 12.6, which asks for
causal order when the sends of a process do not form a total order. `send` takes `after`, the keys of messages sent or
delivered here; each pair of processes has its own numbers. A message carries its *barrier*: triples (p, q, n), "p
must have delivered number n from q first", for all p, not only for its destinations (the idea of causal barriers:
Prakash, Raynal and Singhal 1997). m covers its own past for each destination of m. So to come after a means to take,
for each destination p of a, the triple of a itself, and for other p the triples in a's barrier. A triple that the
barrier of another declared message has for one of its destinations is left out: it is covered.

Why it holds. P1: say x is in the past of m and goes to p. By induction along the chain of declarations, the barrier
of m has for p the triple of x or of some y with x in its past, or p had delivered x when a message of the chain was
sent there (see below). p delivers y before m and, by induction, x before y. P2: only messages of the past have
triples. P4: of what p has not delivered take the one sent first: all its past at p is delivered, so it is when it
arrives.

What is dropped, and when. Triples (p, ...) are dropped by p itself, when it delivers and when it sends: all that they
name it has delivered, so whatever comes to p later comes after it. Triples for others can be dropped when p is known
to have delivered, and nothing here says that: it takes stability, which only the membership layer has. So a barrier
can grow, with one triple per destination for each message that nothing declared covers, and has a limit,
`barrier_max`, the same at all members: a message that would exceed it is refused by `send`. To stay small, let
messages come after one that goes to many rather than after many. A process can name the last `remembered_max`
messages that it sent or delivered; older ones are forgotten, and naming one is refused, never ignored.

Place. A message has the time one more than the greatest of what it comes after: (time, sender, number) extends the
declared order.

Room: at most `pending_max` messages of a sender wait, and as many are delivered while an earlier number is missing.
The number that is missing is taken beyond both limits. A full room cannot block: the message of P4, sent first, has
the number that is missing of its sender, and does not wait.

Cost: one number per destination and the barrier; O(barrier) per message, parked at most as often as the barrier has
triples for the receiver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeAlias

from beforehand.clocks.sequence import SequenceSet
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
from beforehand.ordering.effects import Deliver, Effect, Effects, Place, Sent
from beforehand.ordering.message import NUMBER_MAX, Level, Message
from beforehand.ordering.parking import PENDING_MAX, Parking
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

__all__ = ["IndependentSends", "IndependentSendsPacket"]

AHEAD_MAX: Final = 2**40
"""A number or a time further ahead of ours is forged."""

BARRIER_MAX: Final = 1_000
REMEMBERED_MAX: Final = 10_000

Key: TypeAlias = "tuple[str, int]"
Spot: TypeAlias = "tuple[str, int]"  # A sender and the number of a message from there to us.
Triple: TypeAlias = "tuple[str, str, int]"  # Destination, sender, number of a message from one to the other.


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentSendsPacket:
    """A message, its number on the way to each of `message.others`, its time and its barrier, sorted."""

    message: Message
    numbers: tuple[int, ...]
    time: int
    barrier: tuple[Triple, ...]

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.numbers) is not tuple or len(self.numbers) != len(self.message.others):
            raise ValueError("there is not one number per destination")
        if not all(type(n) is int and 1 <= n <= self.message.number for n in self.numbers):
            raise ValueError("a number is below 1 or above that of the message itself")
        if type(self.time) is not int or not 1 <= self.time <= NUMBER_MAX:
            raise ValueError("the time is out of range")
        if type(self.barrier) is not tuple or not all(_is_triple(triple) for triple in self.barrier):
            raise ValueError("the barrier is not made of triples")
        if any(one >= two for one, two in pairwise(self.barrier)):
            raise ValueError("the barrier is not sorted")
        own = dict(zip(self.message.others, self.numbers, strict=True))
        for to, sender, number in self.barrier:
            if to in (sender, self.message.sender):
                raise ValueError("the barrier names what its destination delivered at once or before")
            if sender == self.message.sender and number >= own.get(to, NUMBER_MAX + 1):
                raise ValueError("the barrier names the message itself or a later one")


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a later message takes over that comes after this one."""

    time: int
    own: tuple[Triple, ...]  # One for each of its destinations but its sender and us.
    barrier: tuple[Triple, ...]  # Without triples for us.


@dataclass(frozen=True, slots=True)
class IndependentSendsSnapshot:
    number: int
    time: int
    sent: tuple[tuple[str, int], ...]
    delivered: tuple[tuple[str, int, tuple[int, ...]], ...]
    remembered: tuple[tuple[Key, Remembered], ...]
    parked: tuple[IndependentSendsPacket, ...]


class IndependentSends:
    traits: ClassVar[Traits] = Traits(
        name="independent-sends",
        paper="002 problem 12.6",
        fifo=False,
        causal=False,
        total=False,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL,),
        views=False,  # What is declared names messages of one view.
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        barrier_max: int = BARRIER_MAX,
        remembered_max: int = REMEMBERED_MAX,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`number`: the last that this process gave to a message; the limits are explained in the module."""
        view.position(process)
        self.process: Final = process
        self.view: Final = view
        self._barrier_max: Final = barrier_max
        self._remembered_max: Final = remembered_max
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._time = 0  # The greatest time of a message here. It only bounds what is believed.
        self._sent: dict[str, int] = {}  # Messages sent so far, per destination.
        self._delivered: dict[str, SequenceSet] = {}  # Numbers, per sender; gaps at most 2 pending_max.
        self._remembered: dict[Key, Remembered] = {}  # What `after` may name, oldest first; at most remembered_max.
        self._empty_room()

    def send(
        self,
        payload: bytes,
        to: Iterable[str] | None = None,
        *,
        now: int,
        level: Level | None = None,
        after: Iterable[Key] = (),
    ) -> list[Effect]:
        """`after`: the keys of the messages, sent or delivered here, that this one comes after."""
        chosen = destinations(self.traits, self.view, self.process, to)
        message = Message(
            sender=self.process,
            number=self._number + 1,
            to=chosen,
            payload=payload,
            level=service_level(self.traits, level),
        )
        declared = [self._recall(key) for key in after]
        time = 1 + max((known.time for known in declared), default=0)
        if time > NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)
        barrier = _barrier_after(declared)
        if len(barrier) > self._barrier_max:
            raise LocalProtocolError(
                f"the message would carry {len(barrier)} dependencies, the limit is {self._barrier_max}: "
                "let it come after fewer messages, or after one that comes after them"
            )
        numbers = tuple(self._sent.get(p, 0) + 1 for p in message.others)
        packet = IndependentSendsPacket(message=message, numbers=numbers, time=time, barrier=barrier)
        self._number += 1
        self._sent.update(zip(message.others, numbers, strict=True))
        self._remember(packet)
        effects = Effects()
        effects.happen(Sent(message=message, place=_place(packet)))
        if self.process in chosen:
            effects.happen(Deliver(message=message, place=_place(packet)))  # P5.
        effects.transmit(message.others, packet)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, IndependentSendsPacket, packet, sender=sender)
        self._refuse_impossible(packet)
        number = self._number_of(packet)
        delivered = self._delivered.get(sender, SequenceSet())
        if number in delivered or (sender, number) in self._here:
            return []  # P3.
        spot = self._first_missing(packet)
        if number > delivered.mark + 1:  # What is missing of its sender always has room.
            if delivered.gaps >= self._pending_max:
                raise BufferFullError(what=f"messages of {sender!r} that overtook others", limit=self._pending_max)
            if spot is not None:
                self._room.refuse_if_full(sender)
        effects = Effects()
        effects.changed = True
        if spot is not None:
            self._park(spot, packet)
        else:
            self._deliver_all(packet, effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        return [Pending(message=packet.message, waits_for=_missing(spot)) for spot, packet in self._room.spots()]

    def missing(self) -> list[Missing]:
        return sorted({_missing(spot) for spot, _ in self._room.spots() if spot not in self._here})

    def stable(self) -> Mapping[str, int]:
        return {}  # Barriers tell what must come first, not who has what.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=p.message, place=_place(p)) for p in self._room), time=self._time)

    def snapshot(self) -> IndependentSendsSnapshot:
        return IndependentSendsSnapshot(
            self._number,
            self._time,
            tuple(sorted(self._sent.items())),
            tuple((p, numbers.mark, numbers.above) for p, numbers in sorted(self._delivered.items())),
            tuple(self._remembered.items()),  # In the order in which they will be forgotten.
            tuple(sorted(self._room, key=lambda packet: (packet.message.sender, self._number_of(packet)))),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not IndependentSendsSnapshot:
            raise LocalProtocolError("this is not a snapshot of IndependentSends")
        self._number, self._time, self._sent = snapshot.number, snapshot.time, dict(snapshot.sent)
        self._delivered = {p: SequenceSet(mark, above) for p, mark, above in snapshot.delivered}
        self._remembered = dict(snapshot.remembered)
        self._empty_room()
        for packet in snapshot.parked:
            spot = self._first_missing(packet)
            assert spot is not None, "what waits in a snapshot waits for something"
            self._park(spot, packet)

    def check_invariants(self) -> None:
        numbers = {(packet.message.sender, self._number_of(packet)) for packet in self._room}
        if numbers != self._here or len(numbers) != len(self._room):
            raise InvariantError("P3: what waits is not what is known to wait")
        for spot, packet in self._room.spots():
            if self._first_missing(packet) is None or self._has(spot):
                raise InvariantError(f"P2, P4: {packet.message.id} waits for nothing")
        if len(self._remembered) > self._remembered_max:
            raise InvariantError("more is remembered than there is room for")

    def _recall(self, key: Key) -> Remembered:
        if type(key) is tuple and len(key) == 2 and type(key[0]) is str and type(key[1]) is int:
            known = self._remembered.get(key)
            if known is not None:
                return known
        raise LocalProtocolError(
            f"no message {key!r} can be named here: only the last {self._remembered_max} sent or delivered here"
        )

    def _remember(self, packet: IndependentSendsPacket) -> None:
        """Sent or delivered here: keep what a message that comes after it takes over."""
        message = packet.message
        own = zip(message.others, packet.numbers, strict=True)
        self._remembered[message.key] = Remembered(
            packet.time,
            tuple((p, message.sender, number) for p, number in own if p != self.process),
            tuple(triple for triple in packet.barrier if triple[0] != self.process),
        )
        self._time = max(self._time, packet.time)
        if len(self._remembered) > self._remembered_max:
            del self._remembered[next(iter(self._remembered))]

    def _refuse_impossible(self, packet: IndependentSendsPacket) -> None:
        if len(packet.barrier) > self._barrier_max:
            raise RemoteProtocolError(f"message {packet.message.id} carries more dependencies than are allowed")
        for to, sender, number in packet.barrier:
            if to not in self.view or sender not in self.view:
                raise RemoteProtocolError(f"message {packet.message.id} depends on one outside of the view")
            made = self._sent.get(to, 0)
            if sender == self.process and number > made:
                raise ImpossibleStampError(process=self.process, claimed=number, made=made)
            ahead = number - self._delivered[sender].mark if sender in self._delivered else number
            if to == self.process and ahead > AHEAD_MAX:
                raise FutureStampError(ahead=ahead, limit=AHEAD_MAX, unit="messages")
        if packet.time - self._time > AHEAD_MAX:
            raise FutureStampError(ahead=packet.time - self._time, limit=AHEAD_MAX, unit="messages")

    def _has(self, spot: Spot) -> bool:
        sender, number = spot
        return sender in self._delivered and number in self._delivered[sender]

    def _first_missing(self, packet: IndependentSendsPacket) -> Spot | None:
        for to, sender, number in packet.barrier:
            if to == self.process and not self._has((sender, number)):
                return (sender, number)
        return None

    def _deliver_all(self, packet: IndependentSendsPacket, effects: Effects) -> None:
        """Deliver the packet and everything that it sets free; of several in the order of their places."""
        free = [(_place(packet), self._number_of(packet), packet)]
        while free:
            place, number, packet = heappop(free)  # No two have both the same sender and the same number.
            sender = packet.message.sender
            self._here.discard((sender, number))
            self._delivered.setdefault(sender, SequenceSet()).add(number)
            self._remember(packet)
            effects.happen(Deliver(message=packet.message, place=place))
            for woken in self._room.wake((sender, number)):
                spot = self._first_missing(woken)
                if spot is None:
                    heappush(free, (_place(woken), self._number_of(woken), woken))
                else:
                    self._room.park(spot, woken)

    def _number_of(self, packet: IndependentSendsPacket) -> int:
        return packet.numbers[packet.message.others.index(self.process)]

    def _park(self, spot: Spot, packet: IndependentSendsPacket) -> None:
        self._here.add((packet.message.sender, self._number_of(packet)))
        self._room.park(spot, packet)

    def _empty_room(self) -> None:
        self._room = Parking[Spot, IndependentSendsPacket](
            sender_of=lambda packet: packet.message.sender, limit=self._pending_max
        )
        self._here: set[Spot] = set()  # Senders and numbers of those in the room.


def _barrier_after(declared: list[Remembered]) -> tuple[Triple, ...]:
    """The barrier of a message that comes after all of `declared`."""
    needed: set[Triple] = set()
    covered: set[Triple] = set()
    for known in declared:
        needed.update(known.own)
        reached = {to for to, _, _ in known.own}
        for triple in known.barrier:
            (covered if triple[0] in reached else needed).add(triple)
    return tuple(sorted(needed - covered))


def _place(packet: IndependentSendsPacket) -> Place:
    return (packet.time, packet.message.sender, packet.message.number)


def _missing(spot: Spot) -> Missing:
    return Missing(process=spot[0], what=Owed.MESSAGE, number=spot[1])


def _is_triple(triple: object) -> bool:
    if type(triple) is not tuple or len(triple) != 3:
        return False
    to, sender, number = triple
    return type(to) is str and type(sender) is str and type(number) is int and 1 <= number <= NUMBER_MAX
