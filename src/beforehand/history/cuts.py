"""Cuts: how far each process has come, and whether that is a state the system could have been in.

A cut is a vector, process → index of its last event inside (0: none). It is *consistent* if everything that happened
before an event inside is inside too. Its *front* is the last event of each process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.events import INDEX_MAX, EventId
from beforehand.history.columns import Columns
from beforehand.history.kernels import NO_TIME

__all__ = ["Cut", "describe", "largest_consistent", "prefix_at", "vector"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut and what there is to know of it."""

    cut: Mapping[str, int]  # Per process the index of its last event inside, 0 if it has none.
    front: tuple[EventId, ...]
    in_flight: tuple[str, ...]  # Messages sent inside and received outside, by at least one process.
    unreceived: tuple[str, ...]  # Messages sent inside that no process ever receives.
    consistent: bool


def vector(processes: Sequence[str], cut: Mapping[str, int]) -> Integers:
    """The cut as an array; processes that it does not name have 0."""
    unknown = sorted(set(cut) - set(processes))
    if unknown:
        raise InputError(f"the cut names {unknown[0]!r}, which is no process of this history")
    if min(cut.values(), default=0) < 0:
        raise InputError("the cut has a negative index: indexes count from 1, and 0 stands for none")
    return np.array([min(cut.get(process, 0), INDEX_MAX) for process in processes], np.int64)


def last_rows(columns: Columns, cut: Integers) -> Integers:
    """Per process, its last row inside the cut; start[p] - 1 if none is."""
    rows = np.empty(len(columns.processes), np.int64)
    for p in range(rows.size):
        first, end = columns.start[p], columns.start[p + 1]
        rows[p] = first + np.searchsorted(columns.index[first:end], cut[p], side="right") - 1
    return rows


def largest_consistent(columns: Columns, stamps: Stamps, cut: Integers) -> Integers:
    """The largest consistent cut inside `cut`.

    An event belongs to it iff its whole past lies inside the cut, that is, iff its stamp is nowhere greater than the
    cut. Stamps only grow along a process, so the last such event is found by bisection.
    """
    result = np.zeros(len(columns.processes), np.int64)
    last = last_rows(columns, cut)
    for p in range(result.size):
        low, high = int(columns.start[p]) - 1, int(last[p])
        while low < high:
            middle = (low + high + 1) // 2
            if np.all(stamps[middle] <= cut):
                low = middle
            else:
                high = middle - 1
        result[p] = columns.index[low] if low >= columns.start[p] else 0
    return result


def prefix_at(columns: Columns, time: int) -> Integers:
    """Per process, what comes before its first event later than `time` on its own clock."""
    later = (columns.time > time) & (columns.time != NO_TIME)
    result = np.zeros(len(columns.processes), np.int64)
    for p in range(result.size):
        first, end = int(columns.start[p]), int(columns.start[p + 1])
        hits = np.flatnonzero(later[first:end])
        last = first + int(hits[0]) - 1 if hits.size else end - 1
        result[p] = columns.index[last] if last >= first else 0
    return result


def describe(columns: Columns, stamps: Stamps, cut: Integers) -> Cut:
    rows = last_rows(columns, cut)
    present = np.flatnonzero(rows >= columns.start[:-1])
    consistent = all(bool(np.all(stamps[rows[p]] <= cut)) for p in present)

    inside = columns.index <= cut[columns.process]
    sent_inside = (columns.send >= 0) & inside[columns.send]
    outside = np.zeros(len(columns.messages), np.bool_)
    received = np.zeros(len(columns.messages), np.bool_)
    received[columns.receive_message] = True
    outside[columns.receive_message[~inside[columns.receive_row]]] = True
    return Cut(
        cut={
            process: int(columns.index[rows[p]]) if rows[p] >= columns.start[p] else 0
            for p, process in enumerate(columns.processes)
        },
        front=tuple(columns.event_id(int(rows[p])) for p in present),
        in_flight=tuple(columns.messages[m] for m in np.flatnonzero(sent_inside & outside)),
        unreceived=tuple(columns.messages[m] for m in np.flatnonzero(sent_inside & ~received)),
        consistent=consistent,
    )
