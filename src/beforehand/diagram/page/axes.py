"""Where an event stands from left to right on the page, along each axis that it offers.

`steps`: the column of the layout. `time`: causal time, the latest clock reading in the event's past, itself included,
as in the service; it never falls along a process or a message. `clocks`: the process's own clock, as the layout reads
it, which may run against a message. The last two are there if any event has a time.

Places are integers below 2⁵³, what every reader of JSON holds, in units of `unit` nanoseconds after `origin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.axis import clock_times
from beforehand.diagram.graph import Graph, layers
from beforehand.events import EventId

__all__ = ["Axes", "axes_of"]

_PLACE_MAX: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes that there are, with what the page must know of each; and places by event."""

    described: dict[str, dict[str, object]]
    places: Mapping[str, Mapping[EventId, int]]  # Of all axes but steps.


def axes_of(graph: Graph) -> Axes:
    """`graph` has every event by itself."""
    columns, ignored = layers(graph)
    described: dict[str, dict[str, object]] = {"steps": {"origin": "0", "unit": 1}}
    places: dict[str, Mapping[EventId, int]] = {}
    clocks = clock_times(graph, columns)
    if clocks is not None:
        for name, times in (("time", _causal_times(graph, columns, ignored)), ("clocks", clocks[0])):
            known = [time for time in times if time is not None]
            origin = min(known)
            unit = (max(known) - origin) // _PLACE_MAX + 1
            described[name] = {"origin": str(origin), "unit": unit}
            places[name] = {
                unit_of[0].id: 0 if time is None else (time - origin) // unit
                for unit_of, time in zip(graph.nodes, times, strict=True)
            }
    return Axes(described, places)


def _causal_times(graph: Graph, columns: Sequence[int], ignored: set[int]) -> list[int | None]:
    times: list[int | None] = [unit[0].time for unit in graph.nodes]
    sources: list[list[int]] = [[] for _ in graph.nodes]
    for number, edge in enumerate(graph.edges):
        if edge.send is not None and edge.receive is not None and number not in ignored:
            sources[edge.receive].append(edge.send)
    for node in sorted(range(len(graph.nodes)), key=lambda node: columns[node]):  # Causes come first.
        if node > graph.starts[graph.process_of[node]]:
            sources[node].append(node - 1)
        known = [time for time in (times[node], *(times[source] for source in sources[node])) if time is not None]
        times[node] = max(known, default=None)
    return times
