"""The same as reaching.py, of an execution that was cut into blocks."""

from __future__ import annotations

import numpy as np

from beforehand.events import EventId
from beforehand.pipeline.stored.blocks import CutExecution
from beforehand.pipeline.stored.relating import first_knowing_block
from beforehand.service.reaching import Reach

__all__ = ["reach_in_blocks"]


def reach_in_blocks(of: CutExecution, event: EventId) -> Reach:
    """The block of the first event that knows it is bisected over the stamps where blocks begin; then one pass."""
    process, index = of.members[event.process], event.index
    stamp = of.stamp(of.sure_place(process, index))
    past = {of.processes[at]: int(stamp[at]) for at in np.flatnonzero(stamp).tolist() if at != process}
    before, _ = of.last_upto(process, index - 1)
    if before:
        past[event.process] = before
    future: dict[str, int] = {}
    last = int(of.full[-1])
    for member, name in enumerate(of.processes):
        if member == process:
            following = _next_index(of, member, index + 1)
        else:
            block = first_knowing_block(of, member, (process, index), upto=last)
            known, _ = of.knowledge(block, process)
            start = of.start(block)
            rows = slice(int(start[member]), int(start[member + 1]))
            at = int(np.searchsorted(known[rows], index))
            # Only in the last block may nobody know it: else the next block begins with who does.
            inside = at < rows.stop - rows.start
            following = int(of.keys(block).index[rows.start + at]) if inside else None
        if following is not None:
            future[name] = following
    return Reach(past, future)


def _next_index(of: CutExecution, member: int, index: int) -> int | None:
    """The first index of a process from this one on."""
    block = of.block_of(member, index)
    while block < of.blocks and not of.sizes[block, member]:
        block += 1
    if block == of.blocks:
        return None
    rows = of.rows_of(block, member)
    at = int(np.searchsorted(rows, index))
    return int(rows[at]) if at < rows.size else None
