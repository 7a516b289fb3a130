"""All that the panel of the page shows of each drawn event, and the names by which the page knows processes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from beforehand.diagram.graph import Graph
from beforehand.diagram.model import Marks
from beforehand.diagram.page.times import rfc3339
from beforehand.diagram.text import visible
from beforehand.events import EventId

__all__ = ["names_of", "records_of"]

_NAME_MAX: Final = 200  # Characters of a process's name.
_ATTRIBUTES_MAX: Final = 200
_MESSAGES_MAX: Final = 100  # Of one event.
_PEERS_MAX: Final = 50  # Receivers of one message.


def names_of(processes: Iterable[str]) -> list[str]:
    """The names made visible and cut, each still its own: two that would look alike get a number."""
    taken: set[str] = set()
    names: list[str] = []
    for process in processes:
        shown = name = visible(process, _NAME_MAX)
        number = 1
        while name in taken:
            number += 1
            name = f"{shown} ({number})"
        taken.add(name)
        names.append(name)
    return names


def records_of(
    graph: Graph, drawn: Mapping[EventId, int], marks: Marks, failures: Collection[EventId]
) -> list[dict[str, object]]:
    """One record per drawn event, by its number. `graph` has every event by itself."""
    number_of = [drawn.get(unit[0].id) for unit in graph.nodes]
    receivers: dict[tuple[int, str], list[int]] = {}
    senders: dict[tuple[int, str], int | None] = {}
    for edge in graph.edges:
        if edge.receive is not None:
            senders[edge.receive, edge.message] = edge.send
            if edge.send is not None:
                receivers.setdefault((edge.send, edge.message), []).append(edge.receive)
    failing = frozenset((*failures, *marks.failures))
    records: list[dict[str, object]] = [{} for _ in drawn]
    for node, number in enumerate(number_of):
        if number is None:
            continue
        event = graph.nodes[node][0]
        sends = [_peers(message, receivers.get((node, message), []), number_of) for message in event.sends]
        receives = []
        for message in event.receives:
            source = senders.get((node, message))
            receives.append(_peers(message, [] if source is None else [source], number_of))
        attributes = sorted(event.attributes.items())
        records[number] = {
            "owner": graph.process_of[node],
            "index": str(event.index),  # As text: JavaScript would round one beyond 2^53.
            "kind": str(event.kind),
            "name": visible(event.name),
            "time": "" if event.time is None else rfc3339(event.time),
            "attributes": [[visible(key, 200), visible(value, 2_000)] for key, value in attributes[:_ATTRIBUTES_MAX]],
            "sends": sends[:_MESSAGES_MAX],
            "receives": receives[:_MESSAGES_MAX],
        }
        rare = {
            "failure": event.id in failing,
            "note": visible(marks.notes.get(event.id, ""), 2_000),
            "attributesMore": max(0, len(attributes) - _ATTRIBUTES_MAX),
            "sendsMore": max(0, len(sends) - _MESSAGES_MAX),
            "receivesMore": max(0, len(receives) - _MESSAGES_MAX),
        }
        records[number] |= {
            key: value for key, value in rare.items() if value
        }  # They stand only where they say something.
    return records


def _peers(message: str, nodes: Sequence[int], number_of: Sequence[int | None]) -> dict[str, object]:
    """A message with the events at its other end: those that are drawn by number, the others counted."""
    numbers = [number_of[node] for node in nodes]
    drawn = [number for number in numbers if number is not None]
    return {
        "message": visible(message, 200),
        "events": drawn[:_PEERS_MAX],
        "more": max(0, len(drawn) - _PEERS_MAX),
        "elsewhere": len(numbers) - len(drawn),
    }
