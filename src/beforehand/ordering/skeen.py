"""Skeen's algorithm: a total order of multicasts in which only the destinations of a message take part.

Guarantees:
  P1  Total order: any two messages are delivered in the same order wherever both are delivered.
  P2  No duplication: a message is delivered once, however often its packets arrive.
  P3  Liveness: when all packets sent have arrived, no message waits.
It is neither FIFO nor causal: a message of two destinations may get a smaller final time than an earlier one of
the same sender that went to a busier third.

Assumes channels that lose nothing for ever; they may repeat and reorder. A sender that crashes between the phases
holds its message up until it comes back from its snapshot, or is evicted: the flush then takes, for each undecided
message, the maximum of what the destinations that stay propose (`report`). Source: Garg, chapter 12.3.3 (Skeen
1982).

Why it holds (problem 12.9). Every destination p that has a message m holds it in a queue under a time that only
grows: its proposal, and then the final time, the maximum of all proposals. Times are compared with the message's
key, so no two are equal. p delivers m when it is final and the smallest in p's queue.
  Safety: say p delivers m before m', both with destination q. When p delivers m, either m' is in p's queue with a
  time above m's final one, so m' ends above m; or m' has not arrived, and as p's clock is then at least m's final
  time (it was raised to it) p's proposal for m' is above, hence its final time too. So the order of delivery at p
  is the order of the final times, and the same holds at q: P1. Liveness: each destination proposes on arrival and
  each sender finishes when all proposals are there, so every message becomes final. The smallest of a finite queue
  of final ones is delivered.

Room. `pending_max` bounds what one sender may have waiting here. Unlike in the other protocols a limit that is
reached can stop the group: two destinations that each refuse what the other waits for. It is a bound against peers
that break the rules; set it far above what an honest sender has under way (`send` refuses at the same number of
undecided ones).

Deviations: the chapter sends the initiator's time with the message; nothing needs it, so we do not. Ties of final
times are broken by sender and number.

Cost: three packets per destination (offer, proposal, final), two delays and one more before the final arrives: 3d
from sending to delivery at another process, 2d at the sender. O(log pending) per message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Final, TypeAlias

from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.view import View
from beforehand.errors import (
    BufferFullError,
    ClockExhaustedError,
    FutureStampError,
    InvariantError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering.admission import admit, admit_sender
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

__all__ = ["Skeen", "SkeenFinal", "SkeenOffer", "SkeenProposal"]

Key: TypeAlias = "tuple[str, int]"

AHEAD_MAX: Final = 2**40
"""A time further ahead of ours is forged: it would use up the range of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkeenOffer:
    """Phase one, from the sender to every destination: here is a message, propose a time."""

    message: Message
    sequences: tuple[int, ...]  # One per `message.others`: how many offers each has got so far, this one counted.

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.sequences) is not tuple or len(self.sequences) != len(self.message.others):
            raise ValueError("there is not one sequence number per destination")
        if not all(type(n) is int and 1 <= n <= NUMBER_MAX for n in self.sequences):
            raise ValueError("a sequence number is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkeenProposal:
    """Phase two, from a destination back to the sender of message `number`: I propose `time`."""

    number: int
    time: int

    def __post_init__(self) -> None:
        _refuse_bad_numbers(self.number, self.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkeenFinal:
    """Phase three, from the sender of message `number` to its destinations: its final time."""

    number: int
    time: int

    def __post_init__(self) -> None:
        _refuse_bad_numbers(self.number, self.time)


@dataclass(slots=True)
class _Waiting:
    """A message in the queue of a destination."""

    message: Message
    time: int  # The proposal, then the final time.
    final: bool = False


@dataclass(slots=True)
class _Collecting:
    """A message of ours that lacks proposals."""

    message: Message
    time: int  # The largest proposal so far.
    lacks: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class SkeenSnapshot:
    number: int
    time: int
    offered: tuple[tuple[str, int], ...]
    seen: tuple[tuple[str, int, tuple[int, ...]], ...]
    queue: tuple[tuple[Message, int, bool], ...]
    collecting: tuple[tuple[Message, int, tuple[str, ...]], ...]


class Skeen:
    traits: ClassVar[Traits] = Traits(
        name="skeen",
        paper="002 section 12.3.3",
        fifo=False,
        causal=False,
        total=True,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.TOTAL,),
    )

    def __init__(
        self, process: str, view: View, *, number: int = 0, start: int = 0, pending_max: int = PENDING_MAX
    ) -> None:
        """`number`: the last that this process gave to a message; `start`: where its logical clock begins."""
        view.position(process)
        self.process: Final = process
        self.view: Final = view
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._time = start  # The logical clock: at least every time proposed or seen here; at most NUMBER_MAX.
        self._offered: dict[str, int] = {}  # Offers sent so far, per destination.
        self._seen: dict[str, SequenceSet] = {}  # Offers taken, per sender.
        self._queue: dict[Key, _Waiting] = {}  # Not delivered; at most pending_max per sender.
        self._heap: list[tuple[int, Key]] = []  # The queue by (time, key); entries whose time has grown are dead.
        self._collecting: dict[int, _Collecting] = {}  # Our own messages in phase two; at most pending_max.
        self._per_sender: dict[str, int] = {}  # Messages in the queue, per sender.

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
        if len(self._collecting) >= self._pending_max or self._is_full(self.process):
            raise BufferFullError(what="messages of ours that wait for their order", limit=self._pending_max)
        self._refuse_at_the_end()
        packet = SkeenOffer(message=message, sequences=tuple(self._offered.get(p, 0) + 1 for p in message.others))
        self._number += 1
        self._offered.update(zip(message.others, packet.sequences, strict=True))
        effects = Effects()
        effects.happen(Sent(message=message))
        collecting = _Collecting(message, 0, set(message.others))
        self._collecting[message.number] = collecting
        if self.process in chosen:
            collecting.time = self._propose(message)
        effects.transmit(message.others, packet)
        self._finish_if_complete(collecting, effects)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = Effects()
        match packet:
            case SkeenOffer():
                self._take_offer(sender, packet, effects)
            case SkeenProposal():
                self._take_proposal(sender, packet, effects)
            case SkeenFinal():
                self._take_final(sender, packet, effects)
            case _:
                raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, which Skeen does not know")
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        head = self._head()
        return [Pending(message=w.message, waits_for=self._waits_for(w, head)) for w in self._queue.values()]

    def missing(self) -> list[Missing]:
        proposals = {
            Missing(process=p, what=Owed.PROPOSAL, number=number)
            for number, collecting in self._collecting.items()
            for p in collecting.lacks
        }
        finals = {
            Missing(process=w.message.sender, what=Owed.FINAL, number=w.message.number)
            for w in self._queue.values()
            if not w.final and w.message.sender != self.process
        }
        return sorted(proposals | finals)

    def stable(self) -> Mapping[str, int]:
        # Every destination has a message of ours when it has proposed for it.
        return {self.process: min(self._collecting, default=self._number + 1) - 1}

    def report(self) -> Report:
        held = [Held(message=w.message, place=(w.time, *w.message.key), final=w.final) for w in self._queue.values()]
        own = [
            Held(message=c.message, place=(c.time, *c.message.key), final=False)
            for c in self._collecting.values()
            if c.message.key not in self._queue
        ]
        return Report(held=tuple(held + own), time=self._time)

    def snapshot(self) -> SkeenSnapshot:
        return SkeenSnapshot(
            self._number,
            self._time,
            tuple(sorted(self._offered.items())),
            tuple((p, seen.mark, seen.above) for p, seen in sorted(self._seen.items())),
            tuple((w.message, w.time, w.final) for _, w in sorted(self._queue.items())),
            tuple((c.message, c.time, tuple(sorted(c.lacks))) for _, c in sorted(self._collecting.items())),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not SkeenSnapshot:
            raise LocalProtocolError("this is not a snapshot of Skeen")
        self._number, self._time, self._offered = snapshot.number, snapshot.time, dict(snapshot.offered)
        self._seen = {p: SequenceSet(mark, above) for p, mark, above in snapshot.seen}
        self._queue = {m.key: _Waiting(m, time, final) for m, time, final in snapshot.queue}
        self._heap = [(w.time, key) for key, w in self._queue.items()]
        heapify(self._heap)
        self._collecting = {m.number: _Collecting(m, time, set(lacks)) for m, time, lacks in snapshot.collecting}
        self._per_sender = {}
        for sender, _ in self._queue:
            self._per_sender[sender] = self._per_sender.get(sender, 0) + 1

    def check_invariants(self) -> None:
        head = self._head()
        if head is not None and head.final:
            raise InvariantError(f"P3: {head.message.id} is final and first, and waits")
        for waiting in self._queue.values():
            if waiting.time > self._time:
                raise InvariantError(f"P1: {waiting.message.id} has a time that the clock has not reached")
        for collecting in self._collecting.values():
            if not collecting.lacks:
                raise InvariantError(f"P3: {collecting.message.id} has all proposals and is not final")

    def _take_offer(self, sender: str, packet: SkeenOffer, effects: Effects) -> None:
        message = admit(self, SkeenOffer, packet, sender=sender).message
        sequence = packet.sequences[message.others.index(self.process)]
        seen = self._seen.get(sender)
        if seen is not None and sequence in seen:
            return  # P2. Our proposal is on its way: channels lose nothing.
        if self._is_full(sender):
            raise BufferFullError(what=f"messages of {sender!r} that wait for their order", limit=self._pending_max)
        self._refuse_at_the_end()
        self._seen.setdefault(sender, SequenceSet()).add(sequence)
        time = self._propose(message)
        effects.transmit((sender,), SkeenProposal(number=message.number, time=time))

    def _take_proposal(self, sender: str, packet: SkeenProposal, effects: Effects) -> None:
        admit_sender(self, sender)
        collecting = self._collecting.get(packet.number)
        if collecting is None or sender not in collecting.lacks:
            if not 1 <= packet.number <= self._number:
                raise RemoteProtocolError(f"{sender!r} proposes a time for message {packet.number}, never sent")
            return  # P2.
        self._refuse_future(packet.time)
        effects.changed = True
        collecting.lacks.discard(sender)
        collecting.time = max(collecting.time, packet.time)
        self._finish_if_complete(collecting, effects)

    def _take_final(self, sender: str, packet: SkeenFinal, effects: Effects) -> None:
        admit_sender(self, sender)
        waiting = self._queue.get((sender, packet.number))
        if waiting is None or waiting.final:
            return  # P2: delivered or final already. A final for a message we never saw tells us nothing.
        if packet.time < waiting.time:
            raise RemoteProtocolError(
                f"the final time of {waiting.message.id} is below what {self.process!r} proposed"
            )
        self._refuse_future(packet.time)
        effects.changed = True
        self._settle(waiting, packet.time)
        self._deliver_ready(effects)

    def _propose(self, message: Message) -> int:
        self._time += 1
        self._queue[message.key] = _Waiting(message, self._time)
        self._per_sender[message.sender] = self._per_sender.get(message.sender, 0) + 1
        heappush(self._heap, (self._time, message.key))
        return self._time

    def _finish_if_complete(self, collecting: _Collecting, effects: Effects) -> None:
        if collecting.lacks:
            return
        message = collecting.message
        del self._collecting[message.number]
        effects.transmit(message.others, SkeenFinal(number=message.number, time=collecting.time))
        if self.process in message.to:
            self._settle(self._queue[message.key], collecting.time)
            self._deliver_ready(effects)

    def _settle(self, waiting: _Waiting, time: int) -> None:
        waiting.final = True
        if time != waiting.time:
            waiting.time = time
            heappush(self._heap, (time, waiting.message.key))
        self._time = max(self._time, time)  # What is proposed from now on comes after it.

    def _deliver_ready(self, effects: Effects) -> None:
        while (head := self._head()) is not None and head.final:
            key = head.message.key
            heappop(self._heap)
            del self._queue[key]
            self._per_sender[key[0]] -= 1
            effects.happen(Deliver(message=head.message, place=(head.time, *key)))

    def _head(self) -> _Waiting | None:
        """The smallest of the queue. Dead entries on the way are dropped."""
        while self._heap:
            time, key = self._heap[0]
            waiting = self._queue.get(key)
            if waiting is not None and waiting.time == time:
                return waiting
            heappop(self._heap)
        return None

    def _waits_for(self, waiting: _Waiting, head: _Waiting | None) -> Missing:
        first = waiting if head is None or not waiting.final else head
        collecting = self._collecting.get(first.message.number) if first.message.sender == self.process else None
        if collecting is not None:
            return Missing(process=min(collecting.lacks), what=Owed.PROPOSAL, number=first.message.number)
        return Missing(process=first.message.sender, what=Owed.FINAL, number=first.message.number)

    def _is_full(self, sender: str) -> bool:
        return self._per_sender.get(sender, 0) >= self._pending_max

    def _refuse_at_the_end(self) -> None:
        if self._time >= NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)

    def _refuse_future(self, time: int) -> None:
        if time - self._time > AHEAD_MAX:
            raise FutureStampError(ahead=time - self._time, limit=AHEAD_MAX, unit="events")


def _refuse_bad_numbers(number: int, time: int) -> None:
    if type(number) is not int or not 1 <= number <= NUMBER_MAX:
        raise ValueError("the number of the message is out of range")
    if type(time) is not int or not 0 <= time <= NUMBER_MAX:
        raise ValueError("the time is out of range")
