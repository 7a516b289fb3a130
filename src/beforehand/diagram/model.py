"""The records of a space-time diagram: what may be asked for, and the coordinates that come out.

A diagram is one execution with its processes as horizontal lanes, the order of events from left to right
and messages as arrows between the lanes. Everything here is plain data in pixels of the finished drawing,
origin at the top left, so that a test or another drawing program can read it without knowing SVG.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from beforehand.events import Event, EventId

__all__ = [
    "DEFAULT_OPTIONS",
    "NO_MARKS",
    "Arrow",
    "ArrowKind",
    "Axis",
    "Gap",
    "Lane",
    "Layout",
    "LayoutOptions",
    "Marks",
    "Note",
    "Place",
    "Point",
    "Role",
    "Side",
    "Span",
    "Tick",
]

Point = tuple[float, float]


class Axis(StrEnum):
    """What the horizontal direction means; the page has a third, `time`: the latest clock reading in a past."""

    STEPS = "steps"  # Of causality: every event stands right of its causes.
    CLOCKS = "clocks"  # The processes' own, as they came.


class Role(StrEnum):
    """How an event stands to the selected one."""

    PLAIN = "plain"  # Nothing is known or asked.
    PAST = "past"
    FUTURE = "future"
    CONCURRENT = "concurrent"
    SELECTED = "selected"


class Side(StrEnum):
    """On which side of the lane an event's label stands."""

    ABOVE = "above"
    BELOW = "below"


class ArrowKind(StrEnum):
    """What an arrow shows. The last four have one end only and are drawn as short stubs."""

    MESSAGE = "message"
    OWN = "own"  # Sent and received by the same process: an arc on its lane.
    BACKWARDS = "backwards"  # Against the axis: part of a causal cycle, or a clock that disagrees.
    UNRECEIVED = "unreceived"  # Sent and never received.
    UNSENT = "unsent"  # Received, but no event sent it.
    ONWARD = "onward"  # Its receive is among the events left out.
    INCOMING = "incoming"  # Its send is among the events left out.


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What to point out. Ids that the execution does not have are ignored.

    Events are called concurrent with `selected` only if `past` and `future` are both given (they may be
    empty): a set that was not computed (None) says nothing about the events outside it.
    """

    selected: EventId | None = None
    past: Collection[EventId] | None = None
    future: Collection[EventId] | None = None
    violations: Collection[EventId] = ()
    violating_messages: Collection[str] = ()
    failures: Collection[EventId] = ()
    cut: Mapping[str, int] | None = None  # Last index inside, by process; an absent process has none.
    notes: Mapping[EventId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """How to lay out. It validates itself (`ValueError` says what is wrong)."""

    processes: tuple[str, ...] = ()  # Lanes from the top; the other processes follow. Empty lanes are kept.
    axis: Axis = Axis.STEPS
    collapse_local: int | None = None  # Longer runs of unmarked local events become one place. None: never.
    events_max: int = 2_000  # Places drawn at most; what is left out is counted in `Layout.hidden`.
    message_labels: bool | None = None  # None: where messages are few and their ids short.
    column_width: float = 52  # At least this much between neighbouring columns.
    lane_height: float = 78

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", Axis(self.axis))  # Plain "clocks" is welcome, "clokcs" is not.
        if len(set(self.processes)) < len(self.processes):
            raise ValueError("processes names a process twice")
        if self.collapse_local is not None and self.collapse_local < 1:
            raise ValueError(f"collapse_local {self.collapse_local} is not at least 1")
        if self.events_max < 1:
            raise ValueError(f"events_max {self.events_max} is not at least 1")
        if not 24 <= self.column_width <= 1_000:
            raise ValueError(f"column_width {self.column_width} is not between 24 and 1000")
        if not 48 <= self.lane_height <= 1_000:
            raise ValueError(f"lane_height {self.lane_height} is not between 48 and 1000")


NO_MARKS: Final = Marks()
DEFAULT_OPTIONS: Final = LayoutOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The line of one process."""

    process: str
    label: str  # The name, made safe and cut to fit.
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one event stands, or a collapsed run of local events of one process."""

    events: tuple[Event, ...]  # More than one: a collapsed run, in index order.
    lane: int  # Position in `Layout.lanes`.
    column: int  # Step of the causal order, from 0, among the columns that are drawn.
    x: float
    y: float
    role: Role
    violation: bool
    failure: bool
    untimed: bool  # On the axis of clocks: the event has no time, its place is an estimate.
    note: int | None  # Number of its note.
    label: str  # The name, made safe and cut to fit; empty where there is no room.
    label_side: Side

    @property
    def id(self) -> EventId:
        return self.events[0].id

    @property
    def count(self) -> int:
        return len(self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """One arrow. Messages with the same two ends share one, and so do equal stubs at one event."""

    kind: ArrowKind
    messages: tuple[str, ...]  # Empty: the clock of a process stepped back between two of its events.
    send: EventId | None
    receive: EventId | None
    points: tuple[Point, ...]  # Two: a line; three: a quadratic curve; four: a cubic one.
    role: Role
    violation: bool
    inferred: bool  # No source named these messages.
    label: str
    label_at: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The part of a lane that lies in the past or in the future of the selected event."""

    lane: int
    x1: float
    x2: float
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A spot on a lane where `count` events were left out."""

    lane: int
    x: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark of the axis of clocks."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A numbered note on an event."""

    number: int  # From 1, in reading order.
    event: EventId
    text: str  # As given.


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All coordinates of one diagram."""

    lanes: tuple[Lane, ...]
    places: tuple[Place, ...]  # By lane, then by index.
    arrows: tuple[Arrow, ...]
    spans: tuple[Span, ...]
    gaps: tuple[Gap, ...]
    front: tuple[Point, ...]  # Where the cut crosses each lane, from the top; empty without a cut.
    ticks: tuple[Tick, ...]  # Empty on the axis of steps.
    notes: tuple[Note, ...]
    axis: Axis  # The one used: without any time, "clocks" falls back to "steps".
    hidden: int  # Events left out because of `events_max`.
    warnings: tuple[str, ...]  # Sentences that the drawing must show, such as how much was left out.
    left: float  # Where the lanes begin; the process names stand left of it.
    right: float  # Where they end.
    width: float
    height: float
