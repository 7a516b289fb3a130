"""Timed delivery: a message is delivered when the clock shows that everything sent before it must have arrived.

Guarantees, whatever clocks and channels do:
  P1  Total order: messages are delivered in the order of (time, sender, number), wherever they are delivered.
  P2  Causal order, and with it FIFO order: if send(m) → send(m'), m is not delivered after m' anywhere.
  P3  No duplication: a message is delivered once, however often it arrives.
Given the assumptions:
  P4  Nothing is set aside: every message is delivered at all its destinations, `delay_max` + `uncertainty` and one
      tick after its time, each on its own clock.

Assumes that messages arrive within `delay_max`, that no two clocks are ever more than `uncertainty` apart, and that
they run forward, at rates that make no difference within these bounds; that whoever runs this calls `tick` in time;
and for a clock read in coarse ticks, that `uncertainty` counts one tick more. Source: the lecture on order, delivery
rule DR1 ("synchronous systems"), where clocks are one global clock: `uncertainty=0`.

How it works. The time of a message is the largest reading of its sender's clock so far. A destination delivers it
when its own clock is past time + delay_max + uncertainty, smallest place first. What arrives later than that, but
still in order, is delivered at once; what arrives with a place that was passed is set aside: `Discard` with LATE.

Why it holds. P1: a member delivers in the order of places only. P2: let send(m) → send(m'). Of one sender, m' has no
smaller time and the larger number. If q delivered m before it sent m', q's clock was past time(m), and it keeps the
largest reading, so time(m') > time(m). Chains follow by induction; so m has the smaller place, and by P1 it is not
delivered after m'. P3: sequence numbers per destination, exactly remembered. P4: let m with time T be sent
when the sender's clock shows T. It arrives within delay_max, and then the receiver's clock shows at most T +
uncertainty + delay_max. Whatever is delivered before that moment has a time below T, so m is not passed.
  Why *past* and not *at* the bound: (1) m' with time T of b arrives as the clock shows T + delay_max, and is
  delivered. (2) m with time T of a, after the same delay, arrives at the same reading, and comes too late. DR1
  delivers all of one time together; a state machine sees one arrival after the other.

What breaks when the assumptions break. A message slower than delay_max may be set aside at one destination and
delivered at another: members then disagree on what was delivered, never on its order. A clock that is behind by more
than `uncertainty` makes that member's messages late elsewhere; one ahead is refused (`FutureStampError`), as it would
hold up delivery, and a message so refused is lost. A clock that jumps ahead and back leaves its member sending with
the largest reading until its clock is there again.

No views. A flush has all who stay deliver what one of them has delivered. Let m precede m', and be late at q, which
has delivered m', and in time at r. If q delivers m at the flush, it does so after m', against P1 and P2; if it does
not, q and r disagree across a view. What was delivered cannot be taken back, so no flush can do better, and members
stay. Nor is one needed to go on: nobody waits for a member that has stopped.

Deviations: times of one sender do not decrease, rather than increase: the number of the message tells those of one
tick apart, and so a burst does not run ahead of the clock.

A full buffer (`pending_max` per sender) refuses; time makes room.

Cost: one packet per destination; delay_max + uncertainty from sending to delivery, always. O(log pending).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, ClassVar, Final, TypeAlias

from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.view import View
from beforehand.errors import BufferFullError, FutureStampError, InvariantError, LocalProtocolError
from beforehand.ordering.admission import admit
from beforehand.ordering.effects import Deliver, Discard, Effect, Effects, Reason, Sent
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

__all__ = ["TimedDelivery", "TimedMessage"]

GAPS_MAX: Final = 2**16
"""A message that was refused leaves a gap in its sender's numbers. It is given up after so many others."""

Stamp: TypeAlias = tuple[int, int, int]
"""(time, position of the sender, number of the message): the place of a message in the order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedMessage:
    """A message, when it was sent on the clock of its sender, and its number on the way to each destination."""

    message: Message
    time: int
    sequences: tuple[int, ...]  # One per `message.others`.

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.time) is not int or not -NUMBER_MAX <= self.time <= NUMBER_MAX:
            raise ValueError("the time is out of range")
        if type(self.sequences) is not tuple or len(self.sequences) != len(self.message.others):
            raise ValueError("there is not one sequence number per destination")
        if not all(type(n) is int and 1 <= n <= NUMBER_MAX for n in self.sequences):
            raise ValueError("a sequence number is out of range")


@dataclass(frozen=True, slots=True)
class TimedDeliverySnapshot:
    number: int
    clock: int
    sent: tuple[tuple[str, int], ...]
    seen: tuple[tuple[str, int, tuple[int, ...]], ...]
    passed: Stamp
    waiting: tuple[tuple[int, Message], ...]  # (time, message), in the order.


class TimedDelivery:
    traits: ClassVar[Traits] = Traits(
        name="timed-delivery",
        paper="003 delivery rule DR1",
        fifo=True,
        causal=True,
        total=True,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL_TOTAL,),
        views=False,  # What was late at one member and not at another, no flush can make them agree on.
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        delay_max: int,
        uncertainty: int = 0,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`number`: the last that this process gave to a message. Times are in the unit of `now`."""
        self._me: Final = view.position(process)
        if delay_max < 0 or uncertainty < 0:
            raise LocalProtocolError("a delay and an uncertainty are not negative")
        self.process: Final = process
        self.view: Final = view
        self._wait: Final = delay_max + uncertainty
        self._uncertainty: Final = uncertainty
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._clock = -NUMBER_MAX  # The largest reading of our clock so far.
        self._sent: dict[str, int] = {}  # Messages sent so far, per other destination.
        self._seen: dict[str, SequenceSet] = {}  # Messages taken, per sender; at most GAPS_MAX above a gap.
        self._passed: Stamp = (-NUMBER_MAX - 1, 0, 0)  # The place of the last message delivered here.
        self._waiting: dict[Stamp, Message] = {}  # At most pending_max per sender.
        self._heap: list[Stamp] = []
        self._per_sender: dict[str, int] = {}  # Waiting messages per sender.
        self._timer: int | None = None  # What our driver's timer is set to.

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
        if self.process in chosen:
            self._refuse_if_full(self.process)
        sequences = tuple(self._sent.get(p, 0) + 1 for p in message.others)
        packet = TimedMessage(message=message, time=max(self._clock, now), sequences=sequences)
        self._clock = packet.time
        self._number += 1
        self._sent.update(zip(message.others, packet.sequences, strict=True))
        effects = Effects()
        effects.happen(Sent(message=message))
        if self.process in chosen:
            self._add(packet.time, message)
        effects.transmit(message.others, packet)
        self._set_timer(effects)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, TimedMessage, packet, sender=sender)
        message = packet.message
        ahead = packet.time - max(self._clock, now)
        if ahead > self._uncertainty:
            raise FutureStampError(ahead=ahead, limit=self._uncertainty, unit="ticks")
        seen = self._seen.get(sender, SequenceSet())
        sequence = packet.sequences[message.others.index(self.process)]
        if sequence in seen:
            return []  # P3.
        late = self._stamp(packet.time, message) < self._passed
        if not late:
            self._refuse_if_full(sender)
        self._clock = max(self._clock, now)
        seen.add(sequence)
        self._seen[sender] = SequenceSet(seen.above[-1]) if seen.gaps > GAPS_MAX else seen
        effects = Effects()
        effects.changed = True
        if late:
            effects.happen(Discard(message=message, reason=Reason.LATE))
        else:
            self._add(packet.time, message)
        self._deliver_due(effects)
        self._set_timer(effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        effects = Effects()
        self._clock = max(self._clock, now)
        self._timer = None  # It has gone off, or is set again.
        self._deliver_due(effects)
        self._set_timer(effects)
        return effects.finish()

    def pending(self) -> list[Pending]:
        return [Pending(message=m, waits_for=self._waits_for(stamp)) for stamp, m in self._waiting.items()]

    def missing(self) -> list[Missing]:
        return sorted({self._waits_for(stamp) for stamp in self._waiting})

    def stable(self) -> Mapping[str, int]:
        return {}  # That time has passed says that all have a message only if the assumptions hold.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=m, place=stamp) for stamp, m in self._waiting.items()))

    def snapshot(self) -> TimedDeliverySnapshot:
        return TimedDeliverySnapshot(
            self._number,
            self._clock,
            tuple(sorted(self._sent.items())),
            tuple((p, seen.mark, seen.above) for p, seen in sorted(self._seen.items())),
            self._passed,
            tuple((stamp[0], message) for stamp, message in sorted(self._waiting.items(), key=lambda item: item[0])),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not TimedDeliverySnapshot:
            raise LocalProtocolError("this is not a snapshot of TimedDelivery")
        self._number, self._clock, self._passed = snapshot.number, snapshot.clock, snapshot.passed
        self._sent = dict(snapshot.sent)
        self._seen = {p: SequenceSet(mark, above) for p, mark, above in snapshot.seen}
        self._waiting, self._heap, self._per_sender, self._timer = {}, [], {}, None
        for time, message in snapshot.waiting:
            self._add(time, message)

    def check_invariants(self) -> None:
        if any(stamp <= self._passed for stamp in self._waiting):
            raise InvariantError("P1: a message waits whose place was passed")
        if self._passed[0] >= self._clock:
            raise InvariantError("P2: a message was delivered before the clock was past its time")
        if sum(self._per_sender.values()) != len(self._waiting) or len(self._heap) != len(self._waiting):
            raise InvariantError("P4: a message waits and is not counted")

    def _add(self, time: int, message: Message) -> None:
        stamp = self._stamp(time, message)
        self._waiting[stamp] = message
        self._per_sender[message.sender] = self._per_sender.get(message.sender, 0) + 1
        heappush(self._heap, stamp)

    def _deliver_due(self, effects: Effects) -> None:
        while self._heap and self._clock > self._heap[0][0] + self._wait:
            self._passed = heappop(self._heap)
            message = self._waiting.pop(self._passed)
            self._per_sender[message.sender] -= 1
            effects.happen(Deliver(message=message, place=self._passed))

    def _set_timer(self, effects: Effects) -> None:
        due = self._heap[0][0] + self._wait + 1 if self._heap else None
        if due != self._timer:
            self._timer = due
            effects.timer(due)

    def _stamp(self, time: int, message: Message) -> Stamp:
        return (time, self.view.position(message.sender), message.number)

    def _waits_for(self, stamp: Stamp) -> Missing:
        return Missing(process=self.process, what=Owed.TIME, number=stamp[0] + self._wait + 1)

    def _refuse_if_full(self, sender: str) -> None:
        if self._per_sender.get(sender, 0) >= self._pending_max:
            raise BufferFullError(what=f"messages of {sender!r} that wait for their time", limit=self._pending_max)
