"""Causal merge: messages are delivered in the order of bounded stamps, as soon as time alone says that it is safe.

Guarantees, while each member's own clock does not go back and nothing is corrupted, whatever the channels do:
  P1  Total order: messages are delivered in the order of `MergeRules.key`, wherever they are delivered (theorem 4.4).
  P2  Causal order, and with it FIFO order: if send(m) → send(m'), m is not delivered after m' anywhere (theorem 4.5).
  P3  No duplication: a message is delivered once, however often it arrives.
  P4  Nothing waits for a message: what is due is delivered, whatever was lost, and whatever a stamp says.
  P5  Nothing that arrives is dropped silently: what is not delivered is a `Discard` with the reason.
Given G1 and G2 (`BoundedClock`):
  P6  Nothing that arrives within δ is set aside. What is sent at reading r is delivered everywhere before the
      sender's clock shows r + δ + 3ε (lemma 4.1), and waits for at most δ + 3ε (lemma 4.2); with ε = 0, δ + 1.
  P7  Stabilization: from any state of the members and any packets in flight, P1 to P6 hold again within O(ε + δ)
      after the last fault (theorem 4.6). The clock's part is P4 of `BoundedClock`, the buffer's P5 of `MergeBuffer`.

Assumes G1: readings differ by at most ε between members at any instant; G2: a packet arrives when the receiver's
clock shows at most r + δ, or is lost; that whoever runs this calls `tick` in time, and for P7 once per `span` even if
a fault took the timer away; and that payloads and senders are as they were sent: only stamps and states mend
themselves.

Source: Kulkarni and Ravikant, "Stabilizing Causal Deterministic Merge", section 4.2; with `c_max` the `<r, c>` stamps
of section 5, without the reset of figure 3, which lets r + c fall and so would break P2.

How it works. A message is stamped as it leaves. What arrives goes into a `MergeBuffer` and comes out at r + c + δ + ε
on the member's own clock. A member's own message waits for its place like any other.

Why it holds. P1, P3, P4, P5: see `MergeBuffer`. P2: the receive event of a message is its delivery. It need not be
told to the clock: at delivery the clock shows r + c + δ + ε or more (with ε = 0, one tick more), so whatever is sent
from then on has an r, and so an r + c, above that of the message, hence a larger key. Of one sender, keys grow as its
clock's stamps do. Chains follow by induction, and by P1 the larger key is not delivered first. This needs neither
G1 nor G2: where they fail messages are set aside, and what is delivered is still in order. What reaches a member
outside the merge (a direct message from another publisher) can be ahead of its clock: the member passes its stamp to
`observe`, which holds it back or takes it into the clock, and P2 covers it given G1 and G2.

Deviations: at most K messages leave per tick; further ones wait, `Sent` is said when they are stamped. A clock that
goes back by at most `span` counts as standing still; one that goes back further is a fault, and is believed, for a
reading that a fault left in memory must not be kept for ever. `quiet_period`: the windows of 5.2; sends and what is
observed wait for their end.

At the bound (`pending_max` messages in the buffer) what arrives is set aside as FULL, and own messages to ourselves
wait. `unsent_max` messages may wait to be stamped; further ones are refused with BufferFullError.

Cost: one packet per destination with a stamp of O(ε log n + log δ) bytes; no other packets. O(ε + log pending).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.bounded import BoundedClock, BoundedStamp, Received, Refusal, Refused
from beforehand.clocks.bounded import Held as HeldBack
from beforehand.clocks.offset import OffsetClock, OffsetStamp, QuietWindows
from beforehand.clocks.view import View
from beforehand.errors import (
    BufferFullError,
    FutureStampError,
    InvariantError,
    LocalProtocolError,
    TooManyEventsError,
)
from beforehand.ordering.admission import admit
from beforehand.ordering.effects import Deliver, Discard, Effect, Effects, Place, Reason, Sent
from beforehand.ordering.effects import Refused as RefusedEffect
from beforehand.ordering.merging import NAME_BYTES_MAX, WAITING_MAX, MergeBuffer, MergeSettings, MergeStamp, Published
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

__all__ = ["CausalMerge", "MergeMessage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeMessage:
    """A message and its stamp, which may say anything: whoever takes it judges it."""

    message: Message
    stamp: MergeStamp

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        stamp = self.stamp
        if type(stamp) is not BoundedStamp and type(stamp) is not OffsetStamp:
            raise ValueError("it carries no stamp of a merge")
        numbers = (stamp.r, stamp.c, *(stamp.kn if isinstance(stamp, BoundedStamp) else ()))
        if not all(type(n) is int and -NUMBER_MAX <= n <= NUMBER_MAX for n in numbers):
            raise ValueError("a number of the stamp is out of range")


@dataclass(frozen=True, slots=True)
class CausalMergeSnapshot:
    number: int
    reading: int | None
    clock: tuple[BoundedStamp, int, int] | OffsetStamp
    buffer: tuple[bytes, tuple[tuple[bytes, Message], ...]]
    unsent: tuple[Message, ...]


class CausalMerge:
    traits: ClassVar[Traits] = Traits(
        name="causal-merge",
        paper="000 section 4.2",
        fifo=True,
        causal=True,
        total=True,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL_TOTAL,),
        views=False,  # Nobody waits for a member that has stopped, so there is nothing to agree on.
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        epsilon: int,
        delta: int,
        tick: int = 1,
        events_per_tick: int = 1_000,
        c_max: int | None = None,
        quiet_period: int | None = None,
        pending_max: int = WAITING_MAX,
        unsent_max: int = PENDING_MAX,
    ) -> None:
        """`number`: the last that this process gave to a message. Times are in the unit of `now`; `tick` is how many
        of it one reading lasts. Stamps have 2ε numbers, ε counted in ticks. `c_max`: use `<r, c>` stamps.
        """
        view.position(process)  # Raises NotInViewError.
        for name in view.processes:
            if "\0" in name or len(name.encode()) > NAME_BYTES_MAX:
                raise LocalProtocolError(f"a name in a merge has no NUL and at most {NAME_BYTES_MAX} bytes")
        if quiet_period is not None and c_max is None:
            raise LocalProtocolError("quiet windows are for <r, c> stamps: give c_max as well")
        if unsent_max < 1:
            raise LocalProtocolError("at least one message must have room to wait")
        self.process: Final = process
        self.view: Final = view
        self.settings: Final = MergeSettings(
            epsilon_ns=epsilon,
            delta_ns=delta,
            tick_ns=tick,
            publishers=len(view.processes),
            events_per_tick=events_per_tick,
            c_max_ns=c_max,
        )
        self._tick: Final = tick
        rules = self.settings.rules
        self._rules: Final = rules
        self._clock: Final = (
            BoundedClock(process, rules.bounds, now=-1)
            if rules.c_max is None
            else OffsetClock(process, epsilon=rules.bounds.epsilon, c_max=rules.c_max)
        )
        self._quiet: Final = (
            None if quiet_period is None else QuietWindows(period=quiet_period // tick, epsilon=rules.bounds.epsilon)
        )
        self._pending_max: Final = pending_max
        self._unsent_max: Final = unsent_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._reading: int | None = None  # The last reading, in ticks.
        self._buffer: Final[MergeBuffer[Message]] = MergeBuffer(rules, waiting_max=pending_max, ahead_max=0)
        self._unsent: deque[Message] = deque()  # Not stamped yet, in order; at most unsent_max.
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
        if len(self._unsent) >= self._unsent_max:
            raise BufferFullError(what="messages that wait for the next tick", limit=self._unsent_max)
        reading = self._read(now)
        self._number += 1
        self._unsent.append(message)
        effects = Effects()
        effects.changed = True
        return self._go_on(reading, effects)

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        packet = admit(self, MergeMessage, packet, sender=sender)
        message = packet.message
        reading = self._read(now)
        effects = Effects()
        self._release(reading, effects)  # First: it forgets a passed key that only a fault can have left (P7).
        effects.changed = True
        self._offer(message, packet.stamp, reading, effects)
        return self._go_on(reading, effects)

    def tick(self, *, now: int) -> list[Effect]:
        reading = self._read(now)
        self._timer = None  # It has gone off, or is set again.
        return self._go_on(reading, Effects())

    def stamp(self, *, now: int) -> MergeStamp:
        """A stamp for a message that goes to another publisher outside the merge, to be given to its `observe`.

        Raises TooManyEventsError if this tick is full.
        """
        reading = self._read(now)
        if self._quiet is not None and self._quiet.next(reading) > reading:
            raise TooManyEventsError(tick=reading, events_max=0)
        return self._clock.tick(reading)

    def observe(self, stamp: MergeStamp, *, now: int) -> Received[MergeStamp] | HeldBack | Refused:
        """A message with `stamp` came outside the merge: what is sent from now on comes after it.

        `Held`: this clock may not know of it yet; give the stamp again at `until`, and the message to the application
        only then. `Refused`: beyond the guarantees; it counts as lost. Never raises over what the stamp says.
        """
        reading = self._read(now)
        if isinstance(self._clock, BoundedClock):
            if not isinstance(stamp, BoundedStamp):
                return Refused(Refusal.OTHER_BOUNDS)
            result = self._clock.receive(stamp, reading)
            return HeldBack(until=result.until * self._tick) if isinstance(result, HeldBack) else result
        if not isinstance(stamp, OffsetStamp):
            return Refused(Refusal.OTHER_BOUNDS)
        if stamp.r > reading + self._rules.bounds.epsilon:
            return Refused(Refusal.FUTURE)
        if self._quiet is not None and (until := self._quiet.next(reading)) > reading:
            return HeldBack(until=until * self._tick)
        try:
            return Received(self._clock.receive(stamp, reading))
        except FutureStampError:
            return Refused(Refusal.FUTURE)
        except TooManyEventsError:
            return HeldBack(until=(reading + 1) * self._tick)

    def pending(self) -> list[Pending]:
        return [Pending(message=m, waits_for=self._waits_for(key)) for key, m in self._buffer.waiting()]

    def missing(self) -> list[Missing]:
        return sorted({self._waits_for(key) for key, _ in self._buffer.waiting()})

    def stable(self) -> Mapping[str, int]:
        return {}  # That time has passed says that all have a message only if G1 and G2 hold.

    def report(self) -> Report:
        return Report(
            held=tuple(Held(message=m, place=self._place(key)) for key, m in self._buffer.waiting()),
            unsent=tuple((m.payload, m.to, m.level) for m in self._unsent),
        )

    def snapshot(self) -> CausalMergeSnapshot:
        clock = self._clock
        state = clock.snapshot() if isinstance(clock, BoundedClock) else clock.stamp()
        return CausalMergeSnapshot(self._number, self._reading, state, self._buffer.snapshot(), tuple(self._unsent))

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not CausalMergeSnapshot:
            raise LocalProtocolError("this is not a snapshot of CausalMerge")
        clock = self._clock
        match snapshot.clock:
            case OffsetStamp() as state if isinstance(clock, OffsetClock):
                clock.restore(state)
            case tuple() as state if isinstance(clock, BoundedClock):
                clock.restore(state)
            case _:
                raise LocalProtocolError("this is a snapshot of a member with another kind of stamps")
        self._number, self._reading = snapshot.number, snapshot.reading
        self._buffer.restore(snapshot.buffer)
        self._unsent, self._timer = deque(snapshot.unsent), None

    def check_invariants(self) -> None:
        self._buffer.check_invariants()
        if len(self._unsent) > self._unsent_max:
            raise InvariantError("more messages wait to be stamped than have room")
        # A clock that went back further than counts as standing still is believed: then things lie ahead of it.
        latest = NUMBER_MAX if self._reading is None else self._reading + self._rules.span
        if self._buffer.passed and self._rules.due_of(self._buffer.passed) > latest:
            raise InvariantError("P2: a message was delivered before it was due")
        if any(self._rules.due_of(key) > latest for key, _ in self._buffer.waiting()):
            raise InvariantError("P4: a message is due later than any can be")

    def _read(self, now: int) -> int:
        """The reading at `now`. Going back by at most `span` counts as standing still; see the docstring."""
        reading = self.settings.reading(now)
        if not (0 if self._rules.c_max is not None else -NUMBER_MAX // 4) <= reading <= NUMBER_MAX // 4:
            raise LocalProtocolError(f"the clock shows {now}, which stamps have no room for")
        if self._reading is None or not reading < self._reading <= reading + self._rules.span:
            self._reading = reading
        return self._reading

    def _go_on(self, reading: int, effects: Effects) -> list[Effect]:
        """The end of every call: deliver what is due, stamp what can be, set the timer."""
        self._release(reading, effects)
        wakes = [self._stamp_unsent(reading, effects)]
        if len(self._buffer):
            # P7: a fault can leave a buffer whose front is not its first.
            wakes += [self._buffer.next_due(), reading + self._rules.span]
        at = min((wake * self._tick for wake in wakes if wake is not None), default=None)
        if at != self._timer:
            self._timer = at
            effects.timer(at)
        return effects.finish()

    def _release(self, reading: int, effects: Effects) -> None:
        for released in self._buffer.advance(reading):
            message = released.item
            if type(message) is not Message:
                why = "something waited here that is no message: memory was corrupted"
                effects.happen(RefusedEffect(process=self.process, why=why))
            elif released.reason is None:
                effects.happen(Deliver(message=message, place=self._place(released.key)))
            else:
                effects.happen(Discard(message=message, reason=Reason(released.reason.value)))

    def _offer(self, message: Message, stamp: MergeStamp, reading: int, effects: Effects) -> None:
        published = Published(publisher=message.sender, sequence=message.number, stamp=stamp)
        reason = self._buffer.offer(published, message, arrival=reading)
        if reason is not None:
            effects.happen(Discard(message=message, reason=Reason(reason.value)))

    def _stamp_unsent(self, reading: int, effects: Effects) -> int | None:
        """Send what this tick has room for; the reading at which to try again, if time alone makes room."""
        while self._unsent:
            message = self._unsent[0]
            if self._quiet is not None and (until := self._quiet.next(reading)) > reading:
                return until
            if self.process in message.to and len(self._buffer) >= self._pending_max:
                return None  # What is due next makes room.
            try:
                stamp = self._clock.tick(reading)
            except TooManyEventsError:
                return reading + 1
            self._unsent.popleft()
            published = Published(publisher=self.process, sequence=message.number, stamp=stamp)
            effects.happen(Sent(message=message, place=self._place(self._rules.key(published))))
            if self.process in message.to:
                self._offer(message, stamp, reading, effects)
            effects.transmit(message.others, MergeMessage(message=message, stamp=stamp))
        return None

    def _place(self, key: bytes) -> Place:
        return (self._rules.due_of(key) - self._rules.wait, key.hex())

    def _waits_for(self, key: bytes) -> Missing:
        return Missing(process=self.process, what=Owed.TIME, number=self._rules.due_of(key) * self._tick)
