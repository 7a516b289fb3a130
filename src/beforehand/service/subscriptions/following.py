"""From a place in the journal to the notices after it.

1. Every change that is worth a notice (interests.py) gives one notice, in the order of the journal; its cursor is the
   change's number. Whoever begins after the cursor of a notice gets exactly those that come after it. So notices are
   had again, or resumed, by cursor alone, across restarts of the service and of the client.
2. A notice is made when it is asked for, from one moment of the store: what came since its change is in it.
   `complete`, `missing` and `unsent` are those of that moment.
3. For `complete`, an event that got its stamp while the store still raises stamps or counts what is complete
   (observer.py: a late report) waits until that is done, `HELD_SECONDS` at most; what comes after it waits too.
4. Changes that retention has removed are told by one notice with `gap`: between its `after` and its `upto`, notices
   may be lacking. So is an event that was removed before its notice was made.
5. A notice has at most `NOTICE_BYTES_MAX` bytes: of a past that is larger the oldest events are left out, and `notes`
   says so.
6. An event of which the predicate cannot be told within its limits gets a notice that says so (`unjudged`).

One call reads at most `SCANNED_MAX` changes, for about `SCAN_SECONDS`, and gives about `PAGE_BYTES` bytes, or one
notice.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from beforehand.errors import InputError, PredicateError, UnknownEventError
from beforehand.events import EventId
from beforehand.pipeline.documents import event_record
from beforehand.service.queries import Queries
from beforehand.service.store import Store
from beforehand.service.subscriptions.interests import Interest
from beforehand.service.view import Row, View

__all__ = ["HELD_SECONDS", "NOTICE_BYTES_MAX", "SCANNED_MAX", "SCAN_SECONDS", "Following", "Notice", "Page"]

SCANNED_MAX: Final = 2_000
SCAN_SECONDS: Final = 0.5  # A pattern may take its time with each event: then others have their turn.
HELD_SECONDS: Final = 10.0
NOTICE_BYTES_MAX: Final = 4 << 20
PAGE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Notice:
    """`body` is what the subscriber gets: `document` as JSON. `cursor` is in it too."""

    cursor: int
    document: dict[str, Any]
    body: bytes

    @property
    def is_gap(self) -> bool:
        return "gap" in self.document


@dataclass(frozen=True, slots=True)
class Page:
    """`cursor`: all up to there was looked at. `held`: the next notice has to wait; look again soon."""

    notices: list[Notice]
    cursor: int
    held: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    seq: int
    event: EventId | None  # None: it was removed.
    record: dict[str, Any]
    unjudged: str | None = None


class Following:
    """One subscriber's way through the journal. Not for several threads at once."""

    def __init__(
        self,
        store: Store,
        interest: Interest,
        *,
        after: int,
        subscription: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store: Final = store
        self._queries: Final = Queries(store)
        self._interest: Final = interest
        self._subscription: Final = subscription
        self._clock: Final = clock
        self._held: tuple[int, float] | None = None  # The change that waits, and since when.
        self.cursor = after

    def check(self) -> None:
        """`InputError` if the cursor is none of this store."""
        if not 0 <= self.cursor <= self._store.cursor:
            raise InputError(
                f"the cursor {self.cursor} is beyond the last change of this store, {self._store.cursor}: it belongs "
                "to another store; begin again without it"
            )

    def page(self, limit: int = 50) -> Page:
        """The next notices, at most `limit`; the cursor moves behind them."""
        found, cursor, gap = self._scan(limit)
        notices = [] if gap is None else [self._gap(self.cursor, gap)]
        size = 0
        for one in found:
            if size > PAGE_BYTES:
                self.cursor = one.seq - 1
                return Page(notices, self.cursor)
            notice = self._gap(one.seq - 1, one.seq) if one.event is None else self._notice(one)
            if notice is None:
                self.cursor = one.seq - 1
                return Page(notices, self.cursor, held=True)
            notices.append(notice)
            size += len(notice.body)
        self.cursor = cursor
        return Page(notices, cursor)

    # Inside.

    def _scan(self, limit: int) -> tuple[list[_Found], int, int | None]:
        """What is meant among the next changes, how far they were looked at, and where a gap before them ends."""
        with self._store.reading() as db:
            view = View(db)
            least, newest = db.execute(
                "SELECT (SELECT min(seq) FROM journal), (SELECT max(seq) FROM journal)"
            ).fetchone()
            if newest is None or newest <= self.cursor:
                return [], self.cursor, None
            gap = least - 1 if self.cursor < least - 1 else None
            after = self.cursor if gap is None else gap
            upto = min(newest, after + SCANNED_MAX)
            sql = "SELECT seq, process, idx FROM journal WHERE seq > ? AND seq <= ? AND what & ? ORDER BY seq"
            changes = db.execute(sql, (after, upto, self._interest.moment)).fetchall()
            rows = view.rows({(process, index) for _, process, index in changes})
            found: list[_Found] = []
            end = time.monotonic() + SCAN_SECONDS
            for seq, process, index in changes:
                one = self._judged(view, seq, rows.get((process, index)))
                if one is not None:
                    found.append(one)
                if len(found) == limit or time.monotonic() >= end:
                    return found, seq, gap
            return found, upto, gap

    def _judged(self, view: View, seq: int, row: Row | None) -> _Found | None:
        if row is None:
            return _Found(seq, None, {})
        event = view.event(row, clock=False)
        try:
            wanted, unjudged = self._interest.wants(event), None
        except PredicateError as error:
            wanted, unjudged = True, str(error)
        return _Found(seq, event.id, event_record(event), unjudged) if wanted else None

    def _notice(self, found: _Found) -> Notice | None:
        """None if it has to wait."""
        assert found.event is not None
        try:
            past = self._past(found.event)
            if not past["complete"] and self._interest.completeness == "complete":
                if self._owes() and self._is_patient(found.seq):
                    return None
                past = self._past(found.event)  # What was owed may have been done between the two looks.
        except UnknownEventError:
            return self._gap(found.seq - 1, found.seq)
        self._held = None
        document = {
            "subscription": self._subscription,
            "cursor": found.seq,
            "event": {**found.record, "state": past["state"]},
            "past": past["past"],
            "events": past["events"],
            "complete": past["complete"],
            "missing": past["missing"],
            "unsent": past["unsent"],
            "notes": past["notes"],
        }
        if found.unjudged is not None:
            document["unjudged"] = found.unjudged
        return _encoded(document)

    def _past(self, event: EventId) -> dict[str, Any]:
        return self._queries.past(event, last=self._interest.past)

    def _owes(self) -> bool:
        with self._store.reading() as db:
            return owes(db)

    def _is_patient(self, seq: int) -> bool:
        now = self._clock()
        if self._held is None or self._held[0] != seq:
            self._held = (seq, now)
        return now - self._held[1] < HELD_SECONDS

    def _gap(self, after: int, upto: int) -> Notice:
        gap = {"after": after, "upto": upto}
        return _encoded({"subscription": self._subscription, "cursor": upto, "gap": gap})


def _encoded(document: dict[str, Any]) -> Notice:
    body = msgspec.json.encode(document)
    while len(body) > NOTICE_BYTES_MAX and document["events"]:
        kept = document["events"][len(document["events"]) // 2 + 1 :]
        note = f"only the last {len(kept)} events are shown: more would be above {NOTICE_BYTES_MAX} bytes"
        document = {**document, "events": kept, "notes": [*document["notes"], note]}
        body = msgspec.json.encode(document)
    return Notice(document["cursor"], document, body)


def owes(db: sqlite3.Connection) -> bool:
    """Whether events are to be stamped, raised or counted as complete that could be."""
    sql = """
        SELECT EXISTS(SELECT 1 FROM wakes) OR EXISTS(SELECT 1 FROM raises)
        OR EXISTS(SELECT 1 FROM blocked WHERE on_process = 0)"""
    return bool(db.execute(sql).fetchone()[0])
