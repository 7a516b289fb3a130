"""Synchronous order, judged from the events alone: can every message be given one instant?

It can iff there is no cycle among messages in which each has an event (its send or its delivery) before an event of
the next one on some process; such a cycle is a crown.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from beforehand.events import Event

__all__ = ["synchrony"]


def synchrony(events: Iterable[Event], *, without: Iterable[str] = ()) -> list[str]:
    """What is wrong, as lines. Events of the processes in `without` do not count."""
    last: dict[str, str] = {}
    before: TopologicalSorter[str] = TopologicalSorter()
    aside = set(without)
    for event in sorted(events, key=lambda event: (event.process, event.index or 0)):
        if event.process in aside:
            continue
        for message in (*event.receives, *event.sends):
            if event.process in last and last[event.process] != message:
                before.add(message, last[event.process])
            last[event.process] = message
    try:
        before.prepare()
    except CycleError as error:
        return [f"synchronous order: {' before '.join(error.args[1])}: these messages have no instants"]
    return []
