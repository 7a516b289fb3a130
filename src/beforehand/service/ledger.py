"""What one transaction of the writer knows and will write: rows are gathered and written many at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from beforehand.events import EventId, Rejection
from beforehand.service.messages import Messages
from beforehand.service.records import Entries, decode_clock, decode_content, encode, values_of
from beforehand.service.registry import Process, Registry
from beforehand.service.settings import Settings
from beforehand.service.stamps import Stamps
from beforehand.service.waiting import Waiting

__all__ = ["DEAF", "Ledger", "Pending"]

_DETAIL_MAX: Final = 2_000  # Characters of a rejection that are kept; messages are kept whole.
_QUOTED_MAX: Final = 1_000
DEAF: Final = 2  # waits.expired: the deadline has passed, and the event's clock is part of a cycle.

Key = tuple[int, int]  # An event: the number of its process, and its index.
Message = tuple[int, str]  # A message: the number of its execution, and its id.


class Pending:
    """An event on its way to a stamp."""

    __slots__ = (
        "arrival",
        "clock",
        "content",
        "deaf",
        "exact",
        "expired",
        "index",
        "key",
        "name",
        "own",
        "process",
        "receives",
        "reported",
        "said",
        "sends",
        "since",
        "stored",
        "time",
    )

    def __init__(self, process: Process, index: int, time: int | None, name: str, content: bytes | None) -> None:
        self.process: Final = process
        self.index: Final = index
        self.key: Final[Key] = (process.id, index)
        self.time: Final = time
        self.name: Final = name
        self.content: Final = content
        self.sends: tuple[str, ...] = ()  # Those that were not rejected.
        self.receives: tuple[str, ...] = ()  # Likewise.
        self.clock: Entries | None = None  # As reported, without the own entry and zeros.
        self.own = 0  # The own entry of the reported clock.
        self.exact = False  # The reported clock has no zeros.
        self.said: Mapping[str, int] | None = None  # The reported clock as it came, until it is encoded.
        self.reported: bytes | None = None  # The same, encoded.
        self.arrival = 0
        self.since = 0  # When it began to wait.
        self.expired = False  # Its deadline has passed: what is missing is given up.
        self.deaf = False  # Its clock is part of a cycle and is not followed.
        self.stored = False  # The store has it, waiting.

    @property
    def id(self) -> EventId:
        return EventId(self.process.execution.name, self.process.name, self.index)

    def report_clock(self, clock: Mapping[str, int]) -> None:
        """It came with this clock, whose processes all were asked for."""
        self.said = clock
        self.clock = numbered = self.process.execution.numbered(clock)
        self.exact = len(numbered) == len(clock)
        self.own = numbered.pop(self.process.id, 0)

    def encoded_clock(self) -> bytes | None:
        """The reported clock as it is stored. Most clocks are the stamp and are never encoded."""
        if self.said is not None:
            self.reported, self.said = encode(dict(self.said)), None
        return self.reported


class Ledger:
    """One transaction. `flush` writes all of it; before, nothing of what was gathered is in the tables."""

    def __init__(
        self,
        db: sqlite3.Connection,
        registry: Registry,
        stamps: Stamps,
        waiting: Waiting,
        messages: Messages,
        settings: Settings,
    ) -> None:
        self.db: Final = db
        self.registry: Final = registry
        self.stamps: Final = stamps
        self.waiting: Final = waiting
        self.settings: Final = settings
        (seq,) = db.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()
        self.seq = int(seq)  # The number of the last entry of the journal.
        self.steps = settings.steps_max  # What may still be done beyond the batch.
        self._messages: Final = messages
        messages.shrink()
        self.senders: Final = messages.senders
        self.receivers: Final = messages.receivers
        self.events: list[tuple[Any, ...]] = []
        self.stamped: list[tuple[Any, ...]] = []  # Events that were in the store, waiting.
        self.journal: list[tuple[int, int, int, int]] = []
        self.sends: list[tuple[Any, ...]] = []
        self.receives: list[tuple[Any, ...]] = []
        self.unsent: list[tuple[Any, ...]] = []
        self.sent: list[Message] = []  # Messages whose send was stamped after a receive had come.
        self.waits: list[tuple[Any, ...]] = []
        self.woken: list[Key] = []
        self.claims: list[tuple[Any, ...]] = []
        self.findings: list[tuple[Any, ...]] = []
        self.cuts: list[tuple[int, str, int]] = []  # Receives rejected as part of a cycle.
        self.rejected = 0

    def note(self, process: int, index: int, what: int) -> int:
        """Add to the journal; the number of the entry."""
        self.seq += 1
        self.journal.append((self.seq, process, index, what))
        return self.seq

    def reject(self, rejection: Rejection, execution: str | None) -> None:
        """Keep a rejection, unless it was kept before."""
        self.rejected += 1
        events = [str(event) for event in rejection.events]
        row = (
            execution,
            rejection.reason,
            _text(rejection.detail[:_DETAIL_MAX]),
            None if rejection.message is None else _text(rejection.message),
            _text(msgspec.json.encode([_text(event) for event in events]).decode()),
            _text(rejection.text[:_QUOTED_MAX]),
            None if rejection.file is None else _text(rejection.file),
            rejection.line,
            rejection.offset,
        )
        digest = blake2b(repr(row).encode(), digest_size=16).digest()
        (kept,) = self.db.execute("SELECT coalesce(max(id), 0) FROM rejected").fetchone()  # None is ever removed.
        if kept >= self.settings.rejected_max:
            self.count("rejected_dropped", 1)
            return
        sql = """
            INSERT OR IGNORE INTO rejected(
                digest, execution, reason, detail, message, events, text, file, line, "offset")
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
        self.db.execute(sql, (digest, *row))

    def count(self, name: str, more: int) -> None:
        """Add to one of the store's counts."""
        sql = "INSERT INTO counts VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET value = value + excluded.value"
        self.db.execute(sql, (name, more))

    def look_up(self, messages: set[Message]) -> None:
        """Learn who sends and who receives these messages."""
        asked = self._messages.ask(messages)
        sql = """
            SELECT s.execution, s.message, s.process, s.idx
            FROM v CROSS JOIN sends s ON s.execution = v.a AND s.message = v.b"""
        for execution, message, process, index in values_of(self.db, sql, asked):
            self.senders[execution, message] = (process, index)
        sql = """
            SELECT r.execution, r.message, r.process, r.idx, r.cut
            FROM v CROSS JOIN receives r ON r.execution = v.a AND r.message = v.b"""
        for execution, message, process, index, cut in values_of(self.db, sql, asked):
            self.receivers[execution, message][process] = (index, bool(cut))
            self._messages.weigh(1)

    def load(self, keys: list[Key]) -> list[Pending]:
        """Events that wait in the store. They are in no order."""
        sql = """
            SELECT e.process, e.idx, e.time, e.name, e.content, e.clock, e.arrival, w.since, w.expired
            FROM v CROSS JOIN events e ON e.process = v.a AND e.idx = v.b
            JOIN waits w ON w.process = e.process AND w.idx = e.idx"""
        found: dict[Key, Pending] = {}
        for process, index, time, name, content, clock, arrival, since, expired in values_of(self.db, sql, keys):
            if (process, index) in found:
                continue
            event = Pending(self.registry.by_id(self.db, process), index, time, name, content)
            event.arrival, event.since, event.expired, event.stored = arrival, since, bool(expired), True
            event.deaf = expired == DEAF
            if clock is not None:
                self._clocked(event, clock)
            sends, receives, _ = decode_content(content)
            event.sends, event.receives = sends, receives
            found[process, index] = event
        self.recall(found.values())
        return list(found.values())

    def recall(self, events: Collection[Pending]) -> None:
        """Learn of the messages of events that waited; what was rejected meanwhile is theirs no more."""
        self.look_up({(event.process.execution.id, m) for event in events for m in (*event.sends, *event.receives)})
        for event in events:
            x, p = event.process.execution.id, event.process.id
            if event.sends:
                event.sends = self.sent_by(event, event.sends)
            if event.receives:
                here = (event.index, False)
                event.receives = tuple(m for m in event.receives if self.receivers[x, m].get(p) == here)

    def sent_by(self, event: Pending, sends: tuple[str, ...]) -> tuple[str, ...]:
        """Of the messages that an event says it sends, those that were not rejected."""
        execution = event.process.execution.id
        return tuple(m for m in sends if self.senders.get((execution, m)) == event.key)

    def flush(self) -> None:
        """Write what was gathered."""
        db = self.db
        self._messages.weigh(len(self.receives))
        db.executemany(f"INSERT INTO events VALUES({', '.join('?' * 14)})", self.events)
        db.executemany(
            """
            UPDATE events SET state = 1, clock = ?, clocked = ?, causal_time = ?, past_size = ?, "full" = ?, stamp = ?
            WHERE process = ? AND idx = ?""",
            self.stamped,
        )
        db.executemany("INSERT INTO journal VALUES(?, ?, ?, ?)", self.journal)
        db.executemany("INSERT INTO sends VALUES(?, ?, ?, ?)", self.sends)
        db.executemany("INSERT INTO receives VALUES(?, ?, ?, ?, 0)", self.receives)
        db.executemany("UPDATE receives SET cut = 1 WHERE execution = ? AND message = ? AND process = ?", self.cuts)
        db.executemany("INSERT INTO unsent VALUES(?, ?, ?, ?)", self.unsent)
        db.executemany("DELETE FROM unsent WHERE execution = ? AND message = ?", self.sent)
        db.executemany("DELETE FROM waits WHERE process = ? AND idx = ?", self.woken)
        db.executemany(f"INSERT OR REPLACE INTO waits VALUES({', '.join('?' * 8)})", self.waits)
        db.executemany("INSERT OR IGNORE INTO claims VALUES(?, ?, ?, ?)", self.claims)
        db.executemany("INSERT OR REPLACE INTO findings VALUES(?, ?, ?, ?)", self.findings)
        self.registry.flush(db)
        self.stamps.flushed()
        written: list[list[Any]] = [self.events, self.stamped, self.journal, self.sends, self.receives, self.cuts]
        written += [self.sent, self.unsent, self.woken, self.waits, self.claims, self.findings]
        for rows in written:
            rows.clear()

    def _clocked(self, event: Pending, clock: bytes) -> None:
        named = decode_clock(clock)
        execution = event.process.execution
        if not named.keys() <= execution.ids.keys():  # Memory forgot them; they were made when the report came.
            for name in named:
                process = self.registry.process(self.db, execution, name, self.settings.processes_max)
                assert process is not None
        event.report_clock(named)
        event.said, event.reported = None, clock


def _text(text: str) -> str:
    """Text that SQLite takes: of a lone surrogate only a sign remains."""
    return text.encode("utf-8", "replace").decode()
