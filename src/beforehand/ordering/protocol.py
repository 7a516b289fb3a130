"""What every protocol looks like from outside: state machines without I/O, clock, randomness or threads.

Whoever runs one (the simulator, the explorer, asyncio, Spark) calls `send`, `receive` and `tick`, performs the
effects that come back in their order (see `effects`), and passes its own clock as `now`, an integer in a unit of
its choice. A call that raises has changed nothing: `LocalProtocolError` when the caller broke a rule,
`RemoteProtocolError` when a peer did, `BufferFullError` when a buffer is full (a `ReliableLink` underneath then
keeps the packet and offers it again).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from beforehand.clocks.view import View
from beforehand.errors import DestinationError, LocalProtocolError
from beforehand.ordering.effects import Effect, Place, is_place
from beforehand.ordering.message import Level, Message

__all__ = ["Channels", "DeliveryProtocol", "Destinations", "Held", "Missing", "Owed", "Pending", "Report", "Traits"]


class Channels(StrEnum):
    """What a protocol needs of the links between processes. A `ReliableLink` turns any link into any of these."""

    RELIABLE = "reliable"  # Nothing is lost for ever. Repetitions and any order are taken.
    FIFO = "fifo"  # Nothing is lost or repeated and each link keeps its order.


class Destinations(StrEnum):
    """Whom one message may go to."""

    ONE = "one"  # One other process.
    SOME = "some"  # Any set of members, the sender among them or not.
    ALL = "all"  # All other members, with the sender or without.


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What is fixed about a protocol: for the command line, the simulator and the docs."""

    name: str  # On the command line, in kebab case.
    paper: str
    fifo: bool
    causal: bool
    total: bool
    channels: Channels
    destinations: Destinations
    levels: tuple[Level, ...]  # The service levels that a message may choose from; the last one is the default.
    views: bool = True  # Whether it can run in a group whose members leave, are evicted and join.
    synchronous: bool = False  # Whether every message is as if sent and delivered in one instant.


class Owed(StrEnum):
    """What can be missing."""

    MESSAGE = "message"
    ACKNOWLEDGEMENT = "acknowledgement"
    PROPOSAL = "proposal"
    FINAL = "final"
    TOKEN = "token"  # noqa: S105 (a token that goes round, not a password)
    PERMISSION = "permission"
    TIME = "time"
    REPORT = "report"
    VIEW = "view"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Missing:
    """`process` owes `what`, here: of or for number `number` (a message of the process, a logical time, ...)."""

    process: str
    what: Owed
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A message that is here and cannot be delivered yet, and the first thing that it waits for."""

    message: Message
    waits_for: Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a member that stops knows of a message it has: a flush sorts all of these into one order."""

    message: Message
    place: Place | None  # None: it has no place yet, as far as its sender knows, which alone reports it so.
    final: bool = True  # Otherwise a proposal: the place can still grow.
    after: Place | None = None  # Of one without a place: the last place that its sender had delivered before.

    def __post_init__(self) -> None:
        if type(self.message) is not Message or type(self.final) is not bool:
            raise ValueError("not a message that is held")
        if not all(place is None or is_place(place) for place in (self.place, self.after)):
            raise ValueError("not a place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a member says at a flush: all that it holds undelivered, and its logical time, if it has one."""

    held: tuple[Held, ...]
    time: int = 0
    unsent: tuple[tuple[bytes, tuple[str, ...], Level], ...] = ()  # Asked for, but no `Sent` yet: for the next view.


class DeliveryProtocol(Protocol):
    """The interface. Every protocol is built as `P(process, view, **options)`."""

    @property
    def traits(self) -> Traits: ...

    @property
    def process(self) -> str: ...

    @property
    def view(self) -> View: ...

    def send(
        self, payload: bytes, to: Iterable[str] | None = None, *, now: int, level: Level | None = None
    ) -> list[Effect]:
        """Send one message to each of `to` (None: to all members, this one included)."""
        ...

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        """Take a packet that the network brought from `sender`, which the transport vouches for."""
        ...

    def tick(self, *, now: int) -> list[Effect]:
        """Time has passed: the timer went off. Calling it too early or too often does no harm."""
        ...

    def pending(self) -> list[Pending]:
        """The messages that are here and not delivered, in the order of their arrival."""
        ...

    def missing(self) -> list[Missing]:
        """Who owes what: without repetition, sorted. Empty means that nothing waits."""
        ...

    def stable(self) -> Mapping[str, int]:
        """Per sender, up to which number all its messages are known to be received by all their destinations.

        As far as the protocol's own packets tell; the membership layer knows it for every protocol.
        """
        ...

    def report(self) -> Report:
        """What this member holds undelivered, for a flush."""
        ...

    def snapshot(self) -> Any:
        """The whole state as an immutable, hashable value."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Take up the state of `snapshot`, made by a member of the same name and view. Call `tick` afterwards."""
        ...

    def check_invariants(self) -> None:
        """Raise InvariantError if a property of the docstring does not hold in this state."""
        ...


def destinations(traits: Traits, view: View, sender: str, to: Iterable[str] | None) -> tuple[str, ...]:
    """The destinations in the order of the view, or an error that says which rule they break."""
    if to is None:
        chosen = set(view.processes)
        if traits.destinations is Destinations.ONE:
            raise DestinationError(protocol=traits.name, rule="a message goes to one other process: name it")
    else:
        names = [to] if isinstance(to, str) else list(to)
        chosen = set(names)
        if len(chosen) < len(names):
            raise DestinationError(protocol=traits.name, rule="a destination is named twice")
        for name in names:
            view.position(name)  # Raises NotInViewError.
    if not chosen:
        raise DestinationError(protocol=traits.name, rule="a message needs a destination")
    others = chosen - {sender}
    match traits.destinations:
        case Destinations.ONE if len(chosen) != 1 or not others:
            raise DestinationError(protocol=traits.name, rule="a message goes to one other process")
        case Destinations.ALL if len(others) != len(view.processes) - 1:
            raise DestinationError(
                protocol=traits.name, rule="a message goes to all members; subsets are not offered"
            )
    return tuple(sorted(chosen, key=view.position))


def service_level(traits: Traits, level: Level | None) -> Level:
    """The level asked for, if the protocol offers it."""
    if level is None:
        return traits.levels[-1]
    if level not in traits.levels:
        offered = ", ".join(traits.levels)
        raise LocalProtocolError(f"{traits.name} does not offer the service level {level}; it offers {offered}")
    return level
