"""One execution in memory: what happened before what, and everything that follows from it.

`History` holds a vector stamp per event, so it is for histories whose events × processes numbers fit in memory (a
million events of 50 processes take 200 MB). Larger ones are for the pipeline, which must agree with this class
on every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event, EventId, Rejection
from beforehand.history import cuts
from beforehand.history.checks import CheckReport, check
from beforehand.history.columns import Columns, from_events
from beforehand.history.conditions import Conditions, conditions
from beforehand.history.cuts import Cut
from beforehand.history.kernels import NO_TIME, lamport_times, replay
from beforehand.history.measures import Measures, measure
from beforehand.history.runs import Run, judge

__all__ = ["Explanation", "History"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Where = Callable[[Event], bool]

STAMP_BYTES_MAX: Final = 8 * 2**30
"""What the stamps of a history may take together before it is refused."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What could have led to an event."""

    event: Event
    past: int  # How many events happened before it.
    events: tuple[Event, ...]  # The last of them that were asked for, oldest first.


class History:
    """The events of one execution and the order in which they could have caused each other.

    Events are named by `EventId`, by its text (`"cart:17"`) or by the `Event` itself.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        """The events of one execution in any order. Of duplicates the first stays; see `rejections`."""
        self._build(from_events(events))

    @classmethod
    def from_columns(cls, columns: Columns) -> History:
        """A history of events that are arrays already."""
        history = cls.__new__(cls)
        history._build(columns)
        return history

    @classmethod
    def by_execution(cls, events: Iterable[Event]) -> dict[str, History]:
        """One history per execution, in the order of their names."""
        groups: dict[str, list[Event]] = {}
        for event in events:
            groups.setdefault(event.execution, []).append(event)
        return {execution: cls(groups[execution]) for execution in sorted(groups)}

    def _build(self, columns: Columns) -> None:
        rows, size = columns.process.size, len(columns.processes)
        small = rows == 0 or int(columns.index.max()) < 2**31
        needed = (rows + 4 * size) * size * (4 if small else 8)  # The stamps, and what replaying and checking take.
        if needed > STAMP_BYTES_MAX:
            raise InputError(
                f"the stamps of {rows} events of {size} processes take {needed >> 20} MiB, more than the "
                f"{STAMP_BYTES_MAX >> 20} MiB of a history in memory: take fewer events or processes"
            )
        self._columns = columns
        self._stamps = _zeros(rows, size, small=small)
        self._causal_time = np.empty(rows, np.int64)
        self._past_size = np.empty(rows, np.int64)
        replay(
            columns.order,
            columns.process,
            columns.index,
            columns.time,
            columns.receive_start,
            columns.source,
            _zeros(size, size, small=small),
            np.full(size, NO_TIME, np.int64),
            _zeros(0, size, small=small),
            np.empty(0, np.int64),
            np.arange(rows),
            self._stamps,
            self._causal_time,
            self._past_size,
        )

    # What is here.

    def __len__(self) -> int:
        return int(self._columns.process.size)

    @property
    def execution(self) -> str:
        return self._columns.execution

    @property
    def processes(self) -> tuple[str, ...]:
        return self._columns.processes

    @property
    def messages(self) -> tuple[str, ...]:
        return self._columns.messages

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """What was left out, and why."""
        return self._columns.rejections

    @property
    def columns(self) -> Columns:
        """The arrays underneath."""
        return self._columns

    @cached_property
    def gaps(self) -> dict[str, int]:
        """Per process with gaps in its indexes, how many indexes up to its last have no event."""
        columns = self._columns
        counts = np.diff(columns.start)
        last = columns.index[columns.start[1:] - 1] if len(self) else counts
        return {p: int(last[at] - counts[at]) for at, p in enumerate(columns.processes) if last[at] > counts[at]}

    def event(self, event: EventId | str | Event) -> Event:
        return self._columns.events[self._row(event)]

    # Precedence.

    def happened_before(self, a: EventId | str | Event, b: EventId | str | Event) -> bool:
        """a → b."""
        return self._before(self._row(a), self._row(b))

    def compare(self, a: EventId | str | Event, b: EventId | str | Event) -> str:
        """`before`, `after`, `equal` or `concurrent`: what a is to b."""
        first, second = self._row(a), self._row(b)
        if first == second:
            return "equal"
        if self._before(first, second):
            return "before"
        return "after" if self._before(second, first) else "concurrent"

    def past(self, event: EventId | str | Event) -> list[Event]:
        """All that happened before, in the deterministic order."""
        return self._in_order(self._past_rows(self._row(event)))

    def future(self, event: EventId | str | Event) -> list[Event]:
        """All that it happened before, in the deterministic order."""
        return self._in_order(self._future_rows(self._row(event)))

    def concurrent(self, event: EventId | str | Event) -> list[Event]:
        """All that could neither have caused it nor been caused by it, in the deterministic order."""
        row = self._row(event)
        apart = np.ones(len(self), np.bool_)
        apart[self._past_rows(row)] = apart[self._future_rows(row)] = apart[row] = False
        return self._in_order(np.flatnonzero(apart))

    def explain(self, event: EventId | str | Event, *, last: int = 25, where: Where | None = None) -> Explanation:
        """The last events that could have led to this one: of its past, the greatest in the deterministic order."""
        row = self._row(event)
        chosen: list[Event] = []
        for at in self._newest_first(row) if last > 0 else ():
            if where is None or where(self._columns.events[at]):
                chosen.append(self._columns.events[at])
                if len(chosen) == last:
                    break
        return Explanation(self._columns.events[row], int(self._past_counts[row]), tuple(reversed(chosen)))

    def chain(self, a: EventId | str | Event, b: EventId | str | Event) -> list[EventId]:
        """If a → b, a causal chain from a to b: the sends and receives that lead from one to the other.

        Empty if a did not happen before b; just a if they are the same.
        """
        first, second = self._row(a), self._row(b)
        if first != second and not self._before(first, second):
            return []
        return [self._columns.event_id(row) for row in self._chain(first, second)]

    def reasons(self, chain: Sequence[EventId | str | Event]) -> list[str]:
        """A sentence per edge of a causal chain: why each event comes before the next."""
        rows = [self._row(event) for event in chain]
        for a, b in pairwise(rows):
            if not self._before(a, b):
                raise InputError(f"{self._columns.event_id(a)} did not happen before {self._columns.event_id(b)}")
        return self._reasons(rows)

    # Stamps.

    def stamp(self, event: EventId | str | Event) -> dict[str, int]:
        """The vector stamp: per process, the index of its last event known here. Without zeros."""
        row = self._stamps[self._row(event)]
        return {process: int(row[at]) for at, process in enumerate(self.processes) if row[at]}

    @property
    def stamps(self) -> Stamps:
        """All stamps: events in the order of `columns` × processes."""
        return self._stamps

    def causal_time(self, event: EventId | str | Event) -> int | None:
        """The latest clock reading in the event's past, itself included."""
        time = int(self._causal_time[self._row(event)])
        return None if time == NO_TIME else time

    @property
    def causal_times(self) -> Integers:
        """All causal times, in the order of `columns`; −2⁶³ where there is none."""
        return self._causal_time

    @property
    def lamport_times(self) -> Integers:
        """All Lamport times, in the order of `columns`."""
        return self._lamport

    def past_size(self, event: EventId | str | Event) -> int:
        """The sum of the stamp: how many events are known, itself and those in gaps included."""
        row = self._row(event)
        return sum(int(part[row]) << 32 * at for at, part in enumerate(self._size_parts))

    def lamport_time(self, event: EventId | str | Event) -> int:
        """The length of the longest causal chain that ends here."""
        return int(self._lamport[self._row(event)])

    # Cuts and runs.

    def cut(self, cut: Mapping[str, int]) -> Cut:
        """This cut (process → index), described: its front, messages in flight, whether it is consistent."""
        return self._describe(cuts.vector(self.processes, cut))

    def cut_at(self, time: int) -> Cut:
        """The largest consistent cut with nothing later than `time` (ns), each process going by its own clock."""
        return self._largest(cuts.prefix_at(self._columns, time))

    def cut_after(self, *events: EventId | str | Event) -> Cut:
        """The smallest consistent cut that contains these events."""
        rows = [self._row(event) for event in events]
        front = self._stamps[rows].max(axis=0) if rows else np.zeros(len(self.processes), np.int64)
        return self._describe(front.astype(np.int64))

    def largest_consistent_cut(self, cut: Mapping[str, int]) -> Cut:
        """The largest consistent cut inside this one."""
        return self._largest(cuts.vector(self.processes, cut))

    def order(self) -> list[Event]:
        """The deterministic run: by causal time, size of past, process, index. The same for everybody."""
        return [self._columns.events[row] for row in self._order]

    def judge_run(self, sequence: Iterable[EventId | str | Event]) -> Run:
        """Is a recorded sequence of all events a run, and a consistent one?"""
        return judge(self._columns, [self._row(event) for event in sequence])

    # Judgement.

    def check(self, *, delta_ns: int | None = None, limit: int = 1_000) -> CheckReport:
        """FIFO, causal and total order and the reported clocks; with `delta_ns`, temporal order too."""
        return check(
            self._columns,
            self._stamps,
            chain=self._chain,
            reasons=self._reasons,
            delta_ns=delta_ns,
            limit=limit,
        )

    def conditions(self) -> Conditions:
        """C1 to C3 and mysterious order (Garg, problems 12.2 and 12.3)."""
        return conditions(self._columns, self._stamps)

    def measure(self) -> Measures:
        """Clock offsets, synchrony, δ and ε, concurrency, suspected hidden channels."""
        return measure(self._columns, self._stamps, self._past_counts)

    # Inside.

    def _row(self, event: EventId | str | Event) -> int:
        if isinstance(event, Event):
            event = event.id
        if isinstance(event, str):
            text = event.removeprefix(f"{self.execution}/") if self.execution else event
            process, _, index = text.rpartition(":")
            if not process or not index.isascii() or not index.isdigit() or len(index) > 19:
                raise UnknownEventError(event, ": an event is named process:index, like cart:17")
            event = EventId(self.execution, process, int(index))
        columns = self._columns
        if event.execution != self.execution:
            raise UnknownEventError(str(event), f": it is of execution {self.execution!r}")
        at = self._position.get(event.process)
        if at is None:
            raise UnknownEventError(str(event), f": there is no process {event.process!r}")
        first, end = columns.start[at], columns.start[at + 1]
        row = first + int(np.searchsorted(columns.index[first:end], event.index))
        if row == end or columns.index[row] != event.index:
            raise UnknownEventError(str(event), f": {event.process!r} has indexes up to {columns.index[end - 1]}")
        return int(row)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {process: at for at, process in enumerate(self.processes)}

    @cached_property
    def _order(self) -> Integers:
        # Processes are sorted by name, so rows break ties as (process, index) would.
        return np.lexsort((np.arange(len(self)), *self._size_parts, self._causal_time)) if len(self) else np.arange(0)

    @cached_property
    def _size_parts(self) -> tuple[Integers, ...]:
        """Sizes of pasts as digits to base 2³², the lowest first; one is enough unless indexes are huge."""
        columns = self._columns
        if not len(self) or sum(int(index) for index in columns.index[columns.start[1:] - 1]) < 2**63:
            return (self._past_size,)
        low = (self._stamps & 0xFFFFFFFF).sum(axis=1)
        high = (self._stamps >> 32).sum(axis=1) + (low >> 32)
        return (low & 0xFFFFFFFF, high)

    @cached_property
    def _place(self) -> Integers:
        place = np.empty(len(self), np.int64)
        place[self._order] = np.arange(len(self))
        return place

    @cached_property
    def _lamport(self) -> Integers:
        columns = self._columns
        times = np.empty(len(self), np.int64)
        lamport_times(
            columns.order,
            columns.process,
            columns.receive_start,
            columns.source,
            np.zeros(len(self.processes), np.int64),
            np.empty(0, np.int64),
            times,
        )
        return times

    @cached_property
    def _past_counts(self) -> Integers:
        """Per row, the events present in its past. The sum of the stamp says so too, unless there are gaps."""
        if not self.gaps:
            return self._past_size - 1  # No gaps, no huge indexes: the sum fits.
        columns = self._columns
        counts = np.full(len(self), -1, np.int64)
        for p in range(len(self.processes)):
            first, end = columns.start[p], columns.start[p + 1]
            counts += np.searchsorted(columns.index[first:end], self._stamps[:, p], side="right")
        return counts

    def _before(self, a: int, b: int) -> bool:
        columns = self._columns
        return a != b and bool(self._stamps[b, columns.process[a]] >= columns.index[a])

    def _newest_first(self, row: int) -> Iterator[int]:
        """The past of a row against the deterministic order. Along a process that order is the process's own, so the
        next one is always the last untaken event of some process.
        """
        columns = self._columns
        last = cuts.last_rows(columns, self._stamps[row].astype(np.int64))
        last[columns.process[row]] = row - 1
        heads = [(-int(self._place[at]), int(at)) for p, at in enumerate(last) if at >= columns.start[p]]
        heapify(heads)
        while heads:
            at = heads[0][1]
            yield at
            if at > columns.start[columns.process[at]]:
                heapreplace(heads, (-int(self._place[at - 1]), at - 1))
            else:
                heappop(heads)

    def _past_rows(self, row: int) -> Integers:
        columns = self._columns
        last = cuts.last_rows(columns, self._stamps[row].astype(np.int64))
        parts = [np.arange(columns.start[p], last[p] + 1) for p in range(last.size)]
        rows: Integers = np.concatenate(parts)
        others: Integers = rows[rows != row]
        return others

    def _future_rows(self, row: int) -> Integers:
        columns = self._columns
        rows: Integers = np.flatnonzero(self._stamps[:, columns.process[row]] >= columns.index[row])
        others: Integers = rows[rows != row]
        return others

    def _in_order(self, rows: Integers) -> list[Event]:
        return [self._columns.events[row] for row in rows[np.argsort(self._place[rows])]]

    def _chain(self, first: int, second: int) -> list[int]:
        """Backwards: the first event of the later process that knows `first` received a message; go to its send."""
        columns = self._columns
        process, index = columns.process[first], columns.index[first]
        chain = [second]
        while columns.process[chain[-1]] != process:
            here = chain[-1]
            start = int(columns.start[columns.process[here]])
            knows = start + int(np.searchsorted(self._stamps[start : here + 1, process], index))
            receives = range(columns.receive_start[knows], columns.receive_start[knows + 1])
            sent = [int(columns.send[columns.receive_message[r]]) for r in receives]
            if knows != here:
                chain.append(knows)
            chain.append(next(s for s in sent if s >= 0 and self._stamps[s, process] >= index))
        if chain[-1] != first:
            chain.append(first)
        return chain[::-1]

    def _reasons(self, chain: list[int]) -> list[str]:
        columns = self._columns
        reasons = []
        for a, b in pairwise(chain):
            first, second = columns.event_id(a), columns.event_id(b)
            received = columns.receive_message[columns.receive_start[b] : columns.receive_start[b + 1]]
            carried = [columns.messages[m] for m in received if columns.send[m] == a]
            if carried and columns.process[a] != columns.process[b]:
                reasons.append(f"{first} sent {carried[0]!r}, which {second} received")
            else:
                reasons.append(f"{first} came before {second} on {columns.processes[columns.process[a]]}")
        return reasons

    def _largest(self, cut: Integers) -> Cut:
        return self._describe(cuts.largest_consistent(self._columns, self._stamps, cut))

    def _describe(self, cut: Integers) -> Cut:
        return cuts.describe(self._columns, self._stamps, cut)


def _zeros(rows: int, width: int, *, small: bool) -> Stamps:
    """Stamps take 4 bytes an entry while no index needs more: they are limited by memory, not by arithmetic."""
    return np.zeros((rows, width), np.int32) if small else np.zeros((rows, width), np.int64)
