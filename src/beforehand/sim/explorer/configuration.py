"""What is explored: a stack of layers, and what its processes set out to do under which faults.

A `Configuration` fixes who sends what to whom, in which order per process, and how much may go wrong. It does not
fix any order between processes, nor when something goes wrong: that is what the search tries out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any, Final

from beforehand.clocks import View
from beforehand.ordering import Channels, DeliveryProtocol, Destinations, Membership, ReliableLink, Traits
from beforehand.sim.explorer.operations import ADMIT, EVICT, FORCE, LEAVE, describe

__all__ = [
    "PROCESSES",
    "Configuration",
    "Faults",
    "Stack",
    "admissions",
    "departures",
    "duels",
    "leavings",
    "sendings",
    "successions",
]

PROCESSES: Final = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The layers of each process, from the protocol downwards. Classes, or what builds the same from the same."""

    protocol: Any
    options: tuple[tuple[str, Any], ...] = ()
    starts: tuple[int, ...] = ()  # Per process the option `start`; empty: as it is by default.
    link: Any = None  # `ReliableLink`; None: the network itself keeps what the protocol needs.
    membership: Any = None  # `Membership`; needs the link.
    newcomer: int | None = None  # The process at this position is not a member at first; needs the membership.

    def __post_init__(self) -> None:
        if self.membership is not None and self.link is None:
            raise ValueError("a membership needs the reliable link")
        if self.newcomer is not None and self.membership is None:
            raise ValueError("a newcomer needs the membership")

    @property
    def traits(self) -> Traits:
        traits: Traits = self.protocol.traits
        return traits

    @property
    def fifo(self) -> bool:
        """Whether the network keeps the order of each link."""
        return self.link is None and self.traits.channels is Channels.FIFO

    def make(self, position: int, view: View) -> DeliveryProtocol:
        """What one process runs."""
        options = dict(self.options)
        if self.starts:
            options["start"] = self.starts[position]

        def bare(name: str, view: View, number: int = 0) -> DeliveryProtocol:
            made: DeliveryProtocol = self.protocol(name, view, number=number, **options)
            return made

        name = view.processes[position]
        if self.newcomer is not None:
            view = View(p for at, p in enumerate(view.processes) if at != self.newcomer)
        if position == self.newcomer:
            made: DeliveryProtocol = self.membership.joining(name, bare, notice_interval=1)
        elif self.membership is not None:
            made = self.membership(name, view, bare, notice_interval=1)
        else:
            made = bare(name, view)
        if self.link is None:
            return made
        ordered = True if self.membership is not None else None
        linked: DeliveryProtocol = self.link(made, ordered=ordered, resend_after=1, resend_max=1)
        return linked

    def linked(self, *, membership: bool = False, newcomer: int | None = None) -> Stack:
        """The same over a reliable link, and with a membership and a newcomer if asked for."""
        return Stack(
            protocol=self.protocol,
            options=self.options,
            starts=self.starts,
            link=ReliableLink,
            membership=Membership if membership else None,
            newcomer=newcomer,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How much may go wrong, at most, anywhere and at any time."""

    losses: int = 0
    repeats: int = 0
    crashes: int = 0
    crashing: int = -1  # Mask of the processes that may crash.
    early: int = 0  # Timers that go off while packets are under way.

    def __post_init__(self) -> None:
        if not all(0 <= n <= 3 for n in (self.losses, self.repeats, self.crashes, self.early)):
            raise ValueError("each kind of fault happens at most 3 times")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Per process its operations (see `operations`), and the faults. Evicted processes stop for good at some time."""

    operations: tuple[tuple[int, ...], ...]
    faults: Faults = field(default=Faults())

    @property
    def messages(self) -> int:
        return sum(o < EVICT for line in self.operations for o in line)

    @property
    def stopping(self) -> int:
        """Mask of the processes that stop for good: those that are evicted."""
        mask = 0
        for line in self.operations:
            for operation in line:
                mask |= operation & (EVICT - 1) if operation & EVICT else 0
        return mask

    @property
    def leaving(self) -> int:
        """Mask of the processes that are not in the group at the end."""
        return self.stopping | sum(1 << at for at, line in enumerate(self.operations) if LEAVE in line)

    def __str__(self) -> str:
        names = PROCESSES[: len(self.operations)]
        lines = [
            f"{name}: {', '.join(describe(o, names) for o in line)}"
            for name, line in zip(names, self.operations, strict=True)
            if line
        ]
        faults = [
            f"{count} {what}"
            for count, what in (
                (self.faults.losses, "lost"),
                (self.faults.repeats, "repeated"),
                (self.faults.crashes, "crash"),
                (self.faults.early, "early timer"),
            )
            if count
        ]
        return "; ".join(lines) + (f" ({', '.join(faults)})" if faults else "")


def sendings(
    traits: Traits, messages: int, *, processes: int = 3, symmetric: bool = False, to_all: bool = False
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every choice of senders and destinations for so many messages.

    `symmetric`: of choices that differ in the names of processes only, the first one. `to_all`: every message goes to
    all, its sender too.
    """
    everybody = [(1 << processes) - 1]
    for counts in _shares(messages, processes):
        choices = [
            product(everybody if to_all else _destinations(traits, at, processes), repeat=n)
            for at, n in enumerate(counts)
        ]
        for lines in product(*(list(choice) for choice in choices)):
            if not symmetric or lines == min(_renamed(lines, p) for p in permutations(range(processes))):
                yield lines


def departures(lines: tuple[tuple[int, ...], ...], *, victim: int, by: int, **faults: int) -> Iterator[Configuration]:
    """`by` evicts `victim` after any number of its own sends; `victim` stops at any time before."""
    for at in range(len(lines[by]) + 1):
        changed = list(lines)
        changed[by] = (*lines[by][:at], EVICT | 1 << victim, *lines[by][at:])
        yield Configuration(operations=tuple(changed), faults=Faults(**faults))


def successions(
    lines: tuple[tuple[int, ...], ...], *, victim: int, by: int, **faults: int
) -> Iterator[Configuration]:
    """`by` evicts `victim` and stops for good at any step of that; the third process evicts both by force."""
    third = next(at for at in range(len(lines)) if at not in (victim, by))
    changed = list(lines)
    changed[by] = (*lines[by], EVICT | 1 << victim)
    changed[third] = (*lines[third], EVICT | FORCE | 1 << by | 1 << victim)
    yield Configuration(operations=tuple(changed), faults=Faults(**faults))


def duels(lines: tuple[tuple[int, ...], ...], *, victim: int, **faults: int) -> Iterator[Configuration]:
    """Both others evict `victim`, each after its own sends: two flushes out of one view."""
    changed = [line if at == victim else (*line, EVICT | 1 << victim) for at, line in enumerate(lines)]
    yield Configuration(operations=tuple(changed), faults=Faults(**faults))


def leavings(lines: tuple[tuple[int, ...], ...], *, leaver: int, **faults: int) -> Iterator[Configuration]:
    """`leaver` leaves by itself, after any number of its own sends."""
    for at in range(len(lines[leaver]) + 1):
        changed = list(lines)
        changed[leaver] = (*lines[leaver][:at], LEAVE, *lines[leaver][at:])
        yield Configuration(operations=tuple(changed), faults=Faults(**faults))


def admissions(lines: tuple[tuple[int, ...], ...], *, newcomer: int, by: int) -> Iterator[Configuration]:
    """`by` admits `newcomer` after any number of its own sends, and one of both may crash and come back at any step;
    or `by` stops for good at any step of that, and the third process evicts it by force.
    """
    third = next(at for at in range(len(lines)) if at not in (newcomer, by))
    for at in range(len(lines[by]) + 1):
        changed = list(lines)
        changed[by] = (*lines[by][:at], ADMIT | 1 << newcomer, *lines[by][at:])
        yield Configuration(operations=tuple(changed), faults=Faults(crashes=1, crashing=1 << by | 1 << newcomer))
        changed[third] = (*lines[third], EVICT | FORCE | 1 << by)
        yield Configuration(operations=tuple(changed), faults=Faults())


def _destinations(traits: Traits, sender: int, processes: int) -> list[int]:
    everybody, me = (1 << processes) - 1, 1 << sender
    match traits.destinations:
        case Destinations.ONE:
            return [1 << at for at in range(processes) if at != sender]
        case Destinations.ALL:
            return [everybody & ~me, everybody]
        case Destinations.SOME:
            return list(range(1, everybody + 1))


def _shares(messages: int, processes: int) -> Iterator[tuple[int, ...]]:
    if processes == 1:
        yield (messages,)
        return
    for first in range(messages, -1, -1):
        for rest in _shares(messages - first, processes - 1):
            yield (first, *rest)


def _renamed(lines: tuple[tuple[int, ...], ...], to: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The lines when the process at position p gets position to[p]."""
    changed: list[tuple[int, ...]] = [()] * len(lines)
    for at, line in enumerate(lines):
        changed[to[at]] = tuple(sum(1 << to[p] for p in range(len(lines)) if mask >> p & 1) for mask in line)
    return tuple(changed)
