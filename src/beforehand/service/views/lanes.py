"""One execution as arrays, for a picture: per process a lane of events, each with its place on the x axis.

The axis is *causal time* (the latest clock reading in an event's past) or, where no event has a time or when it is
asked for, *steps* (a number that grows along every process and message). Either never falls along a lane, so a window
is a slice of each lane, found by bisection, and a column of a picture is the difference of two bisections: no pyramid
is needed, and a window costs lanes × columns × log(events), whatever it shows. Memory: 16 bytes an event, and 32 a
message that was received.

Places are given relative to `origin`, in units that fit into 2⁵³ (what every JSON reader holds): `unit` is 1 unless
the execution spans more than 104 days. An event without any time in its past stands at 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import NO_TIME

__all__ = ["Axis", "Edges", "Lane", "Lanes", "Span", "edges_between"]

Axis = Literal["time", "steps"]
Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

X_MAX: Final = 2**53 - 1
CELLS_DENSE_MAX: Final = 1 << 23
"""Cells of a table of flows that is counted at once; beyond, what is there is sorted."""

_LEAST: Final = -(2**63)
_GREATEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """The events of one process, in order."""

    process: str
    index: Integers
    x: Integers  # On the axis, absolute; never falls. NO_TIME where there is none.
    failing: Integers  # Positions of failures, growing.

    def position(self, index: int) -> int | None:
        """Where the event with this index is; None if it is not here."""
        at = int(np.searchsorted(self.index, index))
        return at if at < self.index.size and int(self.index[at]) == index else None


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Messages that were sent and received; one per receive. Lanes by number."""

    sender: Numbers
    send: Integers
    receiver: Numbers
    receive: Integers
    x: Integers  # Of the send.

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.sender, self.send, self.receiver, self.receive, self.x))


Span = tuple[int, int, int]
"""A lane, and its positions from the second up to before the third."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """All lanes of one execution, sorted by the names of their processes."""

    execution: str
    axis: Axis
    lanes: Sequence[Lane]
    edges: Edges
    cursor: int | None = None  # Of the store, as it was read.
    extra: dict[str, object] = field(default_factory=dict)  # What the source remembers of it.

    # The axis.

    @cached_property
    def origin(self) -> int:
        """The least place on the axis; 0 if nothing has one."""
        firsts = [int(lane.x[at]) for lane in self.lanes if (at := _first_timed(lane.x)) < lane.x.size]
        return min(firsts, default=0)

    @cached_property
    def _reach(self) -> int:
        lasts = [int(lane.x[-1]) for lane in self.lanes if lane.x.size and int(lane.x[-1]) != NO_TIME]
        return max(lasts, default=self.origin) - self.origin

    @cached_property
    def unit(self) -> int:
        return self._reach // X_MAX + 1

    @property
    def span(self) -> int:
        """The greatest relative place."""
        return self._reach // self.unit

    def relative(self, x: int) -> int:
        return 0 if x == NO_TIME else (x - self.origin) // self.unit

    def _absolute(self, relative: int) -> int:
        """The least absolute place of a relative one; what has none counts as the origin."""
        return _LEAST if relative <= 0 else min(self.origin + relative * self.unit, _GREATEST)

    # What is here.

    @cached_property
    def names(self) -> dict[str, int]:
        return {lane.process: at for at, lane in enumerate(self.lanes)}

    @cached_property
    def generation(self) -> str:
        """Changes when lanes get other numbers, or the axis another origin or unit."""
        told = sha256(f"{self.origin} {self.unit} {self.axis}".encode())
        for lane in self.lanes:
            told.update(lane.process.encode("utf-8", "surrogatepass") + b"\0")
        return told.hexdigest()[:12]

    @cached_property
    def count(self) -> int:
        return sum(lane.index.size for lane in self.lanes)

    @property
    def nbytes(self) -> int:
        return self.edges.nbytes + sum(lane.index.nbytes + lane.x.nbytes + lane.failing.nbytes for lane in self.lanes)

    def place(self, lane: int, position: int) -> tuple[int, int]:
        """The relative place of an event, and how many of its lane before it have the same."""
        xs = self.lanes[lane].x
        x = self.relative(int(xs[position]))
        return x, position - int(np.searchsorted(xs, self._absolute(x)))

    def places(self, lane: int, first: int, end: int) -> list[tuple[int, int]]:
        """The same for a part of a lane, all at once."""
        xs = self.lanes[lane].x
        origin, unit = np.uint64(self.origin % 2**64), np.uint64(self.unit)
        # In 64 bits without a sign, for the distance of two places may need them.
        away = (np.maximum(xs[first:end], self.origin).astype(np.uint64) - origin) // unit
        begin = np.searchsorted(xs, (away * unit + origin).astype(np.int64))
        begin[away == 0] = 0  # What has no place counts as the origin.
        return list(zip(away.tolist(), (np.arange(first, end) - begin).tolist(), strict=True))

    # Windows.

    def spans(self, first: int, last: int, chosen: Iterable[int]) -> list[Span]:
        """Of each chosen lane, what lies from one relative place to another, both included."""
        bounds = np.array([self._absolute(first), self._absolute(last + 1)], np.int64)
        found = []
        for lane in chosen:
            low, high = np.searchsorted(self.lanes[lane].x, bounds).tolist()
            if last >= self.span:  # The greatest place of all may be that of 64 bits.
                high = self.lanes[lane].x.size
            if low < high:
                found.append((lane, low, high))
        return found

    def bounds(self, first: int, last: int, columns: int) -> Integers:
        """Where columns begin, absolute; and where the last one ends."""
        width = last - first + 1
        places = [self._absolute(first + width * at // columns) for at in range(columns + 1)]
        return np.array(places, np.int64)

    def columns(self, first: int, last: int, columns: int, chosen: Iterable[int]) -> dict[int, Integers]:
        """Per lane, rows of (column, events, failures); only columns that have events, only lanes that have any."""
        bounds = self.bounds(first, last, columns)
        found: dict[int, Integers] = {}
        for at in chosen:
            lane = self.lanes[at]
            places = np.searchsorted(lane.x, bounds)
            if last >= self.span:
                places[-1] = lane.x.size
            counts = np.diff(places)
            filled = np.flatnonzero(counts)
            if filled.size:
                failures = np.diff(np.searchsorted(lane.failing, places))
                found[at] = np.stack([filled, counts[filled], failures[filled]], axis=1)
        return found

    def flows(self, first: int, last: int, columns: int, chosen: Sequence[int], most: int) -> tuple[Integers, int]:
        """Rows of (lane from, lane to, column of the send, messages) between chosen lanes, the largest; and how many
        were left out.
        """
        edges, bounds = self.edges, self.bounds(first, last, columns)
        inside = edges.x >= bounds[0]
        if last < self.span:
            inside &= edges.x < bounds[-1]
        if len(chosen) < len(self.lanes):
            shown = np.zeros(len(self.lanes), np.bool_)
            shown[list(chosen)] = True
            inside &= shown[edges.sender] & shown[edges.receiver]
        rows = np.flatnonzero(inside)
        column = np.clip(np.searchsorted(bounds, edges.x[rows], side="right") - 1, 0, columns - 1)
        width = len(self.lanes)
        keys = (edges.sender[rows].astype(np.int64) * width + edges.receiver[rows]) * columns + column
        if width * width * columns <= CELLS_DENSE_MAX:
            table = np.bincount(keys, minlength=1)
            cells = np.flatnonzero(table)
            counts = table[cells]
        else:
            cells, counts = np.unique(keys, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:most]
        cells, kept = cells[order], counts[order]
        pairs, at = np.divmod(cells, columns)
        return np.stack([*np.divmod(pairs, width), at, kept], axis=1), int(counts.size - kept.size)

    def crossing(self, spans: Iterable[Span], most: int) -> tuple[Integers, int]:
        """The edges with an end inside these spans, as their numbers, at most so many; and how many were left out."""
        low = np.full(len(self.lanes), 1, np.int64)
        high = np.zeros(len(self.lanes), np.int64)
        for lane, first, end in spans:
            low[lane], high[lane] = self.lanes[lane].index[first], self.lanes[lane].index[end - 1]
        edges = self.edges
        touched = (edges.send >= low[edges.sender]) & (edges.send <= high[edges.sender])
        touched |= (edges.receive >= low[edges.receiver]) & (edges.receive <= high[edges.receiver])
        found = np.flatnonzero(touched)
        return found[:most], max(found.size - most, 0)


def edges_between(
    lanes: Sequence[Lane],
    sender: Integers | Numbers,
    send: Integers,
    receiver: Integers | Numbers,
    receive: Integers,
) -> Edges:
    """Edges with the places of their sends. One whose ends are not both here is left out."""
    here = np.ones(sender.size, np.bool_)
    x = np.zeros(sender.size, np.int64)
    for who, index, places in ((sender, send, x), (receiver, receive, None)):
        order = np.argsort(who, kind="stable")
        cuts = np.searchsorted(who[order], np.arange(len(lanes) + 1))
        for at, lane in enumerate(lanes):
            rows = order[cuts[at] : cuts[at + 1]]
            if not rows.size:
                continue
            found = np.searchsorted(lane.index, index[rows])
            clipped = np.minimum(found, lane.index.size - 1)
            here[rows] &= (found < lane.index.size) & (lane.index[clipped] == index[rows])
            if places is not None:
                places[rows] = lane.x[clipped]
    parts = (sender.astype(np.int32), send, receiver.astype(np.int32), receive, x)
    return Edges(*(parts if here.all() else (part[here] for part in parts)))


def _first_timed(x: Integers) -> int:
    return int(np.searchsorted(x, NO_TIME, side="right"))
