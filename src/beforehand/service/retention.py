"""Retention: the oldest events go, by age and by size, and what stays keeps its order.

*Oldest* means: stored first. What goes is a *consistent cut* of its execution: with an event goes everything that is
here and happened before it (and an event that follows something that must stay, stays). So:

1. Whatever leads from one event that stays to another stays too: no event of a chain can be gone whose beginning is
   here. Hence `relate`, `past`, `future`, `concurrent` and `order` say of the events that stay exactly what they
   would say if nothing had been removed; stamps, causal times and sizes of pasts are those of the whole.
2. A stamp still names events that are gone, by their index. A past counts them (`removed`), and they are not missing.
3. For what comes later, what happened before what is right too, under one condition: that no report comes after
   something was removed that it led to. Of its past, what is removed is known only as far as events that are here
   know it: so its stamp may lack entries for removed events, and its causal time and the size of its past may be less
   than without retention; the order still respects causality. A report with an index that was removed is rejected
   (`removed`). A message whose send is gone is one that nobody sent; a clock may name what is gone. Nothing goes
   sooner than `least_ns` after it was stored.
4. What was given up and never came is given up for good when what depends on it goes.

Entries of processes that are gone altogether are pruned from stamps: see pruning.py.

Journal entries go with what was stored first: a subscriber that is behind is told of the gap. The last entry always
stays, so cursors never go back. An execution that has no event left is forgotten, with its processes.

Work is done in steps of about `step_events` events, each one transaction. What to remove is found without holding the
writer; should a late report have raised stamps meanwhile, the step is done anew. How old an event is, is known by
marks: how far the journal was at some times; so ages are exact to a five-hundredth of `age_ns`, or a second.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from beforehand.errors import InputError
from beforehand.service.ingest import Ingest
from beforehand.service.knowing import last_within, next_stamped
from beforehand.service.pruning import prune
from beforehand.service.records import decode_content, encode
from beforehand.service.schema import STAMPED
from beforehand.service.stamps import read_stamp
from beforehand.service.store import Store

__all__ = ["Retention", "RetentionSettings"]

_SECOND: Final = 1_000_000_000
_MARKS_MAX: Final = 2_000
_JOURNAL_AT_ONCE: Final = 20_000
Cut = dict[int, int]  # Process to the index up to which it goes.


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """Nothing goes unless one of the first three is given."""

    age_ns: int | None = None  # What was stored longer ago goes.
    events_max: int | None = None  # What is more goes, the oldest first.
    bytes_max: int | None = None  # The same for the bytes in use in the file.
    least_ns: int = 600 * _SECOND  # What was stored more recently stays, whatever the size.
    step_events: int = 5_000

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < (name != "least_ns")):
                raise InputError(f"the setting {name} is {value!r}: give a whole number, 1 at least")

    @property
    def is_on(self) -> bool:
        return not (self.age_ns is None and self.events_max is None and self.bytes_max is None)


class Retention:
    """Of one store. `run` is called every second or so, from one thread."""

    def __init__(
        self,
        store: Store,
        ingest: Ingest,
        *,
        settings: RetentionSettings,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings: Final = settings
        self._store: Final = store
        self._ingest: Final = ingest
        self._clock: Final = clock
        self._is_behind = False  # There was more of the journal than one step looks at.
        self._every: Final = max((settings.age_ns or 3_600 * _SECOND) // 500, _SECOND)

    def run(self, seconds: float = 0.5) -> int:
        """Steps, as long as there is something to remove, for about so long; how many events went."""
        end, gone = time.monotonic() + seconds, 0
        while True:
            self._is_behind = False
            count = self.step()
            gone += count
            if not (count or self._is_behind) or time.monotonic() >= end:
                return gone

    def step(self) -> int:
        """Remove about `step_events` of what has to go; how many events went."""
        if not self.settings.is_on:
            return 0
        now = self._clock()
        self._mark(now)
        with self._store.reading() as db:
            upto = self._due(db, now)
            if upto is None or _owes(db):
                return 0
            (least,) = db.execute("SELECT coalesce(min(seq), 0) FROM journal").fetchone()
            self._is_behind = upto > least + _JOURNAL_AT_ONCE
            upto = min(upto, least + _JOURNAL_AT_ONCE)
            sql = """
                SELECT DISTINCT p.execution FROM (SELECT DISTINCT process FROM journal WHERE seq <= ?) j
                JOIN processes p ON p.id = j.process"""
            executions = [execution for (execution,) in db.execute(sql, (upto,))]
            raised = _count(db, "raised")
            cuts: list[tuple[int, Cut]] = []
            left = self.settings.step_events
            for execution in executions:
                if left <= 0:
                    break
                cut = _bounded(db, execution, _removable(db, execution, upto), left)
                left -= sum(_held(db, process, index) for process, index in cut.items())
                cuts.append((execution, cut))
        gone = _Gone()
        is_whole = left > 0  # All that can go up to there goes now: so may its part of the journal.

        def remove(db: sqlite3.Connection) -> None:
            if _count(db, "raised") != raised or _owes(db):
                return
            for execution, cut in cuts:
                if not _is_waiting(db, cut):
                    gone.remove(db, execution, cut)
                prune(db, execution)
            if is_whole:
                sql = "DELETE FROM journal WHERE seq <= ? AND seq < (SELECT max(seq) FROM journal)"
                db.execute(sql, (upto,))
                db.execute("DELETE FROM marks WHERE seq < ?", (upto,))
                db.execute("INSERT OR REPLACE INTO counts VALUES('removed_upto', ?)", (upto,))
            sql = "INSERT INTO counts VALUES('removed', ?) ON CONFLICT(name) DO UPDATE SET value = value + ?"
            db.execute(sql, (gone.events, gone.events))

        self._ingest.change(remove)
        return gone.events

    # What has to go.

    def _mark(self, now: int) -> None:
        with self._store.reading() as db:
            row = db.execute("SELECT seq, at FROM marks ORDER BY seq DESC LIMIT 1").fetchone()
            (count,) = db.execute("SELECT count(*) FROM marks").fetchone()
            if row is not None and 0 <= now - row[1] < self._every:
                return
            (newest,) = db.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()
            if row is not None and row[0] == newest and row[1] <= now:
                return  # All of it was there at the time of that mark already.
            arrived = _events(db) + _count(db, "removed")
        with self._store.transaction() as db:
            db.execute("UPDATE marks SET at = ? WHERE at > ?", (now, now))  # The clock was set back.
            db.execute("INSERT OR IGNORE INTO marks VALUES(?, ?, ?)", (newest, now, arrived))
            if count > _MARKS_MAX:
                sql = """
                    DELETE FROM marks WHERE seq IN (
                        SELECT seq FROM (SELECT seq, row_number() OVER (ORDER BY seq) AS n FROM marks) WHERE n % 2)"""
                db.execute(sql)

    def _due(self, db: sqlite3.Connection, now: int) -> int | None:
        """The place in the journal up to which events have to go; None if none has."""
        settings = self.settings
        found: list[int] = []
        if settings.age_ns is not None:
            sql = "SELECT max(seq) FROM marks WHERE at <= ?"
            found += [seq for (seq,) in db.execute(sql, (now - max(settings.age_ns, settings.least_ns),)) if seq]
        excess = self._excess(db)
        if excess > 0:
            removed = _count(db, "removed")
            sql = "SELECT seq FROM marks WHERE events - ? >= ? AND at <= ? ORDER BY seq LIMIT 1"
            row = db.execute(sql, (removed, excess, now - settings.least_ns)).fetchone()
            if row is None:  # All that is old enough.
                row = db.execute("SELECT max(seq) FROM marks WHERE at <= ?", (now - settings.least_ns,)).fetchone()
            found += [seq for seq in row if seq]
        upto = max(found, default=0)
        return upto if upto > _count(db, "removed_upto") else None

    def _excess(self, db: sqlite3.Connection) -> int:
        """How many events are too many."""
        settings = self.settings
        if settings.events_max is None and settings.bytes_max is None:
            return 0
        events = _events(db)
        excess = 0 if settings.events_max is None else events - settings.events_max
        if settings.bytes_max is not None:
            pages, free, size = (
                int(db.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
            used = (pages - free) * size
            if used > settings.bytes_max:
                excess = max(excess, events * (used - settings.bytes_max) // used + 1)
        return excess


def _removable(db: sqlite3.Connection, execution: int, upto: int) -> Cut:
    """The largest consistent cut of an execution with nothing that was stored after `upto`, or that waits."""
    sql = "SELECT id, stamped, removed FROM processes WHERE execution = ? AND events > 0"
    cut: Cut = {}
    floor: Cut = {}
    for process, stamped, removed in db.execute(sql, (execution,)).fetchall():
        first = (
            f"SELECT idx FROM events WHERE process = ? AND (arrival > ? OR state != {STAMPED}) ORDER BY idx LIMIT 1"  # noqa: S608
        )
        row = db.execute(first, (process, upto)).fetchone()
        cut[process], floor[process] = (stamped if row is None else row[0] - 1), removed
    for process, removed in db.execute("SELECT id, removed FROM processes WHERE execution = ?", (execution,)):
        cut.setdefault(process, removed)  # Nothing of it is here: what was, was removed.
        cut[process] = max(cut[process], removed)
    found = {process: last_within(db, process, cut[process], cut) for process in floor}
    return {process: index for process, index in found.items() if index > floor[process]}


def _bounded(db: sqlite3.Connection, execution: int, cut: Cut, most: int) -> Cut:
    """The cut itself, or `most` events of it: a beginning of the deterministic order is a consistent cut too."""
    if sum(_held(db, process, index) for process, index in cut.items()) <= most:
        return cut
    sql = f"""
        SELECT process, idx FROM events INDEXED BY events_in_order WHERE execution = ? AND state = {STAMPED}
        ORDER BY causal_time, past_size, process, idx"""  # noqa: S608
    chosen: Cut = {}
    count = 0
    for process, index in db.execute(sql, (execution,)):
        if index <= cut.get(process, 0):
            chosen[process] = max(chosen.get(process, 0), index)
            count += 1
            if count == most:
                break
    return chosen


class _Gone:
    """Removes, and counts."""

    def __init__(self) -> None:
        self.events = 0

    def remove(self, db: sqlite3.Connection, execution: int, cut: Cut) -> None:
        """Remove a consistent cut of an execution."""
        count = sum(self._remove(db, execution, process, index) for process, index in cut.items())
        self.events += count
        db.execute("UPDATE executions SET events = events - ? WHERE id = ?", (count, execution))
        # What was given up below the cut holds nobody back any more.
        sql = """
            INSERT OR REPLACE INTO blocked SELECT id, execution, 0, 0, NULL FROM processes
            WHERE execution = ? AND stamped > complete"""
        db.execute(sql, (execution,))
        (left,) = db.execute("SELECT events FROM executions WHERE id = ?", (execution,)).fetchone()
        if not left:
            _forget(db, execution)

    def _remove(self, db: sqlite3.Connection, execution: int, process: int, upto: int) -> int:
        following = next_stamped(db, process, upto + 1)
        if following is not None:  # Stamps are differences: the first that stays must have all of its own.
            stamp = read_stamp(db, process, following)
            assert stamp is not None
            sql = 'UPDATE events SET "full" = 1, stamp = ? WHERE process = ? AND idx = ?'
            db.execute(sql, (encode(stamp.entries), process, following))
        rows = db.execute(
            "SELECT idx, content FROM events WHERE process = ? AND idx <= ?", (process, upto)
        ).fetchall()
        sends: list[tuple[Any, ...]] = []
        receives: list[tuple[Any, ...]] = []
        for index, content in rows:
            sent, received, _ = decode_content(content)
            sends += [(execution, message, process, index) for message in sent]
            receives += [(execution, message, process, index) for message in received]
        for table, values in (("sends", sends), ("receives", receives)):
            sql = f"DELETE FROM {table} WHERE execution = ? AND message = ? AND process = ? AND idx = ?"  # noqa: S608
            db.executemany(sql, values)
        for table in ("events", "unsent", "claims", "conflicts", "findings"):
            db.execute(f"DELETE FROM {table} WHERE process = ? AND idx <= ?", (process, upto))  # noqa: S608
        db.execute("DELETE FROM claims WHERE by_process = ? AND by_idx <= ?", (process, upto))
        db.execute('DELETE FROM holes WHERE process = ? AND "last" <= ?', (process, upto))
        db.execute('UPDATE holes SET "first" = ? WHERE process = ? AND "first" <= ?', (upto + 1, process, upto))
        sql = """
            UPDATE processes SET removed = ?, complete = max(complete, ?), stamped = max(stamped, ?),
            events = events - ? WHERE id = ?"""
        db.execute(sql, (upto, upto, upto, len(rows), process))
        return len(rows)


def _forget(db: sqlite3.Connection, execution: int) -> None:
    """An execution without events. Numbers are not to be given again while the journal may have them, so the one
    with the greatest number waits.
    """
    (newest,) = db.execute("SELECT max(id) FROM executions").fetchone()
    (process,) = db.execute("SELECT max(id) FROM processes").fetchone()
    sql = "SELECT id FROM processes WHERE execution = ?"
    processes = [number for (number,) in db.execute(sql, (execution,))]
    waits = db.execute("SELECT 1 FROM waits WHERE execution = ? LIMIT 1", (execution,)).fetchone()
    if execution == newest or process in processes or waits is not None:
        return
    for number in processes:
        db.execute("DELETE FROM holes WHERE process = ?", (number,))
        db.execute("DELETE FROM blocked WHERE process = ?", (number,))
    for table in ("sends", "receives", "unsent", "processes"):
        db.execute(f"DELETE FROM {table} WHERE execution = ?", (execution,))  # noqa: S608
    db.execute("DELETE FROM executions WHERE id = ?", (execution,))


def _held(db: sqlite3.Connection, process: int, upto: int) -> int:
    sql = "SELECT count(*) FROM events WHERE process = ? AND idx <= ?"
    return int(db.execute(sql, (process, upto)).fetchone()[0])


def _is_waiting(db: sqlite3.Connection, cut: Cut) -> bool:
    sql = "SELECT 1 FROM waits WHERE process = ? AND idx <= ? LIMIT 1"
    return any(db.execute(sql, item).fetchone() is not None for item in cut.items())


def _events(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(sum(events), 0) FROM executions").fetchone()[0])


def _count(db: sqlite3.Connection, name: str) -> int:
    row = db.execute("SELECT value FROM counts WHERE name = ?", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def _owes(db: sqlite3.Connection) -> bool:
    """Whether stamps are being raised or events are still to be woken: then nothing is removed yet."""
    return bool(db.execute("SELECT EXISTS(SELECT 1 FROM wakes) OR EXISTS(SELECT 1 FROM raises)").fetchone()[0])
