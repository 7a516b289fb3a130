"""Membership: a group whose members leave, are evicted and join, over any protocol; it knows what is stable.

Guarantees, for those who stay:
  P1  Agreement: two members that both install views v and v + 1 deliver the same messages of view v (each of them
      those that are addressed to it); what one of them has sent in v is among them.
  P2  Order: what the protocol promises holds across the change: all of view v comes before all of view v + 1.
  P3  Views are numbered; two members that install view v + 1 install the same members.
  P4  Liveness: if the leader of a flush and all who stay are up in the end, the next view is installed.
  P5  `stable()` names no message that a member of this view may lack once it has installed the view.
  P6  A newcomer installs the view that the others install, and delivers what is sent to it in the views that it is a
      member of, from the first on; nothing of an older view.
One that is evicted may have delivered what nobody else has, just before it stopped; not what was stable there.

Assumes FIFO channels (`ReliableLink(Membership(...))`). A new view needs a majority of the old one, and then all of
this holds even if those who are evicted live, or evict each other; with `force` it needs no majority, and the
operator must be right that they have stopped. A living process that is evicted is told so (`Install`, `Gone`). It may
come back under a new name: see `roster`.

How the change works, and why: see `view_change`. Cost: an acknowledgement per delivery and a number per sender now
and then, gathered over `notice_interval`: the null messages of silent members. A view change costs five packets per
member, three of them with the messages that are not stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Self

from beforehand.clocks.view import View
from beforehand.errors import BufferFullError, InvariantError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering.effects import (
    Deliver,
    Discard,
    Effect,
    Effects,
    Installed,
    Persist,
    Refused,
    Sent,
    SetTimer,
    Transmit,
)
from beforehand.ordering.flush import Ballot, Behind, Gone, Install, InView, Reported, Welcome
from beforehand.ordering.membership_state import MembershipSnapshot, Waiting, meant
from beforehand.ordering.message import Level
from beforehand.ordering.notices import Notice, Notices
from beforehand.ordering.protocol import (
    DeliveryProtocol,
    Destinations,
    Missing,
    Pending,
    Report,
    Traits,
    destinations,
    service_level,
)
from beforehand.ordering.roster import Roster
from beforehand.ordering.stability import Stability
from beforehand.ordering.view_change import ViewChange

__all__ = ["Factory", "Membership", "MembershipSnapshot"]

Factory = Callable[[str, View, int], DeliveryProtocol]
"""Builds the protocol of a process in a view; the number is the last one that it gave to a message before."""

QUEUE_MAX: Final = 10_000
NOTICE_INTERVAL: Final = 100_000_000
ASK_AFTER: Final = 4  # Notice intervals, after which a leader asks again those who have not reported.


class Membership:
    """Wraps the protocols that `make` builds, one per view. It has the interface of a protocol, and more."""

    def __init__(
        self,
        process: str,
        view: View,
        make: Factory,
        *,
        notice_interval: int = NOTICE_INTERVAL,
        queue_max: int = QUEUE_MAX,
        contacts: Mapping[str, str] | None = None,
    ) -> None:
        """`notice_interval` is in the unit of `now` (100 ms if ns); `queue_max` bounds what waits during a flush.

        `contacts` are texts that tell a newcomer where the members are found.
        """
        if notice_interval < 1 or queue_max < 1:
            raise LocalProtocolError("a membership needs a positive interval and queue")
        self.process: Final = process
        self.view = view
        self._make: Final = make
        self._notice_interval: Final = notice_interval
        self._queue_max: Final = queue_max
        self.within = make(process, view, 0)
        if not self.within.traits.views:
            raise LocalProtocolError(
                f"{self.within.traits.name} has no views: its members stay, without a Membership"
            )
        self._stability = Stability(process)
        self._queue: list[Waiting] = []  # Sends that wait for the view; at most queue_max.
        self._ahead: list[tuple[str, InView]] = []  # Packets of the next view; at most queue_max.
        self._roster: Final = Roster(contacts)
        self._change: Final = ViewChange(
            process, view, report=self._reported, ask_after=ASK_AFTER * notice_interval, roster=self._roster
        )
        self.welcomed = True  # Otherwise it is to join a group that has not told it so yet; its view is itself.
        self._notices: Final = Notices(process, notice_interval)
        self._catch_up_at: int | None = None  # When to try again what found no room after a view change.
        self._tick_within: int | None = None  # When the protocol within wants its tick.
        self._timer: int | None = None  # What our driver's timer is set to.

    @classmethod
    def joining(cls, process: str, make: Factory, **options: Any) -> Self:
        """A process that is to join: when a member has admitted it, `Installed` comes, and then it is one, too."""
        newcomer = cls(process, View((process,)), make, **options)
        newcomer.welcomed = False
        return newcomer

    @property
    def traits(self) -> Traits:
        return self.within.traits

    @property
    def contacts(self) -> Mapping[str, str]:
        """Where members are found, of those who said so."""
        return self._roster.contacts

    @property
    def flushing(self) -> bool:
        """Whether sends and deliveries wait for the next view."""
        return self._change.promised is not None

    @property
    def departed(self) -> bool:
        """Whether this process is no longer a member."""
        return self.process not in self.view

    def send(
        self, payload: bytes, to: Iterable[str] | None = None, *, now: int, level: Level | None = None
    ) -> list[Effect]:
        self._refuse_outsider()
        chosen = destinations(self.traits, self.view, self.process, to)
        if type(payload) is not bytes:
            raise LocalProtocolError("the payload is not bytes")
        call = Effects()
        if self.flushing or self._queue:
            if len(self._queue) >= self._queue_max:
                raise BufferFullError(what="messages that wait for the next view", limit=self._queue_max)
            self._queue.append((payload, chosen, service_level(self.traits, level)))
            call.changed = True
        else:
            self._pass_on(self.within.send(payload, chosen, now=now, level=level), call, now)
        return self._finish(call)

    def evict(self, processes: Iterable[str], *, now: int, force: bool = False) -> list[Effect]:
        """Remove processes that have stopped. `force` allows a view without a majority of this one."""
        self._refuse_outsider()
        return self._change_view(now) if self._change.want_without(set(processes), force=force) else []

    def leave(self, *, now: int) -> list[Effect]:
        """Leave the group. It is done when `Installed` comes with a view that this process is not in."""
        self._refuse_outsider()
        self._change.want_to_leave()
        return self._change_view(now)

    def admit(self, processes: Mapping[str, str] | Iterable[str], *, now: int) -> list[Effect]:
        """Add processes, with their contacts if it is a mapping. They run `Membership.joining`, now or later."""
        self._refuse_outsider()
        return self._change_view(now) if self._change.want_with(processes) else []

    def hasten(self, *, now: int) -> list[Effect]:
        """From now on the others tell us at once, not after the interval, what of ours they have delivered."""
        self._refuse_outsider()
        call = Effects()
        self._notices.hasten(self.view, call)
        return self._finish(call)

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        if sender == self.process:
            raise RemoteProtocolError("a packet of our own came back")
        if self.departed or self.welcomed == (type(packet) is Welcome):
            return []  # It is no longer for us, or not yet; or another member has welcomed us before.
        call = Effects()
        match packet:
            case Welcome():
                self._take_welcome(sender, packet, call, now)
            case InView() if packet.view > self.view.number:
                self._keep_for_later(sender, packet, call)
            case InView() if sender not in self.view:
                call.transmit((sender,), Gone(view=self.view.number, members=self.view.processes))
            case InView():
                self._take_inner(sender, packet, call, now)
            case _ if isinstance(packet, Notice):
                self._notices.take(self._stability, sender, packet, self.view, call, now)
            case Gone():
                self._take_gone(packet, call)
            case _:
                self._install(self._change.take(sender, packet, call, now), call, now)
        return self._finish(call)

    def tick(self, *, now: int) -> list[Effect]:
        if self.departed or not self.welcomed:
            return []
        call = Effects()
        self._timer = None  # It may have gone off a little early: it is set again in any case.
        if not self.flushing and (self._tick_within is None or now >= self._tick_within):
            self._tick_within = None
            self._pass_on(self.within.tick(now=now), call, now)
        self._notices.tick(self._stability, self.view, call, now, flushing=self.flushing)
        if self._catch_up_at is None or now >= self._catch_up_at:
            self._catch_up_at = None
            self._catch_up(call, now)
        self._install(self._change.ask_again(call, now), call, now)
        return self._finish(call)

    def pending(self) -> list[Pending]:
        return [] if self.departed else self.within.pending()

    def missing(self) -> list[Missing]:
        if self.departed:
            return []
        return self._change.missing() or self.within.missing()

    def stable(self) -> Mapping[str, int]:
        return self._stability.known()

    def lacking(self, number: int) -> tuple[str, ...]:
        """Who has not told us that it delivered message `number` of ours, which is not stable yet."""
        return self._stability.lacking(number)

    def report(self) -> Report:
        return self.within.report()

    def snapshot(self) -> MembershipSnapshot:
        return MembershipSnapshot(
            self.view,
            None if self.departed else self.within.snapshot(),
            self._stability.snapshot(),
            tuple(self._queue),
            tuple(self._ahead),
            self._change.snapshot(),
            self._roster.snapshot(),
            self.welcomed,
            tuple(sorted(self._notices.waiting)),
        )

    def restore(self, snapshot: Any) -> None:
        if type(snapshot) is not MembershipSnapshot:
            raise LocalProtocolError("this is not a snapshot of Membership")
        here = self.process in snapshot.view
        if here and snapshot.view != self.view:
            self.within = self._make(self.process, snapshot.view, snapshot.stability.number)
        if here:
            self.within.restore(snapshot.within)
        self.view = snapshot.view
        self._stability.restore(snapshot.stability)
        self._queue, self._ahead = list(snapshot.queue), list(snapshot.ahead)
        self._roster.restore(snapshot.roster)
        self._change.restore(self.view, snapshot.change)
        self.welcomed = snapshot.welcomed
        self._notices.waiting = set(snapshot.waiting)
        self._notices.settle_down()
        self._catch_up_at = self._tick_within = self._timer = None

    def check_invariants(self) -> None:
        if self.departed:
            return
        self.within.check_invariants()
        self._stability.check_invariants()
        self._change.check_invariants()
        if not self.welcomed and self.view != View((self.process,)):
            raise InvariantError("P6: a newcomer has a view that it was not welcomed to")

    def _refuse_outsider(self) -> None:
        if not self.welcomed:
            raise LocalProtocolError(f"{self.process!r} is not a member yet: admit it at one")
        if self.departed:
            raise LocalProtocolError(f"{self.process!r} is no longer a member of the group")

    def _take_inner(self, sender: str, packet: InView, call: Effects, now: int) -> None:
        if packet.view == self.view.number and not self.flushing and any(sender == s for s, _ in self._ahead):
            self._keep_for_later(sender, packet, call)  # Behind those of its sender that found no room yet.
            self._catch_up(call, now)
        elif packet.view == self.view.number and not self.flushing:
            self._pass_on(self.within.receive(sender, packet.packet, now=now), call, now)
        # Else it is of a view that is settled, or being settled: its sender has reported it, or has stopped.

    def _keep_for_later(self, sender: str, packet: InView, call: Effects) -> None:
        if len(self._ahead) >= self._queue_max:
            raise BufferFullError(what="packets of the next view", limit=self._queue_max)
        if not self._ahead and packet.view > self.view.number:
            call.transmit((sender,), Behind(view=self.view.number))  # The leader may not come to tell us.
        self._ahead.append((sender, packet))
        call.changed = True

    def _pass_on(self, effects: Iterable[Effect], call: Effects, now: int) -> None:
        for effect in effects:
            match effect:
                case Sent():
                    self._stability.sent(effect.message, effect.place)
                    call.happen(effect)
                case Deliver():
                    self._stability.delivered(effect.message, effect.place)
                    call.happen(effect)
                case Discard():
                    self._stability.set_aside(effect.message)
                    call.happen(effect)
                case Transmit():
                    call.transmit(effect.to, InView(view=self.view.number, packet=effect.packet))
                case SetTimer():
                    self._tick_within = effect.at
                case Persist():
                    call.changed = True
                case _:
                    call.happen(effect)
        self._notices.expect(self._stability, self.view, call, now)

    def _reported(self, ballot: Ballot) -> Reported:
        report = self.within.report()
        held = {h.message.key: h for h in report.held}
        for h in self._stability.held():
            known = held.get(h.message.key)
            if known is None or known.place is None or h.place is not None:
                held[h.message.key] = h
        return Reported(
            ballot=ballot,
            held=tuple(h for _, h in sorted(held.items())),
            time=report.time,
            stable=tuple(sorted(self._stability.known().items())),
            reached=self._stability.reached,
            stopped=tuple(sorted(self._change.wanted - {self.process})),
            accepted=self._change.accepted,
        )

    def _take_gone(self, packet: Gone, call: Effects) -> None:
        if packet.view >= self.view.number and self.process not in packet.members:
            self._depart(View(packet.members, number=packet.view), call)

    def _take_welcome(self, sender: str, packet: Welcome, call: Effects, now: int) -> None:
        view = packet.to_view(self.process, sender=sender)
        within = self._make(self.process, view, 0)  # If this raises, nothing has changed.
        self.view, self.within, self.welcomed = view, within, True
        self._roster.take(packet)
        self._settle_down(None)
        call.happen(Installed(view=view))
        self._pass_on(self.within.tick(now=now), call, now)

    def _change_view(self, now: int) -> list[Effect]:
        call = Effects()
        self._install(self._change.lead(call, now, above=self._change.promised), call, now)
        return self._finish(call)

    def _install(self, install: Install | None, call: Effects, now: int) -> None:
        if install is None:
            return
        for message, place in install.messages:
            if self.process in message.to and not self._stability.has_delivered(message):
                call.happen(Deliver(message=message, place=place))
        self._change.tell(install, call)
        newcomers = tuple(name for name, _ in install.joining)
        view = View((*install.members, *newcomers), number=self.view.number + 1)
        if self.process not in view:
            self._depart(view, call)
            return
        within = self._make(self.process, view, self._stability.number)  # If this raises, nothing has changed.
        waiting = [*self.within.report().unsent, *self._queue]
        ahead = [(sender, packet) for sender, packet in self._ahead if packet.view >= view.number]
        if newcomers:
            waiting = [meant(each, self.process, self.traits, before=self.view, after=view) for each in waiting]
        self._roster.turn(self.view, view, install.joining)
        self.view, self.within = view, within
        self._stability = Stability(self.process, self._stability.number)
        self._settle_down(install)
        call.happen(Installed(view=view))
        call.transmit(newcomers, self._roster.welcome(view))  # Before all else that goes to them: see `view_change`.
        self._pass_on(self.within.tick(now=now), call, now)
        self._ahead, self._queue = ahead, waiting
        self._catch_up(call, now)
        self._notices.ask(newcomers, call)
        if self._change.wanted or self._change.admitting:
            self._install(self._change.lead(call, now, above=None), call, now)

    def _settle_down(self, install: Install | None) -> None:
        self._change.settled(self.view, install)
        self._queue, self._ahead = [], []
        self._notices.settle_down()
        self._catch_up_at = self._tick_within = None

    def _catch_up(self, call: Effects, now: int) -> None:
        """Take what waited for this view, packets and sends; what finds no room waits on."""
        if self.flushing:
            return
        full: set[str] = set()  # Senders for whose packets there is no room: theirs keep their order.
        kept: list[tuple[str, InView]] = []
        for sender, packet in self._ahead:
            try:
                if packet.view == self.view.number and sender not in full:
                    self._take_ahead(sender, packet, call, now)
                    call.changed = True
                    continue
            except BufferFullError:
                full.add(sender)
            kept.append((sender, packet))
        self._ahead = kept
        with suppress(BufferFullError):
            while self._queue:
                self._send_late(*self._queue[0], call, now)
                del self._queue[0]
                call.changed = True
        if full or self._queue:
            self._catch_up_at = now + self._notice_interval

    def _take_ahead(self, sender: str, packet: InView, call: Effects, now: int) -> None:
        if sender not in self.view:
            return
        try:
            self._pass_on(self.within.receive(sender, packet.packet, now=now), call, now)
        except RemoteProtocolError as error:
            call.happen(Refused(process=sender, why=str(error)))

    def _send_late(self, payload: bytes, to: tuple[str, ...], level: Level, call: Effects, now: int) -> None:
        stay = tuple(p for p in to if p in self.view)
        if stay and (self._others(stay) or self.traits.destinations is not Destinations.ALL):
            self._pass_on(self.within.send(payload, stay, now=now, level=level), call, now)
        else:
            call.happen(Refused(process=to[0], why="a message was not sent: all whom it should go to have left"))

    def _depart(self, view: View, call: Effects) -> None:
        for _, to, _ in [*self.within.report().unsent, *self._queue]:
            call.happen(Refused(process=to[0], why="a message was not sent: this process is no longer a member"))
        self.view = view
        self._settle_down(None)
        call.happen(Installed(view=view))

    def _others(self, processes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(p for p in processes if p != self.process)

    def _finish(self, call: Effects) -> list[Effect]:
        wanted = [self._notices.due, self._change.ask_at]
        if not self.flushing:
            wanted += [self._tick_within, self._catch_up_at]
        timer = min((at for at in wanted if at is not None), default=None)
        if timer != self._timer:
            self._timer = timer
            call.timer(timer)
        return call.finish()
