"""Causal order in groups: only group leaders talk outside, so matrices are as small as groups.

Guarantees:
  P1  Causal order, over all groups: if send(m) → send(m') and both go to p, then p delivers m before m'.
  P2  No duplication: a message is delivered once, however often it arrives.
  P3  Liveness: when all messages sent have arrived, none waits.
  P4  A message to oneself is delivered at once.
  P5  A leader that passes a message on delivers it only if it is a destination itself.

Assumes a fixed view in nonoverlapping groups, the same at every member (the first of each group is its leader), and
channels that lose nothing for ever; they may repeat and reorder. A leader that is gone cuts its group off until the
next view. Source: Garg, problem 12.7, which asks how to exploit such groups. The answer here: a causal *domain* (see
`causal_domain`) for each group and one among the leaders. A message to another group goes from its sender to the
leader, from leader to leader, and from that leader to the members: one hop in each domain. A process *handles* a
message in one step when it sends it or gets it from a domain: it delivers it, if it is a destination, and sends it on
in the other domain. So messages are passed on in the order in which they were got.

Why it holds. The domains form a star: each group's shares exactly one process, its leader, with that of the leaders.
So a process that lies between two others on the route of a message separates them: every chain of events from one to
the other passes through it. Hence also a chain that leaves a domain comes back to it through the process by which it
left, whose own order stands for the detour; so D1 of a domain holds for → over all domains.
  Lemma: if p is on the route of m, and send(m) → e for an event e of p, then p has handled m before e or at e. By
  induction along the route. At the sender it is plain. Else let x be the process before p, the two in domain D. The
  chain from send(m) to e passes x, where m was handled by then; from the last time at x it enters D, and it comes
  to p with a hop in D, whose departure is at or after x's handling of m. By D1 p gets m first.
  P1: if send(m) → send(m'), and m' is delivered at p by event e, then send(m) → e, and p is on the route of m.
P2: the route of a message visits a process once, and D2. P3: D3, hop by hop.

Place. The sender stamps a message with its Lamport clock, which a process raises when it handles a message. So
(time, sender, number) grows along →, and hops do not change it.

Room: `pending_max` of each neighbour in each domain; a full room cannot block, see `causal_domain`.

Cost: n processes in groups of k, g of them: k² numbers per message inside a group, 2k² + g² in three hops to one
other group, instead of n². Three delays instead of one. A leader carries all that leaves and enters its group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias

from beforehand.clocks.matrix import MatrixStamp
from beforehand.clocks.view import View
from beforehand.errors import (
    ClockExhaustedError,
    FutureStampError,
    InvariantError,
    LocalProtocolError,
    RemoteProtocolError,
    ViewMismatchError,
)
from beforehand.ordering.admission import admit_sender
from beforehand.ordering.causal_domain import AHEAD_MAX, CausalDomain, DomainSnapshot, refuse_malformed
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

__all__ = ["GroupLeaders", "GroupLeadersPacket"]

Stamped: TypeAlias = "tuple[Message, int]"  # A message and the Lamport time of its send.


class _Domain(Enum):
    GROUP = "group"
    LEADERS = "leaders"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLeadersPacket:
    """One hop of a message sent at `time`. The view of the matrix tells the domain, its sender who took the hop."""

    message: Message
    time: int
    stamp: MatrixStamp

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if type(self.time) is not int or not 1 <= self.time <= NUMBER_MAX:
            raise ValueError("the time is out of range")
        refuse_malformed(self.stamp)


@dataclass(frozen=True, slots=True)
class GroupLeadersSnapshot:
    number: int
    time: int
    domains: tuple[DomainSnapshot, ...]


class GroupLeaders:
    traits: ClassVar[Traits] = Traits(
        name="group-leaders",
        paper="002 problem 12.7",
        fifo=True,
        causal=True,
        total=False,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL,),
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        groups: Sequence[Sequence[str]] | None = None,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`groups`: each with its leader first; by default the two halves of the view. `pending_max`: per neighbour.

        `number` is the last one that this process gave to a message before.
        """
        view.position(process)
        self.process: Final = process
        self.view: Final = view
        self.groups: Final = _halves(view) if groups is None else tuple(tuple(group) for group in groups)
        _refuse_bad_groups(view, self.groups)
        self._home: Final = {p: at for at, group in enumerate(self.groups) for p in group}
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._time = 0  # The Lamport clock: at least the time of all messages handled here; at most NUMBER_MAX.
        members = {_Domain.GROUP: self.groups[self._home[process]]}
        if self._is_leader(process):
            members[_Domain.LEADERS] = tuple(group[0] for group in self.groups)
        self._domains: Final = {
            domain: CausalDomain[Stamped](process, View(names, number=view.number), pending_max=pending_max)
            for domain, names in members.items()
        }  # Ours: the group's, and a leader's second one.

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
        if self._time >= NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)
        self._number += 1
        effects = Effects()
        effects.happen(Sent(message=message, place=_place(message, self._time + 1)))
        self._handle(message, self._time + 1, effects)
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        domain = self._admit(sender, packet)
        got = self._domains[domain].arrive(packet.stamp, (packet.message, packet.time))
        if got is None:
            return []  # P2.
        effects = Effects()
        effects.changed = True
        for _, (message, time) in got:
            self._handle(message, time, effects)
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        return []

    def pending(self) -> list[Pending]:
        """What waits to be delivered here or passed on. Numbers are those of a pair in its domain."""
        return [
            Pending(message=message, waits_for=Missing(process=p, what=Owed.MESSAGE, number=count))
            for domain in self._domains.values()
            for (message, _), (p, count) in domain.waiting()
        ]

    def missing(self) -> list[Missing]:
        spots = {spot for domain in self._domains.values() for spot in domain.missing()}
        return [Missing(process=p, what=Owed.MESSAGE, number=count) for p, count in sorted(spots)]

    def stable(self) -> Mapping[str, int]:
        return {}  # Matrices count by pairs what is known to be sent; of deliveries elsewhere they say little.

    def report(self) -> Report:
        held = [item for domain in self._domains.values() for _, item in domain]
        return Report(held=tuple(Held(message=m, place=_place(m, time)) for m, time in held), time=self._time)

    def snapshot(self) -> GroupLeadersSnapshot:
        domains = tuple(domain.snapshot() for domain in self._domains.values())
        return GroupLeadersSnapshot(self._number, self._time, domains)

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not GroupLeadersSnapshot or len(snapshot.domains) != len(self._domains):
            raise LocalProtocolError("this is not a snapshot of GroupLeaders for this member")
        self._number, self._time = snapshot.number, snapshot.time
        for domain, state in zip(self._domains.values(), snapshot.domains, strict=True):
            domain.restore(state)

    def check_invariants(self) -> None:
        for kind, domain in self._domains.items():
            domain.check_invariants()
            for stamp, (message, _) in domain:
                if self.process not in self._hop(kind, stamp.sender, message):
                    raise InvariantError(f"P2: {message.id} waits off its route")

    def _handle(self, message: Message, time: int, effects: Effects) -> None:
        """Deliver the message if it is for us, and send it on: one step, on which the proof of P1 rests."""
        self._time = max(self._time, time)
        if self.process in message.to:
            effects.happen(Deliver(message=message, place=_place(message, time)))
        for kind, domain in self._domains.items():
            hop = self._hop(kind, self.process, message)
            if hop:  # Never back into the domain that it came from: there its sender has reached all.
                packet = GroupLeadersPacket(message=message, time=time, stamp=domain.depart(hop))
                effects.transmit(hop, packet)

    def _hop(self, domain: _Domain, carrier: str, message: Message) -> tuple[str, ...]:
        """To whom `carrier` sends the message in `domain`: nobody, if that is not its part of the route."""
        home, origin = self._home[carrier], self._home[message.sender]
        afar = any(self._home[p] != origin for p in message.to)
        if domain is _Domain.LEADERS:
            if not self._is_leader(carrier) or home != origin:
                return ()
            return tuple(g[0] for at, g in enumerate(self.groups) if at != home and not set(g).isdisjoint(message.to))
        if carrier == message.sender:
            return tuple(
                p for p in self.groups[home] if p != carrier and (p in message.to or (afar and self._is_leader(p)))
            )
        if not self._is_leader(carrier) or home == origin:
            return ()
        return tuple(p for p in self.groups[home] if p != carrier and p in message.to)

    def _admit(self, sender: str, packet: Any) -> _Domain:
        """The domain that the packet came in; RemoteProtocolError unless it is a hop that `sender` takes to us."""
        admit_sender(self, sender)
        if type(packet) is not GroupLeadersPacket:
            raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, not a GroupLeadersPacket")
        message, stamp = packet.message, packet.stamp
        for process in (message.sender, *message.to):
            if process not in self.view:
                raise RemoteProtocolError(f"message {message.id} names {process!r}, which is not in the view")
        if message.level not in self.traits.levels:
            raise RemoteProtocolError(f"message {message.id} asks for {message.level}, which is not offered")
        found = [kind for kind, domain in self._domains.items() if domain.view == stamp.view]
        if not found:
            expected = self._domains[_Domain.GROUP].view
            raise ViewMismatchError(expected=expected.tag.hex(), got=stamp.view.tag.hex())
        hop = self._hop(found[0], sender, message)
        if stamp.sender != sender or self.process not in hop or not all(stamp.sent(sender, p) for p in hop):
            raise RemoteProtocolError(f"{sender!r} does not carry message {message.id} to {self.process!r} like this")
        if packet.time - self._time > AHEAD_MAX:
            raise FutureStampError(ahead=packet.time - self._time, limit=AHEAD_MAX, unit="messages")
        return found[0]

    def _is_leader(self, process: str) -> bool:
        return self.groups[self._home[process]][0] == process


def _place(message: Message, time: int) -> Place:
    return (time, message.sender, message.number)


def _halves(view: View) -> tuple[tuple[str, ...], ...]:
    middle = (len(view.processes) + 1) // 2
    return tuple(half for half in (view.processes[:middle], view.processes[middle:]) if half)


def _refuse_bad_groups(view: View, groups: tuple[tuple[str, ...], ...]) -> None:
    if not all(groups) or sorted(p for group in groups for p in group) != sorted(view.processes):
        raise LocalProtocolError("the groups must divide the view: every process stands in one of them, once")
