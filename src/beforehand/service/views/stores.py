"""A live store as lanes that follow it: what changed since the last look is read again, and nothing else.

A look compares the cursor of the store with that of the lanes. Of each process the events from the first that changed
on are read again; so are those whose past is not complete, for their causal times may have been raised meanwhile (if
these are more than `SOFT_MAX`, only every `SOFT_SECONDS`). Events that wait stand at their own time, but never before
the event before them on their process.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.events import EventId
from beforehand.formats.failing import is_failure
from beforehand.history.kernels import NO_TIME
from beforehand.service.finding import future_spans
from beforehand.service.reaching import Reach
from beforehand.service.records import decode_content, values_of
from beforehand.service.schema import ARRIVED, STAMPED
from beforehand.service.store import Store
from beforehand.service.view import View
from beforehand.service.views.cache import LanesCache, refuse_if_large
from beforehand.service.views.judging import Checks
from beforehand.service.views.lanes import Axis, Edges, Lane, Lanes, edges_between
from beforehand.service.views.source import Detail, Executions, Point, Violations, detail_of

__all__ = ["StoreSource"]

Integers = npt.NDArray[np.int64]

SOFT_MAX: Final = 50_000
SOFT_SECONDS: Final = 10.0
ARRIVED_MAX: Final = 50_000
"""New events whose messages are looked up one by one; for more, all messages are read again."""

# Texts that stand in every value that makes a failure, in lower case: few events have any of them.
_STEMS: Final = (b"err", b"fatal", b"crit", b"alert", b"emergency", b"panic", b"severe", b"fail", b"true")
# Contents are MessagePack of texts: 0xff is only in the length of a text or a list, at most twice in a row.
_BETWEEN: Final = b"\xff\xff\xff"
_CHUNK: Final = 2_000  # Events whose contents are searched together.


@dataclass(slots=True)
class _Member:
    """A process as it was when it was read."""

    name: str
    stamped: int
    complete: int
    events: int


@dataclass(slots=True)
class _Memory:
    """What is kept beside the lanes, to follow the store."""

    execution: int
    members: dict[int, _Member] = field(default_factory=dict)  # By number.
    lanes: dict[int, Lane] = field(default_factory=dict)  # By the number of the process.
    soft_read: float = 0.0


class StoreSource:
    """Any thread may call any method."""

    name: Final = "store"

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._lanes: Final = LanesCache()
        self.checks: Final = Checks(store, clock)

    def close(self) -> None:
        self._lanes.close()
        self.checks.close()

    def executions(self, most: int) -> Executions:
        sql = "SELECT name, events FROM executions WHERE events > 0 ORDER BY latest DESC, id DESC LIMIT ?"
        with self._store.reading() as db:
            rows = db.execute(sql, (most + 1,)).fetchall()
        return Executions(rows[:most], len(rows) > most)

    def one_execution(self, execution: str | None) -> str | None:
        with self._store.reading() as db:
            view = View(db)
            only = view.one_execution(execution)
            return None if only is None else view.execution_name(only)

    def lanes(self, execution: str, axis: Axis | None) -> Lanes:
        with self._store.reading() as db:
            row = db.execute("SELECT id, events, latest FROM executions WHERE name = ?", (execution,)).fetchone()
        if row is None:
            raise InputError(f"there is no execution {execution!r} in this store")
        number, events, latest = row
        chosen: Axis = axis or ("steps" if latest == NO_TIME else "time")
        refuse_if_large(execution, events)
        cursor = self._store.cursor

        def read(kept: Lanes | None) -> Lanes:
            with self._store.reading() as db:
                return _Look(db, execution, number, chosen, self._clock()).lanes(kept)

        def is_fresh(kept: Lanes) -> bool:
            return kept.cursor is not None and kept.cursor >= cursor and kept.count == events

        return self._lanes.get((execution, chosen), read, is_fresh)

    def details(self, lanes: Lanes, points: Sequence[Point]) -> list[Detail | None]:
        memory = lanes.extra["memory"]
        assert isinstance(memory, _Memory)
        ids = {member.name: number for number, member in memory.members.items()}
        keys = [(ids[lanes.lanes[lane].process], index) for lane, index in points]
        with self._store.reading() as db:
            view = View(db)
            rows = view.rows(keys)
            received = _senders(view, memory.execution, rows)
            return [
                None
                if (row := rows.get(key)) is None
                else detail_of(view.event(row, clock=False), received.get(key, ()), view.state(row))
                for key in keys
            ]

    def find_id(self, event: EventId | str) -> EventId:
        with self._store.reading() as db:
            view = View(db)
            return view.event_id(view.resolve(event).key)

    def reach(self, event: EventId) -> Reach:
        with self._store.reading() as db:
            view = View(db)
            row = view.resolve(event)
            past = {view.member(process).name: index for process, index in view.stamp(row).entries.items()}
            before = view.last_here(row.process, row.index - 1)
            if before:
                past[event.process] = before
            future = {}
            if row.state == STAMPED:
                future = {view.member(process).name: first for process, first, _ in future_spans(view, row)}
            # On its own process also what waits comes after it.
            sql = "SELECT min(idx) FROM events WHERE process = ? AND idx > ?"
            (following,) = db.execute(sql, row.key).fetchone()
            if following is not None:
                future[event.process] = following
            return Reach(past, future)

    def violations(self, execution: str) -> Violations:
        return self.checks.known(execution)


def _senders(view: View, execution: int, rows: dict[tuple[int, int], Any]) -> dict[tuple[int, int], Any]:
    """Per event, the messages that it receives and whose send is here, with the sender; all in one question."""
    wanted = {key: decode_content(row.content)[1] for key, row in rows.items()}
    messages = dict.fromkeys((execution, message) for receives in wanted.values() for message in receives)
    sql = """
        SELECT r.message, r.process, r.idx, s.process, s.idx FROM v
        CROSS JOIN receives r ON r.execution = v.a AND r.message = v.b
        CROSS JOIN sends s ON s.execution = r.execution AND s.message = r.message WHERE NOT r.cut"""
    found: dict[tuple[int, int], dict[str, tuple[str, int]]] = {}
    for message, process, index, sender, send in values_of(view.db, sql, messages):
        if (process, index) in wanted:
            found.setdefault((process, index), {})[message] = (view.member(sender).name, send)
    return {key: [(message, *sent) for message, sent in by.items()] for key, by in found.items()}


class _Look:
    """One look at the store, by one connection: one moment."""

    def __init__(self, db: sqlite3.Connection, execution: str, number: int, axis: Axis, now: float) -> None:
        self._db: Final = db
        self._execution: Final = execution
        self._number: Final = number
        self._axis: Final = axis
        self._now: Final = now
        (self._cursor,) = db.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()

    def lanes(self, kept: Lanes | None) -> Lanes:
        memory = None if kept is None else kept.extra["memory"]
        if kept is None or not isinstance(memory, _Memory) or memory.execution != self._number:
            return self._all()
        assert kept.cursor is not None
        (oldest,) = self._db.execute("SELECT coalesce(min(seq), 0) FROM journal").fetchone()
        if oldest > kept.cursor + 1 or kept.cursor > self._cursor:
            return self._all()  # Some of what changed is not told any more.
        return self._changed(kept, memory)

    def _members(self) -> dict[int, _Member]:
        sql = "SELECT id, name, stamped, complete, events FROM processes WHERE execution = ? AND events > 0"
        return {row[0]: _Member(*row[1:]) for row in self._db.execute(sql, (self._number,))}

    def _all(self) -> Lanes:
        axis = self._axis
        memory = _Memory(self._number, self._members(), soft_read=self._now)
        for number, member in memory.members.items():
            memory.lanes[number] = self._lane(number, member.name, axis)
        lanes, order = _numbered(memory)
        return Lanes(self._execution, axis, lanes, self._edges(lanes, order), self._cursor, {"memory": memory})

    def _lane(self, number: int, name: str, axis: Axis, before: Lane | None = None, since: int = 0) -> Lane:
        """A lane, read again from an index on; what comes before it is that of an older one."""
        sql = f"SELECT idx, {_KEY[axis]} FROM events WHERE process = ? AND idx >= ? ORDER BY idx"  # noqa: S608
        rows = _table(self._db.execute(sql, (number, since)), 2)
        index, x = rows[:, 0].copy(), rows[:, 1]
        failing = np.searchsorted(index, self._failures(number, since))
        if before is not None:
            keep = int(np.searchsorted(before.index, since))
            index = np.concatenate([before.index[:keep], index])
            x = np.concatenate([before.x[:keep], x])
            failing = np.concatenate([before.failing[before.failing < keep], failing + keep])
        return Lane(name, index, np.maximum.accumulate(x), failing)

    def _failures(self, number: int, since: int) -> Integers:
        """The indexes of failures of a process, growing.

        Looking at each event here would take longer than all the rest: SQLite joins the contents of many, and texts
        that every failure has are searched in all of them together. Only those that have one are looked at.
        """
        sql = f"""
            SELECT max(idx), CAST(group_concat(idx || ':' || CAST(content AS TEXT), x'ffffff') AS BLOB) FROM (
                SELECT idx, content FROM events WHERE process = ? AND idx >= ? AND content IS NOT NULL
                ORDER BY idx LIMIT {_CHUNK})"""  # noqa: S608
        suspects: list[int] = []
        while True:
            last, joined = self._db.execute(sql, (number, since)).fetchone()
            if last is None:
                break
            suspects += _suspects(joined.lower())
            since = last + 1
        sql = "SELECT e.idx, e.content FROM v CROSS JOIN events e ON e.process = v.a AND e.idx = v.b"
        contents = values_of(self._db, sql, [(number, index) for index in suspects])
        failed = {index for index, content in contents if is_failure(decode_content(content)[2])}
        return np.array(sorted(failed), np.int64)

    def _edges(self, lanes: Sequence[Lane], order: dict[int, int]) -> Edges:
        sql = """
            SELECT s.process, s.idx, r.process, r.idx FROM receives r
            CROSS JOIN sends s ON s.execution = r.execution AND s.message = r.message
            WHERE r.execution = ? AND NOT r.cut"""
        return _edges_of(lanes, order, _table(self._db.execute(sql, (self._number,)), 4))

    def _changed(self, kept: Lanes, memory: _Memory) -> Lanes:
        sql = """
            SELECT j.process, min(j.idx) FROM journal j JOIN processes p ON p.id = j.process
            WHERE j.seq > ? AND p.execution = ? GROUP BY j.process"""
        since: dict[int, int] = dict(self._db.execute(sql, (kept.cursor, self._number)))
        soft = {n: m.complete + 1 for n, m in memory.members.items() if m.stamped > m.complete}
        tails = [memory.lanes[number].index for number in soft]
        rows = sum(tail.size - int(np.searchsorted(tail, at)) for tail, at in zip(tails, soft.values(), strict=True))
        fresh = _Memory(self._number, self._members(), soft_read=memory.soft_read)
        if soft and (rows <= SOFT_MAX or self._now - memory.soft_read >= SOFT_SECONDS):
            fresh.soft_read = self._now
            for number, at in soft.items():
                since[number] = min(since.get(number, at), at)
        lost = moved = False
        for number, member in fresh.members.items():
            before = lane = memory.lanes.get(number)
            if before is not None and number in since:
                lane = self._lane(number, member.name, kept.axis, before, since[number])
                moved |= not np.array_equal(before.x, lane.x[: before.x.size])
            if lane is None or lane.index.size != member.events:  # New; or events were removed.
                lost |= lane is not None
                lane = self._lane(number, member.name, kept.axis)
            fresh.lanes[number] = lane
        lanes, order = _numbered(fresh)
        lost |= any(number not in fresh.lanes for number in memory.lanes)
        edges = None if lost else self._new_edges(kept, lanes, order)
        if edges is None:
            edges = self._edges(lanes, order)
        elif moved:  # Also sends that stood there before.
            edges = edges_between(lanes, edges.sender, edges.send, edges.receiver, edges.receive)
        return Lanes(self._execution, kept.axis, lanes, edges, self._cursor, {"memory": fresh})

    def _new_edges(self, kept: Lanes, lanes: Sequence[Lane], order: dict[int, int]) -> Edges | None:
        """The edges with those of new events; None if all have to be read again."""
        if [lane.process for lane in lanes] != [lane.process for lane in kept.lanes]:
            return None
        sql = f"""
            SELECT j.process, j.idx FROM journal j JOIN processes p ON p.id = j.process
            WHERE j.seq > ? AND p.execution = ? AND j.what & {ARRIVED} LIMIT {ARRIVED_MAX + 1}"""  # noqa: S608
        keys = self._db.execute(sql, (kept.cursor, self._number)).fetchall()
        if len(keys) > ARRIVED_MAX:
            return None
        sql = "SELECT e.content FROM v CROSS JOIN events e ON e.process = v.a AND e.idx = v.b"
        messages: dict[tuple[int, str], None] = {}
        for (content,) in values_of(self._db, sql, keys):
            sends, receives, _ = decode_content(content)
            messages.update(dict.fromkeys((self._number, message) for message in (*sends, *receives)))
        sql = """
            SELECT s.process, s.idx, r.process, r.idx, r.message FROM v
            CROSS JOIN sends s ON s.execution = v.a AND s.message = v.b
            CROSS JOIN receives r ON r.execution = v.a AND r.message = v.b WHERE NOT r.cut"""
        new = set(map(tuple, keys))
        found = {
            row for row in values_of(self._db, sql, messages) if (row[0], row[1]) in new or (row[2], row[3]) in new
        }
        if not found:
            return kept.edges
        # A key may be asked for twice, so what was found is a set; one event may send another several messages.
        more = _edges_of(lanes, order, np.array([row[:4] for row in sorted(found)], np.int64))
        old = kept.edges
        return Edges(
            *(
                np.concatenate([getattr(old, name), getattr(more, name)])
                for name in ("sender", "send", "receiver", "receive", "x")
            )
        )


_KEY: Final[dict[Axis, str]] = {"time": "causal_time", "steps": "past_size"}


def _suspects(text: bytes) -> list[int]:
    """Of contents joined by `_BETWEEN`: the indexes of those that a failure may be in."""
    hits = [at for stem in _STEMS for at in _places(text, stem)]
    if not hits:
        return []
    starts = [0, *(at + len(_BETWEEN) for at in _places(text, _BETWEEN))]
    parts = np.unique(np.searchsorted(starts, hits, side="right")) - 1
    return [int(text[starts[at] : text.index(b":", starts[at])]) for at in parts.tolist()]


def _places(text: bytes, stem: bytes) -> Iterator[int]:
    at = text.find(stem)
    while at >= 0:
        yield at
        at = text.find(stem, at + 1)


def _table(rows: Iterable[tuple[int, ...]], width: int) -> Integers:
    return np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, width)


def _numbered(memory: _Memory) -> tuple[list[Lane], dict[int, int]]:
    """The lanes sorted by name, and the lane of each process by its number."""
    numbers = sorted(memory.lanes, key=lambda number: memory.members[number].name)
    return [memory.lanes[number] for number in numbers], {number: at for at, number in enumerate(numbers)}


def _edges_of(lanes: Sequence[Lane], order: dict[int, int], rows: Integers) -> Edges:
    lane_of = np.full(max(order, default=0) + 1, -1, np.int64)
    for number, at in order.items():
        lane_of[number] = at
    known = (rows[:, (0, 2)] < lane_of.size).all(axis=1)
    rows = rows[known]
    sender, receiver = lane_of[rows[:, 0]], lane_of[rows[:, 2]]
    here = (sender >= 0) & (receiver >= 0)
    return edges_between(lanes, sender[here], rows[here, 1], receiver[here], rows[here, 3])
