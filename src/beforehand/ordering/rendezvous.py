"""Synchronous order: messages as if sent and delivered in one instant, so that all their arrows can be drawn
vertical.

Guarantees:
  P1  Synchronous order: each message can be given an instant such that in every process the events (sends and
      deliveries) stand in the order of their messages' instants. There is no crown, that is no cycle of messages
      in which s1 → r2, s2 → r3, ..., sk → r1 (s the send, r the delivery of a message).
  P2  So it is causal and FIFO, and all delivery sequences fit into one order, that of the instants: total.
  P3  No duplication: a message is delivered once, however often its packets arrive.
  P4  Liveness: when all packets sent have arrived, everything that was given to `send` has left and is delivered,
      even if all send to all at once: nobody waits in a circle.
  P5  Messages to one destination leave in the order of the calls of `send`.

Assumes channels that lose nothing for ever; they may repeat and reorder. A process that is gone holds those up that
wait for it until it is evicted. Source: the chat of Garg, chapter 12.4.1 and figure 12.5, has "synch" as its third
order without giving the algorithm; this is the well-known one with an order on processes, here their positions in the
view (after Murty and Garg). To a *smaller* process a message leaves at once if the sender is active; the sender is
then passive until it is acknowledged. A *larger* process is asked for permission, and the asker goes on meanwhile;
the larger one permits when it is active and is then passive until the message comes. A passive process neither sends
nor delivers: arrivals wait. `Sent` comes when the message leaves, which may be long after the call of `send`.

Why it holds. P1: the instant of a message is the event of its smaller process: the delivery if that is the receiver,
the send if it is the sender. In between the larger process is passive, from before the instant (it sent, or it
permitted) until after it (the acknowledgement, or the message, has come), and in that time it has no other event; so
its own event can be moved to the instant. The smaller process is active at its event, so no message of its own hangs
over it. P2: if s1 → s2 then the instants follow, and deliveries of one process stand in that order. As one process
delivers a message of this protocol, `total` would be an empty promise if it were not for P1: the order is that of the
sends too. P3: per pair and direction at most one message is under way, and packets carry its number. P4: whoever is
passive waits for a smaller process: for its acknowledgement, which it gives when active, or for its message, which it
sends when active, for it has asked. An active process first does all that makes nobody wait for it (it acknowledges,
and sends what is permitted), then takes one *turn* (it sends to a smaller one, or permits one), and turns are taken
in the order in which they came. The smallest process is never passive. So, by induction from below, every passive
process becomes active again, and every turn comes. P5: a line per destination; only its head asks or leaves.

Place. Each process has a logical clock. The smaller process of a message learns the larger one's (with the message or
the permission), adds one to the greater of both, and tells it to the larger one: both clocks then stand at the time
of the message. So the times grow along the events of every process, and (time, sender, number) extends the order of
P1.

Room: at most `queue_max` messages of our own wait to leave. Of each other process there is at most one message and
one request or permission here, so nothing else needs a limit, and no full buffer can block.

Cost: two packets per message to a smaller process, three to a larger one; one number each. A sender waits for a round
trip and for the turns before its own; O(n) per message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from beforehand.clocks.view import View
from beforehand.errors import (
    BufferFullError,
    FutureStampError,
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

__all__ = [
    "Rendezvous",
    "RendezvousAcknowledgement",
    "RendezvousMessage",
    "RendezvousPermission",
    "RendezvousRequest",
]

AHEAD_MAX: Final = 2**40
"""A time further ahead of ours is forged: it would use up the range of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousMessage:
    """A message, the `sequence`-th of its pair. `time`: its own if it goes up, the clock of its sender if down."""

    message: Message
    sequence: int
    time: int

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        _refuse_bad_numbers(self.sequence, self.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousRequest:
    """From a smaller process: may I send you my message number `sequence`?"""

    sequence: int

    def __post_init__(self) -> None:
        _refuse_bad_numbers(self.sequence, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousPermission:
    """From a larger process, whose clock shows `time`: I wait for your message number `sequence`."""

    sequence: int
    time: int

    def __post_init__(self) -> None:
        _refuse_bad_numbers(self.sequence, self.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousAcknowledgement:
    """From a smaller process: your message number `sequence` is delivered, at `time`."""

    sequence: int
    time: int

    def __post_init__(self) -> None:
        _refuse_bad_numbers(self.sequence, self.time)


@dataclass(frozen=True, slots=True)
class RendezvousSnapshot:
    number: int
    time: int
    waits_for: tuple[str, Owed] | None
    sent: tuple[tuple[str, int], ...]
    delivered: tuple[tuple[str, int], ...]
    queues: tuple[tuple[str, tuple[Message, ...]], ...]
    turns: tuple[tuple[Owed, str], ...]
    held: tuple[tuple[str, Message, int], ...]
    permitted: tuple[tuple[str, int], ...]
    under_way: Message | None


class Rendezvous:
    traits: ClassVar[Traits] = Traits(
        name="rendezvous",
        paper="002 section 12.4.1, 003",
        fifo=True,
        causal=True,
        total=True,
        channels=Channels.RELIABLE,
        destinations=Destinations.ONE,
        levels=(Level.CAUSAL_TOTAL,),
        synchronous=True,
    )

    def __init__(
        self, process: str, view: View, *, number: int = 0, start: int = 0, queue_max: int = PENDING_MAX
    ) -> None:
        """`number`: the last that this process gave to a message; `start`: where its logical clock begins."""
        self._me: Final = view.position(process)
        self.process: Final = process
        self.view: Final = view
        self._queue_max: Final = queue_max
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._time = start  # The time of the last message sent or delivered here; at most NUMBER_MAX.
        self._waits_for: tuple[str, Owed] | None = None  # None: active. Else for an acknowledgement or a message.
        self._sent: dict[str, int] = {}  # Messages that have left, per destination.
        self._delivered: dict[str, int] = {}  # Messages delivered, per sender.
        self._queues: dict[str, deque[Message]] = {}  # Not left, per destination, none empty; queue_max in all.
        # What makes us passive, oldest first: to send to a smaller process (it will owe an acknowledgement) or to
        # permit it (it will owe a message). At most one of each kind per smaller process; empty while active.
        self._turns: dict[tuple[Owed, str], None] = {}
        self._held: dict[str, tuple[Message, int]] = {}  # Came from larger processes while passive; one of each.
        self._permitted: dict[str, int] = {}  # Permissions that came while passive: clocks of the larger ones.
        self._under_way: Message | None = (
            None  # To a smaller process, not acknowledged: it has no instant that we know.
        )

    def send(
        self, payload: bytes, to: Iterable[str] | None = None, *, now: int, level: Level | None = None
    ) -> list[Effect]:
        """The message leaves when it can: `Sent` says when. Raises BufferFullError if too many wait already."""
        chosen = destinations(self.traits, self.view, self.process, to)
        message = Message(
            sender=self.process,
            number=self._number + 1,
            to=chosen,
            payload=payload,
            level=service_level(self.traits, level),
        )
        (other,) = chosen
        leaves_now = self._is_smaller(other) and self._waits_for is None
        if not leaves_now and sum(map(len, self._queues.values())) >= self._queue_max:
            raise BufferFullError(what="messages of ours that wait to leave", limit=self._queue_max)
        self._number += 1
        effects = Effects()
        effects.changed = True
        queue = self._queues.setdefault(other, deque())
        queue.append(message)
        if self._is_smaller(other):
            self._turns.setdefault((Owed.ACKNOWLEDGEMENT, other))
            self._go_on(effects)
        elif len(queue) == 1:
            self._ask(other, effects)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        admit_sender(self, sender)
        effects = Effects()
        match packet:
            case RendezvousMessage():
                admit_message(self, packet.message, sender=sender)
                self._take_message(sender, packet, effects)
            case RendezvousRequest():
                self._take_request(sender, packet, effects)
            case RendezvousPermission():
                self._take_permission(sender, packet, effects)
            case RendezvousAcknowledgement():
                self._take_acknowledgement(sender, packet, effects)
            case _:
                raise RemoteProtocolError(
                    f"{sender!r} sent a {type(packet).__name__}, which Rendezvous does not know"
                )
        self._go_on(effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        """What came while we are passive, and what of ours has not left. Numbers are those of the pair."""
        waits_for = self._debt()
        held = [(message, waits_for) for message, _ in self._held.values()]
        own = [
            (message, waits_for if self._is_smaller(p) else self._permission_of(p))
            for p, queue in self._queues.items()
            for message in queue
        ]
        return [Pending(message=message, waits_for=missing) for message, missing in held + own if missing is not None]

    def missing(self) -> list[Missing]:
        permissions = [self._permission_of(p) for p in self._queues if not self._is_smaller(p)]
        debt = self._debt()
        return sorted([*permissions, *([debt] if debt is not None else [])])

    def stable(self) -> Mapping[str, int]:
        return {}  # Messages leave in another order than their numbers, and those that go up are not acknowledged.

    def report(self) -> Report:
        held = [
            Held(message=m, place=(max(time, self._time) + 1, *m.key), final=False) for m, time in self._held.values()
        ]
        if self._under_way is not None:
            # Its instant comes after all that we have done.
            message = self._under_way
            held.append(Held(message=message, place=(_after(self._time, 0), *message.key), final=False))
        queued = sorted((m.number, m) for queue in self._queues.values() for m in queue)
        return Report(held=tuple(held), time=self._time, unsent=tuple((m.payload, m.to, m.level) for _, m in queued))

    def snapshot(self) -> RendezvousSnapshot:
        return RendezvousSnapshot(
            self._number,
            self._time,
            self._waits_for,
            tuple(sorted(self._sent.items())),
            tuple(sorted(self._delivered.items())),
            tuple((p, tuple(queue)) for p, queue in sorted(self._queues.items())),
            tuple(self._turns),  # Their order is part of the state.
            tuple((p, message, time) for p, (message, time) in sorted(self._held.items())),
            tuple(sorted(self._permitted.items())),
            self._under_way,
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not RendezvousSnapshot:
            raise LocalProtocolError("this is not a snapshot of Rendezvous")
        self._number, self._time, self._waits_for = snapshot.number, snapshot.time, snapshot.waits_for
        self._sent, self._delivered = dict(snapshot.sent), dict(snapshot.delivered)
        self._queues = {p: deque(messages) for p, messages in snapshot.queues}
        self._turns = dict.fromkeys(snapshot.turns)
        self._held = {p: (message, time) for p, message, time in snapshot.held}
        self._permitted = dict(snapshot.permitted)
        self._under_way = snapshot.under_way

    def check_invariants(self) -> None:
        if self._waits_for is None and (self._turns or self._held or self._permitted):
            raise InvariantError("P4: an active process lets something wait")
        if self._waits_for is not None and not self._is_smaller(self._waits_for[0]):
            raise InvariantError("P4: a passive process waits for one that is not smaller")
        if (self._under_way is not None) != (
            self._waits_for is not None and self._waits_for[1] is Owed.ACKNOWLEDGEMENT
        ):
            raise InvariantError("P1: a message is under way and nobody waits, or the other way round")
        sending = {p for what, p in self._turns if what is Owed.ACKNOWLEDGEMENT}
        if sending != {p for p in self._queues if self._is_smaller(p)}:
            raise InvariantError("P4: the messages that wait to leave do not have one turn each")
        if not all(self._queues.values()) or any(p not in self._queues for p in self._permitted):
            raise InvariantError("P5: a line is empty, or permitted and not there")

    def _take_message(self, sender: str, packet: RendezvousMessage, effects: Effects) -> None:
        done = self._delivered.get(sender, 0)
        if packet.sequence > done + 1:
            raise RemoteProtocolError(f"{sender!r} sent {packet.message.id} before the one before it was delivered")
        if packet.sequence <= done or sender in self._held:
            return  # P3.
        self._refuse_future(packet.time)
        if not self._is_smaller(sender):
            effects.changed = True
            self._held[sender] = (packet.message, packet.time)
            return  # An active process takes it at once, in `_go_on`.
        if self._waits_for != (sender, Owed.MESSAGE):
            raise RemoteProtocolError(f"{sender!r} sent {packet.message.id} without permission")
        self._refuse_past(sender, packet.time)
        self._waits_for = None
        self._deliver(packet.message, packet.time, effects)

    def _take_request(self, sender: str, packet: RendezvousRequest, effects: Effects) -> None:
        if not self._is_smaller(sender):
            raise RemoteProtocolError(f"{sender!r} asks {self.process!r} for permission, which it does not need")
        # Its message that we wait for may still be under way while it asks for the next.
        due = self._delivered.get(sender, 0) + (2 if self._waits_for == (sender, Owed.MESSAGE) else 1)
        if packet.sequence > due:
            raise RemoteProtocolError(f"{sender!r} asks for message {packet.sequence} before {due}")
        if packet.sequence == due and (Owed.MESSAGE, sender) not in self._turns:  # Otherwise P3.
            effects.changed = True
            self._turns[Owed.MESSAGE, sender] = None

    def _take_permission(self, sender: str, packet: RendezvousPermission, effects: Effects) -> None:
        asked = self._sent.get(sender, 0) + (1 if sender in self._queues else 0)
        if self._is_smaller(sender) or packet.sequence > asked:
            raise RemoteProtocolError(f"{sender!r} permits message {packet.sequence}, which nobody asked for")
        if packet.sequence <= self._sent.get(sender, 0) or sender in self._permitted:
            return  # P3.
        self._refuse_future(packet.time)
        effects.changed = True
        self._permitted[sender] = packet.time

    def _take_acknowledgement(self, sender: str, packet: RendezvousAcknowledgement, effects: Effects) -> None:
        sent = self._sent.get(sender, 0)
        if packet.sequence > sent or not self._is_smaller(sender):
            raise RemoteProtocolError(f"{sender!r} acknowledges message {packet.sequence}, of {sent} sent to it")
        if packet.sequence < sent or self._waits_for != (sender, Owed.ACKNOWLEDGEMENT):
            return  # P3.
        self._refuse_future(packet.time)
        self._refuse_past(sender, packet.time)
        effects.changed = True
        self._waits_for = self._under_way = None
        self._time = packet.time

    def _go_on(self, effects: Effects) -> None:
        """While active, do what makes nobody wait for us; when nothing of that is left, take one turn (P4)."""
        while self._waits_for is None:
            if self._held:
                sender = min(self._held, key=self.view.position)
                message, time = self._held.pop(sender)
                time = _after(time, self._time)
                self._deliver(message, time, effects)
                sequence = self._delivered[sender]
                effects.transmit((sender,), RendezvousAcknowledgement(sequence=sequence, time=time))
            elif self._permitted:
                other = min(self._permitted, key=self.view.position)
                self._time = _after(self._permitted.pop(other), self._time)
                self._leave(other, effects)
                if other in self._queues:
                    self._ask(other, effects)
            elif self._turns:
                self._take_turn(effects)
            else:
                return

    def _take_turn(self, effects: Effects) -> None:
        what, other = next(iter(self._turns))
        del self._turns[what, other]
        self._waits_for = (other, what)
        if what is Owed.MESSAGE:
            sequence = self._delivered.get(other, 0) + 1
            effects.transmit((other,), RendezvousPermission(sequence=sequence, time=self._time))
        else:
            self._leave(other, effects)
            if other in self._queues:
                self._turns[what, other] = None  # Behind those that came meanwhile.

    def _leave(self, other: str, effects: Effects) -> None:
        queue = self._queues[other]
        message = queue.popleft()
        if not queue:
            del self._queues[other]
        self._sent[other] = self._sent.get(other, 0) + 1
        if self._is_smaller(other):
            self._under_way = message
            effects.happen(Sent(message=message))
        else:
            effects.happen(Sent(message=message, place=(self._time, *message.key)))
        packet = RendezvousMessage(message=message, sequence=self._sent[other], time=self._time)
        effects.transmit((other,), packet)

    def _deliver(self, message: Message, time: int, effects: Effects) -> None:
        self._time = time
        self._delivered[message.sender] = self._delivered.get(message.sender, 0) + 1
        effects.happen(Deliver(message=message, place=(time, *message.key)))

    def _ask(self, other: str, effects: Effects) -> None:
        effects.transmit((other,), RendezvousRequest(sequence=self._sent.get(other, 0) + 1))

    def _is_smaller(self, other: str) -> bool:
        return self.view.position(other) < self._me

    def _debt(self) -> Missing | None:
        """What we are passive for."""
        if self._waits_for is None:
            return None
        other, what = self._waits_for
        number = self._delivered.get(other, 0) + 1 if what is Owed.MESSAGE else self._sent[other]
        return Missing(process=other, what=what, number=number)

    def _permission_of(self, other: str) -> Missing:
        return Missing(process=other, what=Owed.PERMISSION, number=self._sent.get(other, 0) + 1)

    def _refuse_future(self, time: int) -> None:
        if time - self._time > AHEAD_MAX:
            raise FutureStampError(ahead=time - self._time, limit=AHEAD_MAX, unit="messages")

    def _refuse_past(self, sender: str, time: int) -> None:
        if time <= self._time < NUMBER_MAX:
            raise RemoteProtocolError(f"{sender!r} puts a message at {time}, not after {self._time}")


def _after(one: int, other: int) -> int:
    # At the end of the range the clock stops: places then no longer tell, but no delivery depends on them.
    return min(max(one, other) + 1, NUMBER_MAX)


def _refuse_bad_numbers(sequence: int, time: int) -> None:
    if type(sequence) is not int or not 1 <= sequence <= NUMBER_MAX:
        raise ValueError("the number of the message is out of range")
    if type(time) is not int or not 0 <= time <= NUMBER_MAX:
        raise ValueError("the time is out of range")
