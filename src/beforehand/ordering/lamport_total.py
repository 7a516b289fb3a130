"""Lamport's total order: everything is broadcast with a logical time, and delivered when nobody can be earlier.

Guarantees:
  P1  Total order: causal-total messages are delivered in the order of (time, position of the sender), wherever they
      are delivered.
  P2  Causal order: if send(m) → send(m') and m' is causal-total, m is delivered before m' wherever both go.
  P3  FIFO order: messages of one sender are delivered in the order of sending, whatever their levels.
  P4  Liveness: when all packets sent have arrived (and, without acknowledgements, `null_interval` has passed and what
      was sent then has arrived), no message waits. Then no timer is set: an idle group is quiet.

Assumes a fixed group (a `View`) and FIFO channels without loss. Source: Garg, chapter 12.3.2.

How it works. A message goes to all members with the clock of its sender, also to those it is not meant for: they take
note of its time and drop it. Whoever gets it multicasts its own clock, which the message has moved past its time. A
member delivers the smallest message it has when it has heard something larger, by (time, position), from every other
member but its sender.

Why it holds (problem 12.8). Clocks grow with every send and pass the time of every arrival, before anything is
delivered: so send(m) → send(m') gives time(m) < time(m').
  Safety: let q deliver m, and let m' < m also go to q, from p. q has heard from p something larger than m (or p = q,
  and q has its own messages at once). p's times grow and the channel is FIFO, so m', being smaller, came before that.
  So m' was in q's queue and was delivered first: q delivers in the order of (time, position), and so does everybody:
  P1. With the first remark, P2 for causal-total m; for m of level FIFO see Q3 of `StampedQueue`. P3: a sender's times
  grow, and so does its line.
  Liveness: every other member receives m, and its clock is then above m's time; it multicasts that. So all of the
  finitely many messages with a place up to m's arrive, and one after the other is smallest and delivered.
A full buffer cannot block: whoever has a message waiting here was heard with its time, and it lies behind the head.
So the head never waits for a member whose packets are refused for lack of room.

Deviations. The chapter returns acknowledgements to the sender only, and lets whoever finds a message deliverable tell
all others, which then deliver it. That is not needed when acknowledgements go to all, and taken by the word it is
wrong: (1) p0 finds m0 deliverable and tells p and q. (2) p hears it, delivers m0, finds its own m deliverable and
tells q. (3) q hears p before p0 and delivers m, then m0. A FIFO message is not acknowledged: nobody waits for it.

`acknowledge=False`: nothing is acknowledged at once. A member that has heard of a message and has sent nothing for
`null_interval` since multicasts its clock (a *null message*), once for all that came in the meantime; its own next
message does as well. Null messages are not answered, so they stop. They are only needed while others may wait for
us: after a message that is larger than the last thing we sent.

Cost per message to n members: n − 1 packets, and (n − 1)² acknowledgements, or up to n − 1 null messages of n − 1
packets each for all messages of an interval. 2d from sending to delivery. O(log pending) per message and O(n) when
the slowest member was heard again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.view import View
from beforehand.errors import (
    ClockExhaustedError,
    FutureStampError,
    InvariantError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering.admission import admit_message, admit_sender
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

__all__ = ["LamportMessage", "LamportTime", "LamportTotal"]

AHEAD_MAX: Final = 2**40
"""A time further ahead of ours is forged: it would use up the range of the clock."""

NULL_INTERVAL: Final = 10_000_000
"""10 ms if `now` counts nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LamportMessage:
    """A message, and the clock of its sender when it was sent. It goes to all members, whoever `message.to` names."""

    message: Message
    time: int

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.time) is not int or not 1 <= self.time <= NUMBER_MAX:
            raise ValueError("the time is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class LamportTime:
    """The clock of its sender: an acknowledgement or a null message. What it sends from now on is later."""

    time: int

    def __post_init__(self) -> None:
        if type(self.time) is not int or not 1 <= self.time <= NUMBER_MAX:
            raise ValueError("the time is out of range")


@dataclass(frozen=True, slots=True)
class LamportTotalSnapshot:
    number: int
    clock: int
    heard: tuple[int, ...]
    told: int
    owing: bool
    waiting: tuple[tuple[int, Message], ...]  # (time, message), in the order.


class LamportTotal:
    traits: ClassVar[Traits] = Traits(
        name="lamport-total",
        paper="002 section 12.3.2",
        fifo=True,
        causal=True,
        total=True,
        channels=Channels.FIFO,
        destinations=Destinations.SOME,
        levels=(Level.FIFO, Level.CAUSAL_TOTAL),
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        start: int = 0,
        acknowledge: bool = True,
        null_interval: int = NULL_INTERVAL,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`number`: the last that this process gave to a message; `start`: where its clock begins, on its own."""
        self._me: Final = view.position(process)
        if not 0 <= start <= NUMBER_MAX:
            raise LocalProtocolError("the clock starts outside of its range")
        if null_interval < 0:
            raise LocalProtocolError("an interval is not negative")
        self.process: Final = process
        self.view: Final = view
        self._others: Final = tuple(p for p in view.processes if p != process)
        self._acknowledge: Final = acknowledge
        self._null_interval: Final = null_interval
        self._pending_max: Final = pending_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._clock = start  # Above all times heard and not below any that we told; at most NUMBER_MAX.
        self._heard = [0] * len(view.processes)  # The last time heard from each member; our own entry is unused.
        self._told = 0  # The last time that we told all others.
        self._queue = StampedQueue(limit=pending_max)
        self._slowest = self._me  # The member with the least (heard, position) when we last looked.
        self._bound: Stamp = (0, 0)  # That pair. Up to it everything may go; it can only be too low.
        self._owing = False  # Others may wait for us, and we do not acknowledge at once.
        self._null_at: int | None = None  # When we tell them our clock; None while owing: at the next tick.

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
        if self._clock >= NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)
        effects = Effects()
        self._number += 1
        self._clock += 1
        effects.happen(Sent(message=message, place=(self._clock, self._me)))
        if self.process in chosen:
            self._queue.add((self._clock, self._me), message, effects)
        self._tell(LamportMessage(message=message, time=self._clock), effects)
        self._deliver_ready(effects)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = Effects()
        effects.changed = True
        match packet:
            case LamportMessage():
                self._take_message(sender, packet, effects, now)
            case LamportTime():
                admit_sender(self, sender)
                at = self.view.position(sender)
                self._refuse_impossible(sender, packet.time, self._heard[at])
                self._hear(at, packet.time)
            case _:
                raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, unknown to {self.traits.name}")
        self._deliver_ready(effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        effects = Effects()
        if self._owing:
            if self._null_at is None or now >= self._null_at:
                self._tell(LamportTime(time=self._clock), effects)
            else:
                effects.timer(self._null_at)
        return effects.finish()

    def pending(self) -> list[Pending]:
        return [Pending(message=message, waits_for=self._waits_for(stamp, message)) for stamp, message in self._queue]

    def missing(self) -> list[Missing]:
        """Each member that something waits for, with the time of the first message that does."""
        found = []
        for at, process in enumerate(self.view.processes):
            after = [stamp for stamp, _ in self._queue if self._holds_up(at, stamp)]
            if after:
                found.append(Missing(process=process, what=Owed.ACKNOWLEDGEMENT, number=min(after)[0]))
        return sorted(found)

    def stable(self) -> Mapping[str, int]:
        return {}  # A time says how far a member's clock is, not whose message moved it.

    def report(self) -> Report:
        return Report(held=tuple(Held(message=m, place=stamp) for stamp, m in self._queue), time=self._clock)

    def snapshot(self) -> LamportTotalSnapshot:
        waiting = tuple((stamp[0], message) for stamp, message in sorted(self._queue, key=lambda item: item[0]))
        return LamportTotalSnapshot(self._number, self._clock, tuple(self._heard), self._told, self._owing, waiting)

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not LamportTotalSnapshot:
            raise LocalProtocolError("this is not a snapshot of LamportTotal")
        self._number, self._clock, self._told = snapshot.number, snapshot.clock, snapshot.told
        self._heard = list(snapshot.heard)
        self._queue = StampedQueue(limit=self._pending_max)
        for time, message in snapshot.waiting:
            self._queue.add((time, self.view.position(message.sender)), message, Effects())
        self._slowest, self._bound = self._me, (0, 0)
        self._owing, self._null_at = snapshot.owing, None

    def check_invariants(self) -> None:
        self._queue.check_invariants()
        head = self._queue.head
        if head is not None and not any(self._holds_up(at, head) for at in range(len(self._heard))):
            raise InvariantError(f"P4: the message at {head} is first, all others were heard after it, and it waits")
        if any(self._clock <= heard for heard in self._heard if heard):
            raise InvariantError("P2: a time was heard that the clock has not passed")
        if any((heard, at) < self._bound for at, heard in enumerate(self._heard) if at != self._me):
            raise InvariantError("P1: the bound of what may go is too high")
        if self._acknowledge and self._owing:
            raise InvariantError("P4: an acknowledgement is owed")

    def _take_message(self, sender: str, packet: LamportMessage, effects: Effects, now: int) -> None:
        message = packet.message
        self._admit(sender, message)
        at = self.view.position(sender)
        self._refuse_impossible(sender, packet.time, self._heard[at] + 1)
        if self.process in message.to:
            self._queue.refuse_if_full(sender)
            self._queue.add((packet.time, at), message, effects)
        self._hear(at, packet.time)
        if message.level is Level.FIFO:
            return
        if self._acknowledge:
            self._tell(LamportTime(time=self._clock), effects)
        elif not self._owing and (self._told, self._me) < (packet.time, at):
            self._owing, self._null_at = True, now + self._null_interval
            effects.timer(self._null_at)

    def _admit(self, sender: str, message: Message) -> None:
        """As any other message, but it need not be addressed to us: all members get all messages."""
        admit_sender(self, sender)
        if self.process in message.to:
            admit_message(self, message, sender=sender)
            return
        if message.sender != sender:
            raise RemoteProtocolError(f"{sender!r} sent a message that claims to be of {message.sender!r}")
        if message.level not in self.traits.levels or not all(p in self.view for p in message.to):
            raise RemoteProtocolError(f"message {message.id} names a level or a member that there is not")

    def _refuse_impossible(self, sender: str, time: int, least: int) -> None:
        if time < least:
            raise RemoteProtocolError(f"{sender!r} sent the time {time}, and was heard at {least} or after it")
        if time - self._clock > AHEAD_MAX:
            raise FutureStampError(ahead=time - self._clock, limit=AHEAD_MAX, unit="events")
        if time >= NUMBER_MAX:
            raise RemoteProtocolError(f"{sender!r} sent the last time that there is")

    def _hear(self, at: int, time: int) -> None:
        self._heard[at] = time
        self._clock = max(self._clock, time + 1)

    def _tell(self, packet: LamportMessage | LamportTime, effects: Effects) -> None:
        """Multicast our clock, with a message or alone. Nobody waits for us after that."""
        effects.transmit(self._others, packet)
        self._told = packet.time
        if self._owing:
            self._owing, self._null_at = False, None
            effects.timer(None)

    def _deliver_ready(self, effects: Effects) -> None:
        while (head := self._queue.head) is not None and self._is_deliverable(head):
            self._queue.release(effects)

    def _is_deliverable(self, stamp: Stamp) -> bool:
        """Looks at all members only when the slowest was heard again."""
        if stamp <= self._bound:
            return True
        if self._holds_up(self._slowest, stamp):
            return False
        heard = [(time, at) for at, time in enumerate(self._heard) if at != self._me]
        self._bound = min(heard, default=(NUMBER_MAX + 1, 0))
        self._slowest = self._bound[1]
        return stamp <= self._bound

    def _holds_up(self, at: int, stamp: Stamp) -> bool:
        # Equality: the message itself is the last that was heard from its sender.
        return at != self._me and (self._heard[at], at) < stamp

    def _waits_for(self, stamp: Stamp, message: Message) -> Missing:
        first = self._queue.first_of(message.sender) if message.level is Level.FIFO else stamp
        at = next((at for at in range(len(self._heard)) if self._holds_up(at, first)), self._slowest)
        return Missing(process=self.view.processes[at], what=Owed.ACKNOWLEDGEMENT, number=first[0])
