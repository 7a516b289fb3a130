"""Which drawn places are directly before which: all that the page needs to find an event's past and future.

The page searches this graph. Its answer is exact for the events that were given, also where the way from one drawn
event to another leads through events that are not drawn: those are contracted here. Messages that close a causal
cycle are left out, as the layout does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from beforehand.diagram.graph import Graph, layers
from beforehand.diagram.model import Layout
from beforehand.events import EventId

__all__ = ["Relations", "direct_causes"]

Relations = Mapping[EventId, Collection[EventId]]


def direct_causes(graph: Graph, drawn: Layout, relations: Relations) -> list[list[int]]:
    """Per place of the layout, the places from which there is a way to it that meets no other place.

    `graph` has every event by itself. `relations` adds what is known from elsewhere: event -> events before it.
    Linear in events and messages, times the processes that a hidden stretch can hear from.
    """
    place_of = {event.id: at for at, place in enumerate(drawn.places) for event in place.events}
    at_place = [place_of.get(unit[0].id) for unit in graph.nodes]
    causes = _contracted(graph, at_place, len(drawn.places))
    for event, earlier in relations.items():
        place = place_of.get(event)
        if place is not None:
            causes[place].update(place_of[one] for one in earlier if one in place_of)
    return [sorted(ones - {place}) for place, ones in enumerate(causes)]


def _contracted(graph: Graph, at_place: Sequence[int | None], places: int) -> list[set[int]]:
    columns, ignored = layers(graph)
    senders: list[list[int]] = [[] for _ in graph.nodes]
    for number, edge in enumerate(graph.edges):
        if edge.send is not None and edge.receive is not None and number not in ignored:
            senders[edge.receive].append(edge.send)
    causes: list[set[int]] = [set() for _ in range(places)]
    # Of a node that is not drawn: the latest drawn node of each process that it heard from without meeting a later
    # one on the way. Shared between nodes wherever nothing is added; never changed.
    heard: dict[int, dict[int, int]] = {}
    for node in sorted(range(len(graph.nodes)), key=lambda node: columns[node]):  # Causes come first.
        sources = list(senders[node])
        if node > graph.starts[graph.process_of[node]]:
            sources.append(node - 1)
        place = at_place[node]
        parts = [
            {graph.process_of[source]: source} if at_place[source] is not None else heard[source]
            for source in sources
        ]
        if place is not None:
            found = (at_place[source] for part in parts for source in part.values())
            causes[place].update(one for one in found if one is not None)
        elif len(parts) == 1:
            heard[node] = parts[0]
        else:
            merged: dict[int, int] = {}
            for part in parts:
                for process, source in part.items():
                    merged[process] = max(source, merged.get(process, source))
            heard[node] = merged
    return causes
