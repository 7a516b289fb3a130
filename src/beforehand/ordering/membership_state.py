"""What a membership must not forget, as one value; and the messages that wait in it for the next view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from beforehand.clocks.view import View
from beforehand.ordering.flush import InView
from beforehand.ordering.message import Level
from beforehand.ordering.protocol import Destinations, Traits
from beforehand.ordering.roster import RosterSnapshot
from beforehand.ordering.stability import StabilitySnapshot
from beforehand.ordering.view_change import ViewChangeSnapshot

__all__ = ["MembershipSnapshot", "Waiting", "meant"]

Waiting: TypeAlias = "tuple[bytes, tuple[str, ...], Level]"
"""A message that is not sent yet: its payload, whom it goes to, its level."""


@dataclass(frozen=True, slots=True)
class MembershipSnapshot:
    """All of it; `within` is what the protocol of this view needs."""

    view: View
    within: Any
    stability: StabilitySnapshot
    queue: tuple[Waiting, ...]
    ahead: tuple[tuple[str, InView], ...]
    change: ViewChangeSnapshot
    roster: RosterSnapshot = RosterSnapshot((), ())  # noqa: RUF009 (immutable)
    welcomed: bool = True
    waiting: tuple[str, ...] = ()  # Who waits to hear at once what is delivered of its messages.


def meant(waiting: Waiting, process: str, traits: Traits, *, before: View, after: View) -> Waiting:
    """The same for a view with newcomers: what was for everybody, this process included, is for them, too.

    Where messages go to all members or nobody, also what was for all others.
    """
    payload, to, level = waiting
    everybody = set(before.processes)
    if traits.destinations is Destinations.ALL:
        everybody.discard(process)
    if traits.destinations is Destinations.ONE or not everybody <= set(to):
        return waiting
    return payload, tuple(p for p in after.processes if p != process or p in to), level
