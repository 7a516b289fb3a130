"""Events in the deterministic order, page by page, over one execution or all.

The order is by causal time, size of past, process name, index and execution, as in `StoredHistory`. Within an
execution it is that of an index. Executions are merged; one is opened only when its latest event may come next. A
page ends after `limit` events, after `PAGE_BYTES_MAX` of them, or after `SCANNED_MAX` that were looked at; its cursor
goes on from there. A cursor is the place of the last event that was looked at: events that come later, or move, lie
before or behind it by their own.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Annotated, Final

import msgspec

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.service import deadlines
from beforehand.service.knowing import first_knowing
from beforehand.service.schema import STAMPED
from beforehand.service.view import COLUMNS, Row, View

__all__ = [
    "PAGE_BYTES_MAX",
    "SCANNED_MAX",
    "Page",
    "concurrent_spans",
    "decode_cursor",
    "future_spans",
    "page",
    "size_of",
    "spans_in_order",
    "walk",
]

SCANNED_MAX: Final = 100_000
"""Events that one page looks at."""

PAGE_BYTES_MAX: Final = 16 << 20
"""Bytes of events, about, that one page holds: it ends with the event that reaches them."""

Where = Callable[[Event], bool]
Place = tuple[int, int, str, int, str]  # Causal time, size of past, process, index, execution.
_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # What a store takes.
Span = tuple[int, int, int]  # A process, and its indexes from the second up to before the third.

_ENTRY_BYTES: Final = 16  # Of a clock.
_cursor: Final = msgspec.msgpack.Decoder(tuple[_Number, _Number, str, _Number, str])


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[Row]
    cursor: str | None  # Where to go on; None if there is nothing more.


def decode_cursor(text: str | None) -> Place | None:
    """The place that a cursor stands for."""
    if text is None:
        return None
    try:
        place: Place = _cursor.decode(urlsafe_b64decode(text.encode()))
    except (ValueError, binascii.Error, msgspec.MsgspecError, UnicodeEncodeError):
        raise InputError(f"{text[:40]!r} is no cursor: give the one of the last answer, as it was") from None
    return place


def page(view: View, rows: Iterator[Row], limit: int, where: Where | None) -> Page:
    """The next events of a walk that are meant."""
    found: list[Row] = []
    last: Row | None = None
    size = 0
    for scanned, row in enumerate(rows):
        if len(found) == limit or scanned == SCANNED_MAX or size >= PAGE_BYTES_MAX:
            assert last is not None
            return Page(found, urlsafe_b64encode(msgspec.msgpack.encode(_place(view, last))).decode())
        last = row
        if where is not None:
            deadlines.check()  # A regular expression may take its time with each event.
            if not where(view.event(row, clock=False)):
                continue
        found.append(row)
        size += size_of(view, row)
    return Page(found, None)


def size_of(view: View, row: Row) -> int:
    """Bytes that an event takes in an answer, about."""
    size = len(row.name) + len(row.content or b"") + len(row.clock or b"")
    size += 2 * (len(view.member(row.process).name) + len(view.execution_name(row.execution)))  # In the id, too.
    if row.clocked and row.clock is None:  # Its clock is its stamp.
        size += _ENTRY_BYTES * len(view.members(row.execution))
    return size


def walk(view: View, execution: int | None, after: Place | None, *, newest: bool, waiting: bool) -> Iterator[Row]:
    """All events in order, or against it; those that wait stand at their own time, or are left out."""
    if execution is not None:
        yield from _one(view, execution, after, newest=newest, waiting=waiting)
        return
    sign = -1 if newest else 1
    heap: list[tuple[_Key, Row, Iterator[Row]]] = []

    def push(rows: Iterator[Row]) -> None:
        row = next(rows, None)
        if row is not None:
            heappush(heap, (_Key(_place(view, row), newest), row, rows))

    # Newest first, an execution cannot hold what is newer than its latest. Oldest first, all must be open.
    sql = f"SELECT id, latest FROM executions WHERE events > 0 ORDER BY latest {'DESC' if newest else ''}"  # noqa: S608
    executions = iter(view.db.execute(sql).fetchall())
    coming = next(executions, None)
    while heap or coming is not None:
        while coming is not None and (not newest or not heap or coming[1] >= sign * heap[0][0].time):
            push(_one(view, coming[0], after, newest=newest, waiting=waiting))
            coming = next(executions, None)
        if heap:
            _, row, rows = heappop(heap)
            yield row
            push(rows)


def _one(view: View, execution: int, after: Place | None, *, newest: bool, waiting: bool) -> Iterator[Row]:
    direction, sign = ("DESC", "<=") if newest else ("", ">=")
    bound = f"AND (e.causal_time, e.past_size) {sign} (?, ?)" if after is not None else ""
    state = "" if waiting else f"AND e.state = {STAMPED}"
    sql = f"""
        SELECT {COLUMNS} FROM events e INDEXED BY events_in_order CROSS JOIN processes p ON p.id = e.process
        WHERE e.execution = ? {bound} {state}
        ORDER BY e.causal_time {direction}, e.past_size {direction}, p.name {direction}, e.idx {direction}"""  # noqa: S608
    values = (execution, *(after[:2] if after is not None else ()))
    cursor = view.db.cursor()
    for values_ in cursor.execute(sql, values):
        row = Row(*values_)
        if after is not None:
            place = _place(view, row)
            if place >= after if newest else place <= after:
                continue
        yield row


class _Key:
    """A place in a heap whose least is the newest or the oldest."""

    __slots__ = ("_newest", "_place", "time")

    def __init__(self, place: Place, newest: bool) -> None:
        self._place = place
        self._newest = newest
        self.time = -place[0] if newest else place[0]

    def __lt__(self, other: _Key) -> bool:
        return self._place > other._place if self._newest else self._place < other._place


def _place(view: View, row: Row) -> Place:
    return (
        row.causal_time,
        row.past_size,
        view.member(row.process).name,
        row.index,
        view.execution_name(row.execution),
    )


# Parts of an execution: of each process a span of indexes.


def future_spans(view: View, row: Row) -> list[Span]:
    """All that the event happened before, of those that have a stamp."""
    spans = []
    for member in view.members(row.execution).values():
        index = row.index + 1 if member.id == row.process else row.index
        first = first_knowing(view.db, member.id, member.stamped, row.process, index)
        if first is not None:
            spans.append((member.id, first, member.stamped + 1))
    return spans


def concurrent_spans(view: View, row: Row) -> list[Span]:
    """All that neither the event knows nor that knows it, of those that have a stamp."""
    known = view.stamp(row).entries
    after = {process: first for process, first, _ in future_spans(view, row)} if row.state == STAMPED else {}
    spans = []
    for member in view.members(row.execution).values():
        first, end = known.get(member.id, 0) + 1, after.get(member.id, member.stamped + 1)
        if member.id != row.process and first < end:
            spans.append((member.id, first, end))
    return spans


def spans_in_order(view: View, spans: list[Span], after: Place | None) -> Iterator[Row]:
    """The events with stamps of these spans, in the deterministic order, after a place."""
    heap: list[tuple[_Key, Row, Iterator[Row]]] = []
    for process, first, end in spans:
        rows = _upwards(view, process, first if after is None else _behind(view, process, first, end, after), end)
        row = next(rows, None)
        if row is not None:
            heappush(heap, (_Key(_place(view, row), newest=False), row, rows))
    while heap:
        _, row, rows = heappop(heap)
        yield row
        following = next(rows, None)
        if following is not None:
            heappush(heap, (_Key(_place(view, following), newest=False), following, rows))


def _upwards(view: View, process: int, first: int, end: int) -> Iterator[Row]:
    sql = f"""
        SELECT {COLUMNS} FROM events e WHERE e.process = ? AND e.idx >= ? AND e.idx < ? AND e.state = {STAMPED}
        ORDER BY e.idx LIMIT ?"""  # noqa: S608
    size = 2
    while True:
        rows = view.db.execute(sql, (process, first, end, size)).fetchall()
        for row in rows:
            yield Row(*row)
        if len(rows) < size:
            return
        first, size = rows[-1][1] + 1, min(size * 2, 256)


def _behind(view: View, process: int, first: int, end: int, after: Place) -> int:
    """The first index of a span that lies behind a place: places grow along a process."""
    low, high = first - 1, end
    while high - low > 1:
        middle = (low + high) // 2
        sql = f"""
            SELECT {COLUMNS} FROM events e WHERE e.process = ? AND e.idx <= ? AND e.idx > ? AND e.state = {STAMPED}
            ORDER BY e.idx DESC LIMIT 1"""  # noqa: S608
        row = view.db.execute(sql, (process, middle, first - 1)).fetchone()
        if row is not None and _place(view, Row(*row)) > after:
            high = middle
        else:
            low = middle
    return high
