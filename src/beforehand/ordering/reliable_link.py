"""A reliable link: any protocol over a network that loses, repeats and reorders.

Guarantees, between two members that are both up in the end and a network that lets a packet through now and then:
  P1  Every packet that the protocol above transmits reaches the other member's protocol.
  P2  Exactly once: never a second time, however late the network repeats a frame.
  P3  In the order of transmission, if `ordered`; otherwise as soon as it comes.
  P4  All this across crashes, if `Persist` is honoured: the numbers, what is not acknowledged and the protocol
      above are one snapshot.

Assumes that frames are not forged (the transport's business) and that a member that comes back has its last snapshot.
The link is a layer: it wraps a protocol and has the same interface; the frames it transmits carry the packets of the
protocol within. Source: numbering, acknowledgement and retransmission as every reliable transport has them.

How it works. Each direction of each pair has its own numbers from 1. A frame is kept until acknowledged.
Acknowledgements are cumulative plus the numbers above the mark, so one that is lost costs nothing. Every frame
carries one; an arrival that finds nothing to carry it is answered by a frame without a packet. After `resend_after`
without progress (longer, if the peer is known to be slow) the oldest frames of a peer are sent again, `resend_burst`
at a time; the time doubles up to `resend_max` and falls back when the peer acknowledges the oldest: `link_sending`.

A packet that the protocol within refuses because it is full (`BufferFullError`) is not acknowledged, so it comes
again: that is backpressure. One that breaks the rules is acknowledged, so that it does not come for ever, and told
as `Refused`. Two buffers have a limit per peer: `window_max` unacknowledged packets out (`send` then raises
BufferFullError; what the protocol within sends by itself may exceed it: see docs/) and `window_max` early ones in.

Cost: one number and an acknowledgement per packet; O(1) each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.view import View
from beforehand.errors import BufferFullError, InvariantError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering.effects import Effect, Effects, Installed, Persist, Refused, SetTimer, Transmit
from beforehand.ordering.flush import Welcome
from beforehand.ordering.link_sending import Outgoing
from beforehand.ordering.membership import Membership
from beforehand.ordering.message import NUMBER_MAX, Level
from beforehand.ordering.protocol import Channels, DeliveryProtocol, Missing, Owed, Pending, Report

__all__ = ["Frame", "ReliableLink"]

WINDOW_MAX: Final = 10_000
FAREWELLS_MAX: Final = 30
"""How often one that has left sends its last packets to a member that does not answer."""

EARLY_SHOWN_MAX: Final = 64
"""How many numbers above the mark one acknowledgement names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Number `number` from its sender to its receiver, with `packet`.

    Number 0 is not numbered: an acknowledgement only, or a packet to a process that has left, sent once.
    """

    number: int
    packet: Any
    mark: int  # All frames of the receiver up to this one have arrived.
    above: tuple[int, ...] = ()  # And these.

    def __post_init__(self) -> None:
        if type(self.number) is not int or not 0 <= self.number <= NUMBER_MAX:
            raise ValueError("the number of the frame is out of range")
        if type(self.mark) is not int or not 0 <= self.mark <= NUMBER_MAX:
            raise ValueError("the mark of the acknowledgement is out of range")
        if type(self.above) is not tuple or len(self.above) > EARLY_SHOWN_MAX:
            raise ValueError("the acknowledgement names too many numbers")
        if not all(type(n) is int and self.mark < n <= NUMBER_MAX for n in self.above):
            raise ValueError("the acknowledgement names a number that its mark covers")
        if self.number and self.packet is None:
            raise ValueError("a numbered frame has a packet")

    @property
    def bare(self) -> bool:
        """Whether it acknowledges and nothing else: any later frame to the same peer says as much."""
        return self.packet is None


@dataclass(frozen=True, slots=True)
class PeerSnapshot:
    name: str
    last: int
    unacknowledged: tuple[tuple[int, Any], ...]
    mark: int
    above: tuple[int, ...]
    handed: int
    early: tuple[tuple[int, Any], ...]
    gone: bool


@dataclass(frozen=True, slots=True)
class LinkSnapshot:
    within: Any
    peers: tuple[PeerSnapshot, ...]


class _Peer:
    """Both directions of the link with one other member."""

    __slots__ = ("arrived", "early", "gone", "handed", "out", "owed")

    def __init__(self, out: Outgoing) -> None:
        self.out: Final = out
        self.arrived = SequenceSet()  # The frames from it that we acknowledge; gaps below 4 window_max.
        self.handed = 0  # In an ordered link: the last one that the protocol within has taken.
        self.early: dict[int, Any] = {}  # In an ordered link: arrived, not handed; at most window_max.
        self.owed = False  # Something came and no frame has gone back since.
        self.gone = False  # It has left the group: what goes to it is sent once and not kept.


class _Call(Effects):
    """The effects of one call. Its frames are written at its end, so that they acknowledge all that came in it."""

    __slots__ = ("frames",)

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[tuple[str, int, Any]] = []


class ReliableLink:
    """Wraps `within`. It has the interface of a protocol and the traits of the one within."""

    def __init__(
        self,
        within: DeliveryProtocol,
        *,
        ordered: bool | None = None,
        resend_after: int = 200_000_000,
        resend_max: int = 5_000_000_000,
        resend_burst: int = 64,
        window_max: int = WINDOW_MAX,
    ) -> None:
        """`ordered`: by default as the protocol within needs it. Times are in the unit of `now` (200 ms if ns)."""
        if resend_after < 1 or resend_max < resend_after or resend_burst < 1 or window_max < 1:
            raise LocalProtocolError("a link needs positive times, a burst and a window")
        self.within: Final = within
        self.traits: Final = within.traits
        self.process: Final = within.process
        needs = isinstance(within, Membership) or within.traits.channels is Channels.FIFO
        self._ordered: Final = needs if ordered is None else ordered
        self._resend_after: Final = resend_after
        self._resend_max: Final = resend_max
        self._resend_burst: Final = resend_burst
        self._window_max: Final = window_max
        self._peers: Final = {p: self._peer() for p in within.view.processes if p != within.process}
        self._tick_within: int | None = None  # When the protocol within wants its tick.
        self._retry_at: int | None = None  # When early frames that found no room are offered again.
        self._timer: int | None = None  # What our driver's timer is set to.

    @property
    def view(self) -> View:
        return self.within.view

    def send(
        self,
        payload: bytes,
        to: Iterable[str] | None = None,
        *,
        now: int,
        level: Level | None = None,
        **options: Any,
    ) -> list[Effect]:
        for name, peer in self._peers.items():
            if len(peer.out.kept) >= self._window_max:
                raise BufferFullError(what=f"packets that {name!r} has not acknowledged", limit=self._window_max)
        call = _Call()
        self._pass_on(self.within.send(payload, to, now=now, level=level, **options), call, now)
        return self._finish(call, now)

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        peer = self._peers.get(sender)
        if peer is None and self._welcomes(sender, packet):
            peer = self._peer()
        if peer is None:
            raise RemoteProtocolError(f"a packet from {sender!r}, which is not another member of the group")
        if type(packet) is not Frame:
            raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, not a Frame")
        if max(packet.mark, *packet.above, 0) > peer.out.last:
            raise RemoteProtocolError(f"{sender!r} acknowledges frames that were never sent")
        self._peers[sender] = peer
        call = _Call()
        self._take_acknowledgement(sender, packet, call, now)
        if packet.number:
            self._take_frame(sender, peer, packet, call, now)
        elif packet.packet is not None:
            self._hand_over(sender, packet.packet, call, now)
        return self._finish(call, now)

    def tick(self, *, now: int) -> list[Effect]:
        call = _Call()
        self._timer = None  # It may have gone off a little early: it is set again in any case.
        # Before the protocol within has its turn: what it sends now must not put off what is due.
        for name, peer in self._peers.items():
            if peer.out.due(now):
                self._repeat(name, peer.out.again(now), call)
                if self.process not in self.view and peer.out.tries >= FAREWELLS_MAX:
                    self._give_up(peer)  # We have left; who does not answer hears of it from the others.
        if self._tick_within is None or now >= self._tick_within:
            self._tick_within = None
            self._pass_on(self.within.tick(now=now), call, now)
        return self._finish(call, now)

    def leave(self, *, now: int) -> list[Effect]:
        """`leave` of the membership within."""
        call = _Call()
        self._pass_on(self._membership().leave(now=now), call, now)
        return self._finish(call, now)

    def evict(self, processes: Iterable[str], *, now: int, force: bool = False) -> list[Effect]:
        """`evict` of the membership within."""
        call = _Call()
        self._pass_on(self._membership().evict(processes, now=now, force=force), call, now)
        return self._finish(call, now)

    def admit(self, processes: Mapping[str, str] | Iterable[str], *, now: int) -> list[Effect]:
        """`admit` of the membership within."""
        call = _Call()
        self._pass_on(self._membership().admit(processes, now=now), call, now)
        return self._finish(call, now)

    def hasten(self, *, now: int) -> list[Effect]:
        """`hasten` of the membership within."""
        call = _Call()
        self._pass_on(self._membership().hasten(now=now), call, now)
        return self._finish(call, now)

    def lacking(self, number: int) -> tuple[str, ...]:
        """`lacking` of the membership within."""
        return self._membership().lacking(number)

    def pending(self) -> list[Pending]:
        return self.within.pending()

    def missing(self) -> list[Missing]:
        """What the protocol within misses, and what peers have not acknowledged: the oldest of each."""
        own = [
            Missing(process=name, what=Owed.ACKNOWLEDGEMENT, number=next(iter(peer.out.kept)))
            for name, peer in self._peers.items()
            if peer.out.kept
        ]
        return sorted({*own, *self.within.missing()})

    def stable(self) -> Mapping[str, int]:
        return self.within.stable()

    def report(self) -> Report:
        return self.within.report()

    def snapshot(self) -> LinkSnapshot:
        peers = [
            PeerSnapshot(
                name,
                peer.out.last,
                tuple(peer.out.kept.items()),
                peer.arrived.mark,
                peer.arrived.above,
                peer.handed,
                tuple(sorted(peer.early.items())),
                peer.gone,
            )
            for name, peer in sorted(self._peers.items())
        ]
        return LinkSnapshot(self.within.snapshot(), tuple(peers))

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not LinkSnapshot:
            raise LocalProtocolError("this is not a snapshot of ReliableLink")
        self.within.restore(snapshot.within)
        for state in snapshot.peers:
            peer = self._peers[state.name] = self._peer()
            peer.out.restore(state.last, dict(state.unacknowledged))
            peer.handed, peer.gone, peer.early = state.handed, state.gone, dict(state.early)
            peer.arrived = SequenceSet(state.mark, state.above)
        self._tick_within = self._retry_at = self._timer = None

    def check_invariants(self) -> None:
        self.within.check_invariants()
        for name, peer in self._peers.items():
            if peer.out.kept and max(peer.out.kept) > peer.out.last:
                raise InvariantError(f"P1: a frame to {name!r} is kept that was never numbered")
            if any(number not in peer.arrived or number <= peer.handed for number in peer.early):
                raise InvariantError(f"P2: an early frame of {name!r} was handed over, or not acknowledged")
            if self._ordered and peer.handed + len(peer.early) != peer.arrived.mark + peer.arrived.gaps:
                raise InvariantError(f"P3: a frame of {name!r} is neither handed over nor early")

    def _membership(self) -> Membership:
        if not isinstance(self.within, Membership):
            raise LocalProtocolError("this group has no membership layer: its members stay")
        return self.within

    def _peer(self) -> _Peer:
        return _Peer(Outgoing(self._resend_after, self._resend_max, self._resend_burst))

    def _take_acknowledgement(self, sender: str, frame: Frame, call: _Call, now: int) -> None:
        new, again = self._peers[sender].out.acknowledge(frame.mark, frame.above, now)
        call.changed = call.changed or new
        self._repeat(sender, again, call)

    def _repeat(self, name: str, numbers: list[int], call: _Call) -> None:
        call.frames += [(name, number, self._peers[name].out.kept[number]) for number in numbers]

    def _take_frame(self, sender: str, peer: _Peer, frame: Frame, call: _Call, now: int) -> None:
        peer.owed = True
        if frame.number in peer.arrived:
            return  # P2: its acknowledgement was lost.
        if frame.number > peer.arrived.mark + 4 * self._window_max:
            call.happen(Refused(process=sender, why=f"frame {frame.number} is too far ahead of those before it"))
        elif not self._ordered:
            if self._hand_over(sender, frame.packet, call, now):
                peer.arrived.add(frame.number)
        elif frame.number == peer.handed + 1:
            if self._hand_over(sender, frame.packet, call, now):
                peer.arrived.add(frame.number)
                peer.handed = frame.number
        elif len(peer.early) < self._window_max:
            peer.arrived.add(frame.number)
            peer.early[frame.number] = frame.packet
            call.changed = True
        self._hand_over_early(sender, peer, call, now)

    def _hand_over_early(self, sender: str, peer: _Peer, call: _Call, now: int) -> None:
        """P3: what came early goes up when its turn has come, and waits on while the protocol within is full."""
        while (number := peer.handed + 1) in peer.early:
            if not self._hand_over(sender, peer.early[number], call, now):
                return
            del peer.early[number]
            peer.handed = number

    def _hand_over(self, sender: str, packet: Any, call: _Call, now: int) -> bool:
        """Give a packet to the protocol within; False if it has no room now."""
        try:
            passed = self.within.receive(sender, packet, now=now)
        except BufferFullError as error:
            call.happen(Refused(process=sender, why=str(error)))
            return False
        except RemoteProtocolError as error:
            call.happen(Refused(process=sender, why=str(error)))
        else:
            self._pass_on(passed, call, now)
        call.changed = True
        return True

    def _pass_on(self, passed: list[Effect], call: _Call, now: int) -> None:
        """Take over what the protocol within wants done; its packets get frames."""
        for effect in passed:
            match effect:
                case Transmit():
                    for name in effect.to:
                        peer = self._peers[name]
                        if peer.gone:
                            call.frames.append((name, 0, effect.packet))
                            continue
                        call.frames.append((name, peer.out.add(effect.packet, now), effect.packet))
                case Persist():
                    call.changed = True
                case SetTimer():
                    self._tick_within = effect.at
                case Installed():
                    self._let_go(effect.view)
                    self._meet(effect.view)
                    call.happen(effect)
                case _:
                    call.happen(effect)

    def _let_go(self, view: View) -> None:
        """Who has left needs nothing from us any more. (If it is we who leave, those who stay still do.)"""
        for name, peer in self._peers.items():
            if name not in view:
                self._give_up(peer)

    def _meet(self, view: View) -> None:
        """Links with newcomers begin with number 1. What they sent before was not acknowledged: it comes again."""
        for name in view.processes:
            if name != self.process and name not in self._peers:
                self._peers[name] = self._peer()

    def _welcomes(self, sender: str, packet: Any) -> bool:
        """Whether this is the first frame of a member to us, who are to join. Later ones come again after it."""
        if not isinstance(self.within, Membership) or self.within.welcomed or type(packet) is not Frame:
            return False
        welcome = packet.packet
        if packet.number != 1 or type(welcome) is not Welcome:
            return False
        return {sender, self.process} <= {name for name, _ in welcome.members}

    def _give_up(self, peer: _Peer) -> None:
        peer.gone = True
        peer.out.give_up()

    def _frame(self, peer: _Peer, number: int, packet: Any) -> Frame:
        return Frame(
            number=number, packet=packet, mark=peer.arrived.mark, above=peer.arrived.first_above(EARLY_SHOWN_MAX)
        )

    def _finish(self, call: _Call, now: int) -> list[Effect]:
        # Room may have come about by anything that happened in this call.
        for name, peer in list(self._peers.items()):  # A copy: a view may bring newcomers.
            if peer.handed + 1 in peer.early and (call.changed or self._retry_at is None or now >= self._retry_at):
                self._retry_at = None
                self._hand_over_early(name, peer, call, now)
        for name, number, packet in call.frames:
            self._peers[name].owed = False
            call.transmit((name,), self._frame(self._peers[name], number, packet))
        for name, peer in self._peers.items():
            if peer.owed:
                peer.owed = False
                call.transmit((name,), self._frame(peer, 0, None))
        outgoing = [peer.out for peer in self._peers.values()]
        due = [out.resend_at for out in outgoing if out.kept and out.resend_at is not None]
        if any(peer.handed + 1 in peer.early for peer in self._peers.values()):
            self._retry_at = self._retry_at or now + self._resend_after
            due.append(self._retry_at)
        else:
            self._retry_at = None
        if self._tick_within is not None:
            due.append(self._tick_within)
        timer = min(due, default=None)
        if timer != self._timer:
            self._timer = timer
            call.timer(timer)
        return call.finish()
