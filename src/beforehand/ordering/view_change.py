"""The flush that leads from one view to the next: who leads it, who has promised itself to whom, what is installed.

Decides nothing about messages but their order (`flush.settle`); `membership` performs what this says.

How it works. `evict` (or `leave`) makes this member the leader of a flush under a new ballot. Everybody who stays,
on `Prepare`: stops sending and delivering, and reports all that the protocol holds, all that it sent or delivered
and does not know to be stable, and what it has accepted so far as the end of this view. When all have reported, the
leader proposes how the view ends: what was accepted under the largest ballot, if any report has such; otherwise the
reports settled into one order (`flush.settle`) and those who stay. When all have accepted (`Proposed`, `Accepted`),
that is how the view ends: `Install`. Each member delivers what it lacks of the list, in its order, and starts the
protocol afresh in the next view. What the application sends in between waits for that. A leader that stops for good
holds everybody up (`missing()` says so) until it is evicted in turn; one that comes back from its snapshot goes on.

Why P3 holds, whoever evicts whom: this is Paxos, with one decision per view. Those who report and accept are a
majority of the view, and so any two flushes have a member in common. Say ballot b installed its proposal, and c > b
is the next larger ballot that proposes anything. The common member accepted b's proposal before it reported to c,
for after that it would have refused; so c's leader saw it, b's was the largest ballot that it saw, and it proposed
the same. So it goes on, by induction. With `force` those who accept are all who stay. That is enough if those who
are evicted have stopped, for then any two flushes that end have all living members in common; otherwise nothing is
promised. Why P1 holds: the list was settled by the reports of all who stay, and has every message that one of them
has delivered, unless it is stable, which means that every destination delivered it; and nobody delivers between its
report and its Install. So after the Install each has delivered exactly the list's messages and the stable ones. Why
P2 holds: places extend the protocol's order and are the same at all members, so it remains to see that no member
has delivered beyond the place of something that it lacks. For causal and FIFO orders: m before m' in the list, p
delivered m' and lacks m: then m' waited at p for m, or m was not in the past of m'. For Lamport-like orders p
delivered m' only when all smaller ones had come. For Skeen's, see `settle`: what p has not got is placed above p's
clock.

Why leaders do not outvote each other for ever. Who follows a flush and sees no end of it leads one itself: the leader
may be gone. Say that a flush takes longer than that patience, on a slow network. (1) a leads. (2) b, who follows,
loses patience, and leads round 2; a gives way. (3) So does a in round 3, and no flush ever ends. So patience doubles
with every round, until it is longer than a flush takes (or about 250 times `ask_after`, which is then too short).

Those who report also say whom they were told to evict, so that whichever flush goes on does not wait in vain for one
that has stopped. What was accepted may keep one that is to go: then the next view begins with another flush.

*Newcomers* (`admit`). A flush may also add processes. They take no part in it: who reports, who accepts and what is a
majority is as above, so P3 holds with them, since they are a part of what is proposed and decided. They hold nothing
of the old view and get nothing of it, so P1 and P2 are as above, too. Every member that installs the view sends each
newcomer a `Welcome` as the first packet of its link; so whichever comes first, the newcomer installs that very view,
before it hears of anything in it, and it starts the protocol afresh as all others do: it delivers what is sent in
the views that it is a member of, and nothing else. That all send it one means that no single member's stop can keep
a newcomer out that the others wait for.

Whom to admit is a wish of the member that was asked. Who leads a flush adds its own wishes only; if another flush
ends first, the member goes on with what is left of its wishes in the next view, and if it stops for good or leaves,
they are gone: the operator asks another. So a request to remove and one to add meet in one flush if they are one
member's, and are two flushes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from beforehand.clocks.view import View
from beforehand.errors import InvariantError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering.effects import Effects, Refused
from beforehand.ordering.flush import (
    Accepted,
    Ballot,
    Behind,
    Contacts,
    Gone,
    Install,
    Outvoted,
    Prepare,
    Proposed,
    Reported,
    refuse_uneven,
    settle,
)
from beforehand.ordering.protocol import Missing, Owed
from beforehand.ordering.roster import Roster

__all__ = ["ViewChange", "ViewChangeSnapshot"]

ASKED_MAX: Final = 8
"""So often is asked again, each time after twice as long. Then all has been asked: the link brings it when it can."""

PATIENCE: Final = 2
"""Who has asked so often and was told of one that is to go leads a flush itself; in each further round once more."""


@dataclass(frozen=True, slots=True)
class ViewChangeSnapshot:
    wanted: tuple[str, ...]
    force: bool
    promised: Ballot | None
    prepare: Prepare | None
    reports: tuple[tuple[str, Reported], ...]
    accepted: Proposed | None
    proposal: Proposed | None
    accepted_by: tuple[str, ...]
    last: Install | None
    asked: int
    behind: tuple[str, ...]
    admitting: Contacts = ()


class ViewChange:
    """Of one process. A method that returns an `Install` asks for it to be installed."""

    def __init__(
        self, process: str, view: View, *, report: Callable[[Ballot], Reported], ask_after: int, roster: Roster
    ) -> None:
        """`report` makes this member's report; who has not reported after `ask_after` is asked again."""
        self._process: Final = process
        self._roster: Final = roster
        self._report: Final = report
        self._ask_after: Final = ask_after
        self._view = view
        self.wanted: set[str] = set()  # Whom this member is to remove.
        self.admitting: dict[str, str] = {}  # Whom this member is to add, and their contacts.
        self.force = False  # Whether even without a majority.
        self.promised: Ballot | None = None  # The largest ballot that we reported to; None: no flush.
        self.accepted: Proposed | None = None  # What we have accepted as the end of this view.
        self.ask_at: int | None = None  # When to ask again those who have not answered.
        self._asked = 0  # How often we did; each time it takes twice as long.
        self._prepare: Prepare | None = None  # The flush that we lead.
        self._reports: dict[str, Reported] = {}  # What came for it.
        self._proposal: Proposed | None = None  # What we made of all reports.
        self._accepted_by: set[str] = set()  # Who has accepted that.
        self._last: Install | None = None  # What installed this view: for those who missed it.
        self._behind: set[str] = set()  # Who asked how this view ends: they are told when it does.

    def want_without(self, processes: set[str], *, force: bool) -> bool:
        """The operator wants these removed; LocalProtocolError if those who would stay are too few.

        False if there is nothing to be done: they are gone already.
        """
        processes = processes & set(self._view.processes)
        if self._process in processes:
            raise LocalProtocolError("a member does not evict itself: it leaves")
        if not processes:
            return False
        wanted = processes | self.wanted
        if not self.may_go_on_without(wanted) and self.may_go_on_without(processes):
            wanted = processes  # What we heard from others does not go together with this.
        if not (force or self.may_go_on_without(wanted)):
            stay = len(self._view.processes) - len(wanted)
            raise LocalProtocolError(
                f"{stay} of {len(self._view.processes)} members are no majority: two such groups could both go on. "
                "If the others are surely gone, use force"
            )
        self.wanted, self.force = wanted, self.force or force
        return True

    def want_to_leave(self) -> None:
        """The operator wants this member to go."""
        if len(self._view.processes) == 1:
            raise LocalProtocolError("the last member has no group to leave")
        self.wanted.add(self._process)

    def want_with(self, processes: Mapping[str, str] | Iterable[str]) -> bool:
        """The operator wants these added; LocalProtocolError if they cannot be. False if there are none."""
        wishes = self._roster.wishes(processes, self._view)
        self.admitting.update(wishes)
        return bool(wishes)

    def may_go_on_without(self, processes: set[str]) -> bool:
        """A majority stays, or the only one that goes does so by itself, or the operator insists."""
        stay = len(self._view.processes) - len(processes)
        return processes <= {self._process} or self.force or 2 * stay > len(self._view.processes)

    def lead(self, call: Effects, now: int, *, above: Ballot | None) -> Install | None:
        """Start a flush that removes and adds whom we want to be, under a ballot above `above`."""
        stay = tuple(p for p in self._view.processes if p not in self.wanted)
        if not self.may_go_on_without(self.wanted):
            for process in sorted(self.wanted - {self._process}):
                call.happen(Refused(process=process, why="not evicted: those who stay are no longer a majority"))
            self.wanted &= {self._process}  # To leave oneself needs no majority.
            if not self.wanted and not self.admitting:
                return None
            stay = tuple(p for p in self._view.processes if p not in self.wanted)
        ballot = Ballot(self._view.number, 1 if above is None else above.round + 1, self._process)
        joining = tuple(sorted(self.admitting.items()))
        self.promised, self._prepare = ballot, Prepare(ballot=ballot, members=stay, joining=joining)
        self._reports, self._proposal = {self._process: self._report(ballot)}, None
        self.ask_at, self._asked = now + self._ask_after, 0
        call.changed = True
        call.transmit(self._others(stay), self._prepare)
        return self._conclude(call)

    def take(self, sender: str, packet: Any, call: Effects, now: int) -> Install | None:
        """A packet of another member, about a flush."""
        match packet:
            case Prepare() | Proposed() if packet.ballot.view < self._view.number:
                self.help_up(sender, packet.ballot.view, call)
            case Install():
                return self.take_install(sender, packet, call)
            case Prepare() | Reported() | Proposed() | Accepted() if sender not in self._view:
                call.transmit((sender,), Gone(view=self._view.number, members=self._view.processes))
            case Prepare():
                return self.take_prepare(sender, packet, call, now)
            case Reported():
                return self.take_report(sender, packet, call, now)
            case Proposed():
                self.take_proposed(sender, packet, call)
            case Accepted():
                return self.take_accepted(sender, packet, call)
            case Outvoted():
                return self.take_outvoted(packet, call, now)
            case Behind():
                self.help_up(sender, packet.view, call)
            case _:
                raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, which no member sends")
        return None

    def ask_again(self, call: Effects, now: int) -> Install | None:
        """The timer: those who have not answered may have come back, and the group may have gone on without us."""
        if self.promised is None or self._asked >= ASKED_MAX or (self.ask_at is not None and now < self.ask_at):
            return None
        patience = min(PATIENCE + self.promised.round - 1, ASKED_MAX - 1)
        if self._prepare is None and self._asked >= patience and self.wanted and self.may_go_on_without(self.wanted):
            return self.lead(call, now, above=self.promised)  # Ours may have given way to one that we do not follow.
        lack = () if self._prepare is None else self._lack()
        if self._prepare is not None:
            call.transmit(lack, self._proposal or self._prepare)
        known = set(lack) | (self.wanted if self._asked == 0 else set())  # Those who are said to be gone last.
        others = tuple(p for p in self._others(self._view.processes) if p not in known)
        call.transmit(others, Behind(view=self._view.number))
        self._asked += 1
        self.ask_at = now + self._ask_after * 2**self._asked if self._asked < ASKED_MAX else None
        return None

    def missing(self) -> list[Missing]:
        if self._prepare is not None:
            owed = Owed.REPORT if self._proposal is None else Owed.ACKNOWLEDGEMENT
            return [Missing(process=p, what=owed, number=self._view.number) for p in sorted(self._lack())]
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
        self._roster.refuse_strange_newcomers(packet.joining, self._view, sender=sender)
        if self.promised is not None and packet.ballot < self.promised:
            call.transmit((sender,), Outvoted(ballot=packet.ballot, promised=self.promised))
            self._remember(sender, packet)
            return None
        if sender in self.wanted and self.may_go_on_without(self.wanted):
            # Late words of one that we evict: whom it wanted out is to go too, but its flush will never end.
            self.wanted |= set(self._view.processes) - set(packet.members) - {self._process}
            call.changed = True
            return self.lead(call, now, above=packet.ballot) if self._prepare is not None else None
        self.promised = packet.ballot
        self._give_way()
        self.ask_at, self._asked = now + self._ask_after, 0
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
        refuse_uneven([*self._reports.values(), packet], sender=sender)
        if packet.accepted is not None:
            self._refuse_strangers(sender, packet.accepted)
        self._reports[sender] = packet
        call.changed = True
        stopped = self.wanted | (set(packet.stopped) & set(self._prepare.members) - {self._process})
        if stopped != self.wanted and self.may_go_on_without(stopped):
            self.wanted = stopped  # Another operator evicts somebody whom we would wait for in vain.
            return self.lead(call, now, above=self.promised)
        return self._conclude(call)

    def take_proposed(self, sender: str, packet: Proposed, call: Effects) -> None:
        self._refuse_strangers(sender, packet)
        if packet.ballot.leader != sender or self.promised is None or packet.ballot > self.promised:
            raise RemoteProtocolError(f"{sender!r} proposes what we did not report for")
        if packet.ballot < self.promised:
            call.transmit((sender,), Outvoted(ballot=packet.ballot, promised=self.promised))
            self._remember(sender, packet)
            return
        self.accepted = packet
        call.changed = True
        call.transmit((sender,), Accepted(ballot=packet.ballot))

    def take_accepted(self, sender: str, packet: Accepted, call: Effects) -> Install | None:
        if self._proposal is None or packet.ballot != self._proposal.ballot:
            return None  # Of a flush that has given way.
        self._accepted_by.add(sender)
        call.changed = True
        return self._conclude(call)

    def take_install(self, sender: str, packet: Install, call: Effects) -> Install | None:
        if packet.ballot.view != self._view.number:
            return None
        self._refuse_strangers(sender, packet)
        if self._prepare is not None:
            call.transmit(self._others(self._prepare.members), packet)  # They wait for us.
        return packet

    def take_outvoted(self, packet: Outvoted, call: Effects, now: int) -> Install | None:
        prepare = self._prepare
        if prepare is None or packet.ballot != prepare.ballot or packet.promised < prepare.ballot:
            return None
        if packet.promised.leader in prepare.members:
            return None  # That one will end its own flush.
        return self.lead(call, now, above=packet.promised)

    def help_up(self, sender: str, view: int, call: Effects) -> None:
        """`sender` is still in view `view`: give it what ended that, or ask it again what it was asked."""
        if view == self._view.number:
            if sender not in self._behind:
                self._behind.add(sender)
                call.changed = True
            if self._prepare is not None and sender in self._lack():
                call.transmit((sender,), self._proposal or self._prepare)
            return
        if self._last is None or self._last.ballot.view != view:
            call.transmit((sender,), Gone(view=self._view.number, members=self._view.processes))
            return
        call.transmit((sender,), self._last)
        if self._prepare is not None and sender in self._prepare.members:
            call.transmit((sender,), self._prepare)

    def tell(self, install: Install, call: Effects) -> None:
        """The view ends: those who asked hear it from us, too."""
        call.transmit(tuple(sorted(self._behind)), install)
        self._behind.clear()

    def settled(self, view: View, install: Install | None) -> None:
        """The next view is here: no flush any more."""
        self._view, self._last = view, install
        self.promised = self.accepted = None
        self._give_way()
        self.wanted &= set(view.processes)
        left = [] if self._process not in view else self.admitting.items()
        self.admitting = {name: contact for name, contact in left if not self._roster.knows(name, view)}
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
            self.accepted,
            self._proposal,
            tuple(sorted(self._accepted_by)),
            self._last,
            self._asked,
            tuple(sorted(self._behind)),
            tuple(sorted(self.admitting.items())),
        )

    def restore(self, view: View, snapshot: ViewChangeSnapshot) -> None:
        self._view = view
        self.wanted, self.force = set(snapshot.wanted), snapshot.force
        self.promised, self._prepare = snapshot.promised, snapshot.prepare
        self._reports, self._last = dict(snapshot.reports), snapshot.last
        self.ask_at, self._asked, self._behind = None, snapshot.asked, set(snapshot.behind)
        self.accepted, self._proposal = snapshot.accepted, snapshot.proposal
        self._accepted_by, self.admitting = set(snapshot.accepted_by), dict(snapshot.admitting)

    def check_invariants(self) -> None:
        if self.promised is not None and self.promised.view != self._view.number:
            raise InvariantError("P3: a flush of another view goes on")
        if self._prepare is not None and self.promised != self._prepare.ballot:
            raise InvariantError("P3: the leader of a flush has promised itself to another")
        if self.accepted is not None and (self.promised is None or self.accepted.ballot > self.promised):
            raise InvariantError("P3: accepted what was not promised")

    def _conclude(self, call: Effects) -> Install | None:
        """If we lead and all have answered: propose, or install."""
        if self._prepare is None or self._lack():
            return None
        if self._proposal is None:
            self._propose(self._prepare, call)
            if self._lack():
                return None
        end = self._proposal
        assert end is not None
        install = Install(ballot=end.ballot, members=end.members, messages=end.messages, joining=end.joining)
        call.transmit(self._others(tuple(dict.fromkeys((*self._prepare.members, *end.members)))), install)
        return install

    def _propose(self, prepare: Prepare, call: Effects) -> None:
        known = [report.accepted for report in self._reports.values() if report.accepted is not None]
        if known:
            end = max(known, key=lambda accepted: accepted.ballot)
            self._proposal = replace(end, ballot=prepare.ballot)
        else:
            messages = settle(self._reports)
            self._proposal = Proposed(
                ballot=prepare.ballot, members=prepare.members, messages=messages, joining=prepare.joining
            )
        self.accepted, self._accepted_by = self._proposal, {self._process}
        call.transmit(self._others(prepare.members), self._proposal)

    def _lack(self) -> tuple[str, ...]:
        assert self._prepare is not None
        have = self._reports if self._proposal is None else self._accepted_by
        return tuple(p for p in self._prepare.members if p not in have)

    def _remember(self, sender: str, packet: Prepare | Proposed) -> None:
        """One that only adds asks nobody beside those who are to stay. If it is out itself, it hears so from us."""
        if packet.joining:
            self._behind.add(sender)

    def _give_way(self) -> None:
        """We lead no flush any more."""
        self._prepare, self._reports, self.ask_at, self._asked = None, {}, None, 0
        self._proposal, self._accepted_by = None, set()

    def _refuse_strangers(self, sender: str, packet: Proposed | Install) -> None:
        here = set(self._view.processes)
        if not set(packet.members) <= here:
            raise RemoteProtocolError(f"{sender!r} installs members that the view does not have")
        if any(not {m.sender, *m.to} <= here for m, _ in packet.messages):
            raise RemoteProtocolError(f"{sender!r} installs messages of strangers")
        self._roster.refuse_strange_newcomers(packet.joining, self._view, sender=sender)

    def _others(self, processes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(p for p in processes if p != self._process)
