"""The flush that leads from one view to the next: who leads it, who has promised itself to whom, what is installed.

Decides nothing about messages but their order (`flush.settle`); `membership` performs what this says.

How it works. `evict` (or `leave`) makes this member the leader of a flush under a new ballot. Everybody who stays, on
`Prepare`: stops sending and delivering, and reports all that the protocol holds and all that it sent or delivered and
does not know to be stable. The leader settles the reports into one order (`flush.settle`) and sends `Install`; each
member delivers what it lacks of the list, in its order, and starts the protocol afresh in the next view. What the
application sends in between waits for that. A leader that stops for good
holds everybody up (`missing()` says so) until it is evicted in turn; one that comes back from its snapshot goes on.

Why P1 and P3 hold. The list holds every message that a reporting member has delivered, unless it is stable, which
means that every destination delivered it; and nobody delivers between its report and its Install. So after the
Install each has delivered exactly the list's messages and the stable ones. Only one list can be installed out of a
view by those who stay: a member that has promised ballot b takes no Install of a smaller one; the leader of a
larger ballot has heard all who stay, and if any of them had taken the smaller Install it would have answered with
it, and the leader would have taken it over instead. Why P2 holds: places extend the protocol's order and are the
same at all members, so it remains to see that no member has delivered beyond the place of something that it lacks.
For causal and FIFO orders: m before m' in the list, p delivered m' and lacks m: then m' waited at p for m, or m was
not in the past of m'. For Lamport-like orders p delivered m' only when all smaller ones had come. For Skeen's, see
`settle`: what p has not got is placed above p's clock.

Ballots. Of two flushes out of one view the larger ballot counts. Those who report also say whom they were told to
evict, so that whichever flush goes on does not wait in vain for one that has stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from beforehand.clocks.view import View
from beforehand.errors import InvariantError, RemoteProtocolError
from beforehand.ordering.effects import Effects, Refused
from beforehand.ordering.flush import Ballot, Behind, Gone, Install, Outvoted, Prepare, Reported, settle
from beforehand.ordering.protocol import Missing, Owed

__all__ = ["ViewChange", "ViewChangeSnapshot"]


@dataclass(frozen=True, slots=True)
class ViewChangeSnapshot:
    wanted: tuple[str, ...]
    force: bool
    promised: Ballot | None
    prepare: Prepare | None
    reports: tuple[tuple[str, Reported], ...]
    last: Install | None
    promised_members: tuple[str, ...]


class ViewChange:
    """Of one process. A method that returns an `Install` asks for it to be installed."""

    def __init__(self, process: str, view: View, *, report: Callable[[Ballot], Reported], ask_after: int) -> None:
        """`report` makes this member's report; who has not reported after `ask_after` is asked again."""
        self._process: Final = process
        self._report: Final = report
        self._ask_after: Final = ask_after
        self._view = view
        self.wanted: set[str] = set()  # Whom this member is to remove.
        self.force = False  # Whether even without a majority.
        self.promised: Ballot | None = None  # The largest ballot that we reported to; None: no flush.
        self._promised_members: tuple[str, ...] = ()  # Whose reports that ballot needs.
        self.ask_at: int | None = None  # When to ask again those who have not reported.
        self._prepare: Prepare | None = None  # The flush that we lead.
        self._reports: dict[str, Reported] = {}  # What came for it.
        self._last: Install | None = None  # What installed this view: for those who missed it.

    def may_go_on_without(self, processes: set[str]) -> bool:
        """A majority stays, or the only one that goes does so by itself, or the operator insists."""
        stay = len(self._view.processes) - len(processes)
        return processes <= {self._process} or self.force or 2 * stay > len(self._view.processes)

    def lead(self, call: Effects, now: int, *, above: Ballot | None) -> Install | None:
        """Start a flush that removes whom we want to be removed, under a ballot above `above`."""
        stay = tuple(p for p in self._view.processes if p not in self.wanted)
        if not self.may_go_on_without(self.wanted):
            for process in sorted(self.wanted - {self._process}):
                call.happen(Refused(process=process, why="not evicted: those who stay are no longer a majority"))
            self.wanted &= {self._process}  # To leave oneself needs no majority.
            if not self.wanted:
                return None
            stay = self._others(self._view.processes)
        ballot = Ballot(self._view.number, 1 if above is None else above.round + 1, self._process)
        self.promised, self._promised_members = ballot, stay
        self._prepare = Prepare(ballot=ballot, members=stay)
        self._reports = {self._process: self._report(ballot)}
        self.ask_at = now + self._ask_after
        call.changed = True
        call.transmit(self._others(stay), self._prepare)
        return self._conclude(call)

    def ask_again(self, call: Effects, now: int) -> None:
        """The timer: those who have not reported may have come back."""
        if self._prepare is not None and (self.ask_at is None or now >= self.ask_at):
            call.transmit(self._lack(), self._prepare)
            self.ask_at = now + self._ask_after

    def missing(self) -> list[Missing]:
        if self._prepare is not None:
            return [Missing(process=p, what=Owed.REPORT, number=self._view.number) for p in sorted(self._lack())]
        if self.promised is not None:
            return [Missing(process=self.promised.leader, what=Owed.VIEW, number=self._view.number + 1)]
        return []

    def take_prepare(self, sender: str, packet: Prepare, call: Effects, now: int) -> Install | None:
        if packet.ballot.leader != sender or self._process not in packet.members:
            raise RemoteProtocolError(f"{sender!r} leads a flush that is not its own or not ours")
        if packet.ballot.view > self._view.number:
            call.transmit((sender,), Behind(view=self._view.number))
            return None
        if not set(packet.members) <= set(self._view.processes):
            raise RemoteProtocolError(f"{sender!r} wants members that the view does not have")
        if self.promised is not None and packet.ballot < self.promised:
            call.transmit((sender,), Outvoted(ballot=packet.ballot, promised=self.promised))
            return None
        if sender in self.wanted:
            # Late words of one that we evict: whom it wanted out is to go too, but its flush will never end.
            self.wanted |= set(self._view.processes) - set(packet.members) - {self._process}
            call.changed = True
            return self.lead(call, now, above=packet.ballot) if self._prepare is not None else None
        self.promised, self._promised_members = packet.ballot, packet.members
        self._prepare, self._reports, self.ask_at = None, {}, None
        call.changed = True
        call.transmit((sender,), self._report(packet.ballot))
        # Whoever leads after this one must not wait for those who are gone; one that leaves by itself is not gone.
        self.wanted |= set(self._view.processes) - set(packet.members) - {sender}
        return None

    def take_report(self, sender: str, packet: Reported, call: Effects, now: int) -> Install | None:
        if self._prepare is None or packet.ballot != self._prepare.ballot:
            # Too late for our flush, but it may say that the leader we gave way to has stopped.
            self.wanted |= set(packet.stopped) & set(self._view.processes) - {self._process}
            if self._prepare is None and self.promised is not None and self.promised.leader in self.wanted:
                return self.lead(call, now, above=self.promised)
            return None
        self._reports[sender] = packet
        call.changed = True
        stopped = self.wanted | (set(packet.stopped) & set(self._prepare.members) - {self._process})
        if stopped != self.wanted and self.may_go_on_without(stopped):
            self.wanted = stopped  # Another operator evicts somebody whom we would wait for in vain.
            return self.lead(call, now, above=self.promised)
        return self._conclude(call)

    def take_install(self, sender: str, packet: Install, call: Effects) -> Install | None:
        if packet.ballot.view != self._view.number:
            return None
        if not set(packet.members) <= set(self._view.processes):
            raise RemoteProtocolError(f"{sender!r} installs members that the view does not have")
        if any(not {m.sender, *m.to} <= set(self._view.processes) for m, _ in packet.messages):
            raise RemoteProtocolError(f"{sender!r} installs messages of strangers")
        if self.promised is not None and packet.ballot < self.promised:
            if self._prepare is None:
                # Who has installed it will never report. If the leader that we promised ourselves to waits for that
                # report, its flush cannot end in any other way.
                return packet if sender in self._promised_members else None
            # Somebody has installed it already: we take it over, under the ballot that the others have promised.
            packet = Install(ballot=self._prepare.ballot, members=packet.members, messages=packet.messages)
            call.transmit(self._others(packet.members), packet)
        return packet

    def take_outvoted(self, packet: Outvoted, call: Effects, now: int) -> Install | None:
        prepare = self._prepare
        if prepare is None or packet.ballot != prepare.ballot or packet.promised < prepare.ballot:
            return None
        if packet.promised.leader in prepare.members:
            return None  # That one will end its own flush.
        return self.lead(call, now, above=packet.promised)

    def help_up(self, sender: str, view: int, call: Effects) -> None:
        """`sender` is in an earlier view: give it what installed ours, and then what it was asked."""
        if self._last is None or self._last.ballot.view != view:
            call.transmit((sender,), Gone(view=self._view.number, members=self._view.processes))
            return
        call.transmit((sender,), self._last)
        if self._prepare is not None and sender in self._prepare.members:
            call.transmit((sender,), self._prepare)

    def settled(self, view: View, install: Install | None) -> None:
        """The next view is here: no flush any more."""
        self._view, self._last = view, install
        self.promised, self._prepare, self._reports, self.ask_at = None, None, {}, None
        self._promised_members = ()
        self.wanted &= set(view.processes)
        if view.processes == (self._process,):
            self.wanted.clear()  # The last one stays.
        self.force = self.force and bool(self.wanted)

    def snapshot(self) -> ViewChangeSnapshot:
        return ViewChangeSnapshot(
            tuple(sorted(self.wanted)),
            self.force,
            self.promised,
            self._prepare,
            tuple(sorted(self._reports.items())),
            self._last,
            self._promised_members,
        )

    def restore(self, view: View, snapshot: ViewChangeSnapshot) -> None:
        self._view = view
        self.wanted, self.force = set(snapshot.wanted), snapshot.force
        self.promised, self._prepare = snapshot.promised, snapshot.prepare
        self._reports, self._last, self.ask_at = dict(snapshot.reports), snapshot.last, None
        self._promised_members = snapshot.promised_members

    def check_invariants(self) -> None:
        if self.promised is not None and self.promised.view != self._view.number:
            raise InvariantError("P3: a flush of another view goes on")
        if self._prepare is not None and self.promised != self._prepare.ballot:
            raise InvariantError("P3: the leader of a flush has promised itself to another")

    def _conclude(self, call: Effects) -> Install | None:
        if self._prepare is None or self._lack():
            return None
        install = Install(ballot=self._prepare.ballot, members=self._prepare.members, messages=settle(self._reports))
        call.transmit(self._others(install.members), install)
        return install

    def _lack(self) -> tuple[str, ...]:
        assert self._prepare is not None
        return tuple(p for p in self._prepare.members if p not in self._reports)

    def _others(self, processes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(p for p in processes if p != self._process)
