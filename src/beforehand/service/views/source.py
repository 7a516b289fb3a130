"""What a picture is drawn from: a store, a history directory or histories in memory, all asked in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from beforehand.events import Event, EventId
from beforehand.formats.failing import is_failure
from beforehand.service.reaching import Reach
from beforehand.service.views.lanes import Axis, Lanes

__all__ = ["Detail", "Executions", "Point", "Source", "Violations", "detail_of", "violations_of"]

Point = tuple[int, int]  # A lane and an index.
Received = Sequence[tuple[str, str, int]]  # Messages with the processes and indexes of their sends.


@dataclass(frozen=True, slots=True)
class Executions:
    """The newest first."""

    listed: Sequence[tuple[str, int]]  # Names, and how many events each has.
    more: bool
    failures: Mapping[str, int] | None = None  # By name; None where counting them would mean to read all events.


@dataclass(frozen=True, slots=True)
class Detail:
    """What a picture says of an event, beside its place."""

    name: str
    kind: str
    failure: bool
    state: str
    received: Received


@dataclass(frozen=True, slots=True)
class Violations:
    """What was found wrong in an execution."""

    count: int | None  # How many there are; None if nobody has looked yet.
    listed: Sequence[Mapping[str, Any]]  # kind, events, messages, why.
    points: Sequence[frozenset[tuple[str, int]]]  # Of each, its events as (process, index).


class Source(Protocol):
    """Any thread may call any method."""

    @property
    def name(self) -> str:
        """As `source` in documents."""
        ...

    def executions(self, most: int) -> Executions: ...

    def one_execution(self, execution: str | None) -> str | None:
        """The execution that is meant, which is there; the only one if None. None if there is no event at all."""
        ...

    def lanes(self, execution: str, axis: Axis | None) -> Lanes:
        """`axis` None: time, or steps where no event has a time."""
        ...

    def details(self, lanes: Lanes, points: Sequence[Point]) -> list[Detail | None]:
        """None for an event that is gone meanwhile."""
        ...

    def find_id(self, event: EventId | str) -> EventId:
        """The one event that is meant."""
        ...

    def reach(self, event: EventId) -> Reach: ...

    def violations(self, execution: str) -> Violations: ...

    def close(self) -> None: ...


def detail_of(event: Event, received: Received, state: str) -> Detail:
    return Detail(event.name, event.kind.value, is_failure(event.attributes), state, received)


def violations_of(execution: str, count: int | None, documents: Sequence[Mapping[str, Any]]) -> Violations:
    """Of the documents of `checks`."""
    listed, points = [], []
    for one in documents:
        listed.append({key: one[key] for key in ("kind", "events", "messages", "why")})
        names = (event.removeprefix(f"{execution}/" if execution else "").rpartition(":") for event in one["events"])
        points.append(frozenset((process, int(index)) for process, _, index in names))
    return Violations(count, listed, points)
