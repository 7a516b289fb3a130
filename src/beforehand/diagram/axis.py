"""The passes that give each drawn node its x: by steps of causality, or by the processes' clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from beforehand.diagram.graph import Graph
from beforehand.diagram.model import Tick

__all__ = ["causal_positions", "clock_times", "compact_columns", "ticks_of", "time_positions"]

_STEP_MIN: Final = 4.0  # Between neighbouring moments on different lanes.
_SILENCE_MAX: Final = 130.0  # A longer pause is drawn this long: the events matter, not the waiting.
_TICK_DISTANCE: Final = 150.0
_FAR: Final = 3  # Labels further apart than this many columns have room anyway.


def compact_columns(columns: Sequence[int], kept: Sequence[int]) -> dict[int, int]:
    """The column of each kept node, renumbered so that no column is empty. Keeps their order."""
    used = sorted({columns[node] for node in kept})
    renumbered = {column: number for number, column in enumerate(used)}
    return {node: renumbered[columns[node]] for node in kept}


def causal_positions(
    column_of: Mapping[int, int],
    rows: Sequence[Sequence[int]],
    half_widths: Mapping[int, float],
    *,
    step: float,
) -> dict[int, float]:
    """Columns to pixels, from 0. A column is as wide as the labels in it ask for, and at least `step`."""
    widths = [step] * (max(column_of.values(), default=0) + 1)  # Before each column; the first is unused.
    for row in rows:
        for one, other in pairwise(row):
            first, last = column_of[one], column_of[other]
            if last - first <= _FAR:
                share = (half_widths[one] + half_widths[other]) / (last - first)
                for column in range(first + 1, last + 1):
                    widths[column] = max(widths[column], share)
    starts = [0.0]
    for width in widths[1:]:
        starts.append(starts[-1] + width)
    return {node: starts[column] for node, column in column_of.items()}


def clock_times(graph: Graph, columns: Sequence[int]) -> tuple[list[int], list[bool]] | None:
    """The time of each node and whether it is an estimate; None if no event has a time.

    An event without a time stands between its neighbours on the process, or with the nearest one at the
    ends. On a process that has no times at all, it stands with the latest of its causes.
    """
    known = [next((event.time for event in unit if event.time is not None), None) for unit in graph.nodes]
    earliest = min((time for time in known if time is not None), default=None)
    if earliest is None:
        return None
    times = [earliest if time is None else time for time in known]
    timeless: set[int] = set()
    for start, stop in pairwise(graph.starts):
        anchors = [node for node in range(start, stop) if known[node] is not None]
        if not anchors:
            timeless.update(range(start, stop))
            continue
        times[start : anchors[0]] = [times[anchors[0]]] * (anchors[0] - start)
        times[anchors[-1] + 1 : stop] = [times[anchors[-1]]] * (stop - anchors[-1] - 1)
        for one, other in pairwise(anchors):
            for node in range(one + 1, other):
                times[node] = times[one] + (times[other] - times[one]) * (node - one) // (other - one)
    if timeless:
        _borrow_times(graph, columns, times, timeless)
    return times, [time is None for time in known]


def time_positions(
    times: Sequence[int],
    columns: Sequence[int],
    rows: Sequence[Sequence[int]],
    half_widths: Mapping[int, float],
    *,
    room: float,
) -> dict[int, float]:
    """Times to pixels, from 0: later is further right, always.

    In proportion, except that long silences are shortened and crowds spread: `half_widths` keeps the
    places of one lane apart. Equal times stand in causal order.
    """
    row_of = {node: number for number, row in enumerate(rows) for node in row}
    ordered = sorted(row_of, key=lambda node: (times[node], columns[node], node))
    if not ordered:
        return {}
    span = times[ordered[-1]] - times[ordered[0]]
    scale = room * len(ordered) / max(span, 1)
    positions: dict[int, float] = {}
    free_from = [float("-inf")] * len(rows)  # Where the latest place of each lane ends.
    x = 0.0
    previous = ordered[0]
    for node in ordered:
        if (times[node], columns[node]) != (times[previous], columns[previous]):
            x += min(max((times[node] - times[previous]) * scale, _STEP_MIN), _SILENCE_MAX)
        row = row_of[node]
        x = max(x, free_from[row] + half_widths[node])
        positions[node] = x
        free_from[row] = x + half_widths[node]
        previous = node
    return positions


def ticks_of(times: Sequence[int], positions: Mapping[int, float], offset: float) -> tuple[Tick, ...]:
    """Marks for the axis of clocks: time since the first event, where an event stands, not too close."""
    ticks: list[Tick] = []
    ordered = sorted(positions, key=lambda node: (positions[node], times[node], node))
    for node in ordered:
        x = positions[node] + offset
        if not ticks or x - ticks[-1].x >= _TICK_DISTANCE:
            ticks.append(Tick(x=x, label=_elapsed(times[node] - times[ordered[0]])))
    return tuple(ticks)


def _borrow_times(graph: Graph, columns: Sequence[int], times: list[int], timeless: set[int]) -> None:
    causes: dict[int, list[int]] = {}
    for edge in graph.edges:
        if edge.receive in timeless and edge.send is not None:
            causes.setdefault(edge.receive, []).append(edge.send)
    for node in sorted(timeless, key=lambda node: (columns[node], node)):  # Causes come before effects.
        if node > graph.starts[graph.process_of[node]]:
            times[node] = times[node - 1]
        times[node] = max([times[node], *(times[cause] for cause in causes.get(node, ()))])


def _elapsed(nanoseconds: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if nanoseconds >= size:
            return f"+{nanoseconds / size:.6g} {unit}"
    return f"+{nanoseconds} ns" if nanoseconds else "0"
