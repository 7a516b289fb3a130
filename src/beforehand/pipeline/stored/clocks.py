"""Vector clocks that count only the events that are shown: what programs expect that read logs with vector clocks.

They want every process to count 1, 2, 3. So each entry of a stamp becomes the number of shown events that it covers;
between shown events, the clocks say exactly what happened before what. For a whole history without gaps in its
indexes, these are the stamps themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from beforehand.events import Event
from beforehand.history import History
from beforehand.pipeline.stored.blocks import CutExecution

if TYPE_CHECKING:
    from beforehand.pipeline.stored.history import StoredHistory

__all__ = ["clocked", "clocked_among"]

Integers = npt.NDArray[np.int64]
Clocked = tuple[Event, dict[str, int]]

STAMP_BYTES_MAX: Final = 64 << 20
"""What the stamps of one pass over a block may take."""


def clocked_among(history: StoredHistory, events: Sequence[Event]) -> Iterator[Clocked]:
    """Events of one execution, each with its clock among them."""
    shown: dict[str, list[int]] = {}
    for event in events:
        shown.setdefault(event.process, []).append(event.index)
    for indexes in shown.values():
        indexes.sort()
    for event in events:
        stamp = history.stamp(event)
        counts = (
            (process, bisect_right(shown[process], index)) for process, index in stamp.items() if process in shown
        )
        yield event, {process: count for process, count in counts if count}


def clocked(history: StoredHistory, execution: str) -> Iterator[Clocked]:
    """All events of an execution with their clocks; each process's own events are in order."""
    if history.is_cut(execution):
        return _of_blocks(history.cut_execution(execution))
    return _in_memory(history.history(execution))


def _in_memory(history: History) -> Iterator[Clocked]:
    columns = history.columns
    indexes = [columns.index[first:end] for first, end in zip(columns.start[:-1], columns.start[1:], strict=True)]
    yield from _counted(columns.events, history.stamps.astype(np.int64), indexes, history.processes)


def _of_blocks(of: CutExecution) -> Iterator[Clocked]:
    parts: list[list[Integers]] = [[] for _ in of.processes]
    for block in of.full.tolist():
        start, index = of.start(block), of.keys(block).index
        for member in np.flatnonzero(of.sizes[block]).tolist():
            parts[member].append(index[start[member] : start[member + 1]])
    indexes = [np.concatenate(part) for part in parts]
    at_once = max(STAMP_BYTES_MAX // (8 * of.width), 1)
    for block in of.full.tolist():
        size = int(of.sizes[block].sum())
        for first in range(0, size, at_once):
            rows = range(first, min(first + at_once, size))
            stamps = of.stamps(block, rows).astype(np.int64)
            yield from _counted(of.events(block, rows), stamps, indexes, of.processes)


def _counted(
    events: Sequence[Event], stamps: Integers, indexes: Sequence[Integers], processes: Sequence[str]
) -> Iterator[Clocked]:
    counts = np.empty_like(stamps)
    for member, index in enumerate(indexes):
        counts[:, member] = np.searchsorted(index, stamps[:, member], side="right")
    for event, row in zip(events, counts, strict=True):
        yield event, {processes[member]: int(row[member]) for member in np.flatnonzero(row).tolist()}
