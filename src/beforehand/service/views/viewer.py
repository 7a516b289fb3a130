"""The documents that the page draws: an overview, windows, where an event is, and how it is related to all others.

1. A window gives events one by one while they are few (`events_max`), else counts per column: what it costs and how
   long its answer is does not depend on the size of the execution.
2. Numbers are integers below 2⁵³. Places on the x axis are relative to `origin`.
3. `generation` changes whenever lanes get other numbers or the axis another origin: then read the overview again.
4. Every answer is bounded: lanes, columns, events, messages and violations have limits, and what was left out is
   counted.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from beforehand.errors import BeforehandError, InputError, UnknownEventError
from beforehand.events import EventId
from beforehand.service.views.comparing import compare
from beforehand.service.views.lanes import Axis, Lanes, Span
from beforehand.service.views.source import Detail, Point, Source

__all__ = ["COLUMNS_MAX", "EVENTS_DEFAULT", "EVENTS_MAX", "Viewer"]

EXECUTIONS_MAX: Final = 1_000
COLUMNS_MAX: Final = 4_000
EVENTS_MAX: Final = 5_000
EVENTS_DEFAULT: Final = 3_000
CELLS_MAX: Final = 200_000
"""Lanes × columns of one answer; more lanes get fewer columns."""
FLOWS_MAX: Final = 2_000
MESSAGES_MAX: Final = 10_000
VIOLATIONS_MAX: Final = 500

Document = dict[str, Any]


class Viewer:
    """Of one source. Any thread may call any method."""

    def __init__(self, source: Source) -> None:
        self.source: Final = source

    def close(self) -> None:
        self.source.close()

    def warm(self) -> None:
        """Read the newest execution in a thread, so that the first who looks need not wait."""

        def read() -> None:
            # Whatever is wrong will be told to who asks. RuntimeError: it was closed meanwhile.
            with suppress(BeforehandError, RuntimeError, sqlite3.Error):
                for execution, _ in self.source.executions(1).listed:
                    self.source.lanes(execution, None)

        threading.Thread(target=read, name="beforehand-warm", daemon=True).start()

    def overview(self, execution: str | None = None, axis: Axis | None = None) -> Document:
        """What there is: executions, and the lanes of one; of the newest, if none is named."""
        found = self.source.executions(EXECUTIONS_MAX)
        failures = found.failures
        document: Document = {
            "source": self.source.name,
            "executions": [
                {"execution": name, "events": count, "failures": None if failures is None else failures.get(name, 0)}
                for name, count in found.listed
            ],
            "more": found.more,
        }
        if execution is None:
            execution = found.listed[0][0] if found.listed else None
        else:
            execution = self.source.one_execution(execution)
        if execution is None:
            return document | {
                "execution": None,
                "origin": "0",
                "unit": 1,
                "span": 0,
                "axis": "time",
                "events": 0,
                "processes": [],
                "failures": 0,
                "violations": None,
                "cursor": None,
                "generation": "",
            }
        lanes = self.source.lanes(execution, axis)
        processes = [
            {
                "name": lane.process,
                "events": lane.index.size,
                "failures": lane.failing.size,
                "first": lanes.relative(int(lane.x[0])) if lane.x.size else None,
                "last": lanes.relative(int(lane.x[-1])) if lane.x.size else None,
            }
            for lane in lanes.lanes
        ]
        return document | {
            "execution": execution,
            **_axis(lanes),
            "span": lanes.span,
            "events": lanes.count,
            "processes": processes,
            "failures": sum(lane.failing.size for lane in lanes.lanes),
            "violations": self.source.violations(execution).count,
            "cursor": lanes.cursor,
        }

    def window(
        self,
        execution: str | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        columns: int = 1_200,
        lanes: Sequence[int] | None = None,
        events_max: int = EVENTS_DEFAULT,
        axis: Axis | None = None,
    ) -> Document:
        """What lies between two places, both included, on some lanes: events, or counts per column."""
        if not 1 <= columns <= COLUMNS_MAX:
            raise InputError(f"{columns} columns are asked for: ask for 1 to {COLUMNS_MAX}")
        if not 0 <= events_max <= EVENTS_MAX:
            raise InputError(f"events_max is {events_max}: give 0 to {EVENTS_MAX}")
        name = self._execution(execution)
        drawn = self.source.lanes(name, axis)
        end = drawn.span if last is None else last
        if end < first or abs(first) > 2**53 or abs(end) > 2**53:
            raise InputError(f"no window reaches from {first} to {end}: from is the lesser one, both below 2^53")
        chosen = _chosen(drawn, lanes)
        spans = drawn.spans(first, end, chosen)
        count = sum(high - low for _, low, high in spans)
        document: Document = {
            "source": self.source.name,
            "execution": name,
            **_axis(drawn),
            "cursor": drawn.cursor,
            "from": first,
            "to": end,
            "total": count,
        }
        if count <= events_max:
            return document | {"detail": "events", **self._events(drawn, spans)}
        fitting = min(columns, max(CELLS_MAX // max(len(chosen), 1), 1))
        counts = drawn.columns(first, end, fitting, chosen)
        flows, left_out = drawn.flows(first, end, fitting, chosen, FLOWS_MAX)
        return document | {
            "detail": "columns",
            "columns": fitting,
            "counts": {str(lane): rows.tolist() for lane, rows in counts.items()},
            "flows": flows.tolist(),
            "flows_more": left_out,
        }

    def lookup(self, event: EventId | str, axis: Axis | None = None) -> Document:
        """Where an event is."""
        one = self.source.find_id(event)
        lanes = self.source.lanes(one.execution, axis)
        lane, position = _position(lanes, one)
        x, rank = lanes.place(lane, position)
        (detail,) = self.source.details(lanes, [(lane, one.index)])
        if detail is None:
            raise UnknownEventError(str(one))
        return {
            "source": self.source.name,
            "id": str(one),
            "execution": one.execution,
            "process": one.process,
            **_axis(lanes),
            "lane": lane,
            "index": one.index,
            "position": position,
            "x": x,
            "rank": rank,
            "name": detail.name,
            "kind": detail.kind,
            "failure": detail.failure,
            "state": detail.state,
        }

    def relations(
        self, event: EventId | str, lanes: Sequence[int] | None = None, axis: Axis | None = None
    ) -> Document:
        """How an event is related to every other of its execution."""
        one = self.source.find_id(event)
        drawn = self.source.lanes(one.execution, axis)
        lane, position = _position(drawn, one)
        reach = self.source.reach(one)
        rows = []
        for at in _chosen(drawn, lanes):
            process = drawn.lanes[at].process
            rows.append(
                {
                    "lane": at,
                    "past_to": reach.past_to.get(process, 0),
                    "future_from": reach.future_from.get(process),
                    **_edges(drawn, at, reach.past_to.get(process), reach.future_from.get(process)),
                }
            )
        x, rank = drawn.place(lane, position)
        return {
            "source": self.source.name,
            "id": str(one),
            "execution": one.execution,
            **_axis(drawn),
            "lane": lane,
            "index": one.index,
            "x": x,
            "rank": rank,
            "lanes": rows,
        }

    def compare(self, first: str, second: str, other: Viewer | None = None) -> Document:
        """Two executions, of this source or of two, compared process by process."""
        others = other or self
        a, b = self.source.one_execution(first), others.source.one_execution(second)
        if a is None or b is None:
            raise InputError("there are no events to compare")
        return compare(self.source, a, others.source, b)

    # Inside.

    def _execution(self, execution: str | None) -> str:
        name = self.source.one_execution(execution)
        if name is None:
            raise InputError("there are no events yet: report some, or import a file")
        return name

    def _events(self, lanes: Lanes, spans: Sequence[Span]) -> Document:
        places: dict[Point, tuple[int, int]] = {}  # In the order of lanes and indexes.
        for lane, low, high in spans:
            indexes = lanes.lanes[lane].index[low:high].tolist()
            places.update(zip(((lane, index) for index in indexes), lanes.places(lane, low, high), strict=True))
        edges, left_out = lanes.crossing(spans, MESSAGES_MAX)
        ends = lanes.edges
        receives = dict.fromkeys(zip(ends.receiver[edges].tolist(), ends.receive[edges].tolist(), strict=True))
        points = [*places, *(point for point in receives if point not in places)]
        details = dict(zip(points, self.source.details(lanes, points), strict=True))
        events = []
        for (lane, index), (x, rank) in places.items():
            detail = details[lane, index]
            if detail is None:
                continue
            events.append(
                {
                    "id": str(EventId(lanes.execution, lanes.lanes[lane].process, index)),
                    "lane": lane,
                    "index": index,
                    "x": x,
                    "rank": rank,
                    "name": detail.name,
                    "kind": detail.kind,
                    "failure": detail.failure,
                    "state": detail.state,
                }
            )
        shown = {(lanes.lanes[lane].process, index) for lane, index in places}
        found = self.source.violations(lanes.execution)
        violations = [one for one, at in zip(found.listed, found.points, strict=True) if at & shown]
        return {
            "events": events,
            "messages": _messages(lanes, details, places),
            "messages_more": left_out,
            "violations": violations[:VIOLATIONS_MAX],
            "violations_more": max(len(violations) - VIOLATIONS_MAX, 0),
        }


def _messages(
    lanes: Lanes, details: Mapping[Point, Detail | None], places: Mapping[Point, tuple[int, int]]
) -> list[Document]:
    """One document per receive, of those that have an end in the window, whose events have these places."""
    messages: list[Document] = []
    for to, detail in details.items():
        for message, process, sent in () if detail is None else detail.received:
            sender = lanes.names.get(process)
            if sender is None or (to not in places and (sender, sent) not in places):
                continue
            ends = [_end(lanes, *point, places.get(point)) for point in ((sender, sent), to)]
            if None not in ends and len(messages) < MESSAGES_MAX:
                messages.append({"message": message, "from": ends[0], "to": ends[1]})
    return messages


def _axis(lanes: Lanes) -> Document:
    return {
        "axis": lanes.axis,
        "origin": str(lanes.origin),
        "unit": lanes.unit,
        "generation": lanes.generation,
    }


def _chosen(lanes: Lanes, asked: Sequence[int] | None) -> list[int]:
    if asked is None:
        return list(range(len(lanes.lanes)))
    for lane in asked:
        if not 0 <= lane < len(lanes.lanes):
            raise InputError(f"there is no lane {lane}: there are {len(lanes.lanes)}, counted from 0")
    return sorted(set(asked))


def _position(lanes: Lanes, event: EventId) -> tuple[int, int]:
    lane = lanes.names.get(event.process)
    position = None if lane is None else lanes.lanes[lane].position(event.index)
    if lane is None or position is None:
        raise UnknownEventError(str(event))
    return lane, position


def _end(lanes: Lanes, lane: int, index: int, place: tuple[int, int] | None = None) -> Document | None:
    if place is None:
        position = lanes.lanes[lane].position(index)
        if position is None:
            return None
        place = lanes.place(lane, position)
    x, rank = place
    return {"lane": lane, "index": index, "x": x, "rank": rank}


def _edges(lanes: Lanes, lane: int, past_to: int | None, future_from: int | None) -> Document:
    """Where on the axis the past of a lane ends and its future begins, so that columns can be told too."""
    found: Document = {"past_x": None, "future_x": None}
    for key, index in (("past_x", past_to), ("future_x", future_from)):
        end = None if index is None else _end(lanes, lane, index)
        found[key] = None if end is None else end["x"]
    return found
