"""How one event is related to all others of its execution: two numbers per process, for stamps grow along it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beforehand.events import EventId
from beforehand.history import History

__all__ = ["Reach", "reach_in_memory"]


@dataclass(frozen=True, slots=True)
class Reach:
    """What is neither in its past nor in its future is concurrent, or the event itself."""

    past_to: dict[str, int]  # Per process, the greatest index in its past; no entry: nothing is.
    future_from: dict[str, int]  # Per process, the least index in its future; no entry: nothing is.


def reach_in_memory(history: History, event: EventId) -> Reach:
    """By bisection over the stamps of the history."""
    columns = history.columns
    process = columns.processes.index(event.process)
    past = {name: index for name, index in history.stamp(event).items() if name != event.process}
    future: dict[str, int] = {}
    for at, name in enumerate(columns.processes):
        first, end = int(columns.start[at]), int(columns.start[at + 1])
        if at == process:
            row = first + int(np.searchsorted(columns.index[first:end], event.index))
            if row > first:
                past[name] = int(columns.index[row - 1])
            row += 1
        else:
            row = first + int(np.searchsorted(history.stamps[first:end, process], event.index))
        if row < end:
            future[name] = int(columns.index[row])
    return Reach(past, future)
