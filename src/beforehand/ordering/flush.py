"""The flush between two views: what members tell each other, and how it becomes one order.

A flush is led by one member under a *ballot*. Each member that stays stops delivering and reports all that it
holds; the leader settles the reports into one list and proposes it with the members of the next view; when all have
accepted that, each member delivers from the list what it lacks, in the list's order, and installs the next view. Who
is new in that view takes no part in the flush: a `Welcome` tells it the view and what it must know there.
`view_change` has the argument why no delivery differs between those who stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from beforehand.clocks.view import View
from beforehand.errors import RemoteProtocolError
from beforehand.ordering.effects import Place, is_place
from beforehand.ordering.message import NUMBER_MAX, Message
from beforehand.ordering.protocol import Held

__all__ = [
    "CONTACT_LENGTH_MAX",
    "Accepted",
    "Acknowledged",
    "Awaited",
    "Ballot",
    "Behind",
    "Contacts",
    "Gone",
    "InView",
    "Install",
    "Outvoted",
    "Prepare",
    "Proposed",
    "Reported",
    "Stable",
    "Welcome",
    "is_contacts",
    "refuse_uneven",
    "settle",
]

Contacts: TypeAlias = "tuple[tuple[str, str], ...]"
"""Processes, and for each where it is found: a text that only the application understands; empty if it needs none."""

CONTACT_LENGTH_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, order=True)
class Ballot:
    """Which flush: out of view `view`, the `round`-th try, led by `leader`. Of two, the larger one counts."""

    view: int
    round: int
    leader: str

    def __post_init__(self) -> None:
        if not _number(self.view) or not _number(self.round) or type(self.leader) is not str:
            raise ValueError("not a ballot")


@dataclass(frozen=True, slots=True, kw_only=True)
class InView:
    """A packet of the protocol that runs in view number `view`."""

    view: int
    packet: Any

    def __post_init__(self) -> None:
        if not _number(self.view):
            raise ValueError("the number of the view is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """To a sender: I have delivered these of your messages."""

    view: int
    numbers: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _number(self.view) or type(self.numbers) is not tuple or not all(_number(n) for n in self.numbers):
            raise ValueError("not a list of numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stable:
    """From a sender: all my messages up to `number` are delivered by all their destinations."""

    view: int
    number: int

    def __post_init__(self) -> None:
        if not _number(self.view) or not _number(self.number):
            raise ValueError("the number is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """From a sender, which waits until its messages are stable: tell me at once what you have delivered of mine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """From the leader: stop, and report; the next view will have these of the members, and some new ones."""

    ballot: Ballot
    members: tuple[str, ...]
    joining: Contacts = ()

    def __post_init__(self) -> None:
        _refuse_bad_members(self.ballot, self.members, self.joining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """From the leader, which has all reports: accept this as what ends the view, unless you promised yourself on."""

    ballot: Ballot
    members: tuple[str, ...]
    messages: tuple[tuple[Message, Place], ...]
    joining: Contacts = ()

    def __post_init__(self) -> None:
        _refuse_bad_end(self.ballot, self.members, self.messages, self.joining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """To the leader: I have accepted what you proposed under this ballot."""

    ballot: Ballot

    def __post_init__(self) -> None:
        if type(self.ballot) is not Ballot:
            raise ValueError("not a ballot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """To the leader: all that I hold."""

    ballot: Ballot
    held: tuple[Held, ...]  # Delivered or not; what is delivered is final.
    time: int  # The protocol's logical clock.
    stable: tuple[tuple[str, int], ...]  # Per sender, what I know of `Stable`.
    reached: Place | None = None  # The largest place that I have delivered.
    stopped: tuple[str, ...] = ()  # Whom I was told to evict, or heard that others were.
    accepted: Proposed | None = None  # What I have accepted as the end of this view, if anything.

    def __post_init__(self) -> None:
        good = type(self.ballot) is Ballot and _number(self.time)
        if not good or type(self.held) is not tuple or not all(type(h) is Held for h in self.held):
            raise ValueError("not a report")
        if type(self.stable) is not tuple or not all(type(s) is str and _number(n) for s, n in self.stable):
            raise ValueError("not a report")
        if self.reached is not None and not is_place(self.reached):
            raise ValueError("not a report")
        if type(self.stopped) is not tuple or not all(type(p) is str for p in self.stopped):
            raise ValueError("not a report")
        if self.accepted is not None and type(self.accepted) is not Proposed:
            raise ValueError("not a report")


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """From the leader, or from who has it: this ends the view. Deliver what you lack of these, in this order."""

    ballot: Ballot
    members: tuple[str, ...]
    messages: tuple[tuple[Message, Place], ...]
    joining: Contacts = ()

    def __post_init__(self) -> None:
        _refuse_bad_end(self.ballot, self.members, self.messages, self.joining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outvoted:
    """To a leader: I have promised myself to this larger ballot."""

    ballot: Ballot
    promised: Ballot

    def __post_init__(self) -> None:
        if type(self.ballot) is not Ballot or type(self.promised) is not Ballot:
            raise ValueError("not ballots")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """To a leader: I am still in this view; send me what installed yours."""

    view: int

    def __post_init__(self) -> None:
        if not _number(self.view):
            raise ValueError("the number of the view is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """To a process that is no longer a member: the view is this one now."""

    view: int
    members: tuple[str, ...]

    def __post_init__(self) -> None:
        _refuse_bad_members(Ballot(self.view, 0, ""), self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """To a process that is new in view number `view`, from each of those who were there before."""

    view: int
    members: Contacts  # All of them, in the view's order.
    past: tuple[str, ...]  # The names that are used up.

    def __post_init__(self) -> None:
        if not is_contacts(self.members):
            raise ValueError("not a list of members")
        _refuse_bad_members(Ballot(self.view, 0, ""), tuple(name for name, _ in self.members))
        if type(self.past) is not tuple or not all(type(name) is str for name in self.past):
            raise ValueError("not a list of names")

    def to_view(self, process: str, *, sender: str) -> View:
        """The view that `process` is welcomed to; RemoteProtocolError if that is none of its or of the sender."""
        view = View((name for name, _ in self.members), number=self.view)
        if process not in view or sender not in view:
            raise RemoteProtocolError(f"{sender!r} welcomes us to a view that is not its own or not ours")
        return view


def refuse_uneven(reports: Iterable[Reported], *, sender: str) -> None:
    """RemoteProtocolError if `settle` could not compare what these reports say: one of `sender` is the last of them.

    The places of one protocol have parts of the same types. `settle` makes places of a time and a message's key for
    messages that have none for good: so with these, the others begin with a number, and a name is next if anything.
    """
    shapes: set[tuple[type, ...]] = set()
    unsettled = False
    for report in reports:
        places = [report.reached, *(place for held in report.held for place in (held.place, held.after))]
        shapes |= {tuple(map(type, place)) for place in places if place is not None}
        unsettled = unsettled or any(held.place is None or not held.final for held in report.held)
    shape = next(iter(shapes), (int,))
    if len(shapes) > 1 or not shape or (unsettled and shape[:2] not in ((int,), (int, str))):
        raise RemoteProtocolError(f"{sender!r} reports places that cannot be compared with those of others")


def settle(reports: Mapping[str, Reported]) -> tuple[tuple[Message, Place], ...]:
    """One order of all that the members hold and that is not known to be delivered everywhere.

    A message that is final somewhere has its place. One that is only proposed takes the largest place that any of its
    destinations could still give it, the clock of one that has not got it counted.

    One without a place is of a member that asked for one and has not heard (`Coordinator`, `RotatingToken`). It may
    have got a place all the same, from one that is gone, and what depends on it may be here. So it goes as far to
    the front as it can: behind what its sender had delivered or sent before, and behind what its destinations have
    delivered. That is not behind its true place, if it had one, for none of them would have delivered anything
    beyond that without it.
    """
    stable: dict[str, int] = {}
    known: dict[tuple[str, int], list[tuple[str, Held]]] = {}
    for member, report in sorted(reports.items()):
        for sender, number in report.stable:
            stable[sender] = max(number, stable.get(sender, 0))
        for held in report.held:
            known.setdefault(held.message.key, []).append((member, held))
    places: dict[tuple[str, int], Place] = {}
    last: dict[str, Place] = {}  # Of each sender, the place of its latest message so far.
    stems: dict[str, Place] = {}  # If that one had no place of its own: what it was put behind.
    for (sender, number), copies in sorted(known.items()):
        if number <= stable.get(sender, 0):
            continue
        message = copies[0][1].message
        place = _place(message, copies, reports)
        if place is None:
            after = [held.after for _, held in copies] + [reports[p].reached for p in message.to if p in reports]
            bounds = [bound for bound in [*after, last.get(sender)] if bound is not None]
            bound: Place = max(bounds, default=(-1,))
            if bound == last.get(sender):
                bound = stems.get(sender, bound)  # One after the other, not ever longer.
            stems[sender] = bound
            place = (*bound, *message.key)  # Longer than its bound, so it comes right after it.
        else:
            stems.pop(sender, None)
        places[message.key] = last[sender] = place
    order = sorted(places, key=lambda key: places[key])
    return tuple((known[key][0][1].message, places[key]) for key in order)


def _place(message: Message, copies: list[tuple[str, Held]], reports: Mapping[str, Reported]) -> Place | None:
    final = [held.place for _, held in copies if held.final and held.place is not None]
    if final:
        return final[0]
    proposed = [held.place for _, held in copies if held.place is not None]
    if not proposed:
        return None
    have = {member for member, held in copies if held.place is not None}
    late = [reports[p].time + 1 for p in message.to if p in reports and p not in have]
    return (max([int(place[0]) for place in proposed] + late), *message.key)


def _number(value: object) -> bool:
    return type(value) is int and 0 <= value <= NUMBER_MAX


def is_contacts(value: object) -> bool:
    """Whether a peer's word is a list of processes and contacts."""
    return type(value) is tuple and all(
        type(pair) is tuple
        and len(pair) == 2
        and all(type(part) is str for part in pair)
        and pair[0]
        and len(pair[1]) <= CONTACT_LENGTH_MAX
        for pair in value
    )


def _refuse_bad_members(ballot: Ballot, members: tuple[str, ...], joining: Contacts = ()) -> None:
    if type(ballot) is not Ballot or type(members) is not tuple or not members:
        raise ValueError("not a view")
    if len(set(members)) < len(members) or not all(type(member) is str and member for member in members):
        raise ValueError("not a view")
    if not is_contacts(joining) or len({name for name, _ in joining}) < len(joining):
        raise ValueError("not a list of newcomers")


def _refuse_bad_end(
    ballot: Ballot, members: tuple[str, ...], messages: tuple[tuple[Message, Place], ...], joining: Contacts
) -> None:
    _refuse_bad_members(ballot, members, joining)
    if type(messages) is not tuple or not all(type(m) is Message and is_place(p) for m, p in messages):
        raise ValueError("not a list of messages")
