"""Causal broadcast: every message goes to all members, and one vector per message is enough.

Guarantees:
  P1  Causal order: if send(m) → send(m') and m' has level causal, every member delivers m before m'.
  P2  FIFO order: if p sends m before m', every member delivers m before m', whatever their levels.
  P3  No duplication: a message is delivered once, however often it arrives.
  P4  Liveness: when all messages sent have arrived, none waits.
  P5  A message to oneself is delivered at once.

Assumes a fixed group (a `View`) and channels that lose nothing for ever; they may repeat and reorder. Source: Garg,
problem 12.4: when all messages are broadcasts, row j of the matrix of figure 12.2 has the same number in every
column, so a vector is left: V[j] messages of j are known. (Birman, Schiper and Stephenson 1991 have the same rule.)

Why it holds. Let send(m) → send(m'), m the n-th of j. The chain from m to m' merged m's vector at every hop, so m'
carries V[j] ≥ n, and a causal m' waits until V[j] messages of j are delivered here: P1. Numbers of one sender are
delivered one by one: P2, P3. For P4 take, of the messages that wait for ever, one whose send has none of the others
in its past: all that it waits for is delivered, so it is.

Levels: `fifo` waits for its own sender only, so a message may overtake what its sender had received; the vector
of what is *known* is then ahead of what is *delivered*, and a later causal message waits for all that is known. With
one exception: a sender delivers its own message at once (P5), before what it only knows of. Where all messages are
causal there is no such thing.

Cost: n numbers per message; O(n) per message, parked at most n times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.view import View
from beforehand.errors import ImpossibleStampError, InvariantError, LocalProtocolError, RemoteProtocolError
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

__all__ = ["CausalBroadcast", "CausalBroadcastPacket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalBroadcastPacket:
    """A message and how many messages of each member its sender knew of, this one counted."""

    message: Message
    vector: tuple[int, ...]  # By position in the view.

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.vector) is not tuple or not all(type(n) is int and 0 <= n <= NUMBER_MAX for n in self.vector):
            raise ValueError("the vector is not a tuple of counts")


@dataclass(frozen=True, slots=True)
class CausalBroadcastSnapshot:
    number: int
    known: tuple[int, ...]
    delivered: tuple[int, ...]
    parked: tuple[CausalBroadcastPacket, ...]


class CausalBroadcast:
    traits: ClassVar[Traits] = Traits(
        name="causal-broadcast",
        paper="002 problem 12.4",
        fifo=True,
        causal=True,
        total=False,
        channels=Channels.RELIABLE,
        destinations=Destinations.ALL,
        levels=(Level.FIFO, Level.CAUSAL),
    )

    def __init__(self, process: str, view: View, *, number: int = 0, pending_max: int = PENDING_MAX) -> None:
        """`number` is the last one that this process gave to a message before; `pending_max` counts per sender."""
        self._me: Final = view.position(process)
        self.process: Final = process
        self.view: Final = view
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._known = [0] * len(view.processes)  # Messages of each member that we know of; ours: that we sent.
        self._delivered = [0] * len(
            view.processes
        )  # Messages of each member delivered here; our own entry is unused.
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
        self._number += 1
        self._known[self._me] += 1
        packet = CausalBroadcastPacket(message=message, vector=tuple(self._known))
        effects = Effects()
        effects.happen(Sent(message=message, place=self._place(packet)))
        if self.process in chosen:
            effects.happen(Deliver(message=message, place=self._place(packet)))  # P5.
        effects.transmit(message.others, packet)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, CausalBroadcastPacket, packet, sender=sender)
        at = self.view.position(sender)
        self._refuse_impossible(packet, at)
        number = packet.vector[at]
        if number <= self._delivered[at] or (at, number) in self._here:
            return []  # P3.
        spot = self._first_missing(packet)
        if spot is not None and number > self._delivered[at] + 1:
            self._room.refuse_if_full(sender)  # What is next of its sender always has room.
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
        return [Pending(message=packet.message, waits_for=self._missing(spot)) for spot, packet in self._room.spots()]

    def missing(self) -> list[Missing]:
        # Of each member, only the first that is not here: later ones may be waiting for it.
        first = {spot[0]: self._delivered[spot[0]] + 1 for spot, _ in self._room.spots()}
        return sorted(self._missing(spot) for spot in first.items() if spot not in self._here)

    def stable(self) -> Mapping[str, int]:
        return {}  # A vector says what its sender knows of, which a FIFO message may have brought without it.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=p.message, place=self._place(p)) for p in self._room))

    def snapshot(self) -> CausalBroadcastSnapshot:
        parked = sorted(self._room, key=lambda packet: packet.message.key)
        return CausalBroadcastSnapshot(self._number, tuple(self._known), tuple(self._delivered), tuple(parked))

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not CausalBroadcastSnapshot:
            raise LocalProtocolError("this is not a snapshot of CausalBroadcast")
        self._number, self._known, self._delivered = snapshot.number, list(snapshot.known), list(snapshot.delivered)
        self._empty_room()
        for packet in snapshot.parked:
            spot = self._first_missing(packet)
            assert spot is not None, "what waits in a snapshot waits for something"
            self._park(spot, packet)

    def check_invariants(self) -> None:
        for packet in self._room:
            if self._first_missing(packet) is None:
                raise InvariantError(f"P4: {packet.message.id} waits for nothing")
        for at, delivered in enumerate(self._delivered):
            if delivered > self._known[at]:
                raise InvariantError(f"P1: {self.view.processes[at]} has delivered more than is known")

    def _refuse_impossible(self, packet: CausalBroadcastPacket, at: int) -> None:
        if len(packet.vector) != len(self.view.processes):
            raise RemoteProtocolError(f"message {packet.message.id} carries a vector of another group")
        if packet.vector[at] < 1:
            raise RemoteProtocolError(f"message {packet.message.id} does not count itself")
        claimed, made = packet.vector[self._me], self._known[self._me]
        if claimed > made:
            raise ImpossibleStampError(process=self.process, claimed=claimed, made=made)

    def _first_missing(self, packet: CausalBroadcastPacket) -> tuple[int, int] | None:
        """The first (member, count) that must be delivered here before this packet."""
        sender = self.view.position(packet.message.sender)
        if self._delivered[sender] < packet.vector[sender] - 1:
            return (sender, packet.vector[sender] - 1)
        if packet.message.level is Level.CAUSAL:
            for at, count in enumerate(packet.vector):
                if at not in (sender, self._me) and self._delivered[at] < count:
                    return (at, count)
        return None

    def _deliver_all(self, packet: CausalBroadcastPacket, effects: Effects) -> None:
        """Deliver the packet and everything that it sets free."""
        free = [packet]
        while free:
            packet = free.pop()
            sender = self.view.position(packet.message.sender)
            number = packet.vector[sender]
            self._here.discard((sender, number))
            self._delivered[sender] = number
            self._known = list(map(max, self._known, packet.vector))
            effects.happen(Deliver(message=packet.message, place=self._place(packet)))
            for woken in self._room.wake((sender, number)):
                spot = self._first_missing(woken)
                if spot is None:
                    free.append(woken)
                else:
                    self._room.park(spot, woken)

    def _park(self, spot: tuple[int, int], packet: CausalBroadcastPacket) -> None:
        sender = self.view.position(packet.message.sender)
        self._here.add((sender, packet.vector[sender]))
        self._room.park(spot, packet)

    def _empty_room(self) -> None:
        self._room = Parking[tuple[int, int], CausalBroadcastPacket](
            sender_of=lambda packet: packet.message.sender, limit=self._pending_max
        )
        self._here: set[tuple[int, int]] = set()  # (member, number) of those in the room.

    def _missing(self, spot: tuple[int, int]) -> Missing:
        return Missing(process=self.view.processes[spot[0]], what=Owed.MESSAGE, number=spot[1])

    def _place(self, packet: CausalBroadcastPacket) -> Place:
        # A message in the past of another has a smaller vector, hence a smaller sum.
        return (sum(packet.vector), packet.message.sender, packet.message.number)
