"""What of a batch is new: repeated reports, conflicts, limits, and the structure of messages.

1. The first report of an event id stays. An equal one is *repeated* and changes nothing; a different one is a
   *conflict*: it is kept beside the first and never takes its place.
2. Of several sends of a message, and several receives of it by one process, the first that came stays. The others
   are rejected (`duplicate-send`, `duplicate-receive`); their events stay.
3. What is beyond a limit is rejected whole:

    index-too-large     an index or a clock entry above `Settings.index_max`
    event-too-large     an event of more than `Settings.event_bytes_max` bytes
    too-many-processes  the execution has `Settings.processes_max` processes already
    not-utf8            a text that UTF-8 cannot hold
    removed             retention has removed the process up to a later index: nobody knows whether it was here
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from beforehand.events import Event, EventId, Rejection
from beforehand.formats import to_json
from beforehand.service.ledger import Key, Ledger, Message, Pending
from beforehand.service.records import content_of, decode_clock, decode_content, encode, values_of
from beforehand.service.registry import Process
from beforehand.service.reported_clocks import Told
from beforehand.service.schema import CONFLICTED

__all__ = ["EVENT_TOO_LARGE", "INDEX_TOO_LARGE", "NOT_UTF8", "TOO_MANY_PROCESSES", "Admission", "Holes", "Refusal"]

INDEX_TOO_LARGE: Final = "index-too-large"
EVENT_TOO_LARGE: Final = "event-too-large"
TOO_MANY_PROCESSES: Final = "too-many-processes"
NOT_UTF8: Final = "not-utf8"
REMOVED: Final = "removed"


class Refusal(NamedTuple):
    """A report that was not stored; `at` is its place in the batch, from 0."""

    at: int
    reason: str
    detail: str


class Holes:
    """The indexes of a process that are not here, as far as a batch touches them: disjoint intervals, growing."""

    def __init__(self, intervals: Iterable[tuple[int, int]], newest: int) -> None:
        self.intervals = list(intervals)
        self.newest = newest

    def __contains__(self, index: int) -> bool:
        if index > self.newest:
            return True
        at = bisect_right(self.intervals, (index, self.newest)) - 1
        return at >= 0 and index <= self.intervals[at][1]

    def fill(self, index: int) -> None:
        """`index` is here now; it was not before."""
        if index > self.newest:
            if index > self.newest + 1:
                self.intervals.append((self.newest + 1, index - 1))
            self.newest = index
            return
        at = bisect_right(self.intervals, (index, self.newest)) - 1
        first, last = self.intervals[at]
        self.intervals[at : at + 1] = [part for part in ((first, index - 1), (index + 1, last)) if part[0] <= part[1]]


_Report = tuple[Process, Event, bytes | None, Told | None, int]  # With its content, its clock, its place.


class Admission:
    """Of one batch."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Final = ledger
        self._batch: dict[Key, Event] = {}  # What is new in this batch.
        self._told: dict[tuple[str, str], Told] = {}  # The last clock of each process, within all limits.
        self._at = 0  # Where in the batch we are.
        self.refused: list[Refusal] = []
        self.places: list[int] = []  # Where the new events stood in the batch.
        self.repeated: list[int] = []  # Likewise, reports equal to one that is here,
        self.conflicts: list[int] = []  # and reports that differ from it.

    def admit(self, reports: Sequence[Event | Rejection], now: int) -> list[Pending]:
        """The new events, in the order in which they came."""
        asked: list[_Report] = []
        for self._at, report in enumerate(reports):
            if isinstance(report, Rejection):
                self.refused.append(Refusal(self._at, report.reason, report.detail))
                self._ledger.reject(report, report.events[0].execution if report.events else None)
            else:
                found = self._within_limits(report)
                if found is not None:
                    asked.append(found)
        new = self._first_reports(asked)
        self.places = [report[4] for report in new]
        pending = [self._pending(report, now) for report in new]
        self._holes(pending)
        self._messages(pending)
        return pending

    # Limits.

    def _within_limits(self, event: Event) -> _Report | None:
        """A report that is within all limits, else None."""
        ledger, settings, clock = self._ledger, self._ledger.settings, event.clock
        known = ledger.registry.known(event.execution)
        told = self._told.get((event.execution, event.process)) if clock else None
        if told is not None and clock and not told.is_also(clock, event.process):
            told = None
        named = told is not None or (known is not None and (not clock or clock.keys() <= known.members.keys()))
        try:
            content = content_of(event)
            size = len(event.name.encode()) + len(event.process.encode()) + len(event.execution.encode())
            size += len(content or b"")
            if clock is not None:
                # What names only processes that are known is text, and seldom so long that it has to be measured.
                most = known.clock_bytes_max(len(clock)) if named and known is not None else None
                fits = most is not None and size + most <= settings.event_bytes_max
                size += 0 if fits else len(encode(dict(clock)))
        except UnicodeEncodeError as error:
            detail = f"event {str(event.id)!a} holds text that UTF-8 cannot: {error.reason}"
            self._refuse(event, NOT_UTF8, detail)
            return None
        if size > settings.event_bytes_max:
            detail = f"an event of {size} bytes, at most {settings.event_bytes_max} are taken: shorten its texts"
            self._refuse(event, EVENT_TOO_LARGE, detail)
            return None
        largest = 0 if not clock else clock[event.process] if told is not None else max(clock.values())
        if event.index > settings.index_max or largest > settings.index_max:
            detail = f"index {max(event.index, largest)} is above {settings.index_max}: count from 1"
            self._refuse(event, INDEX_TOO_LARGE, detail)
            return None
        execution = ledger.registry.execution(ledger.db, event.execution)
        if clock and not named:
            for name in clock:
                if ledger.registry.process(ledger.db, execution, name, settings.processes_max) is None:
                    self._no_room(event, name)
                    return None
        process = ledger.registry.process(ledger.db, execution, event.process, settings.processes_max)
        if process is None:
            self._no_room(event, event.process)
            return None
        if event.index <= process.removed:
            detail = f"the events of {event.process[:100]!r} up to {process.removed} were removed: it comes too late"
            self._refuse(event, REMOVED, detail)
            return None
        if clock and told is None:
            told = self._told[event.execution, event.process] = Told(clock)
        return process, event, content, told, self._at

    def _no_room(self, event: Event, process: str) -> None:
        limit = self._ledger.settings.processes_max
        detail = f"the execution has {limit} processes already: {process[:100]!r} has no room"
        self._refuse(event, TOO_MANY_PROCESSES, detail)

    def _refuse(self, event: Event, reason: str, detail: str) -> None:
        self.refused.append(Refusal(self._at, reason, detail))
        shown = EventId(event.execution[:200], event.process[:200], event.index)
        execution = event.execution.encode("utf-8", "replace").decode()[:200]
        self._ledger.reject(
            Rejection(reason=reason, detail=detail, events=(shown,), text=event.name[:200]), execution
        )

    # Repeated reports and conflicts.

    def _first_reports(self, asked: list[_Report]) -> list[_Report]:
        """Those that no earlier report has; the others are compared with it."""
        spans: dict[int, tuple[Process, int, int]] = {}
        for process, event, *_ in asked:
            _, least, greatest = spans.get(process.id, (process, event.index, event.index))
            spans[process.id] = (process, min(least, event.index), max(greatest, event.index))
        holes = {process.id: self._load(process, *span) for process, *span in spans.values()}
        new: list[_Report] = []
        again: list[tuple[Process, Event, int]] = []
        for report in asked:
            process, event, _, _, at = report
            key = (process.id, event.index)
            if key not in self._batch and event.index in holes[process.id]:
                self._batch[key] = event
                new.append(report)
            else:
                again.append((process, event, at))
        if again:
            self._compare(again)
        return new

    def _load(self, process: Process, least: int, greatest: int) -> Holes:
        """The holes of a process between two indexes, and the one that `least` is in."""
        if least > process.newest:
            return Holes((), process.newest)
        sql = """
            SELECT "first", "last" FROM holes WHERE process = ? AND "first" <= ? AND "first" >= coalesce(
                (SELECT max("first") FROM holes WHERE process = ? AND "first" <= ?), ?) ORDER BY "first" """
        values = (process.id, greatest, process.id, least, least)
        return Holes(self._ledger.db.execute(sql, values).fetchall(), process.newest)

    def _compare(self, again: list[tuple[Process, Event, int]]) -> None:
        ledger = self._ledger
        sql = """
            SELECT e.process, e.idx, e.time, e.name, e.content, e.clock, e.clocked
            FROM v CROSS JOIN events e ON e.process = v.a AND e.idx = v.b"""
        keys = {(process.id, event.index) for process, event, _ in again} - self._batch.keys()
        rows = {(row[0], row[1]): row[2:] for row in values_of(ledger.db, sql, keys)}
        for process, event, at in again:
            key = (process.id, event.index)
            first = self._batch.get(key)
            if first == event if first is not None else self._same(process, event, rows[key]):
                self.repeated.append(at)
            else:
                self._conflict(key, event, at)

    def _same(
        self, process: Process, event: Event, row: tuple[int | None, str, bytes | None, bytes | None, int]
    ) -> bool:
        time, name, content, clock, clocked = row
        if (time, name) != (event.time, event.name):
            return False
        if decode_content(content) != (event.sends, event.receives, dict(event.attributes)):
            return False
        if event.clock is None or not clocked:
            return event.clock is None and not clocked
        reports = process.execution.unpruned(event.clock)
        if clock is not None:
            return dict(process.execution.unpruned(decode_clock(clock))) == dict(reports)
        # It was equal to the stamp.
        stamp = self._ledger.stamps.get(self._ledger.db, (process.id, event.index))
        members = process.execution.members
        reported = {members[p].id: count for p, count in reports.items() if p != process.name}
        return event.clock.get(process.name) == event.index and reported == stamp.entries

    def _conflict(self, key: Key, event: Event, at: int) -> None:
        ledger = self._ledger
        report = to_json(event)
        canonical = msgspec.json.encode(msgspec.json.decode(report), order="sorted")
        digest = blake2b(canonical, digest_size=16).digest()
        sql = "SELECT count(*), coalesce(sum(digest = ?), 0) FROM conflicts WHERE process = ? AND idx = ?"
        kept, known = ledger.db.execute(sql, (digest, *key)).fetchone()
        if known:
            self.repeated.append(at)
            return
        self.conflicts.append(at)
        if kept >= ledger.settings.conflicts_max:
            ledger.count("conflicts_dropped", 1)
            return
        seq = ledger.note(*key, CONFLICTED)
        ledger.db.execute("INSERT INTO conflicts VALUES(?, ?, ?, ?, ?)", (*key, digest, seq, report))

    # New events.

    def _pending(self, report: _Report, now: int) -> Pending:
        process, event, content, told, _ = report
        pending = Pending(process, event.index, event.time, event.name, content)
        pending.sends, pending.receives, pending.since = event.sends, event.receives, now
        if event.clock is not None:
            if told is None or process.execution.pruned:
                pending.report_clock(process.execution.unpruned(event.clock))
            else:
                told.tell(pending, event.clock)
        if process.pruned:  # It is back.
            process.pruned = False
            process.execution.pruned.discard(process.name)
            process.execution.number += 1
        process.events += 1
        process.touch()
        process.execution.events += 1
        process.execution.touch()
        return pending

    def _holes(self, pending: list[Pending]) -> None:
        """What is here now is no hole; what was skipped is one."""
        groups: dict[int, list[Pending]] = {}
        for event in pending:
            groups.setdefault(event.process.id, []).append(event)
        for events in groups.values():
            process = events[0].process
            indexes = sorted(event.index for event in events)
            holes = self._load(process, indexes[0], indexes[-1])
            before = list(holes.intervals)
            for index in indexes:
                holes.fill(index)
            process.newest = holes.newest
            db = self._ledger.db
            gone, made = set(before) - set(holes.intervals), set(holes.intervals) - set(before)
            db.executemany(
                'DELETE FROM holes WHERE process = ? AND "first" = ?', [(process.id, first) for first, _ in gone]
            )
            db.executemany("INSERT INTO holes VALUES(?, ?, ?)", [(process.id, *hole) for hole in made])

    def _messages(self, pending: list[Pending]) -> None:
        ledger = self._ledger
        named: set[Message] = set()
        for event in pending:
            execution = event.process.execution.id
            named.update((execution, message) for message in (*event.sends, *event.receives))
        ledger.look_up(named)
        for event in pending:
            if event.sends:
                event.sends = tuple(m for m in event.sends if self._sent(event, m))
            if event.receives:
                event.receives = tuple(m for m in event.receives if self._received(event, m))
        for event in pending:
            if event.clock is None:
                execution = event.process.execution.id
                ledger.unsent += [
                    (*event.key, m, execution) for m in event.receives if (execution, m) not in ledger.senders
                ]

    def _sent(self, event: Pending, message: str) -> bool:
        ledger, key = self._ledger, (event.process.execution.id, message)
        first = ledger.senders.setdefault(key, event.key)
        if first != event.key:
            sent = self._id(first)
            detail = f"message {message!r}, sent at {sent}, is sent again at {event.id}"
            self._refuse_message("duplicate-send", detail, event, sent, message)
            return False
        ledger.sends.append((*key, *event.key))
        return True

    def _received(self, event: Pending, message: str) -> bool:
        ledger, key = self._ledger, (event.process.execution.id, message)
        first, _ = ledger.receivers[key].setdefault(event.process.id, (event.index, False))
        if first != event.index:
            received = self._id((event.process.id, first))
            detail = f"message {message!r}, received at {received}, is received again at {event.id}"
            self._refuse_message("duplicate-receive", detail, event, received, message)
            return False
        ledger.receives.append((*key, *event.key))
        return True

    def _refuse_message(self, reason: str, detail: str, event: Pending, first: EventId, message: str) -> None:
        rejection = Rejection(
            reason=reason, detail=detail, events=(first, event.id), message=message, text=event.name
        )
        self._ledger.reject(rejection, event.process.execution.name)

    def _id(self, key: Key) -> EventId:
        process = self._ledger.registry.by_id(self._ledger.db, key[0])
        return EventId(process.execution.name, process.name, key[1])
