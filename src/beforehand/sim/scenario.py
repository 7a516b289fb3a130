"""A scenario: everything that a simulated run depends on, as one value.

Two runs of one scenario are the same, byte for byte. Whatever can go wrong in it is written down as a list (crashes,
partitions, ...), so that a scenario that fails can be made smaller by leaving things out, and saved as a file that
replays. Only the fate of single packets is not listed: it follows from the seed, for each link by itself.

Times are nanoseconds of true time from the start. All faults end at `heal_at`; what must be true then becomes true
before `heal_at + settle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from beforehand.errors import InputError
from beforehand.ordering.message import Level

__all__ = [
    "MILLISECOND",
    "ClockFault",
    "Clog",
    "Crash",
    "Delay",
    "DelayKind",
    "Departure",
    "Join",
    "Operation",
    "Partition",
    "Pause",
    "Point",
    "Scenario",
    "read_scenario",
    "write_scenario",
]

MILLISECOND: Final = 1_000_000

PROCESSES_MAX: Final = 64
OPERATIONS_MAX: Final = 1_000_000


class DelayKind(StrEnum):
    """How the delay of a packet is distributed between the two bounds of a `Delay`."""

    CONSTANT = "constant"  # Always the maximum.
    UNIFORM = "uniform"
    EXPONENTIAL = "exponential"  # Mostly near the minimum, cut at the maximum.


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How long packets take."""

    kind: DelayKind = DelayKind.UNIFORM
    shortest: int = MILLISECOND // 10
    longest: int = MILLISECOND

    def __post_init__(self) -> None:
        if not 0 <= self.shortest <= self.longest or self.longest < 1:
            raise ValueError("a delay needs 0 <= shortest <= longest and longest > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`process` sends one message: not before a time, and not before it has delivered `after` messages.

    When the faults are over it waits for deliveries no more: a load must not hold itself up.
    """

    process: str
    at: int
    to: tuple[str, ...]
    after: int = 0
    depends: tuple[int, ...] = ()  # For IndependentSends: positions of earlier operations that it builds on.
    level: Level | None = None  # Where a protocol offers several; None: its default.


@dataclass(frozen=True, slots=True, kw_only=True)
class Clog:
    """Between two times, nothing on the link from `sender` to `to` arrives; it comes when the clog is over."""

    sender: str
    to: str
    at: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Between two times, packets from `side` to the others are lost; the other way too if `symmetric`."""

    side: tuple[str, ...]
    at: int
    until: int
    symmetric: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Between two times, `process` does nothing; what arrives waits for it."""

    process: str
    at: int
    until: int


class Point(StrEnum):
    """Where in the performing of a call's effects a process dies."""

    BEFORE_PERSIST = "before-persist"  # The whole call is undone.
    AFTER_PERSIST = "after-persist"  # Nothing is transmitted.
    WHILE_TRANSMITTING = "while-transmitting"  # Half of it is.


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """`process` dies in its `call`-th call, from 1, not before `at`; it comes back from its snapshot after `down`."""

    process: str
    call: int
    point: Point
    down: int
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """The clock of `process` is `offset` off, runs `drift_ppm` too fast, and is moved by the steps (at, by)."""

    process: str
    offset: int = 0
    drift_ppm: int = 0
    steps: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if abs(self.drift_ppm) > 500_000:
            raise ValueError("a clock drifts by at most half of its speed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """At a time, `process` leaves by itself (`by` is itself), or `by` evicts it, which has then stopped for good."""

    process: str
    at: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """At a time, `by` admits `process`, which is new and starts at `starts`: before or after that."""

    process: str
    at: int
    by: str
    starts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run of `protocol`. The defaults are a reliable network without faults."""

    protocol: str
    processes: tuple[str, ...]
    operations: tuple[Operation, ...]
    seed: int = 0
    options: tuple[tuple[str, int | str | bool], ...] = ()  # Given to the protocol.
    link: bool = False  # Whether a ReliableLink is under it. Needed for loss, and for crashes.
    membership: bool = False  # Whether a Membership is over it. Needed for departures and joins.
    delay: Delay = Delay()
    loss: float = 0.0
    repeat: float = 0.0
    fifo: bool = False  # Whether the network keeps the order of each link.
    clogs: tuple[Clog, ...] = ()
    partitions: tuple[Partition, ...] = ()
    pauses: tuple[Pause, ...] = ()
    crashes: tuple[Crash, ...] = ()
    clocks: tuple[ClockFault, ...] = ()
    departures: tuple[Departure, ...] = ()
    joins: tuple[Join, ...] = ()  # Of processes that are not among `processes`: the group is to get larger.
    heal_at: int = 1_000 * MILLISECOND
    settle: int = 20_000 * MILLISECOND

    def __post_init__(self) -> None:
        if not 2 <= len(set(self.processes)) == len(self.processes) <= PROCESSES_MAX or "" in self.processes:
            raise ValueError(f"a scenario has 2 to {PROCESSES_MAX} processes with different names")
        if len(self.operations) > OPERATIONS_MAX:
            raise ValueError(f"a scenario has at most {OPERATIONS_MAX} operations")
        if not 0 <= self.loss < 1 or not 0 <= self.repeat < 1:
            raise ValueError("loss and repeat are probabilities below 1")
        if (self.loss or self.crashes or self.partitions) and not self.link:
            raise ValueError("packets are lost in this scenario: it needs the reliable link")
        if self.departures and not self.membership:
            raise ValueError("members leave in this scenario: it needs the membership layer")
        if self.joins and not (self.membership and self.link):
            raise ValueError("members join in this scenario: it needs the membership layer and the reliable link")
        if len({join.process for join in self.joins} - set(self.processes)) < len(self.joins):
            raise ValueError("who joins is new, and joins once")
        for crash in self.crashes:
            if crash.call < 1 or crash.down < 1:
                raise ValueError("a crash needs a call from 1 and a time to be down")
        if self.settle < 1 or any(o.at < 0 for o in self.operations):
            raise ValueError("times are not negative")
        self._refuse_strangers()

    def _refuse_strangers(self) -> None:
        members = {*self.processes, *self.newcomers}
        named = [o.process for o in self.operations] + [p for o in self.operations for p in o.to]
        named += [p for c in self.clogs for p in (c.sender, c.to)] + [p for x in self.partitions for p in x.side]
        named += [x.process for x in self.pauses] + [x.process for x in self.crashes]
        named += [x.process for x in self.clocks] + [p for x in self.departures for p in (x.process, x.by)]
        named += [x.by for x in self.joins]
        for name in named:
            if name not in members:
                raise ValueError(f"{name!r} is not a process of the scenario")

    @property
    def newcomers(self) -> tuple[str, ...]:
        """The processes that join."""
        return tuple(join.process for join in self.joins)


SCENARIO_BYTES_MAX: Final = 64 << 20
"""Of a file that is replayed; the largest that `draw` makes has some ten thousand bytes."""


def write_scenario(scenario: Scenario) -> bytes:
    """As a JSON document that `read_scenario` reads back."""
    return msgspec.json.format(msgspec.json.encode(scenario), indent=1) + b"\n"


def read_scenario(path: Path) -> Scenario:
    """A scenario from a file; InputError says what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(SCENARIO_BYTES_MAX + 1)
        if len(data) > SCENARIO_BYTES_MAX:
            raise InputError(f"{path}: not a scenario: it has more than {SCENARIO_BYTES_MAX >> 20} MiB")
        return msgspec.json.decode(data, type=Scenario)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a scenario: {error}") from None
