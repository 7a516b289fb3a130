"""Reports in, stamped events out: a batch is one transaction.

1. When `report` returns, all that its receipt counts is in the store and survives the end of the process, however it
   ends. If it raises (`sqlite3.Error` where the disk is full), nothing of the batch is there. A batch may be reported
   again: every event is stored once.
2. Events are stamped as their causes come (observer.py); what waits is in the store. Work that a batch sets free
   beyond `Settings.steps_max` is done by the next calls: `settle` does all that is owed.
3. `settle`, called now and then, also ends the waiting of events whose deadline has passed. Nothing else does.

Any thread may call; calls take turns.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.service.admission import Admission, Refusal
from beforehand.service.completing import Completing
from beforehand.service.ledger import Key, Ledger, Pending
from beforehand.service.messages import Messages
from beforehand.service.observer import Observer
from beforehand.service.raising import Raising
from beforehand.service.registry import Registry
from beforehand.service.schema import NO_TIME
from beforehand.service.settling import expire, untie
from beforehand.service.stamps import Stamps
from beforehand.service.store import Store
from beforehand.service.waiting import Waiting

__all__ = ["Ingest", "Receipt"]

_AT_ONCE: Final = 4_000  # Events whose waiting events are woken by one transaction.
_TOGETHER: Final = 500  # Events that waited until stamps were raised; one of them may be the next to raise stamps.


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a batch."""

    stored: int  # New events.
    repeated: int  # Reports equal to one that is here.
    conflicts: int  # Reports that differ from the first one of their event.
    rejected: int  # Rejections: of reports, and of messages of events that were stored.
    stamped: int  # Events that got their stamp, of this batch or of earlier ones.
    cursor: int  # The number of the last change: `Store.changes` goes on from here.
    waiting: int  # Of the new events, those that have no stamp yet.
    refused: tuple[Refusal, ...]  # Reports that were not stored, with their places in the batch.


class Ingest:
    """The one writer of a store."""

    def __init__(self, store: Store, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._turn: Final = threading.Lock()  # For what is in memory.
        self._registry: Final = Registry()
        self._stamps: Final = Stamps(store.settings.stamps_kept)
        self._waiting: Final = Waiting(store.settings.waiting_kept)
        self._messages: Final = Messages()

    def report(self, reports: Sequence[Event | Rejection]) -> Receipt:
        """Store a batch: events, and what a reader rejected. `InputError` if it is too large; then it is not."""
        return self.report_all([reports])[0]

    def report_all(self, batches: Sequence[Sequence[Event | Rejection]]) -> list[Receipt]:
        """Store several batches in one transaction, all or none of them, as if they came one after the other.

        That is cheaper than one by one, and what depends on another batch finds it here. What the transaction did
        beyond single reports (`stamped`, rejected messages) is counted with the last batch.
        """
        limit = self._store.settings.batch_events_max
        for reports in batches:
            if len(reports) > limit:
                raise InputError(f"a batch of {len(reports)} reports: send at most {limit} at once")
        return self._transaction(batches, None)[0]

    def take(self, reports: Sequence[Event | Rejection], also: Callable[[sqlite3.Connection], None]) -> Receipt:
        """The same for a batch of any size, with something more to write in its transaction.

        If `also` raises, nothing was written.
        """
        return self._transaction([reports], None, also)[0][0]

    def change(self, call: Callable[[sqlite3.Connection], None]) -> None:
        """Change the tables of the store in a transaction of the writer, which then reads them anew."""
        with self._turn:
            try:
                with self._store.transaction() as db:
                    call(db)
            finally:
                self._forget()

    def settle(self, *, stopping: Callable[[], bool] = lambda: False) -> int:
        """Do all that is owed, and give up what is missing past its deadline; how many events got their stamp.

        Between two transactions it may be told to stop; what is left is in the store, for the next call.
        """
        stamped = 0
        while not stopping():
            (receipt,), more = self._transaction([()], self._clock())
            stamped += receipt.stamped
            if not more:
                break
        return stamped

    # Inside.

    def _transaction(
        self,
        batches: Sequence[Sequence[Event | Rejection]],
        now: int | None,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> tuple[list[Receipt], bool]:
        """The receipts, and whether another transaction may find more to do."""
        with self._turn:
            try:
                with self._store.transaction() as db:
                    known = (self._registry, self._stamps, self._waiting, self._messages)
                    ledger = Ledger(db, *known, self._store.settings)
                    found = self._ingest(ledger, batches, now)
                    if also is not None:
                        also(db)
                    return found
            except BaseException:
                # What is in memory may be ahead of the store, which went back; also if the commit failed.
                self._forget()
                raise

    def _forget(self) -> None:
        self._registry.forget()
        self._stamps.forget()
        self._waiting.forget()
        self._messages.forget()

    def _ingest(
        self, ledger: Ledger, batches: Sequence[Sequence[Event | Rejection]], now: int | None
    ) -> tuple[list[Receipt], bool]:
        admission = Admission(ledger)
        reports = batches[0] if len(batches) == 1 else [report for batch in batches for report in batch]
        new: list[Pending] = admission.admit(reports, self._clock() if reports else 0)
        observer = Observer(ledger)
        # Any order will do. By the clocks, those of different batches seldom wait for each other.
        observer.observe(new if len(batches) == 1 else sorted(new, key=_by_clock))
        woken = self._owed(ledger, observer)
        more = bool(woken)
        if now is not None and not woken:
            # Rows that are written at the end are not there to be woken: so this comes when nothing else is left.
            keys = expire(ledger, now)
            if not keys and not self._raising(ledger):
                keys = untie(ledger)
            more = bool(keys)
            observer.wake(keys)
            observer.observe(())
        observer.park()
        ledger.flush()
        raising, completing = Raising(ledger), Completing(ledger)
        raising.begin(observer.late)
        raising.go_on()
        completing.advance(observer.due.values(), observer.completed.values(), observer.told)
        ledger.flush()
        more = more or ledger.steps <= 0 or bool(observer.late) or self._is_owed(ledger)
        if len(self._registry) > ledger.settings.processes_kept:
            self._registry.forget()
            self._waiting.forget()  # They know their processes.
        return self._receipts(batches, admission, observer, new, ledger), more

    def _receipts(
        self,
        batches: Sequence[Sequence[Event | Rejection]],
        admission: Admission,
        observer: Observer,
        new: list[Pending],
        ledger: Ledger,
    ) -> list[Receipt]:
        waiting = [at for at, event in zip(admission.places, new, strict=True) if observer.is_waiting(event)]
        receipts: list[Receipt] = []
        end, rejected, last = 0, ledger.rejected, len(batches) - 1
        for number, batch in enumerate(batches):
            start, end = end, end + len(batch)
            own = range(start, end)
            refused = tuple(one._replace(at=one.at - start) for one in admission.refused if one.at in own)
            rejected -= len(refused)
            receipts.append(
                Receipt(
                    stored=_count(admission.places, own),
                    repeated=_count(admission.repeated, own),
                    conflicts=_count(admission.conflicts, own),
                    rejected=len(refused) + (rejected if number == last else 0),
                    stamped=observer.stamped if number == last else 0,
                    cursor=ledger.seq,
                    waiting=_count(waiting, own),
                    refused=refused,
                )
            )
        return receipts

    def _owed(self, ledger: Ledger, observer: Observer) -> int:
        """Wake what earlier transactions left; how many things there were."""
        if ledger.steps <= 0:
            return 0
        rows: list[Key] = ledger.db.execute("SELECT process, idx FROM wakes LIMIT ?", (_AT_ONCE,)).fetchall()
        for process, _ in rows:
            if process < 0:
                sql = "SELECT process, idx FROM waits WHERE execution = ? AND on_message = '' LIMIT ?"
                keys = ledger.db.execute(sql, (-process, _TOGETHER)).fetchall()
                observer.wake(keys)
                if len(keys) < _TOGETHER:
                    ledger.db.execute("DELETE FROM wakes WHERE process = ?", (process,))
        events = [key for key in rows if key[0] > 0]
        ledger.db.executemany("DELETE FROM wakes WHERE process = ? AND idx = ?", events)
        observer.resume(events)
        if rows:
            observer.observe(())
        return len(rows)

    def _raising(self, ledger: Ledger) -> bool:
        return ledger.db.execute("SELECT 1 FROM raises LIMIT 1").fetchone() is not None

    def _is_owed(self, ledger: Ledger) -> bool:
        sql = """
            SELECT EXISTS(SELECT 1 FROM wakes) OR EXISTS(SELECT 1 FROM raises)
            OR EXISTS(SELECT 1 FROM blocked WHERE on_process = 0)"""
        return bool(ledger.db.execute(sql).fetchone()[0])


def _by_clock(event: Pending) -> int:
    return NO_TIME if event.time is None else event.time


def _count(places: list[int], own: range) -> int:
    """How many of these places, which grow, are in a batch."""
    return bisect_left(places, own.stop) - bisect_left(places, own.start)
