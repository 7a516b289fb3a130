"""The past of an event, newest first, out of as few blocks as possible.

Along a process causal time and size of past only grow, so in each block only the last untaken event of each process
can be next. A block that was not read yet stands in the queue with an upper bound of what it holds: the greatest
causal time at its end, and the size of its cut; it is read only once that bound is the greatest of all. The answer is
exact: the order is that of `History.explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.stored.blocks import CutExecution, Place

__all__ = ["newest_first", "past_count"]

Integers = npt.NDArray[np.int64]
Chosen = Callable[[int, Integers], Integers]

_Entry = tuple[int, int, int, int, int, int]  # Less is newer: see `_head` and `newest_first`.
_NOT_READ = -1


def past_count(execution: CutExecution, stamp: Integers) -> int:
    """How many events a stamp knows, those that are present."""
    return sum(execution.last_upto(member, int(stamp[member]))[1] for member in np.flatnonzero(stamp).tolist())


def newest_first(
    execution: CutExecution, place: Place, stamp: Integers, chosen: Chosen | None = None, process: int | None = None
) -> Iterator[Place]:
    """The past of the event at `place`, which has this stamp, against the deterministic order.

    `chosen` narrows the rows (growing) of a block down; `process` leaves only that one.
    """
    reach = stamp.copy()
    member = int(np.searchsorted(execution.start(place.block), place.row, side="right")) - 1
    reach[member] -= 1  # Not the event itself.
    if process is not None:
        reach[np.arange(reach.size) != process] = 0
    here = (reach > execution.cuts[:-1]) & (execution.sizes > 0)
    time_bound = np.where(here, execution.times, NO_TIME).max(axis=1, initial=NO_TIME)
    queue: list[_Entry] = []
    for block in np.flatnonzero(here.any(axis=1)).tolist():
        size_bound = sum(np.minimum(execution.cuts[block + 1], stamp).tolist())
        # Before any event with the same causal time and size of past: it may hold a greater one.
        queue.append((-int(time_bound[block]), -size_bound, -execution.width, 0, block, _NOT_READ))
    heapify(queue)
    heads: dict[tuple[int, int], Integers] = {}  # Per block and process that were read: the rows not taken yet.
    while queue:
        _, _, minus_member, _, block, row = heappop(queue)
        if row == _NOT_READ:
            for p, rows in _reached(execution, block, reach, here[block], chosen):
                heads[block, p] = rows
                heappush(queue, _head(execution, block, p, rows))
            continue
        yield Place(block, row)
        p = -minus_member
        rest = heads[block, p] = heads[block, p][:-1]
        if rest.size:
            heappush(queue, _head(execution, block, p, rest))
        else:
            del heads[block, p]


def _head(execution: CutExecution, block: int, member: int, rows: Integers) -> _Entry:
    row = int(rows[-1])
    keys = execution.keys(block)
    return (-int(keys.causal_time[row]), -int(keys.past_size[row]), -member, -int(keys.index[row]), block, row)


def _reached(
    execution: CutExecution, block: int, reach: Integers, here: npt.NDArray[np.bool_], chosen: Chosen | None
) -> Iterator[tuple[int, Integers]]:
    start = execution.start(block)
    index = execution.keys(block).index
    spans = []
    for p in np.flatnonzero(here).tolist():
        first, end = int(start[p]), int(start[p + 1])
        end = first + int(np.searchsorted(index[first:end], reach[p], side="right"))
        if end > first:
            spans.append((p, np.arange(first, end)))
    if chosen is None:
        yield from spans
        return
    if spans:
        kept = chosen(block, np.concatenate([rows for _, rows in spans]))
        for p, rows in spans:
            mine = kept[np.searchsorted(kept, rows[0]) : np.searchsorted(kept, rows[-1], side="right")]
            if mine.size:
                yield p, mine
