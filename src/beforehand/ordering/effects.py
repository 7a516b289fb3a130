"""Effects: what a protocol asks of whoever runs it. A closed union, returned as a list, performed in its order.

The order is a contract:

  1. what happened       `Sent`, `Deliver`, `Discard`, `Refused`, `Installed`, in the order in which it happened here
  2. `Persist`           at most one
  3. what goes out       `Transmit`, in an order that each link may rely on
  4. `SetTimer`          at most one

*Persist before transmit.* Whoever must survive a crash stores, at `Persist`, the protocol's `snapshot()` together
with what the application made of the deliveries above it, in one atomic step, and only then performs what stands
below. A crash before that step undoes the whole call: nobody has seen any of it. A crash after it loses at most
packets, which a `ReliableLink` sends again. So a delivery is neither lost nor repeated. Whoever does not survive
crashes skips `Persist`. Several calls may share one `Persist` (group commit) if all that they transmit waits for
it.

*Reactions.* An application that answers a delivery with a message calls `send` after the whole list is performed: the
state of the protocol is already that of the end of the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from beforehand.clocks.view import View
from beforehand.ordering.message import Message

__all__ = [
    "Deliver",
    "Discard",
    "Effect",
    "Effects",
    "Installed",
    "Persist",
    "Place",
    "Reason",
    "Refused",
    "Sent",
    "SetTimer",
    "Transmit",
    "is_place",
]

Place: TypeAlias = "tuple[int | str, ...]"
"""The place of a message in an order that extends the protocol's: of two messages that it orders, the smaller comes
first."""


PLACE_LENGTH_MAX: Final = 64
"""More parts than a place has; one that a flush makes is longer than its bound by two."""


def is_place(value: object) -> bool:
    """Whether a peer's word is a place: a tuple of numbers and names, not too long."""
    return (
        type(value) is tuple
        and len(value) <= PLACE_LENGTH_MAX
        and all(type(part) is int or type(part) is str for part in value)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """`message` counts as sent from here on: its send event. A protocol that makes senders wait says this late."""

    message: Message
    place: Place | None = None  # Where the protocol knows it already.


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Hand `message` to the application: its receive event."""

    message: Message
    place: Place


class Reason(StrEnum):
    """Why something was not delivered. All but the first are from CausalMerge; see `SetAside`."""

    LATE = "late"  # It came after its time (TimedDelivery, CausalMerge).
    FUTURE = "future"
    AHEAD = "ahead"
    CORRUPTED = "corrupted"
    OTHER_BOUNDS = "other bounds"
    REPEATED = "repeated"  # This copy; another one waits here.
    PASSED = "passed"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """`message`, or this copy of it, will not be delivered here. Never silent: tell the application or count it."""

    message: Message
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that `process` sent was dropped: `why`. For the log; nothing of it was taken over."""

    process: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """From here on the group is `view`: all that came before is delivered, what follows belongs to it."""

    view: View


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Make `snapshot()` durable now, with the application's state; see the module's contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmit:
    """Give `packet` to the network for each of `to`, never for this process itself."""

    to: tuple[str, ...]
    packet: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Call `tick` when the local clock reaches `at`; replaces the timer set before, None cancels it."""

    at: int | None


Effect: TypeAlias = Sent | Deliver | Discard | Refused | Installed | Persist | Transmit | SetTimer


class Effects:
    """Collects the effects of one call and puts them in the contract's order."""

    __slots__ = ("_happened", "_out", "_timer", "changed")

    def __init__(self) -> None:
        self._happened: Final[list[Effect]] = []
        self._out: Final[list[Effect]] = []
        self._timer: SetTimer | None = None
        self.changed = False  # Whether there is something to persist.

    def happen(self, effect: Sent | Deliver | Discard | Refused | Installed) -> None:
        self._happened.append(effect)
        self.changed = True

    def transmit(self, to: tuple[str, ...], packet: Any) -> None:
        if to:
            self._out.append(Transmit(to=to, packet=packet))
            self.changed = True

    def timer(self, at: int | None) -> None:
        self._timer = SetTimer(at=at)

    def finish(self) -> list[Effect]:
        effects = self._happened
        if self.changed:
            effects.append(Persist())
        effects.extend(self._out)
        if self._timer is not None:
            effects.append(self._timer)
        return effects
