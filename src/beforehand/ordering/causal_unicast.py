"""Causal order of unicasts and multicasts to any set of members, with a matrix clock.

Guarantees:
  P1  Causal order: if send(m) → send(m') and both go to p, then p delivers m before m'.
  P2  No duplication: a message is delivered once, however often it arrives.
  P3  Liveness: when all messages sent have arrived, none waits.
  P4  A message to oneself is delivered at once.

Assumes a fixed group (a `View`) and channels that lose nothing for ever; they may repeat and reorder. Source: Garg,
chapter 12.2, figure 12.2 (Raynal, Schiper and Toueg 1991), and the multicast of 12.4, figure 12.4. M[j,k] is the
number of messages from j to k that this process knows of; the matrix travels with every message.

Why it holds: see `causal_domain`, whose D1 to D3 these are. Messages to oneself stand outside the matrix (the chapter
has none); they come between two events of the same process, so they add nothing to →.

Place. W is the matrix of a message. If send(m) → send(m'), then m was sent from a matrix that the chain merged on to
the sender of m', and m' counts itself besides: W(m) ≤ W(m') and, if m' leaves its sender, W(m) ≠ W(m'), so the sum of
W grows. A message to oneself alone does not count itself, so its sum may equal that of what its sender had delivered:
it stands behind all messages of that sum (a 1 where they have a 0), and behind its sender's earlier ones by number.
What its sender sends next to others has a greater sum. So (sum of W, 0 or 1, sender, number) grows along →.

Deviations: figure 12.4 lets a duplicate through (`>` where figure 12.2 has equality); we do not.

Room: `pending_max` of each sender; a full room cannot block, see `causal_domain`.

Cost: n² numbers per message; O(n²) per message, parked at most n times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.matrix import MatrixStamp
from beforehand.clocks.view import View
from beforehand.errors import LocalProtocolError, RemoteProtocolError
from beforehand.ordering.admission import admit
from beforehand.ordering.causal_domain import CausalDomain, DomainSnapshot, refuse_malformed
from beforehand.ordering.effects import Deliver, Effect, Effects, Place, Sent
from beforehand.ordering.message import Level, Message
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

__all__ = ["CausalUnicast", "CausalUnicastPacket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalUnicastPacket:
    """A message and the matrix of its sender, the message counted for each of its destinations."""

    message: Message
    stamp: MatrixStamp

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        refuse_malformed(self.stamp)
        if self.stamp.sender != self.message.sender:
            raise ValueError("the matrix is of another process than the message")


@dataclass(frozen=True, slots=True)
class CausalUnicastSnapshot:
    number: int
    domain: DomainSnapshot


class CausalUnicast:
    traits: ClassVar[Traits] = Traits(
        name="causal-unicast",
        paper="002 figures 12.2 and 12.4",
        fifo=True,
        causal=True,
        total=False,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL,),
    )

    def __init__(self, process: str, view: View, *, number: int = 0, pending_max: int = PENDING_MAX) -> None:
        """`number` is the last one that this process gave to a message before; `pending_max` counts per sender."""
        self.process: Final = process
        self.view: Final = view
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._domain: Final = CausalDomain[Message](process, view, pending_max=pending_max)  # M, and who waits.

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
        stamp = self._domain.depart(message.others) if message.others else self._domain.stamp()
        self._number += 1
        effects = Effects()
        effects.happen(Sent(message=message, place=_place(message, stamp)))
        if self.process in chosen:
            effects.happen(Deliver(message=message, place=_place(message, stamp)))  # P4.
        effects.transmit(message.others, CausalUnicastPacket(message=message, stamp=stamp))
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, CausalUnicastPacket, packet, sender=sender)
        if packet.stamp.view == self.view and not all(packet.stamp.sent(sender, p) for p in packet.message.others):
            raise RemoteProtocolError(f"message {packet.message.id} does not count itself for each destination")
        got = self._domain.arrive(packet.stamp, packet.message)
        if got is None:
            return []  # P2.
        effects = Effects()
        effects.changed = True
        for stamp, message in got:
            effects.happen(Deliver(message=message, place=_place(message, stamp)))
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        return [
            Pending(message=message, waits_for=Missing(process=sender, what=Owed.MESSAGE, number=count))
            for message, (sender, count) in self._domain.waiting()
        ]

    def missing(self) -> list[Missing]:
        return [Missing(process=p, what=Owed.MESSAGE, number=count) for p, count in self._domain.missing()]

    def stable(self) -> Mapping[str, int]:
        return {}  # The matrix counts by pairs what is known to be sent; of deliveries elsewhere it says little.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=m, place=_place(m, stamp)) for stamp, m in self._domain))

    def snapshot(self) -> CausalUnicastSnapshot:
        return CausalUnicastSnapshot(self._number, self._domain.snapshot())

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not CausalUnicastSnapshot:
            raise LocalProtocolError("this is not a snapshot of CausalUnicast")
        self._number = snapshot.number
        self._domain.restore(snapshot.domain)

    def check_invariants(self) -> None:
        self._domain.check_invariants()


def _place(message: Message, stamp: MatrixStamp) -> Place:
    return (sum(stamp.counts), 0 if message.others else 1, message.sender, message.number)
