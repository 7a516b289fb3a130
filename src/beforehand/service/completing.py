"""How far each process is complete: all up to there is here, and so is all that it depends on.

Completeness, like stamps, only grows along a process, so one number per process says it. An event is complete if the
one before is, its index is the next, nothing that it depends on was given up, and its stamp lies within what is
complete everywhere. A process that cannot go on is *blocked* on the first thing that is not so, and looked at again
when that moves: no rescans. This is the rare way: events whose causes were complete when they were stamped never come
here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from beforehand.service.ledger import Ledger
from beforehand.service.records import decode_entries, values_of
from beforehand.service.registry import Execution, Process
from beforehand.service.schema import COMPLETED, STAMPED

__all__ = ["Completing"]

_CHUNK: Final = 256


class Completing:
    """Of one transaction, after its ledger was flushed. What it adds to the ledger is flushed by the caller."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Final = ledger
        self._queue: deque[Process] = deque()
        self._queued: set[int] = set()

    def advance(
        self, due: Iterable[Process], completed: Iterable[Process], told: Iterable[tuple[Execution, str]]
    ) -> None:
        """Look at the processes that are due, and at those blocked on what was completed or told, and so on."""
        db = self._ledger.db
        for process in due:
            self._push(process)
        if db.execute("SELECT 1 FROM blocked LIMIT 1").fetchone() is not None:
            self._unblock(completed)
            sql = "SELECT b.process FROM v CROSS JOIN blocked b ON b.execution = v.a AND b.on_message = v.b"
            self._push_all(values_of(db, sql, [(execution.id, message) for execution, message in told]))
            self._push_all(db.execute("SELECT process FROM blocked WHERE on_process = 0 LIMIT ?", (_CHUNK,)))
        while self._queue:
            process = self._queue.popleft()
            self._queued.discard(process.id)
            if process.execution.raising or self._ledger.steps <= 0:
                self._block(process, 0, 0, None)
                continue
            before = process.complete
            self._walk(process)
            if process.complete > before:
                self._unblock([process])

    def _walk(self, process: Process) -> None:
        """Go on as far as it is complete."""
        ledger = self._ledger
        while ledger.steps > 0:
            sql = "SELECT idx, state, stamp FROM events WHERE process = ? AND idx > ? ORDER BY idx LIMIT ?"
            rows = ledger.db.execute(sql, (process.id, process.complete, _CHUNK)).fetchall()
            if not rows:
                ledger.db.execute("DELETE FROM blocked WHERE process = ?", (process.id,))
                return
            span = (process.id, rows[0][0], rows[-1][0])
            sql = "SELECT idx, message FROM unsent WHERE process = ? AND idx BETWEEN ? AND ?"
            unsent = dict(ledger.db.execute(sql, span).fetchall())
            sql = "SELECT by_idx, process, idx FROM claims WHERE by_process = ? AND by_idx BETWEEN ? AND ?"
            claimed = {by: (other, index) for by, other, index in ledger.db.execute(sql, span)}
            for index, state, stamp in rows:
                if index != process.complete + 1 or state != STAMPED:
                    self._block(process, process.id, process.complete + 1, None)
                    return
                if index in unsent:
                    self._block(process, None, None, unsent[index])
                    return
                beyond = claimed.get(index) or self._beyond(stamp)
                if beyond is not None:
                    self._block(process, beyond[0], beyond[1], None)
                    return
                process.complete = index
                process.touch()
                ledger.note(process.id, index, COMPLETED)
                ledger.steps -= 1
        self._block(process, 0, 0, None)

    def _beyond(self, stamp: bytes | None) -> tuple[int, int] | None:
        """An event that a stamp knows and that is not complete."""
        for other, known in decode_entries(stamp).items():
            if known > self._ledger.registry.by_id(self._ledger.db, other).complete:
                return other, known
        return None

    def _block(self, process: Process, on: int | None, index: int | None, message: str | None) -> None:
        sql = "INSERT OR REPLACE INTO blocked VALUES(?, ?, ?, ?, ?)"
        self._ledger.db.execute(sql, (process.id, process.execution.id, on, index, message))

    def _unblock(self, completed: Iterable[Process]) -> None:
        sql = "SELECT b.process FROM v CROSS JOIN blocked b ON b.on_process = v.a AND b.on_idx <= v.b"
        self._push_all(values_of(self._ledger.db, sql, [(process.id, process.complete) for process in completed]))

    def _push_all(self, rows: Iterable[tuple[int]]) -> None:
        for (process,) in list(rows):
            self._push(self._ledger.registry.by_id(self._ledger.db, process))

    def _push(self, process: Process) -> None:
        if process.id not in self._queued:
            self._queued.add(process.id)
            self._queue.append(process)
