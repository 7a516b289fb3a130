"""Spans and log records of OpenTelemetry that come one by one, made into events once their trace is quiet.

An event has its place (process and index) from the moment it is reported, and is never changed. The place of a span's
events depends on all spans of its trace: on lanes they stand nested or one after the other, and only the parent's
record says that it sent something to a child. Spans are exported when they end, so children come before their
parents, from several programs, in batches, again after a failure. So:

1. Records are kept as they came, in the store, per trace. A record that comes again, equal in every field, is known
   by its digest and changes nothing; also after its trace was closed, for `kept_ns`.
2. A trace is *closed* when nothing new came for `quiet_ns`; or, while a span's parent is not there, for
   `orphaned_ns`; or `open_ns` after its first record; or as soon as it has `trace_records_max` records or
   `trace_bytes_max` bytes. Then all its records become events of the execution that has the trace's id, as
   `spans_to_events` makes them from a file, and are reported in the transaction that closes it: all of it, once, or
   nothing.
3. Records that come for a closed trace are closed later in the same way, by themselves, on lanes of their own,
   `cart#late2` (late_spans.py). A span whose parent was closed before comes after the parent's start; one that others
   named as their parent comes before them. Only what it returned to or from is not known.
4. A reference to a span of another trace joins nothing: executions are unrelated. It stands in the attribute `links`.
5. Log records without a trace are events of the execution `otlp-logs`, on the lane of their process, in the order in
   which they came; those that wait together by their times.
6. What waits is bounded by `pending_records_max` and `pending_bytes_max`; above it nothing more is taken
   (`BusyError`), and the exporter, as OTLP asks, tries again.

Reasons of rejections: those of `read_otlp` and `spans_to_events`, and `no-trace`: a trace id that is none.

Not done, and why: an event per span at once, on a process of its own, would lose the order of what one thread did;
refusing what comes late would lose the root of every long trace.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import BytesIO
from typing import Any, Final

import msgspec

from beforehand.errors import BeforehandError, InputError
from beforehand.events import Event, Rejection
from beforehand.formats.spans import LogRecord, ReferenceKind, Span, process_of, read_otlp, spans_to_events
from beforehand.service.ingest import Ingest
from beforehand.service.late_spans import laned_late
from beforehand.service.store import Store
from beforehand.service.work import BusyError

__all__ = ["LOGS", "Collected", "Collector", "CollectorSettings", "LargeError"]

LOGS: Final = "otlp-logs"
"""The execution of log records that belong to no trace."""

NO_TRACE: Final = "no-trace"

_SECOND: Final = 1_000_000_000
_CLOSED_AT_ONCE: Final = 200  # Traces that one call closes.
_FORGOTTEN_AT_ONCE: Final = 1_000
_LONE_AT_ONCE: Final = 10_000

_encoder: Final = msgspec.msgpack.Encoder()
_span: Final = msgspec.msgpack.Decoder(Span)
_log: Final = msgspec.msgpack.Decoder(LogRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """When traces are closed, and how much may wait. Times are nanoseconds."""

    quiet_ns: int = 10 * _SECOND  # An SDK exports every 5 seconds, unless told otherwise.
    orphaned_ns: int = 60 * _SECOND
    open_ns: int = 600 * _SECOND
    kept_ns: int = 3_600 * _SECOND
    trace_records_max: int = 10_000
    trace_bytes_max: int = 16 << 20
    pending_records_max: int = 500_000
    pending_bytes_max: int = 256 << 20

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if type(value) is not int or value < (not name.endswith("_ns")):
                raise InputError(f"the setting {name} is {value!r}: give a whole number, 1 at least")


@dataclass(frozen=True, slots=True)
class Collected:
    """What a request holds: records to keep, and what of it is refused."""

    records: list[tuple[str, bytes, bytes]]  # Trace, digest and the encoded record.
    rejections: list[Rejection]

    @property
    def is_unreadable(self) -> bool:
        return not self.records and bool(self.rejections)


class LargeError(BeforehandError):
    """A request of too many records: nothing of it was kept."""


class Collector:
    """Of one store. `read` may run anywhere; `keep` and `settle` may be called by any thread."""

    def __init__(
        self,
        store: Store,
        ingest: Ingest,
        *,
        settings: CollectorSettings | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings: Final = settings or CollectorSettings()
        self._store: Final = store
        self._ingest: Final = ingest
        self._clock: Final = clock

    def read(self, body: bytes) -> Collected:
        """The records of a request, JSON or protobuf; `LargeError` if there are more than a batch may have."""
        most = self._store.settings.batch_events_max
        records: list[tuple[str, bytes, bytes]] = []
        rejections: list[Rejection] = []
        try:
            for found in read_otlp(BytesIO(body)):
                if isinstance(found, Span | LogRecord):
                    made = _encoded(found)
                    (rejections if isinstance(made, Rejection) else records).append(made)  # type: ignore[arg-type]
                elif isinstance(found, Rejection):
                    rejections.append(found)
                if len(records) + len(rejections) > most:
                    raise LargeError(f"more than {most} spans and log records, or faults: send less at once")
        except InputError as error:
            rejections.append(Rejection(reason="unreadable", detail=str(error)))
        return Collected(records, rejections)

    def keep(self, collected: Collected) -> int:
        """Keep the records; how many are new. `BusyError` if too many wait: then none was kept."""
        settings, now = self.settings, self._clock()
        if not collected.records:
            self._report(collected.rejections)
            return 0
        with self._store.transaction() as db:
            waiting, size = db.execute(
                "SELECT coalesce(sum(records), 0), coalesce(sum(bytes), 0) FROM traces"
            ).fetchone()
            if waiting >= settings.pending_records_max or size >= settings.pending_bytes_max:
                raise BusyError(f"{waiting} records of traces wait to become events: send it again in a moment")
            new: dict[str, list[int]] = {}
            for trace, digest, record in collected.records:
                sql = "INSERT OR IGNORE INTO spans VALUES(?, ?, ?, ?)"
                if db.execute(sql, (trace, digest, now, record)).rowcount:
                    new.setdefault(trace, []).append(len(record))
            for trace, sizes in new.items():
                self._hear(db, trace, len(sizes), sum(sizes), now)
        self._report(collected.rejections)
        return sum(map(len, new.values()))

    def settle(self) -> int:
        """Close the traces that are due; how many were. Call it every second or so."""
        now = self._clock()
        self._set_back(now)
        with self._store.reading() as db:
            sql = "SELECT trace FROM traces WHERE due <= ? AND records > 0 AND trace > '' ORDER BY due LIMIT ?"
            due = [trace for (trace,) in db.execute(sql, (now, _CLOSED_AT_ONCE))]
        closed, failed = 0, None
        for trace in due:
            try:
                closed += self._close(trace, now)
            except (ValueError, AssertionError, LookupError) as error:  # A bug: it must not keep the others waiting.
                self._put_off(trace, now + self.settings.orphaned_ns)
                failed = error
        self._close_lone(now)
        self._forget(now)
        if failed is not None:
            raise failed
        return closed

    def _set_back(self, now: int) -> None:
        """If the clock was far ahead and was set right, traces were heard of in what is now the future."""
        settings = self.settings
        latest = now + max(settings.quiet_ns, settings.orphaned_ns, settings.open_ns, settings.kept_ns)
        with self._store.reading() as db:
            if db.execute("SELECT 1 FROM traces WHERE due > ? LIMIT 1", (latest,)).fetchone() is None:
                return
        with self._store.transaction() as db:
            sql = """
                UPDATE traces SET begun = min(begun, ?), heard = ?, due = ? + iif(records > 0, ?, ?) WHERE due > ?"""
            db.execute(sql, (now, now, now, settings.quiet_ns, settings.kept_ns, latest))

    # Keeping.

    def _hear(self, db: sqlite3.Connection, trace: str, records: int, size: int, now: int) -> None:
        settings = self.settings
        row = db.execute("SELECT begun, records, bytes FROM traces WHERE trace = ?", (trace,)).fetchone()
        begun, before, bytes_before = row if row is not None and row[1] else (now, 0, 0)
        records, size = before + records, bytes_before + size
        due = min(now + settings.quiet_ns, begun + settings.open_ns)
        if not trace or records >= settings.trace_records_max or size >= settings.trace_bytes_max:
            due = now
        sql = "INSERT OR REPLACE INTO traces VALUES(?, ?, ?, ?, ?, ?)"
        db.execute(sql, (trace, begun, now, due, records, size))

    def _report(self, rejections: list[Rejection]) -> None:
        if rejections:
            self._ingest.report(rejections[: self._store.settings.batch_events_max])

    # Closing.

    def _close(self, trace: str, now: int) -> bool:
        with self._store.reading() as db:
            sql = "SELECT begun, heard, records, bytes FROM traces WHERE trace = ?"
            row = db.execute(sql, (trace,)).fetchone()
            sql = "SELECT record FROM spans WHERE trace = ? AND record IS NOT NULL"
            spans, logs = _decoded(record for (record,) in db.execute(sql, (trace,)))
            if row is None:
                return False
            begun, heard, count, size = row
            spans = [_unlinked(span) for span in spans]
            laned = laned_late(db, spans, logs, trace)
            wait = min(heard + self.settings.orphaned_ns, begun + self.settings.open_ns)
            is_full = count >= self.settings.trace_records_max or size >= self.settings.trace_bytes_max
            if laned is None and now < wait and not is_full and _is_orphaned(spans):
                self._put_off(trace, wait)
                return False
            laned = laned or spans_to_events(spans, logs, execution=trace)

        def close(db: sqlite3.Connection) -> None:
            kept = db.execute("SELECT records FROM traces WHERE trace = ?", (trace,)).fetchone()
            if kept != (count,):
                raise _ChangedError
            db.execute("UPDATE spans SET record = NULL WHERE trace = ?", (trace,))
            sql = "UPDATE traces SET records = 0, bytes = 0, heard = ?, due = ? WHERE trace = ?"
            db.execute(sql, (now, now + self.settings.kept_ns, trace))

        try:
            self._ingest.take([*laned.events, *laned.rejections], close)
        except _ChangedError:
            return False  # Something came meanwhile: it is looked at again.
        return True

    def _put_off(self, trace: str, due: int) -> None:
        with self._store.transaction() as db:
            db.execute("UPDATE traces SET due = ? WHERE trace = ? AND due < ?", (due, trace, due))

    def _close_lone(self, now: int) -> None:
        """Log records without a trace: each process is a lane that only grows."""
        with self._store.reading() as db:
            sql = "SELECT digest, record FROM spans WHERE trace = '' AND record IS NOT NULL ORDER BY at LIMIT ?"
            rows = db.execute(sql, (_LONE_AT_ONCE,)).fetchall()
            if not rows:
                return
            _, logs = _decoded(record for _, record in rows)
            sql = "SELECT last FROM lanes WHERE process = ?"  # Of those that are here only: all of them may be many.
            found = {process: db.execute(sql, (process,)).fetchone() for process in map(process_of, logs)}
        lanes = {process: 0 if row is None else int(row[0]) for process, row in found.items()}
        events: list[Event] = []
        for log in sorted(logs, key=lambda log: (log.time_ns is None, log.time_ns or 0)):
            process = process_of(log)
            lanes[process] += 1
            (made,) = spans_to_events([], [log], execution=LOGS).events
            events.append(replace(made, process=process, index=lanes[process]))

        def close(db: sqlite3.Connection) -> None:
            db.executemany(
                "UPDATE spans SET record = NULL WHERE trace = '' AND digest = ?", [row[:1] for row in rows]
            )
            sql = "UPDATE traces SET records = records - ?, bytes = bytes - ?, heard = ? WHERE trace = ''"
            db.execute(sql, (len(rows), sum(len(record) for _, record in rows), now))
            db.executemany("INSERT OR REPLACE INTO lanes VALUES(?, ?)", list(lanes.items()))

        self._ingest.take(events, close)

    def _forget(self, now: int) -> None:
        """Digests of records whose trace was closed long ago: none of them will come again."""
        with self._store.reading() as db:
            sql = "SELECT trace FROM traces WHERE due <= ? AND records = 0 AND trace > '' LIMIT ?"
            old = db.execute(sql, (now, _FORGOTTEN_AT_ONCE)).fetchall()
            sql = "SELECT digest FROM spans WHERE trace = '' AND record IS NULL AND at <= ? LIMIT ?"
            lone = db.execute(sql, (now - self.settings.kept_ns, _FORGOTTEN_AT_ONCE)).fetchall()
        if old or lone:
            with self._store.transaction() as db:
                for (trace,) in old:
                    if db.execute("DELETE FROM traces WHERE trace = ? AND records = 0", (trace,)).rowcount:
                        db.execute("DELETE FROM spans WHERE trace = ?", (trace,))
                db.executemany("DELETE FROM spans WHERE trace = '' AND digest = ?", lone)


class _ChangedError(Exception):
    """The trace is not as it was read."""


def _encoded(record: Span | LogRecord) -> tuple[str, bytes, bytes] | Rejection:
    if isinstance(record, Span) and not record.trace_id:
        return Rejection(
            reason=NO_TRACE, detail="a span has no trace id: it belongs to nothing", text=record.name[:200]
        )
    try:
        data = (b"s" if isinstance(record, Span) else b"l") + _encoder.encode(record)
    except UnicodeEncodeError:
        return Rejection(reason="not-utf8", detail="a span or log record holds text that UTF-8 cannot")
    return record.trace_id, blake2b(data, digest_size=16).digest(), data


def _decoded(records: Iterable[bytes]) -> tuple[list[Span], list[LogRecord]]:
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for data in records:
        if data[:1] == b"s":
            spans.append(_span.decode(data[1:]))
        else:
            logs.append(_log.decode(data[1:]))
    return spans, logs


def _unlinked(span: Span) -> Span:
    """Without references to other traces: they are attributes."""
    foreign = [reference for reference in span.references if reference.trace_id != span.trace_id]
    if not foreign:
        return span
    attributes: dict[str, Any] = {"links": ", ".join(f"{one.trace_id}/{one.span_id}" for one in foreign)}
    return replace(
        span,
        references=tuple(one for one in span.references if one.trace_id == span.trace_id),
        attributes={**attributes, **span.attributes},
    )


def _is_orphaned(spans: list[Span]) -> bool:
    here = {span.span_id for span in spans}
    return any(
        reference.kind is ReferenceKind.CHILD_OF and reference.span_id not in here
        for span in spans
        for reference in span.references
    )
