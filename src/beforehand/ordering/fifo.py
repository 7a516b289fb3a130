"""FIFO order: messages from one process to another are delivered in the order in which they were sent.

Guarantees:
  P1  FIFO: if p sends m before m' and both go to q, then q delivers m before m'.
  P2  No duplication: a message is delivered once, however often it arrives.
  P3  Liveness: when all messages sent have arrived, none waits.
  P4  A message to oneself is delivered at once.

Assumes channels that lose nothing for ever; they may repeat and reorder. Source: Garg, chapter 12.1; the lecture on
order, "FIFO-D". Each pair of processes has its own numbers, so a multicast carries one per destination.

Why it holds. P1, P2: q delivers number k of p only when its last of p is k − 1, and numbers grow in the order of
sending. P3: by induction on k: when 1 … k have arrived, they are delivered. It is not causal: nothing says what p had
received before it sent.

Cost: O(1) per message, one number per destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.view import View
from beforehand.errors import BufferFullError, InvariantError, LocalProtocolError
from beforehand.ordering.admission import admit
from beforehand.ordering.effects import Deliver, Effect, Effects, Place, Sent
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

__all__ = ["Fifo", "FifoPacket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoPacket:
    """A message with its number on the way to each of `message.others`."""

    message: Message
    numbers: tuple[int, ...]

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.numbers) is not tuple or len(self.numbers) != len(self.message.others):
            raise ValueError("there is not one number per destination")
        if not all(type(n) is int and 1 <= n <= NUMBER_MAX for n in self.numbers):
            raise ValueError("a number is out of range")


@dataclass(frozen=True, slots=True)
class FifoSnapshot:
    number: int
    sent: tuple[tuple[str, int], ...]
    delivered: tuple[tuple[str, int], ...]
    waiting: tuple[tuple[str, int, Message], ...]


class Fifo:
    traits: ClassVar[Traits] = Traits(
        name="fifo",
        paper="002, 003",
        fifo=True,
        causal=False,
        total=False,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.FIFO,),
    )

    def __init__(self, process: str, view: View, *, number: int = 0, pending_max: int = PENDING_MAX) -> None:
        """`number` is the last one that this process gave to a message before; `pending_max` counts per sender."""
        view.position(process)
        self.process: Final = process
        self.view: Final = view
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._sent: dict[str, int] = {}  # Messages sent so far, per destination.
        self._delivered: dict[str, int] = {}  # Messages delivered so far, per sender.
        self._waiting: dict[str, dict[int, Message]] = {}  # Per sender by number; at most pending_max each.

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
        packet = FifoPacket(message=message, numbers=tuple(self._sent.get(p, 0) + 1 for p in message.others))
        self._number += 1
        self._sent.update(zip(message.others, packet.numbers, strict=True))
        effects = Effects()
        effects.happen(Sent(message=message, place=_place(message)))
        if self.process in chosen:
            effects.happen(Deliver(message=message, place=_place(message)))
        effects.transmit(message.others, packet)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, FifoPacket, packet, sender=sender)
        number = packet.numbers[packet.message.others.index(self.process)]
        done = self._delivered.get(sender, 0)
        waiting = self._waiting.get(sender, {})
        if number <= done or number in waiting:
            return []  # P2.
        if number > done + 1 and len(waiting) >= self._pending_max:
            raise BufferFullError(what=f"messages of {sender!r} that wait for earlier ones", limit=self._pending_max)
        effects = Effects()
        effects.changed = True
        self._waiting.setdefault(sender, {})[number] = packet.message
        self._drain(sender, effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        return [
            Pending(message=message, waits_for=self._next_of(sender))
            for sender, waiting in sorted(self._waiting.items())
            for message in waiting.values()
        ]

    def missing(self) -> list[Missing]:
        return [self._next_of(sender) for sender in sorted(self._waiting)]

    def stable(self) -> Mapping[str, int]:
        return {}  # Nothing in FIFO order tells what others have.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=p.message, place=_place(p.message)) for p in self.pending()))

    def snapshot(self) -> FifoSnapshot:
        return FifoSnapshot(
            self._number,
            tuple(sorted(self._sent.items())),
            tuple(sorted(self._delivered.items())),
            tuple((s, n, m) for s, waiting in sorted(self._waiting.items()) for n, m in sorted(waiting.items())),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not FifoSnapshot:
            raise LocalProtocolError("this is not a snapshot of Fifo")
        self._number = snapshot.number
        self._sent, self._delivered, self._waiting = dict(snapshot.sent), dict(snapshot.delivered), {}
        for sender, number, message in snapshot.waiting:
            self._waiting.setdefault(sender, {})[number] = message

    def check_invariants(self) -> None:
        for sender, waiting in self._waiting.items():
            if not waiting or min(waiting) <= self._delivered.get(sender, 0) + 1:
                raise InvariantError(f"P1, P3: a message of {sender!r} waits and should not")

    def _drain(self, sender: str, effects: Effects) -> None:
        waiting = self._waiting[sender]
        done = self._delivered.get(sender, 0)
        while (message := waiting.pop(done + 1, None)) is not None:
            done += 1
            effects.happen(Deliver(message=message, place=_place(message)))
        self._delivered[sender] = done
        if not waiting:
            del self._waiting[sender]

    def _next_of(self, sender: str) -> Missing:
        return Missing(process=sender, what=Owed.MESSAGE, number=self._delivered.get(sender, 0) + 1)


def _place(message: Message) -> Place:
    return (message.sender, message.number)
