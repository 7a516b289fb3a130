"""No order: every message is delivered when it arrives. The control against which the others are measured.

Guarantees:
  P1  No duplication: a message is delivered once, however often and however late it arrives again.
  P2  Liveness: a message that has arrived is delivered; nothing waits.
  P3  A message to oneself is delivered at once.
It is neither FIFO nor causal nor total.

Assumes channels that lose nothing for ever; they may repeat and reorder. Source: none; what Garg, chapter 12.1, calls
a fully asynchronous computation. Each pair of processes has its own numbers, from 1 and without gaps, as in `fifo`.

Why it holds. P1: numbers of a pair are never used twice, and the set of those delivered is exact. P2: what is new is
delivered by the call that brings it.

The set keeps a mark and the numbers above it. While one message is long under way the numbers above it add up, so
their count has a limit per sender, `pending_max`. The message that the mark waits for is taken beyond the limit, so
a full set empties again: whoever offers refused packets again (a `ReliableLink`) loses nothing and never stalls.

Cost: O(1) per message, one number per destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.view import View
from beforehand.errors import BufferFullError, InvariantError, LocalProtocolError
from beforehand.ordering.admission import admit
from beforehand.ordering.effects import Deliver, Effect, Effects, Place, Sent
from beforehand.ordering.message import Level, Message
from beforehand.ordering.parking import PENDING_MAX
from beforehand.ordering.protocol import (
    Channels,
    Destinations,
    Missing,
    Pending,
    Report,
    Traits,
    destinations,
    service_level,
)

__all__ = ["Unordered", "UnorderedPacket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnorderedPacket:
    """A message with its number on the way to each of `message.others`."""

    message: Message
    numbers: tuple[int, ...]

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.numbers) is not tuple or len(self.numbers) != len(self.message.others):
            raise ValueError("there is not one number per destination")
        if not all(type(n) is int and 1 <= n <= self.message.number for n in self.numbers):
            raise ValueError("a number is below 1 or above that of the message itself")


@dataclass(frozen=True, slots=True)
class UnorderedSnapshot:
    number: int
    sent: tuple[tuple[str, int], ...]
    seen: tuple[tuple[str, int, tuple[int, ...]], ...]


class Unordered:
    traits: ClassVar[Traits] = Traits(
        name="unordered",
        paper="002 section 12.1",
        fifo=False,
        causal=False,
        total=False,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.UNORDERED,),
    )

    def __init__(self, process: str, view: View, *, number: int = 0, pending_max: int = PENDING_MAX) -> None:
        """`number`: the last that this process gave to a message; `pending_max`: see the module, per sender."""
        view.position(process)
        self.process: Final = process
        self.view: Final = view
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._sent: dict[str, int] = {}  # Messages sent so far, per destination.
        self._seen: dict[str, SequenceSet] = {}  # Messages delivered, per sender; gaps at most pending_max each.

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
        packet = UnorderedPacket(message=message, numbers=tuple(self._sent.get(p, 0) + 1 for p in message.others))
        self._number += 1
        self._sent.update(zip(message.others, packet.numbers, strict=True))
        effects = Effects()
        effects.happen(Sent(message=message, place=_place(message)))
        if self.process in chosen:
            effects.happen(Deliver(message=message, place=_place(message)))  # P3.
        effects.transmit(message.others, packet)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, UnorderedPacket, packet, sender=sender)
        number = packet.numbers[packet.message.others.index(self.process)]
        seen = self._seen.get(sender, SequenceSet())
        if number in seen:
            return []  # P1.
        if number > seen.mark + 1 and seen.gaps >= self._pending_max:
            raise BufferFullError(what=f"messages of {sender!r} that overtook others", limit=self._pending_max)
        seen.add(number)
        self._seen[sender] = seen
        effects = Effects()
        effects.happen(Deliver(message=packet.message, place=_place(packet.message)))
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        return []

    def missing(self) -> list[Missing]:
        return []

    def stable(self) -> Mapping[str, int]:
        return {}  # Nothing here tells what others have.

    def report(self) -> Report:
        return Report(held=())

    def snapshot(self) -> UnorderedSnapshot:
        return UnorderedSnapshot(
            self._number,
            tuple(sorted(self._sent.items())),
            tuple((p, seen.mark, seen.above) for p, seen in sorted(self._seen.items())),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not UnorderedSnapshot:
            raise LocalProtocolError("this is not a snapshot of Unordered")
        self._number, self._sent = snapshot.number, dict(snapshot.sent)
        self._seen = {p: SequenceSet(mark, above) for p, mark, above in snapshot.seen}

    def check_invariants(self) -> None:
        for sender, seen in self._seen.items():
            if seen.mark + 1 in seen or seen.gaps > self._pending_max:
                raise InvariantError(f"P1: the numbers of {sender!r} are not kept as they should be")


def _place(message: Message) -> Place:
    return (message.sender, message.number)
