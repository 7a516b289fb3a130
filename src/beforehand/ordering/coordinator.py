"""Coordinator: one member puts all messages in order and sends them on.

Guarantees:
  P1  Total order: messages are delivered in the order of their places, wherever they are delivered.
  P2  Causal order, and with it FIFO order: if send(m) → send(m'), m is delivered before m' wherever both go.
  P3  No gaps: a destination delivers its messages one by one, by numbers of its own.
  P4  Liveness: when all packets sent have arrived, every message is delivered.

Assumes a fixed group (a `View`), FIFO channels without loss to and from the coordinator, and that it stays up. A
message that it has not ordered is kept by its sender, which sends it again in the next view (`report`: no place).
Source: Garg, chapter 12.3.1.

How it works. A member sends its message to the coordinator. The coordinator gives it the next place, counted over all
messages, and for each destination the next number, counted over the messages of that destination; it sends it to
each, back to the sender too if it is one. Its own messages it orders at once. Nothing waits anywhere but at the
sender.

Why it holds. P1, P3: a destination takes packets from the coordinator only, the channel keeps their order, and that
is the order of places; the numbers show that none is missing. P2: let send(m) → send(m'). If both are of one sender,
their requests reach the coordinator in that order, and m gets the smaller place. If m was delivered at q before q
sent m', then m had its place before m' was sent, so m' gets a larger one; chains follow by induction. P4: the
coordinator orders a request on arrival, and a destination delivers on arrival.

Deviations: the sender of a message that does not go to itself is told with a receipt that its message has a place,
or it could not say in a report which messages have none. The chapter's coordinator only multicasts.

Cost: one packet to the coordinator and one to each destination, at most one more to the sender; 2d from sending to
delivery, d for the coordinator's own messages. Two numbers per packet. O(1) each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.view import View
from beforehand.errors import (
    BufferFullError,
    ClockExhaustedError,
    InvariantError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering.admission import admit_message, admit_sender
from beforehand.ordering.effects import Deliver, Effect, Effects, Sent
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

__all__ = ["Coordinator", "CoordinatorOrder", "CoordinatorReceipt", "CoordinatorRequest"]

AHEAD_MAX: Final = 2**40
"""A place further ahead of the last one is forged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRequest:
    """From a sender to the coordinator: give this message a place and send it on."""

    message: Message

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorOrder:
    """From the coordinator to a destination: deliver this message, your number `number`, at `place` among all."""

    message: Message
    place: int
    number: int

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        _refuse_bad_number(self.place)
        _refuse_bad_number(self.number)
        if self.number > self.place:
            raise ValueError("a destination has more messages than there are places")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReceipt:
    """From the coordinator to a sender that is no destination: your message `number` has its place."""

    number: int

    def __post_init__(self) -> None:
        _refuse_bad_number(self.number)


@dataclass(frozen=True, slots=True)
class CoordinatorSnapshot:
    number: int
    asked: tuple[Message, ...]
    place: int
    delivered: int
    requested: tuple[tuple[str, int], ...]
    given: tuple[tuple[str, int], ...]


class Coordinator:
    traits: ClassVar[Traits] = Traits(
        name="coordinator",
        paper="002 section 12.3.1",
        fifo=True,
        causal=True,
        total=True,
        channels=Channels.FIFO,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL_TOTAL,),
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        coordinator: str | None = None,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`number`: the last that this process gave to a message; `coordinator`: by default the first of the view."""
        view.position(process)
        self.process: Final = process
        self.view: Final = view
        self.coordinator: Final = view.processes[0] if coordinator is None else coordinator
        view.position(self.coordinator)
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._asked: dict[int, Message] = {}  # Our messages without a place, oldest first; at most pending_max.
        self._place = 0  # The last place given, at the coordinator; elsewhere the last one seen. At most NUMBER_MAX.
        self._delivered = 0  # Messages delivered here, which is the last number of ours that was given.
        self._requested: dict[str, int] = {}  # At the coordinator: the last message of each member that asked.
        self._given: dict[str, int] = {}  # At the coordinator: the last number given to each other destination.

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
        if len(self._asked) >= self._pending_max:
            raise BufferFullError(what="messages of ours that have no place yet", limit=self._pending_max)
        if self.process == self.coordinator:
            self._refuse_at_the_end()
        effects = Effects()
        self._number += 1
        effects.happen(Sent(message=message))
        if self.process == self.coordinator:
            self._order(message, effects)
        else:
            self._asked[message.number] = message
            effects.transmit((self.coordinator,), CoordinatorRequest(message=message))
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        admit_sender(self, sender)
        effects = Effects()
        effects.changed = True
        match packet:
            case CoordinatorRequest():
                self._take_request(sender, packet.message, effects)
            case CoordinatorOrder():
                self._take_order(sender, packet, effects)
            case CoordinatorReceipt():
                self._refuse_other_coordinator(sender)
                first = next(iter(self._asked.values()), None)
                if first is None or first.number != packet.number or self.process in first.to:
                    raise RemoteProtocolError(f"a receipt for message {packet.number}, which does not wait for one")
                del self._asked[packet.number]
            case _:
                raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, unknown to {self.traits.name}")
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        return [
            Pending(message=message, waits_for=self._missing(message))
            for message in self._asked.values()
            if self.process in message.to
        ]

    def missing(self) -> list[Missing]:
        return sorted(self._missing(message) for message in self._asked.values())

    def stable(self) -> Mapping[str, int]:
        return {}  # A place says that the coordinator has a message, not that its destinations have it.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=message, place=None) for message in self._asked.values()))

    def snapshot(self) -> CoordinatorSnapshot:
        return CoordinatorSnapshot(
            self._number,
            tuple(self._asked.values()),
            self._place,
            self._delivered,
            tuple(sorted(self._requested.items())),
            tuple(sorted(self._given.items())),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not CoordinatorSnapshot:
            raise LocalProtocolError("this is not a snapshot of Coordinator")
        self._number, self._place, self._delivered = snapshot.number, snapshot.place, snapshot.delivered
        self._asked = {message.number: message for message in snapshot.asked}
        self._requested, self._given = dict(snapshot.requested), dict(snapshot.given)

    def check_invariants(self) -> None:
        if list(self._asked) != sorted(self._asked) or any(number > self._number for number in self._asked):
            raise InvariantError("P2: our requests are not in the order of sending")
        if max(self._delivered, *self._given.values(), 0) > self._place:
            raise InvariantError("P3: a destination has more numbers than there are places")
        if self.process == self.coordinator and self._asked:
            raise InvariantError("P4: the coordinator has a message of its own without a place")
        if self.process != self.coordinator and (self._given or self._requested):
            raise InvariantError("P1: this member has ordered messages and is not the coordinator")

    def _take_request(self, sender: str, message: Message, effects: Effects) -> None:
        if self.process != self.coordinator:
            raise RemoteProtocolError(f"{sender!r} takes {self.process!r} for the coordinator")
        if message.sender != sender:
            raise RemoteProtocolError(f"{sender!r} sent a message that claims to be of {message.sender!r}")
        if message.level not in self.traits.levels or not all(p in self.view for p in message.to):
            raise RemoteProtocolError(f"message {message.id} names a level or a member that there is not")
        if message.number <= self._requested.get(sender, 0):
            raise RemoteProtocolError(f"{sender!r} asked for a place of {message.id} before")
        self._refuse_at_the_end()
        self._requested[sender] = message.number
        self._order(message, effects)
        if sender not in message.to:
            effects.transmit((sender,), CoordinatorReceipt(number=message.number))

    def _order(self, message: Message, effects: Effects) -> None:
        self._place += 1
        for process in message.to:
            if process == self.process:
                self._delivered += 1
                effects.happen(Deliver(message=message, place=(self._place,)))
            else:
                number = self._given[process] = self._given.get(process, 0) + 1
                effects.transmit((process,), CoordinatorOrder(message=message, place=self._place, number=number))

    def _take_order(self, sender: str, packet: CoordinatorOrder, effects: Effects) -> None:
        self._refuse_other_coordinator(sender)
        message = packet.message
        if message.sender not in self.view:
            raise RemoteProtocolError(f"message {message.id} is of no member of the group")
        admit_message(self, message, sender=message.sender)
        if packet.number != self._delivered + 1:
            raise RemoteProtocolError(
                f"message {message.id} has our number {packet.number}, not {self._delivered + 1}"
            )
        if not self._place < packet.place <= self._place + AHEAD_MAX:
            raise RemoteProtocolError(f"message {message.id} has the place {packet.place} after {self._place}")
        if message.sender == self.process:
            if next(iter(self._asked.values()), None) != message:
                raise RemoteProtocolError(f"message {message.id} is not what {self.process!r} sent next")
            del self._asked[message.number]
        self._place = packet.place
        self._delivered = packet.number
        effects.happen(Deliver(message=message, place=(packet.place,)))

    def _refuse_other_coordinator(self, sender: str) -> None:
        if sender != self.coordinator:
            raise RemoteProtocolError(f"{sender!r} gives orders and is not the coordinator")

    def _refuse_at_the_end(self) -> None:
        if self._place >= NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)

    def _missing(self, message: Message) -> Missing:
        return Missing(process=self.coordinator, what=Owed.FINAL, number=message.number)


def _refuse_bad_number(number: int) -> None:
    if type(number) is not int or not 1 <= number <= NUMBER_MAX:
        raise ValueError("a number is out of range")
