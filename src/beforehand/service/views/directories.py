"""A history directory as lanes. Large executions are read block by block, and only the columns that places, failures
and messages need; small ones are read whole, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    CAUSAL_TIME,
    EXECUTION,
    INDEX,
    PAST_SIZE,
    SEND_INDEX,
    SENDER,
    SOURCES,
    STORED,
)
from beforehand.pipeline.stored.arrays import list_starts, numbers, open_parquet, reading
from beforehand.pipeline.stored.blocks import CutExecution
from beforehand.pipeline.tables import failures_in
from beforehand.service.opened import Directory
from beforehand.service.views.cache import refuse_if_large
from beforehand.service.views.histories import details_of_history, lanes_of_history
from beforehand.service.views.lanes import Axis, Lane, Lanes, edges_between
from beforehand.service.views.source import Detail, Executions, Point, detail_of

__all__ = ["DrawnDirectory"]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

_NAMES_KEPT: Final = 1_000


class DrawnDirectory:
    """Any thread may call any method; they take turns, as all who ask the directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory: Final = directory
        self._executions: Executions | None = None  # At most `_NAMES_KEPT`.

    def executions(self, most: int) -> Executions:
        with self._directory.asked() as history:
            if self._executions is None:
                sql = (
                    f'SELECT "{EXECUTION}", count(*) FROM {history.scanner.events()} GROUP BY 1 '  # noqa: S608
                    f'ORDER BY max("{CAUSAL_TIME}") DESC NULLS LAST, 1 LIMIT {_NAMES_KEPT + 1}'
                )
                rows = [(name, count) for name, count in history.scanner.rows(sql)]
                self._executions = Executions(rows[:_NAMES_KEPT], len(rows) > _NAMES_KEPT)
            found = self._executions
            return Executions(found.listed[:most], found.more or len(found.listed) > most)

    def lanes(self, execution: str, axis: Axis | None) -> Lanes:
        with self._directory.asked() as history:
            if not history.is_cut(execution):
                return lanes_of_history(history.history(execution), axis)
            of = history.cut_execution(execution)
        refuse_if_large(execution, int(of.counts[-1].sum()))
        # The blocks are read without a turn, straight from their files: questions go on meanwhile.
        return _lanes_of_blocks(of, axis)

    def details(self, lanes: Lanes, points: Sequence[Point], complete: Mapping[str, int]) -> list[Detail | None]:
        with self._directory.asked() as history:
            if not history.is_cut(lanes.execution):
                return details_of_history(history.history(lanes.execution), lanes, points, complete)
            of = history.cut_execution(lanes.execution)
            places = [of.sure_place(*point) for point in points]
            found: list[Detail | None] = [None] * len(points)
            by_block: dict[int, list[int]] = {}
            for at, place in enumerate(places):
                by_block.setdefault(place.block, []).append(at)
            for block, chosen in by_block.items():
                events = of.events(block, [places[at].row for at in chosen])
                for at, event in zip(chosen, events, strict=True):
                    senders = of.sources(places[at]) if event.receives else []
                    received = [
                        (message, of.processes[sender], send)
                        for message, (sender, send) in zip(event.receives, senders, strict=True)
                        if sender >= 0
                    ]
                    state = "complete" if event.index <= complete.get(event.process, 0) else "incomplete"
                    found[at] = detail_of(event, received, state)
            return found


def _lanes_of_blocks(of: CutExecution, axis: Axis | None) -> Lanes:
    if axis is None:
        axis = "time" if int(of.times.max(initial=NO_TIME)) != NO_TIME else "steps"
    counts = of.counts[-1]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    index, xs = (np.empty(int(starts[-1]), np.int64) for _ in range(2))  # Of all lanes, one after the other.
    failing: list[list[Integers]] = [[] for _ in of.processes]
    edges: list[tuple[Numbers, Integers, Numbers, Integers]] = []
    for block in of.full.tolist():
        start = of.start(block)
        indexes, places, failures, (receive_start, sender, send) = _read(of, block, axis)
        for member, (first, end) in enumerate(pairwise(start.tolist())):
            before = int(of.counts[block, member])
            target = slice(int(starts[member]) + before, int(starts[member]) + before + end - first)
            index[target], xs[target] = indexes[first:end], places[first:end]
            low, high = np.searchsorted(failures, (first, end)).tolist()
            failing[member].append(failures[low:high] - first + before)
        rows = np.repeat(np.arange(indexes.size), np.diff(receive_start))
        real = sender >= 0
        receiver = np.searchsorted(start, rows[real], side="right") - 1
        edges.append((sender[real].astype(np.int32), send[real], receiver.astype(np.int32), indexes[rows[real]]))
    lanes = [
        Lane(process, index[first:end], xs[first:end], np.concatenate([np.empty(0, np.int64), *failing[member]]))
        for member, (process, (first, end)) in enumerate(zip(of.processes, pairwise(starts.tolist()), strict=True))
    ]
    joined = [np.concatenate([edge[part] for edge in edges]) for part in range(4)]
    edges.clear()
    return Lanes(of.execution, axis, lanes, edges_between(lanes, *joined))


def _read(
    of: CutExecution, block: int, axis: Axis
) -> tuple[Integers, Integers, Integers, tuple[Integers, Integers, Integers]]:
    """Of one block: indexes, places, rows that failed, and who sent what each row received."""
    path = of.directory.block(of.number, block)
    key = CAUSAL_TIME if axis == "time" else PAST_SIZE
    file = open_parquet(path, STORED)
    with reading(path), file:
        table = file.read(columns=[INDEX, key, ATTRIBUTES, SOURCES], use_threads=True)
    if len(table) != int(of.sizes[block].sum()):
        raise of.broken(block, f"has {len(table)} events instead of {int(of.sizes[block].sum())}")
    starts, entries = list_starts(table[SOURCES])
    none = np.empty(0, np.int64)
    sender = np.concatenate([none, *(numbers(part.field(SENDER)) for part in entries)])
    send = np.concatenate([none, *(numbers(part.field(SEND_INDEX)) for part in entries)])
    return numbers(table[INDEX]), numbers(table[key], NO_TIME), failures_in(table), (starts, sender, send)
