"""Where to cut a large execution, on the driver: vectors of indexes, one per process, never events.

An instant becomes a cut by taking of each process what comes before its first event later than the instant, on clocks
corrected by what the messages say about their offsets (for choosing cuts only). The result is shrunk to the largest
consistent cut inside it (iterate/consistent_cuts.py). Wrong clocks cost rounds or make blocks uneven; they never
make a cut wrong.

Processes that are not connected by any messages have no instants in common: each component has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.events import INDEX_MAX
from beforehand.history.offsets import clock_bounds
from beforehand.pipeline.census import Large

__all__ = ["Clocking", "Grid", "clocking", "grid", "index_quantiles", "prefixes", "sizes", "tidied", "too_large"]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Clocking:
    """Per process of a large execution: its component, and what to take off its clock."""

    component: Integers
    offset: Integers


def clocking(large: Large, sender: Numbers, receiver: Numbers, delay: npt.NDArray[np.float64]) -> Clocking:
    """From pairs of processes that exchanged messages: the least delay of each, nan where no message has times."""
    component = _components(large.width, sender, receiver)
    offset = np.zeros(large.width, np.int64)
    timed = ~np.isnan(delay)
    bounds = clock_bounds(
        large.processes,
        sender[timed],
        receiver[timed],
        delay[timed].astype(np.int64),
        np.ones(int(timed.sum()), np.int64),
    )
    for member, process in enumerate(large.processes):
        bound = bounds.per_process[process]
        known = [at for at in (bound.offset_min_ns, bound.offset_max_ns) if at is not None]
        offset[member] = sum(known) // len(known) if known else 0
    return Clocking(component, offset)


def _components(size: int, sender: Numbers, receiver: Numbers) -> Integers:
    root = np.arange(size)
    pairs = list(zip(sender.tolist(), receiver.tolist(), strict=True))
    changed = True
    while changed:  # A few rounds over pairs of processes: the least number wins.
        changed = False
        for p, q in pairs:
            low = min(root[p], root[q])
            if root[p] != low or root[q] != low:
                root[p] = root[q] = low
                changed = True
    return root


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Corrected time in equal steps, per component of a large execution: events beyond the ends count into them."""

    steps: int
    low: Integers  # Per process: where the grid of its component begins.
    width: Integers  # Per process: how long a step is, at least 1 ns.


GRID_CELLS_MAX: Final = 1_000_000
"""Processes × steps: what the driver receives of the events' times."""


def grid(large: Large, clocks: Clocking, first_time: Integers, last_time: Integers) -> Grid:
    """Fine enough for the blocks that are wanted. The ends are medians over processes, so that one clock far off does
    not stretch it; times are of processes that have any.
    """
    steps = max(min(20 * large.blocks, GRID_CELLS_MAX // large.width), 2 * large.blocks)
    low, width = np.zeros(large.width, np.int64), np.ones(large.width, np.int64)
    timed = large.timed > 0
    for component in np.unique(clocks.component[timed]):
        own = timed & (clocks.component == component)
        begin = _weighted_median(first_time[own] - clocks.offset[own], large.timed[own])
        end = _weighted_median(last_time[own] - clocks.offset[own], large.timed[own])
        members = clocks.component == component
        low[members] = begin
        width[members] = max((end - begin) // steps + 1, 1)
    return Grid(steps, low, width)


def _weighted_median(values: Integers, weights: Integers) -> int:
    by_value = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[by_value])
    return int(values[by_value][np.searchsorted(passed, (passed[-1] + 1) // 2)])


def prefixes(
    large: Large, clocks: Clocking, steps: int, member: Numbers, step: Numbers, count: Integers, first: Integers
) -> Integers:
    """Cuts × processes: before the first event that is later than the instant.

    Per process and step of the grid: how many events it has there, and the least of their indexes. The instants are
    the ends of steps that make the blocks of a component most equal. Processes without any time are cut by index.
    """
    cuts = large.blocks - 1
    events = np.zeros((large.width, steps), np.int64)
    events[member, step] = count
    least = np.full((large.width, steps + 1), INDEX_MAX, np.int64)
    least[member, step] = first
    # From here on: the least index of this step or any later one.
    least = np.minimum.accumulate(least[:, ::-1], axis=1)[:, ::-1]
    result = index_quantiles(np.maximum(large.first_index - 1, 0), large.last_index, cuts)
    for component in np.unique(clocks.component):
        own = np.flatnonzero((clocks.component == component) & (large.timed > 0))
        passed = np.cumsum(events[own].sum(axis=0))
        if not own.size or not passed[-1]:
            continue
        wanted = passed[-1] * np.arange(1, cuts + 1) / large.blocks
        later = np.searchsorted(passed, wanted) + 1  # The first step after each instant.
        result[:, own] = np.minimum(least[own][:, later].T - 1, large.last_index[own])
    return result


def index_quantiles(low: Integers, high: Integers, cuts: int) -> Integers:
    """Cuts × processes: equal shares of the indexes between two cuts."""
    shares = np.arange(1, cuts + 1, dtype=np.float64)[:, None] / (cuts + 1)
    # Floats round; what matters is that the cuts grow and stay inside.
    between = low + np.floor((high - low).astype(np.float64) * shares).astype(np.int64)
    return np.clip(np.maximum.accumulate(between, axis=0), low, high)


def tidied(large: Large, cuts: Integers) -> Integers:
    """Without cuts that are empty, whole, or the same as the one before."""
    low, high = np.maximum(large.first_index - 1, 0), large.last_index
    clipped = np.clip(cuts, low, high)
    kept: list[Integers] = []
    before = low
    for cut in clipped:
        if not np.array_equal(cut, before) and not np.array_equal(cut, high):
            kept.append(cut)
            before = cut
    return np.array(kept, np.int64).reshape(-1, large.width)


def sizes(large: Large, cuts: Integers) -> npt.NDArray[np.float64]:
    """About how many events each block has: exactly, unless there are gaps in the indexes."""
    share = large.count / np.maximum(large.last_index - large.first_index + 1, 1)
    low = np.maximum(large.first_index - 1, 0)
    ends: Sequence[Integers] = [low, *cuts, large.last_index]
    result: npt.NDArray[np.float64] = np.diff(np.array(ends), axis=0) @ share
    return result


def too_large(large: Large, cuts: Integers, *, target: float) -> list[tuple[int, int]]:
    """Blocks above twice the target, each with the number of cuts that it should get."""
    return [
        (block, int(np.ceil(size / target)) - 1)
        for block, size in enumerate(sizes(large, cuts).tolist())
        if size > 2 * target and size > 2
    ]
