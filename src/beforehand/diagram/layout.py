"""From the events of one execution to the coordinates of its space-time diagram. Pure: no drawing here.

Guarantees, on the axis of steps:

1. One lane per process; the events of a process stand on its lane in index order, never two at one spot.
2. Every message arrow points to the right. Messages that close a causal cycle cannot: those arrows, and
   only those, are of kind `backwards`.
3. The same events give the same layout, in whatever order they come.
4. At most `events_max` places. The ones nearest to what is marked are kept, else the first ones, and
   `hidden` counts the events left out.

On the axis of clocks x grows with the clock readings as they came. An arrow of kind `backwards` is then a
receive whose clock was behind that of its send, or two events between which a clock stepped back.

The layout is a list of passes, each a small function of the results before it. Columns come from
longest-path layering, as in ShiViz. Cost: n log n in events and messages; nothing recurses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from beforehand.diagram.arrows import CROSSED_MAX, RADIUS, Link, arrow_of, find_links
from beforehand.diagram.axis import causal_positions, clock_times, compact_columns, ticks_of, time_positions
from beforehand.diagram.graph import Graph, build_graph, layers
from beforehand.diagram.labels import LABEL_GAP, LABEL_ROOM, LABEL_SIZE, event_labels, label_arrows, label_sides
from beforehand.diagram.marking import Marking
from beforehand.diagram.model import (
    DEFAULT_OPTIONS,
    NO_MARKS,
    Arrow,
    Axis,
    Gap,
    Lane,
    Layout,
    LayoutOptions,
    Marks,
    Note,
    Place,
    Point,
    Role,
    Span,
)
from beforehand.diagram.shortening import Shortening
from beforehand.diagram.text import BOLD, natural_key, visible, width_of
from beforehand.events import Event, EventId

__all__ = ["RUN_HALF_WIDTH", "layout"]

RUN_HALF_WIDTH: Final = 19.0  # Of the pill that stands for a collapsed run.

_MARGIN: Final = 20.0
_LANE_LABEL_SIZE: Final = 12.5 * BOLD
_LANE_LABEL_ROOM: Final = 150.0
_LANE_LABEL_PADDING: Final = 11.0
_LEAD: Final = 46.0  # From the start of a lane to its first place: room for a stub from the left.
_PLACE_ROOM: Final = RADIUS + 5.0  # Half of what an unlabelled place takes on its lane.
_CROWD_ROOM: Final = 25.0  # On the axis of clocks labels may ask for this much: the distances should say something.
_TIME_ROOM: Final = 34.0  # Average pixels per event on the axis of clocks.
_FRONT_LEAD: Final = 24.0  # How far after an event the cut crosses, where there is room.


def layout(events: Iterable[Event], *, marks: Marks = NO_MARKS, options: LayoutOptions = DEFAULT_OPTIONS) -> Layout:
    """Lay out the events of one execution.

    Raises `InputError` if they are of several executions or one is given twice.
    """
    marking = Marking(marks)
    graph = build_graph(events, collapse_local=options.collapse_local, keep=marking.is_marked, cut=marks.cut or {})
    columns, ignored = layers(graph)
    kept = _keep_nearest(graph, columns, marking.focus(graph), options.events_max)
    column_of = compact_columns(columns, kept)
    clock = clock_times(graph, columns) if options.axis is Axis.CLOCKS else None
    times = clock[0] if clock else None

    lane_order = _order_lanes(graph, kept, columns, options.processes)
    lanes, left = _lanes(lane_order, options.lane_height)
    rows = _rows(graph, kept, lane_order)
    names = {node: visible(_name(graph.nodes[node]), 80) for node in kept}
    if times is None:
        asked = {node: _half_width(graph.nodes[node], names[node]) for node in kept}
        offsets = causal_positions(column_of, rows, asked, step=options.column_width)
    else:
        asked = {node: min(_half_width(graph.nodes[node], names[node]), _CROWD_ROOM) for node in kept}
        offsets = time_positions(times, columns, rows, asked, room=_TIME_ROOM)
    start = left + max([_LEAD, *(asked[node] + 6 for node in kept if offsets[node] == 0)])
    at = {node: (start + offsets[node], lanes[row].y) for row, nodes in enumerate(rows) for node in nodes}
    right = max((at[node][0] + max(_LEAD, asked[node]) for node in kept), default=start)

    roles = {node: marking.role(graph.nodes[node][0].id) for node in kept}
    links = find_links(graph, ignored=ignored, kept=column_of.keys(), times=times)
    arrows = _arrows(links, graph, at, rows, lanes, roles, marking)
    numbers = _number_notes(graph, column_of, at, marks.notes)
    sides = label_sides(links, arrows, kept)
    labels = event_labels(rows, at, names, sides, left, right)
    places = tuple(
        Place(
            events=graph.nodes[node],
            lane=row,
            column=column_of[node],
            x=at[node][0],
            y=at[node][1],
            role=roles[node],
            violation=graph.nodes[node][0].id in marking.violations,
            failure=graph.nodes[node][0].id in marking.failures,
            untimed=clock is not None and clock[1][node],
            note=numbers.get(node),
            label=labels[node],
            label_side=sides[node],
        )
        for row, nodes in enumerate(rows)
        for node in nodes
    )
    total = sum(map(len, graph.nodes))
    hidden = total - sum(place.count for place in places)
    return Layout(
        lanes=lanes,
        places=places,
        arrows=label_arrows(arrows, places, options.lane_height, wanted=options.message_labels),
        spans=_spans(places, left, right),
        gaps=_gaps(graph, lane_order, rows, at, left, right),
        front=() if marks.cut is None else _front(places, lanes, marks.cut, left, right),
        ticks=() if times is None else ticks_of(times, offsets, start),
        notes=_notes(graph, numbers, marks.notes),
        axis=Axis.STEPS if times is None else Axis.CLOCKS,
        hidden=hidden,
        warnings=_warnings(hidden, total, fell_back=options.axis is Axis.CLOCKS and times is None),
        left=left,
        right=right,
        width=right + _MARGIN,
        height=len(lanes) * options.lane_height,
    )


def _keep_nearest(graph: Graph, columns: Sequence[int], focus: Sequence[int], limit: int) -> list[int]:
    """The nodes to draw, in order: those with the fewest columns between them and the focus, else the first."""
    if len(graph.nodes) <= limit:
        return list(range(len(graph.nodes)))
    centres = sorted({columns[node] for node in focus}) or [0]

    def distance(node: int) -> int:
        position = bisect_left(centres, columns[node])
        return min(abs(columns[node] - centre) for centre in centres[max(0, position - 1) : position + 1])

    # What is in focus goes first even if its column alone is over the limit.
    in_focus = set(focus)
    ranked = sorted(
        range(len(graph.nodes)), key=lambda node: (node not in in_focus, distance(node), columns[node], node)
    )
    return sorted(ranked[:limit])


def _order_lanes(graph: Graph, kept: Sequence[int], columns: Sequence[int], wanted: Sequence[str]) -> list[str]:
    """The wanted processes as given, then the others that have something to show, by first column, then name."""
    first: dict[str, int] = {}
    for node in kept:
        process = graph.processes[graph.process_of[node]]
        first[process] = min(columns[node], first.get(process, columns[node]))
    others = sorted(first.keys() - set(wanted), key=lambda process: (first[process], natural_key(process)))
    return [*wanted, *others]


def _lanes(order: Sequence[str], height: float) -> tuple[tuple[Lane, ...], float]:
    names = Shortening(order, lambda text: width_of(text, _LANE_LABEL_SIZE))
    lanes = tuple(
        Lane(
            process=process,
            label=names.fit(process, _LANE_LABEL_ROOM) or "…",
            y=height * (number + 0.5),
        )
        for number, process in enumerate(order)
    )
    widest = max((width_of(lane.label, _LANE_LABEL_SIZE) for lane in lanes), default=0.0)
    return lanes, _MARGIN + widest + 2 * _LANE_LABEL_PADDING


def _rows(graph: Graph, kept: Sequence[int], order: Sequence[str]) -> list[list[int]]:
    row_of = {process: row for row, process in enumerate(order)}
    rows: list[list[int]] = [[] for _ in order]
    for node in kept:
        rows[row_of[graph.processes[graph.process_of[node]]]].append(node)
    return rows


def _name(unit: tuple[Event, ...]) -> str:
    return unit[0].name if len(unit) == 1 else ""  # A run has many names; its pill says how many.


def _half_width(unit: tuple[Event, ...], name: str) -> float:
    if len(unit) > 1:
        return RUN_HALF_WIDTH + LABEL_GAP
    return max(_PLACE_ROOM, (min(width_of(name, LABEL_SIZE), LABEL_ROOM) + LABEL_GAP) / 2 + 1)


def _arrows(
    links: Sequence[Link],
    graph: Graph,
    at: Mapping[int, Point],
    rows: Sequence[Sequence[int]],
    lanes: Sequence[Lane],
    roles: Mapping[int, Role],
    marking: Marking,
) -> tuple[Arrow, ...]:
    occupied = [(lane.y, sorted(at[node][0] for node in row)) for lane, row in zip(lanes, rows, strict=True)]
    row_of = {node: number for number, row in enumerate(rows) for node in row}
    arrows: list[Arrow] = []
    for link in links:
        crossed: Sequence[tuple[float, Sequence[float]]] = ()
        if link.send is not None and link.receive is not None:
            upper, lower = sorted((row_of[link.send], row_of[link.receive]))
            if lower - upper - 1 <= CROSSED_MAX:
                crossed = occupied[upper + 1 : lower]
        arrows.append(
            arrow_of(
                link,
                graph,
                at=at,
                roles=roles,
                crossed=crossed,
                violating=marking.violating_messages,
            )
        )
    return tuple(arrows)


def _number_notes(
    graph: Graph, kept: Mapping[int, int], at: Mapping[int, Point], notes: Mapping[EventId, str]
) -> dict[int, int]:
    """Numbers in reading order: from left to right, then from the top."""
    noted = [node for node in kept if graph.nodes[node][0].id in notes] if notes else []
    return {node: number for number, node in enumerate(sorted(noted, key=lambda node: at[node]), start=1)}


def _notes(graph: Graph, numbers: Mapping[int, int], notes: Mapping[EventId, str]) -> tuple[Note, ...]:
    return tuple(
        Note(number=number, event=graph.nodes[node][0].id, text=notes[graph.nodes[node][0].id])
        for node, number in numbers.items()
    )


def _spans(places: Sequence[Place], left: float, right: float) -> tuple[Span, ...]:
    """The past of an event is a beginning of each lane, its future an end: the two cones."""
    ends: dict[int, float] = {}
    beginnings: dict[int, float] = {}
    in_use = {place.role for place in places}
    for place in places:
        if place.role is Role.PAST or (place.role is Role.SELECTED and Role.PAST in in_use):
            ends[place.lane] = max(place.x, ends.get(place.lane, left))
        if place.role is Role.FUTURE or (place.role is Role.SELECTED and Role.FUTURE in in_use):
            beginnings[place.lane] = min(place.x, beginnings.get(place.lane, right))
    return (
        *(Span(lane=lane, x1=left, x2=x, role=Role.PAST) for lane, x in sorted(ends.items())),
        *(Span(lane=lane, x1=x, x2=right, role=Role.FUTURE) for lane, x in sorted(beginnings.items())),
    )


def _gaps(
    graph: Graph,
    order: Sequence[str],
    rows: Sequence[Sequence[int]],
    at: Mapping[int, Point],
    left: float,
    right: float,
) -> tuple[Gap, ...]:
    number_of = {process: number for number, process in enumerate(graph.processes)}
    gaps: list[Gap] = []
    for lane, (process, row) in enumerate(zip(order, rows, strict=True)):
        if process not in number_of:
            continue  # A wanted process without events.
        number = number_of[process]
        bounds = [graph.starts[number] - 1, *row, graph.starts[number + 1]]
        xs = [left, *(at[node][0] for node in row), right]
        for (one, other), (x1, x2) in zip(pairwise(bounds), pairwise(xs), strict=True):
            count = sum(len(unit) for unit in graph.nodes[one + 1 : other])
            if count:
                gaps.append(Gap(lane=lane, x=(x1 + x2) / 2, count=count))
    return tuple(gaps)


def _front(
    places: Sequence[Place], lanes: Sequence[Lane], cut: Mapping[str, int], left: float, right: float
) -> tuple[Point, ...]:
    """Where the cut crosses each lane: after all events inside and before all others, as straight as can be."""
    inside = [left] * len(lanes)
    outside = [right] * len(lanes)
    for place in places:
        if place.events[-1].index <= cut.get(lanes[place.lane].process, 0):
            inside[place.lane] = max(inside[place.lane], place.x)
        else:
            outside[place.lane] = min(outside[place.lane], place.x)
    straight = max(inside, default=left) + _FRONT_LEAD
    points: list[Point] = []
    for lane, x1, x2 in zip(lanes, inside, outside, strict=True):
        room = (x2 - x1) / 2
        points.append((min(max(straight, x1 + min(_FRONT_LEAD, room)), x2 - min(_FRONT_LEAD, room)), lane.y))
    return tuple(points)


def _warnings(hidden: int, total: int, *, fell_back: bool) -> tuple[str, ...]:
    warnings: list[str] = []
    if hidden:
        warnings.append(f"{hidden:,} of {total:,} events are not drawn.")
    if fell_back:
        warnings.append("No event has a time: drawn in causal order.")
    return tuple(warnings)
