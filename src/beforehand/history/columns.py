"""Events as arrays, with their structure put right: what every kernel and query works on.

Bad structure never stops an analysis and is never silent. Of several events with one index, several sends of one
message, and several receives of one message by one process, the first in the order of the input stays. Each of the
others becomes a `Rejection`:

    duplicate-event    the event is left out
    duplicate-send     the event stays, this send of the message is left out
    duplicate-receive  the event stays, this receive of the message is left out
    cycle              a message was received before it was sent, going by the order of events on the processes.
                       All receives inside the knot (the strongly connected component) are left out, for none
                       of them can be told to be the wrong one; the events stay. `events` is a shortest cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.events import INFERRED, Event, EventId, Rejection
from beforehand.history.kernels import NO_TIME, path_back, strong_components, topological_order

__all__ = ["Columns", "Knots", "find_knots", "from_events"]

Integers = npt.NDArray[np.int64]

SHOWN_MAX: Final = 8
"""Events of a cycle that the text of a rejection names; its `events` has them all, shared by all of one knot."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """The events of one execution: one row each, sorted by process name and index. Acyclic."""

    execution: str
    processes: tuple[str, ...]  # Sorted.
    start: Integers  # Process p has the rows start[p] up to start[p + 1].
    process: npt.NDArray[np.int32]  # Per row, a position in `processes`.
    index: Integers
    time: Integers  # NO_TIME where there is none.
    messages: tuple[str, ...]  # In the order in which the input names them.
    send: Integers  # Per message, the row that sends it, or -1.
    receive_start: Integers  # The receives of row i are receive_start[i] up to receive_start[i + 1].
    receive_message: Integers  # Per receive.
    order: Integers  # All rows, causes before effects.
    events: Sequence[Event]  # In the order of rows.
    rejections: tuple[Rejection, ...] = ()

    @property
    def source(self) -> Integers:
        """Per receive, the row that sent its message, or -1."""
        return self.send[self.receive_message]

    @property
    def receive_row(self) -> Integers:
        """Per receive, its row."""
        return np.repeat(np.arange(self.process.size), np.diff(self.receive_start))

    @property
    def real(self) -> npt.NDArray[np.bool_]:
        """Per message, whether a source named it; the others were inferred."""
        return np.array([not message.startswith(INFERRED) for message in self.messages], np.bool_)

    def event_id(self, row: int) -> EventId:
        return EventId(self.execution, self.processes[self.process[row]], int(self.index[row]))


def from_events(events: Iterable[Event]) -> Columns:
    """The columns of one execution's events, which may come in any order."""
    kept, rejections = _first_of_each(events)
    execution = kept[0].execution if kept else ""
    sends, receives, more = _first_of_each_message(kept)
    rejections += more

    processes = sorted({event.process for event in kept})
    position = {process: at for at, process in enumerate(processes)}
    process = np.fromiter((position[event.process] for event in kept), np.int32, len(kept))
    index = np.fromiter((event.index for event in kept), np.int64, len(kept))
    by_process = np.lexsort((index, process))
    row_of = np.empty(len(kept), np.int64)
    row_of[by_process] = np.arange(len(kept))

    numbers = {message: at for at, message in enumerate(dict.fromkeys([*sends, *(m for _, m in receives)]))}
    send = np.full(len(numbers), -1, np.int64)
    for message, at in sends.items():
        send[numbers[message]] = row_of[at]
    receive_row = row_of[np.fromiter((at for at, _ in receives), np.int64, len(receives))]
    receive_message = np.fromiter((numbers[m] for _, m in receives), np.int64, len(receives))
    by_row = np.argsort(receive_row, kind="stable")

    process, index = process[by_process], index[by_process]
    rows = [kept[at] for at in by_process]
    start = np.searchsorted(process, np.arange(len(processes) + 1)).astype(np.int64)
    columns = Columns(
        execution=execution,
        processes=tuple(processes),
        start=start,
        process=process,
        index=index,
        time=np.fromiter((NO_TIME if e.time is None else e.time for e in rows), np.int64, len(rows)),
        messages=tuple(numbers),
        send=send,
        receive_start=np.searchsorted(receive_row[by_row], np.arange(len(rows) + 1)).astype(np.int64),
        receive_message=receive_message[by_row],
        order=np.empty(len(rows), np.int64),
        events=rows,
        rejections=tuple(rejections),
    )
    return _without_cycles(columns)


def _first_of_each(events: Iterable[Event]) -> tuple[list[Event], list[Rejection]]:
    first: dict[tuple[str, int], Event] = {}
    rejections: list[Rejection] = []
    execution: str | None = None
    for event in events:
        if not isinstance(event, Event):
            raise InputError(
                f"a history is made of events, not of a {type(event).__name__}: set rejections aside first"
            )
        if execution is None:
            execution = event.execution
        elif event.execution != execution:
            raise InputError(
                f"events of executions {execution!r} and {event.execution!r} together: "
                "a history holds one; use History.by_execution"
            )
        if (event.process, event.index) in first:
            detail = f"a second event with the id {event.id}; the first one stays"
            rejections.append(Rejection(reason="duplicate-event", detail=detail, events=(event.id,), text=event.name))
        else:
            first[event.process, event.index] = event
    return list(first.values()), rejections


def _first_of_each_message(events: list[Event]) -> tuple[dict[str, int], list[tuple[int, str]], list[Rejection]]:
    """Per message the position of its sender, all receives as (position, message), and what was left out."""
    sends: dict[str, int] = {}
    receives: dict[tuple[str, str], int] = {}
    rejections: list[Rejection] = []

    def reject(reason: str, detail: str, event: Event, first: int, message: str) -> None:
        ids = (events[first].id, event.id)
        rejections.append(Rejection(reason=reason, detail=detail, events=ids, message=message, text=event.name))

    for at, event in enumerate(events):
        for message in event.sends:
            first = sends.setdefault(message, at)
            if first != at:
                detail = f"message {message!r}, sent at {events[first].id}, is sent again at {event.id}"
                reject("duplicate-send", detail, event, first, message)
        for message in event.receives:
            first = receives.setdefault((event.process, message), at)
            if first != at:
                detail = f"message {message!r}, received at {events[first].id}, is received again at {event.id}"
                reject("duplicate-receive", detail, event, first, message)
    return sends, [(at, message) for (_, message), at in receives.items()], rejections


@dataclass(frozen=True, slots=True, eq=False)
class Knots:
    """The graph of events (to the next on the process, and from each send to its receives) and its components."""

    start: Integers  # The successors of row i are target[start[i]] up to target[start[i + 1]].
    target: Integers
    component: Integers  # Per row, its strongly connected component.
    inside: npt.NDArray[np.bool_]  # Per receive: it and its send are in one component, which is a cycle.


def find_knots(process: npt.NDArray[np.int32], receive_row: Integers, source: Integers) -> Knots:
    """Of rows sorted by process and index; `source` has, per receive, the row that sent, or something negative."""
    sent = source >= 0
    along = np.flatnonzero(process[1:] == process[:-1])
    tail = np.concatenate([along, source[sent]])
    head = np.concatenate([along + 1, receive_row[sent]])
    by_tail = np.argsort(tail, kind="stable")
    start = np.searchsorted(tail[by_tail], np.arange(process.size + 1)).astype(np.int64)
    target = head[by_tail]
    component = np.empty(process.size, np.int64)
    strong_components(start, target, component)
    inside = np.zeros(source.size, np.bool_)
    inside[sent] = component[source[sent]] == component[receive_row[sent]]
    return Knots(start, target, component, inside)


def _without_cycles(columns: Columns) -> Columns:
    rows = columns.process.size
    placed = topological_order(columns.start, columns.receive_start, columns.source, columns.order)
    if placed == rows:
        return columns

    knots = find_knots(columns.process, columns.receive_row, columns.source)
    start, target, component, inside = knots.start, knots.target, knots.component, knots.inside
    receive_row = columns.receive_row
    keep = ~inside
    rejections = _cycle_rejections(columns, inside, start, target, component)
    kept_rows = receive_row[keep]
    mended = Columns(
        execution=columns.execution,
        processes=columns.processes,
        start=columns.start,
        process=columns.process,
        index=columns.index,
        time=columns.time,
        messages=columns.messages,
        send=columns.send,
        receive_start=np.searchsorted(kept_rows, np.arange(rows + 1)).astype(np.int64),
        receive_message=columns.receive_message[keep],
        order=np.empty(rows, np.int64),
        events=columns.events,
        rejections=columns.rejections + tuple(rejections),
    )
    placed = topological_order(mended.start, mended.receive_start, mended.source, mended.order)
    assert placed == rows
    return mended


def _cycle_rejections(
    columns: Columns, inside: npt.NDArray[np.bool_], start: Integers, target: Integers, component: Integers
) -> list[Rejection]:
    """One per receive left out; those of one knot share a witness, a shortest cycle through its first receive."""
    rows = columns.process.size
    parent = np.full(rows, -1, np.int64)
    path = np.empty(rows, np.int64)
    witnesses: dict[int, tuple[EventId, ...]] = {}
    cycles: dict[int, str] = {}
    rejections: list[Rejection] = []
    receive_row, source = columns.receive_row, columns.source
    for r in np.flatnonzero(inside):
        row, knot = int(receive_row[r]), int(component[receive_row[r]])
        if knot not in witnesses:
            length = path_back(start, target, component, rows, row, rows + 1, parent, path)
            witnesses[knot] = tuple(columns.event_id(int(at)) for at in reversed(path[:length]))
            shown = [str(event) for event in witnesses[knot][:SHOWN_MAX]]
            shown += [f"… ({length - SHOWN_MAX} more)"] if length > SHOWN_MAX else []
            cycles[knot] = " → ".join([*shown, shown[0]])
        message = columns.messages[columns.receive_message[r]]
        sent, received = columns.event_id(int(source[r])), columns.event_id(row)
        detail = f"message {message!r}, sent at {sent}, received at {received}, is in a cycle: {cycles[knot]}"
        rejections.append(Rejection(reason="cycle", detail=detail, events=witnesses[knot], message=message))
    return rejections
