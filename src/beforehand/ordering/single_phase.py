"""Single-phase total order: an operation gets its place when it is sent, and members only wait to be sure of it.

Guarantees (an *operation* is a message, in the paper's word):
  P1  Total order: operations of level causal-total are delivered everywhere in the order of (time, rank).
  P2  Causal order: if send(a) → send(b) and b is causal-total, every member delivers a before b, whatever a's level.
  P3  FIFO order: operations of one sender are delivered in the order of sending, whatever their levels.
  P4  Liveness: when all packets sent have arrived, no operation waits. No timers.
  P5  When all delays are d: a remote member delivers within [0, d] of arrival, the origin within [0, 2d] of sending;
      both are 0 for the lowest rank when all clocks agree. (Multicast acknowledgements; see below.)
  P6  At most N − 1 acknowledgements are multicast per operation, possibly none.

Assumes a fixed group (a `View`) and FIFO channels without loss. Source: Sun and Maheshwari 1996: definitions 1 to 8
and protocol 1 are `acknowledge=ALWAYS`, definitions 9 and 10 with protocol 2 are `SUPPRESSED`, the default.

How it works. Each member has a logical clock. A send adds one and stamps the operation with it; an arriving
operation raises the clock to its time. Member i has at time t the rank i, its position (`STATIC`), or (i + t) mod N
(`ROTATING`), always taken at the time of the operation, so that all members agree. *LCV* is what each member is known
to have reached: the time of the last packet from it. Whatever i sends after time t has at least the place
next(i, t) = (t + 1, rank of i at t + 1). So an operation is stable, nothing can come before it, iff its place is
below next(i, LCV[i]) for every other member i: definition 8, for any ranks. With *MRMT*, the time of the last packet
that k multicast, k must acknowledge an operation iff next(k, MRMT) is below its place: definition 10. One formula
serves both, which is why they fit.

Why it holds. P1: places are distinct. A member delivers an operation when it is the smallest it has and stable: as
channels are FIFO, all that i sends later has a place of at least next(i, LCV[i]) (theorem 3). P2: clocks are raised
by arrivals, before any delivery, so send(a) → send(b) gives time(a) < time(b) (theorem 1); when b is delivered, a is
here, and Q3 of `StampedQueue` says that it has been delivered, even at level FIFO. P3: times of a sender grow and its
line is kept in order. P4: every other member k has, once the operation m has arrived there, multicast a packet whose
time puts next(k, ·) above m: an acknowledgement, or something earlier that made it needless (theorem 4). It does not
matter whether that was an operation or an acknowledgement, nor that it was suppressed at MRMT + 1: all members get
both kinds, record both in LCV, and test with the same next. So m becomes stable everywhere, and the smallest is
delivered.
P5: the operation arrives everywhere d after it was sent, and so do the acknowledgements, d after that.

A full buffer cannot block: whoever has an operation waiting here has LCV[i] at least at its time, and it lies behind
the head. So the head never waits for a member whose packets are refused for lack of room.

Levels: a `fifo` operation has a time like any other, and raises clocks and LCV. Nobody waits to be sure of its
place, so nobody acknowledges it.

`POINT_TO_POINT`: see `confirmations`. At most 2(N − 1) packets instead of (N − 1)², for one more delay at remote
members: [0, 2d] from arrival.

Where the paper contradicts itself. Definition 6 lets every packet raise the local clock, protocols 1 and 2 only
operations: we follow the protocols, as then (in the paper's setting) the clock is at most MRMT + 1 and the proof of
theorem 4, m.ts = MRMT after an acknowledgement, holds to the letter. The latency [0, d] of section 4.3 counts from
arrival: an origin that is alone waits for the way there and back.

Where clocks do not start equal: `floor` is a time that all members begin with at least, and the same for all. LCV
and MRMT begin there. Above anybody's real clock it would be unsafe, different ones would block: hence 0.

Cost: one number per operation. O(log pending) per operation and O(N) when the slowest member catches up: the least of
next(i, LCV[i]) is remembered, with whose it is, and looked for again only when that member has moved on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from beforehand.clocks.view import View
from beforehand.errors import (
    ClockExhaustedError,
    FutureStampError,
    InvariantError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering.admission import admit, admit_sender
from beforehand.ordering.confirmations import Confirmations, ConfirmationState, SinglePhaseConfirmation
from beforehand.ordering.effects import Effect, Effects, Sent
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
from beforehand.ordering.stamped_queue import Stamp, StampedQueue

__all__ = ["Acknowledge", "Identifiers", "SinglePhase", "SinglePhaseAcknowledgement", "SinglePhaseOperation"]

AHEAD_MAX: Final = 2**40
"""A time further ahead of ours is forged: it would use up the range of the clock."""


class Acknowledge(StrEnum):
    """Which operations a member acknowledges, and to whom."""

    ALWAYS = "always"  # Protocol 1: every one, to all.
    SUPPRESSED = "suppressed"  # Protocol 2: those that would otherwise wait, to all.
    POINT_TO_POINT = "point-to-point"  # Those that would otherwise wait, to their origin, which confirms to all.


class Identifiers(StrEnum):
    """How operations of equal times are ordered."""

    STATIC = "static"  # By position in the view.
    ROTATING = "rotating"  # By (position + time) mod N, so that nobody is always first.


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePhaseOperation:
    """GOP: an operation and the clock of its sender, this operation counted."""

    message: Message
    time: int

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.time) is not int or not 1 <= self.time <= NUMBER_MAX:
            raise ValueError("the time is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePhaseAcknowledgement:
    """ACK: the clock of the sender; what it sends from now on is later."""

    time: int

    def __post_init__(self) -> None:
        if type(self.time) is not int or not 1 <= self.time <= NUMBER_MAX:
            raise ValueError("the time is out of range")


@dataclass(frozen=True, slots=True)
class SinglePhaseSnapshot:
    number: int
    times: tuple[int, ...]  # LCV, with our own clock at our own position.
    told: tuple[int, ...]  # MRMT per member; at our own position our clock.
    waiting: tuple[tuple[int, Message], ...]  # PMQ: (time, message), in the order.
    confirmations: ConfirmationState | None


class SinglePhase:
    traits: ClassVar[Traits] = Traits(
        name="single-phase",
        paper="004",
        fifo=True,
        causal=True,
        total=True,
        channels=Channels.FIFO,
        destinations=Destinations.ALL,
        levels=(Level.FIFO, Level.CAUSAL_TOTAL),
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        acknowledge: Acknowledge = Acknowledge.SUPPRESSED,
        identifiers: Identifiers = Identifiers.STATIC,
        start: int = 0,
        floor: int = 0,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`number`: the last that this process gave to a message; `start`: its clock; `floor`: see the module."""
        self._me: Final = view.position(process)
        if not 0 <= floor <= start <= NUMBER_MAX:
            raise LocalProtocolError("the clock starts at or above the floor")
        self.process: Final = process
        self.view: Final = view
        self._members: Final = len(view.processes)
        self._acknowledge: Final = Acknowledge(acknowledge)
        self._identifiers: Final = Identifiers(identifiers)
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._clock = start  # At least the time of every operation sent or seen here; at most NUMBER_MAX.
        self._heard = [floor] * self._members  # LCV; our own entry is unused.
        self._told = [floor] * self._members  # MRMT: the last time that each member was told; ours is unused.
        self._queue = StampedQueue(limit=pending_max)  # PMQ.
        self._slowest = self._me  # The member with the least next(i, LCV[i]) when we last looked.
        self._bound: Stamp = (0, 0)  # That place. Below it everything is stable; it can only be too low.
        self._confirmations: Final = (
            Confirmations(self._me, self._members, floor=floor, limit=pending_max)
            if self._acknowledge is Acknowledge.POINT_TO_POINT
            else None
        )

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
        self._queue.refuse_if_full(self.process)
        if self._confirmations is not None:
            self._confirmations.refuse_if_full()
        if self._clock >= NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)
        effects = Effects()
        self._number += 1
        self._clock += 1
        self._told = [self._clock] * self._members
        effects.happen(Sent(message=message, place=self._stamp(self._me, self._clock)))
        effects.transmit(message.others, SinglePhaseOperation(message=message, time=self._clock))
        if self.process in chosen:
            self._queue.add(self._stamp(self._me, self._clock), message, effects)
        if self._confirmations is not None:
            self._confirmations.counts[self._me] += 1
            if message.level is not Level.FIFO:
                self._confirmations.unconfirmed.append((self._clock, self._confirmations.counts[self._me]))
        self._proceed(effects)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = Effects()
        effects.changed = True
        match packet:
            case SinglePhaseOperation():
                self._take_operation(sender, packet, effects)
            case SinglePhaseAcknowledgement():
                admit_sender(self, sender)
                self._refuse_future(packet.time)
                at = self.view.position(sender)
                self._heard[at] = max(self._heard[at], packet.time)
            case SinglePhaseConfirmation():
                self._take_confirmation(sender, packet)
            case _:
                raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, unknown to {self.traits.name}")
        self._proceed(effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        return [Pending(message=message, waits_for=self._waits_for(stamp, message)) for stamp, message in self._queue]

    def missing(self) -> list[Missing]:
        """Each member that something waits for, with the time of the first operation that does."""
        found = []
        for at, process in enumerate(self.view.processes):
            after = [stamp for stamp, _ in self._queue if self._holds_up(at, stamp)]
            if after:
                found.append(Missing(process=process, what=Owed.ACKNOWLEDGEMENT, number=min(after)[0]))
        return sorted(found)

    def stable(self) -> Mapping[str, int]:
        return {}  # A time says how far a member's clock is, not what it has received.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=m, place=stamp) for stamp, m in self._queue), time=self._clock)

    def snapshot(self) -> SinglePhaseSnapshot:
        times, told = list(self._heard), list(self._told)
        times[self._me] = told[self._me] = self._clock
        waiting = tuple((stamp[0], message) for stamp, message in sorted(self._queue, key=lambda item: item[0]))
        confirmations = None if self._confirmations is None else self._confirmations.state()
        return SinglePhaseSnapshot(self._number, tuple(times), tuple(told), waiting, confirmations)

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not SinglePhaseSnapshot or (snapshot.confirmations is None) != (
            self._confirmations is None
        ):
            raise LocalProtocolError("this is not a snapshot of SinglePhase with these options")
        self._number, self._clock = snapshot.number, snapshot.times[self._me]
        self._heard, self._told = list(snapshot.times), list(snapshot.told)
        self._queue = StampedQueue(limit=self._pending_max)
        for time, message in snapshot.waiting:
            self._queue.add(self._stamp(self.view.position(message.sender), time), message, Effects())
        self._slowest, self._bound = self._me, (0, 0)
        if self._confirmations is not None and snapshot.confirmations is not None:
            self._confirmations.restore(snapshot.confirmations)

    def check_invariants(self) -> None:
        self._queue.check_invariants()
        head = self._queue.head
        if head is not None and not any(self._holds_up(at, head) for at in range(self._members)):
            raise InvariantError(f"P4: the operation at {head} is first and stable, and waits")
        for stamp, message in self._queue:
            if stamp[0] > self._clock:
                raise InvariantError(f"P2: {message.id} has a time that the clock has not reached")
        if any(self._next(at, self._heard[at]) < self._bound for at in range(self._members) if at != self._me):
            raise InvariantError("P1: the bound of what is stable is too high")
        if any(told > self._clock for at, told in enumerate(self._told) if at != self._me):
            raise InvariantError("P4: a member was told a time that the clock has not reached")

    def _take_operation(self, sender: str, packet: SinglePhaseOperation, effects: Effects) -> None:
        message = admit(self, SinglePhaseOperation, packet, sender=sender).message
        at = self.view.position(sender)
        if packet.time <= self._heard[at]:
            raise RemoteProtocolError(f"{message.id} has the time {packet.time}; {sender!r} was at {self._heard[at]}")
        self._refuse_future(packet.time)
        self._queue.refuse_if_full(sender)
        stamp = self._stamp(at, packet.time)
        self._clock = max(self._clock, packet.time)
        self._heard[at] = packet.time if self._confirmations is None else self._confirmations.count(at, packet.time)
        self._queue.add(stamp, message, effects)
        if message.level is not Level.FIFO:
            self._acknowledge_if_needed(at, stamp, effects)

    def _acknowledge_if_needed(self, origin: int, stamp: Stamp, effects: Effects) -> None:
        needed = self._next(self._me, self._told[origin]) < stamp  # Definition 10.
        packet = SinglePhaseAcknowledgement(time=self._clock)
        if self._acknowledge is Acknowledge.POINT_TO_POINT:
            if needed:
                self._told[origin] = self._clock
                effects.transmit((self.view.processes[origin],), packet)
        elif needed or self._acknowledge is Acknowledge.ALWAYS:
            self._told = [self._clock] * self._members
            effects.transmit(self._others(), packet)

    def _take_confirmation(self, sender: str, packet: SinglePhaseConfirmation) -> None:
        admit_sender(self, sender)
        if self._confirmations is None:
            raise RemoteProtocolError(f"{sender!r} sent a confirmation; this group acknowledges to all")
        origin = self.view.position(sender)
        self._confirmations.refuse_impossible(packet, origin=origin, name=sender, clock=self._clock)
        self._refuse_future(max(time for time, _ in packet.claims))
        for at, time in self._confirmations.take(packet):
            self._heard[at] = max(self._heard[at], time)

    def _proceed(self, effects: Effects) -> None:
        """Deliver what has become stable, and confirm operations of ours that others may still wait for."""
        while (head := self._queue.head) is not None and self._is_stable(head):
            self._queue.release(effects)
        if self._confirmations is not None:
            self._confirm(self._confirmations, effects)

    def _confirm(self, state: Confirmations, effects: Effects) -> None:
        others_know = True
        while state.unconfirmed and self._is_stable(stamp := self._stamp(self._me, state.unconfirmed[0][0])):
            state.unconfirmed.popleft()
            for at in range(self._members):
                others_know &= at == self._me or stamp < self._next(at, state.public[at])
        if others_know or self._members == 2:
            return
        self._told = [self._clock] * self._members
        state.confirmed(self._heard)
        claims = list(zip(self._heard, state.counts, strict=True))
        claims[self._me] = (self._clock, state.counts[self._me])
        effects.transmit(self._others(), SinglePhaseConfirmation(claims=tuple(claims)))

    def _is_stable(self, stamp: Stamp) -> bool:
        """Definition 8: nothing can come before `stamp`. Looks at all members only when the slowest has moved on."""
        if stamp < self._bound:
            return True
        if self._holds_up(self._slowest, stamp):
            return False
        bounds = [(self._next(at, self._heard[at]), at) for at in range(self._members) if at != self._me]
        self._bound, self._slowest = min(bounds, default=((NUMBER_MAX + 1, 0), self._me))
        return stamp < self._bound

    def _holds_up(self, at: int, stamp: Stamp) -> bool:
        return at != self._me and self._next(at, self._heard[at]) < stamp

    def _next(self, at: int, time: int) -> Stamp:
        """The least place that an operation of a member can have after `time`."""
        return self._stamp(at, time + 1)

    def _stamp(self, at: int, time: int) -> Stamp:
        return (time, at if self._identifiers is Identifiers.STATIC else (at + time) % self._members)

    def _waits_for(self, stamp: Stamp, message: Message) -> Missing:
        first = self._queue.first_of(message.sender) if message.level is Level.FIFO else stamp
        at = next((at for at in range(self._members) if self._holds_up(at, first)), self._slowest)
        return Missing(process=self.view.processes[at], what=Owed.ACKNOWLEDGEMENT, number=first[0])

    def _others(self) -> tuple[str, ...]:
        return tuple(p for p in self.view.processes if p != self.process)

    def _refuse_future(self, time: int) -> None:
        if time - self._clock > AHEAD_MAX:
            raise FutureStampError(ahead=time - self._clock, limit=AHEAD_MAX, unit="events")
