"""How two events are related, and a causal chain between them, found without loading what lies between.

The chain goes backwards: on the later event's process, find the first event that knows the earlier one; it received a
message that told it; go to its send, and on. Which block holds the first that knows is bisected over the true stamps
where blocks begin; which event of that block, by one pass over it. A chain passes each process at most once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from beforehand.events import EventId
from beforehand.pipeline.stored.blocks import CutExecution, Place

__all__ = ["Relation", "chain_between", "first_knowing_block", "knows", "place_point", "reasons_of"]

Point = tuple[int, int]  # An event of the execution: its member and its index.


@dataclass(frozen=True, slots=True)
class Relation:
    """What the first event is to the second."""

    relation: str  # before, after, concurrent or equal.
    chain: tuple[EventId, ...]  # From the earlier event to the later one; empty if they are concurrent.
    reasons: tuple[str, ...]  # A sentence per edge of the chain.


def knows(execution: CutExecution, later: Point, earlier: Point) -> bool:
    """Whether `earlier` happened before `later`, or is it."""
    if later[0] == earlier[0]:
        return later[1] >= earlier[1]
    return bool(execution.stamp(execution.sure_place(*later))[earlier[0]] >= earlier[1])


def chain_between(execution: CutExecution, first: Point, second: Point) -> list[Point]:
    """As `History.chain`: `first` happened before `second`, or is it."""
    process, index = first
    chain = [second]
    while chain[-1][0] != process:
        here = chain[-1]
        member = here[0]
        block = first_knowing_block(execution, member, first, upto=execution.block_of(*here))
        known, entering = execution.knowledge(block, process)
        start = execution.start(block)
        rows = slice(int(start[member]), int(start[member + 1]))
        row = rows.start + int(np.searchsorted(known[rows], index))
        knowing = (member, int(execution.keys(block).index[row]))
        structure = execution.structure(block)
        receives = range(*structure.block.receive_start[row : row + 2].tolist())
        for r in receives:
            source = int(structure.source[r])
            told = -1 if source == -1 else int(known[source]) if source >= 0 else int(entering[-2 - source])
            if told >= index:
                break
        else:  # Stamps and messages of a whole directory fit together.
            raise execution.broken(block, f"has no message that told {execution.event_id(*knowing)}")
        if knowing != here:
            chain.append(knowing)
        chain.append((int(structure.block.sender[r]), int(structure.block.send[r])))
    if chain[-1] != first:
        chain.append(first)
    return chain[::-1]


def first_knowing_block(execution: CutExecution, member: int, event: Point, *, upto: int) -> int:
    """The block that holds the first event of `member` that knows `event`: block `upto` at the latest."""
    process, index = event
    full = execution.full
    low = int(np.searchsorted(full, execution.block_of(process, index)))
    high = int(np.searchsorted(full, upto))
    # The last block where it is not known at the beginning. It is not where it happened.
    while low < high:
        middle = (low + high + 1) // 2
        if execution.front(int(full[middle])).front[member, process] >= index:
            high = middle - 1
        else:
            low = middle
    return int(full[low])


def reasons_of(execution: CutExecution, chain: list[Point]) -> list[str]:
    """A sentence per edge of a causal chain."""
    reasons = []
    for first, second in pairwise(chain):
        a, b = execution.event_id(*first), execution.event_id(*second)
        place = execution.sure_place(*second)
        carried = [at for at, source in enumerate(execution.sources(place)) if source == first]
        if carried and first[0] != second[0]:
            message = execution.event(place).receives[carried[0]]
            reasons.append(f"{a} sent {message!r}, which {b} received")
        else:
            reasons.append(f"{a} came before {b} on {execution.processes[first[0]]}")
    return reasons


def place_point(execution: CutExecution, place: Place) -> Point:
    """The member and the index of a row."""
    member = int(np.searchsorted(execution.start(place.block), place.row, side="right")) - 1
    return member, int(execution.keys(place.block).index[place.row])
