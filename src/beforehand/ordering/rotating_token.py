"""Rotating token: whoever has the token numbers its messages and multicasts them, then passes the token on.

Guarantees:
  P1  Total order: messages are delivered in the order of their numbers, wherever they are delivered.
  P2  Causal order, and with it FIFO order: if send(m) → send(m'), m is delivered before m' wherever both go.
  P3  No duplication, and no gaps: a destination delivers its messages one by one, by sequence numbers of its own.
  P4  Liveness: when all packets sent have arrived (with `hold`), every message is delivered. A member that waits gets
      its turn after at most one turn of each other member, once its request has arrived everywhere.
  P5  There is one token. With `hold`, an idle group is quiet.

Assumes a fixed group (a `View`), channels that lose nothing for ever (they may repeat and reorder), and that nobody
who has the token stays away. The token belongs to its view: one of another view is refused, and a new view begins
with a new token at its first member. Source: Garg, chapter 12.3.1, end. Asking for the token with numbered requests
and a record of those served is Suzuki and Kasami's way (1985).

How it works. The token carries the last number given, per member the last sequence number given (a message has one
for each of its destinations) and the last request served. The holder numbers up to `burst_max` of its queued messages
and passes the token to the next member in the order of the view that wants it: whose last request is not served. With
nobody wanting it, it numbers what it has left, and holds the token. A member with a message and no token sends a
request to all others, once until it is served. With `hold=False` nobody asks and the token goes to the next member
always: no request to wait for, at the price of a packet that never rests. The first member then starts it with
whatever call comes first: call `tick`.

Why it holds. P5: a token is passed to one member, and each pass counts its `hop` up; a member takes only a token with
a larger hop than the last it saw, so a repeated packet is no token. P1, P3: numbers are given by the holder only, so
they grow in the order of giving, and so do the sequence numbers of each destination, which delivers in their order.
P2: a message counts as sent when the application sends it, and gets its number later. Let send(m) → send(m'). If
both are of one sender, its queue keeps their order. If m was delivered at q before q sent m', m had its number
before m' was even queued. Chains follow by induction. P4: a request reaches every member, so sooner or later every
holder knows of it, and from then on the token, which goes round in the order of the view, does not pass its member
by. Before that it moves only because others want it, and rests only at a member that the request has yet to reach. A
member whose queue is not empty after its turn is not marked as served, so its request stands.

A full buffer cannot block: the message that is next here is always taken.

Deviations: none that we know of; the chapter gives two sentences.

Cost: one packet per destination; up to n − 1 requests and one pass of the token, with 2n + 2 numbers, per turn. From
sending to delivery: d at the holder, 3d from an idle state elsewhere. O(1) per message, O(n) per pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

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

__all__ = ["RotatingToken", "Token", "TokenMessage", "TokenRequest"]

AHEAD_MAX: Final = 2**40
"""A number further ahead of what we know is forged."""

BURST_MAX: Final = 100
"""How many messages a member numbers in one turn while others wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The right to number messages, and all that is needed for it. The tuples go by position in the view."""

    view: int  # The number of the view that it belongs to.
    hop: int  # How often it was passed on.
    number: int  # The last number given to a message.
    sequences: tuple[int, ...]  # The last sequence number given to a message for each member,
    senders: tuple[int, ...]  # and the position of its sender, 0 where there is none.
    served: tuple[int, ...]  # The last request of each member that was served.

    def __post_init__(self) -> None:
        counts = (self.view, self.hop, self.number)
        if not all(type(n) is int and 0 <= n <= NUMBER_MAX for n in counts):
            raise ValueError("a number of the token is out of range")
        for column in (self.sequences, self.senders, self.served):
            if type(column) is not tuple or len(column) != len(self.sequences):
                raise ValueError("the token has not one number per member")
            if not all(type(n) is int and 0 <= n <= NUMBER_MAX for n in column):
                raise ValueError("a number of the token is out of range")
        if any(sequence > self.number for sequence in self.sequences):
            raise ValueError("a member has more sequence numbers than there are messages")
        if any(sender >= len(self.sequences) for sender in self.senders):
            raise ValueError("the token names a sender that there is not")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMessage:
    """Message number `number` of all, number `sequence` for the receiver, whose one before came from `before`."""

    message: Message
    number: int
    sequence: int
    before: int  # A position in the view.

    def __post_init__(self) -> None:
        if type(self.message) is not Message:
            raise ValueError("it carries no message")
        if not all(type(n) is int for n in (self.number, self.sequence, self.before)):
            raise ValueError("a number is not one")
        if not 1 <= self.sequence <= self.number <= NUMBER_MAX or self.before < 0:
            raise ValueError("a number is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """The `request`-th time that the sender asks for the token."""

    request: int

    def __post_init__(self) -> None:
        if type(self.request) is not int or not 1 <= self.request <= NUMBER_MAX:
            raise ValueError("the number of the request is out of range")


@dataclass(frozen=True, slots=True)
class RotatingTokenSnapshot:
    number: int
    token: Token | None
    hop: int
    passed_to: str
    requests: tuple[int, ...]
    queue: tuple[Message, ...]
    delivered: int
    waiting: tuple[TokenMessage, ...]


class RotatingToken:
    traits: ClassVar[Traits] = Traits(
        name="rotating-token",
        paper="002 section 12.3.1",
        fifo=True,
        causal=True,
        total=True,
        channels=Channels.RELIABLE,
        destinations=Destinations.SOME,
        levels=(Level.CAUSAL_TOTAL,),
    )

    def __init__(
        self,
        process: str,
        view: View,
        *,
        number: int = 0,
        hold: bool = True,
        burst_max: int = BURST_MAX,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`number`: the last that this process gave to a message. `hold` is the same for all members."""
        self._me: Final = view.position(process)
        if burst_max < 1:
            raise LocalProtocolError("a turn has at least one message")
        self.process: Final = process
        self.view: Final = view
        self._others: Final = tuple(p for p in view.processes if p != process)
        self._hold: Final = hold
        self._burst_max: Final = burst_max
        self._pending_max: Final = pending_max
        nothing = (0,) * len(view.processes)
        first = Token(view=view.number, hop=0, number=0, sequences=nothing, senders=nothing, served=nothing)
        self._number = number  # Of our last message; at most NUMBER_MAX.
        self._token: Token | None = first if self._me == 0 else None  # None: somebody else has it.
        self._hop = 0  # Of the last token that we had; 0 if we had none.
        self._passed_to = view.processes[0]  # Whom we passed it to then; before that, its first holder.
        self._requests = list(nothing)  # The last request of each member that we know of; ours: that we made.
        self._queue: deque[Message] = deque()  # Our messages without a number; with our waiting ones pending_max.
        self._delivered = 0  # The last sequence number delivered here.
        self._waiting: dict[int, TokenMessage] = {}  # By sequence number; at most pending_max per sender.
        self._per_sender: dict[str, int] = {}  # Waiting messages per sender.

    @property
    def holds_token(self) -> bool:
        return self._token is not None

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
        if len(self._queue) + self._per_sender.get(self.process, 0) >= self._pending_max:
            raise BufferFullError(what="messages of ours that wait for their order", limit=self._pending_max)
        if self._token is not None and self._token.number >= NUMBER_MAX:
            raise ClockExhaustedError(limit=NUMBER_MAX)
        effects = Effects()
        self._number += 1
        effects.happen(Sent(message=message))
        self._queue.append(message)
        if self._token is not None:
            self._take_turn(effects)
        elif self._hold and len(self._queue) == 1:
            self._requests[self._me] += 1
            effects.transmit(self._others, TokenRequest(request=self._requests[self._me]))
        return effects.finish()

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        admit_sender(self, sender)
        effects = Effects()
        match packet:
            case TokenMessage():
                self._take_message(sender, packet, effects)
            case Token():
                self._take_token(sender, packet, effects)
            case TokenRequest():
                self._take_request(sender, packet, effects)
            case _:
                raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, unknown to {self.traits.name}")
        return effects.finish()

    def tick(self, *, now: int) -> list[Effect]:
        effects = Effects()
        if self._token is not None and not self._hold:
            self._take_turn(effects)
        return effects.finish()

    def pending(self) -> list[Pending]:
        early = [Pending(message=p.message, waits_for=self._gap()) for p in self._waiting.values()]
        own = [Pending(message=m, waits_for=self._no_token()) for m in self._queue if self.process in m.to]
        return early + own

    def missing(self) -> list[Missing]:
        found = [self._gap()] if self._waiting else []
        return sorted([*found, self._no_token()] if self._queue else found)

    def stable(self) -> Mapping[str, int]:
        return {}  # A number says that a message was sent off, not that it has arrived.

    def report(self) -> Report:
        early = [Held(message=p.message, place=(p.number,)) for p in self._waiting.values()]
        return Report(held=(*early, *(Held(message=m, place=None) for m in self._queue)))

    def snapshot(self) -> RotatingTokenSnapshot:
        return RotatingTokenSnapshot(
            self._number,
            self._token,
            self._hop,
            self._passed_to,
            tuple(self._requests),
            tuple(self._queue),
            self._delivered,
            tuple(packet for _, packet in sorted(self._waiting.items())),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not RotatingTokenSnapshot:
            raise LocalProtocolError("this is not a snapshot of RotatingToken")
        self._number, self._token, self._hop = snapshot.number, snapshot.token, snapshot.hop
        self._passed_to, self._requests = snapshot.passed_to, list(snapshot.requests)
        self._queue, self._delivered = deque(snapshot.queue), snapshot.delivered
        self._waiting, self._per_sender = {}, {}
        for packet in snapshot.waiting:
            self._wait(packet)

    def check_invariants(self) -> None:
        if self._delivered + 1 in self._waiting:
            raise InvariantError("P3: the next message is here and waits")
        token = self._token
        if token is not None and self._queue:
            raise InvariantError("P4: we have the token and messages without a number")
        if token is not None and self._hold and self._next_to_want(token) is not None:
            raise InvariantError("P4: we hold the token, and somebody wants it")
        if token is not None and max(self._waiting, default=self._delivered) > token.sequences[self._me]:
            raise InvariantError("P1: a message is here that was never numbered")
        if self._hold and token is None and self._queue and not self._requests[self._me]:
            raise InvariantError("P4: we want the token and never asked for it")

    def _take_message(self, sender: str, packet: TokenMessage, effects: Effects) -> None:
        admit(self, TokenMessage, packet, sender=sender)
        if packet.sequence <= self._delivered or packet.sequence in self._waiting:
            return  # P3.
        if packet.before >= len(self.view.processes):
            raise RemoteProtocolError(f"message {packet.message.id} comes after one of a member that there is not")
        if self._token is not None and packet.sequence > self._token.sequences[self._me]:
            raise RemoteProtocolError(f"{sender!r} gave the number {packet.number} without the token")
        if packet.sequence - self._delivered > AHEAD_MAX:
            raise FutureStampError(ahead=packet.sequence - self._delivered, limit=AHEAD_MAX, unit="messages")
        if packet.sequence > self._delivered + 1 and self._per_sender.get(sender, 0) >= self._pending_max:
            raise BufferFullError(what=f"messages of {sender!r} that wait for earlier ones", limit=self._pending_max)
        effects.changed = True
        self._wait(packet)
        self._deliver_ready(effects)

    def _take_request(self, sender: str, packet: TokenRequest, effects: Effects) -> None:
        at = self.view.position(sender)
        if packet.request - self._requests[at] > AHEAD_MAX:
            raise FutureStampError(ahead=packet.request - self._requests[at], limit=AHEAD_MAX, unit="requests")
        if packet.request <= self._requests[at]:
            return
        effects.changed = True
        self._requests[at] = packet.request
        if self._token is not None:
            self._take_turn(effects)

    def _take_token(self, sender: str, token: Token, effects: Effects) -> None:
        if token.view != self.view.number or len(token.sequences) != len(self.view.processes):
            raise RemoteProtocolError(f"{sender!r} sent a token of another view")
        if token.hop <= self._hop:
            return  # P5: a repetition.
        if self._token is not None:
            raise RemoteProtocolError(f"{sender!r} sent a token, which is here")
        ahead = max(token.hop - self._hop, token.number - self._delivered)
        if ahead > AHEAD_MAX:
            raise FutureStampError(ahead=ahead, limit=AHEAD_MAX, unit="messages")
        if token.served[self._me] > self._requests[self._me]:
            raise RemoteProtocolError(f"{sender!r} sent a token that serves a request never made")
        if token.sequences[self._me] < max(self._waiting, default=self._delivered):
            raise RemoteProtocolError(f"{sender!r} sent a token that does not know of all messages")
        effects.changed = True
        self._token, self._hop = token, token.hop
        self._take_turn(effects)

    def _take_turn(self, effects: Effects) -> None:
        """We have the token: number messages, and pass it on if somebody wants it, or if it must not rest."""
        token = self._token
        assert token is not None, "only its holder has a turn"
        while True:
            token = self._number_burst(token, effects)
            if not self._queue:
                served = list(token.served)
                served[self._me] = self._requests[self._me]
                token = replace(token, served=tuple(served))
            to = self._next_to_want(token) if self._hold else self._next_in_turn()
            if to is not None or not self._queue or token.number >= NUMBER_MAX:
                break
        self._token = token
        if to is not None:
            token = replace(token, hop=token.hop + 1)
            self._token, self._hop, self._passed_to = None, token.hop, self.view.processes[to]
            effects.transmit((self._passed_to,), token)

    def _number_burst(self, token: Token, effects: Effects) -> Token:
        """Number up to `burst_max` queued messages and send them off."""
        number, sequences, senders = token.number, list(token.sequences), list(token.senders)
        for _ in range(min(self._burst_max, len(self._queue), NUMBER_MAX - number)):
            message = self._queue.popleft()
            number += 1
            for process in message.to:
                at = self.view.position(process)
                sequences[at] += 1
                packet = TokenMessage(message=message, number=number, sequence=sequences[at], before=senders[at])
                senders[at] = self._me
                if at == self._me:
                    self._wait(packet)
                else:
                    effects.transmit((process,), packet)
        self._deliver_ready(effects)
        return replace(token, number=number, sequences=tuple(sequences), senders=tuple(senders))

    def _next_to_want(self, token: Token) -> int | None:
        """The next member after us, in the order of the view, with a request that is not served."""
        members = len(self.view.processes)
        for step in range(1, members):
            at = (self._me + step) % members
            if self._requests[at] > token.served[at]:
                return at
        return None

    def _next_in_turn(self) -> int | None:
        return (self._me + 1) % len(self.view.processes) if self._others else None

    def _wait(self, packet: TokenMessage) -> None:
        sender = packet.message.sender
        self._waiting[packet.sequence] = packet
        self._per_sender[sender] = self._per_sender.get(sender, 0) + 1

    def _deliver_ready(self, effects: Effects) -> None:
        while (packet := self._waiting.pop(self._delivered + 1, None)) is not None:
            self._delivered += 1
            self._per_sender[packet.message.sender] -= 1
            effects.happen(Deliver(message=packet.message, place=(packet.number,)))

    def _gap(self) -> Missing:
        """The last message that is missing before the first that waits: that one names its sender."""
        first = self._waiting[min(self._waiting)]
        return Missing(process=self.view.processes[first.before], what=Owed.MESSAGE, number=first.sequence - 1)

    def _no_token(self) -> Missing:
        return Missing(process=self._passed_to, what=Owed.TOKEN, number=self._hop + 1)
