"""The store at one moment, as queries see it: names, events, stamps; also stamps of events that still wait.

The *immediate* stamp of a waiting event is what it would be if nothing more came: the maximum over its causes that
are here, found by a search back through waiting events alone (`SEARCH_MAX` of them at most; `cut_short` says if there
were more). Causes that go in a circle are left out, as they are not untied yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import INDEX_MAX, Event, EventId
from beforehand.pipeline.documents import event_record
from beforehand.service.ledger import Key
from beforehand.service.records import Entries, decode_clock, decode_content, values_of
from beforehand.service.schema import NO_TIME, STAMPED
from beforehand.service.stamps import Stamp, read_stamp

__all__ = ["COLUMNS", "Member", "Row", "View"]

SEARCH_MAX: Final = 1_000
_READINGS_MAX: Final = 50
_STAMPS_MAX: Final = 2_000

COLUMNS: Final = """
    e.process, e.idx, e.execution, e.arrival, e.state, e.time, e.name, e.content, e.clock, e.clocked, e.causal_time,
    e.past_size"""


@dataclass(frozen=True, slots=True)
class Member:
    """A process of an execution; see schema.py."""

    id: int
    execution: int
    name: str
    newest: int
    stamped: int
    complete: int
    events: int
    removed: int


@dataclass(frozen=True, slots=True)
class Row:
    """An event as the store has it: the values of `COLUMNS`."""

    process: int
    index: int
    execution: int
    arrival: int
    state: int
    time: int | None
    name: str
    content: bytes | None
    clock: bytes | None
    clocked: int
    causal_time: int
    past_size: int

    @property
    def key(self) -> Key:
        return self.process, self.index


class View:
    """Of one reading connection, while its block lasts."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db: Final = db
        self._members: dict[int, dict[int, Member]] = {}
        self._by_id: dict[int, Member] = {}
        self._executions: dict[int, str] = {}
        self._immediate: dict[Key, Stamp] = {}
        self._stamps: dict[Key, Stamp] = {}  # Of events that have one; at most `_STAMPS_MAX`.
        self.absent: dict[int, int] = {}  # Per process, the greatest index that a clock names and that is not here.
        self.cut_short = False

    # Names.

    def execution_name(self, execution: int) -> str:
        if execution not in self._executions:
            (name,) = self.db.execute("SELECT name FROM executions WHERE id = ?", (execution,)).fetchone()
            self._executions[execution] = name
        return self._executions[execution]

    def one_execution(self, name: str | None) -> int | None:
        """The execution that is meant: the only one, if none is named. None if there is none at all."""
        if name is not None:
            row = self.db.execute("SELECT id FROM executions WHERE name = ? AND events > 0", (name,)).fetchone()
            if row is None:
                raise InputError(f"there is no execution {name!r} in this store")
            return int(row[0])
        rows = self.db.execute("SELECT id FROM executions WHERE events > 0 LIMIT 2").fetchall()
        if len(rows) > 1:
            raise InputError("there are several executions: say which one")
        return int(rows[0][0]) if rows else None

    def members(self, execution: int) -> dict[int, Member]:
        """The processes of an execution, by number."""
        if execution not in self._members:
            sql = f"SELECT {_MEMBER} FROM processes WHERE execution = ?"  # noqa: S608
            found = {row[0]: Member(*row) for row in self.db.execute(sql, (execution,))}
            self._members[execution] = found
            self._by_id.update(found)
        return self._members[execution]

    def member(self, process: int) -> Member:
        if process not in self._by_id:
            sql = f"SELECT {_MEMBER} FROM processes WHERE id = ?"  # noqa: S608
            self._by_id[process] = Member(*self.db.execute(sql, (process,)).fetchone())
        return self._by_id[process]

    def event_id(self, key: Key) -> EventId:
        member = self.member(key[0])
        return EventId(self.execution_name(member.execution), member.name, key[1])

    def resolve(self, event: EventId | str | Event) -> Row:
        """The one event that is meant. Texts are read as the command line reads them."""
        if isinstance(event, Event):
            event = event.id
        if isinstance(event, EventId):
            row = self._find(event)
            if row is None:
                raise UnknownEventError(str(event), self._hint([event]))
            return row
        process, _, digits = event.rpartition(":")
        if not process or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            raise UnknownEventError(event, ": an event is named process:index, like cart:17")
        index = int(digits)
        if not 1 <= index <= INDEX_MAX:
            raise UnknownEventError(event, ": indexes count from 1")
        readings = [EventId("", process, index)]
        names = self.db.execute("SELECT name FROM executions WHERE events > 0 LIMIT 2").fetchall()
        if len(names) == 1:
            readings.append(EventId(names[0][0], process, index))
        slashes = [at for at, character in enumerate(process) if character == "/"][:_READINGS_MAX]
        readings += [EventId(process[:at], process[at + 1 :], index) for at in slashes if process[at + 1 :]]
        found = [row for reading in dict.fromkeys(readings) if (row := self._find(reading)) is not None]
        if len(found) > 1:
            first, second = (self.event_id(row.key) for row in found[:2])
            raise InputError(
                f"{event!r} may be {first.process!r} of execution {first.execution!r} or {second.process!r} of "
                f"execution {second.execution!r}: it names two events; ask for them by a program, with EventId"
            )
        if not found:
            raise UnknownEventError(event, self._hint(readings))
        return found[0]

    def _find(self, event: EventId) -> Row | None:
        sql = f"""
            SELECT {COLUMNS} FROM executions x JOIN processes p ON p.execution = x.id
            JOIN events e ON e.process = p.id WHERE x.name = ? AND p.name = ? AND e.idx = ?"""  # noqa: S608
        try:
            row = self.db.execute(sql, (event.execution, event.process, event.index)).fetchone()
        except UnicodeEncodeError:
            return None  # No event has such a name.
        return None if row is None else Row(*row)

    def _hint(self, readings: list[EventId]) -> str:
        sql = """
            SELECT p.newest FROM executions x JOIN processes p ON p.execution = x.id
            WHERE x.name = ? AND p.name = ? AND p.events > 0"""
        for reading in readings:
            try:
                row = self.db.execute(sql, (reading.execution, reading.process)).fetchone()
            except UnicodeEncodeError:
                continue
            if row is not None:
                return f": {reading.process!r} has indexes up to {row[0]}"
        return ": find shows the names of events"

    # Events.

    def row(self, key: Key) -> Row | None:
        sql = f"SELECT {COLUMNS} FROM events e WHERE e.process = ? AND e.idx = ?"  # noqa: S608
        found = self.db.execute(sql, key).fetchone()
        return None if found is None else Row(*found)

    def rows(self, keys: Iterable[Key]) -> dict[Key, Row]:
        sql = f"SELECT {COLUMNS} FROM v CROSS JOIN events e ON e.process = v.a AND e.idx = v.b"  # noqa: S608
        return {(row[0], row[1]): Row(*row) for row in values_of(self.db, sql, keys)}

    def event(self, row: Row, *, clock: bool = True) -> Event:
        """The event as it was reported; without its clock where that is not looked at."""
        member = self.member(row.process)
        sends, receives, attributes = decode_content(row.content)
        reported: dict[str, int] | None = None
        if clock and row.clocked and row.clock is not None:
            reported = dict(decode_clock(row.clock))
        elif clock and row.clocked:  # It was the stamp.
            stamp = self.stamp(row)
            reported = {member.name: row.index, **{self.member(p).name: n for p, n in stamp.entries.items()}}
        return Event(
            execution=self.execution_name(row.execution),
            process=member.name,
            index=row.index,
            sends=sends,
            receives=receives,
            time=row.time,
            name=row.name,
            attributes=attributes,
            clock=reported,
        )

    def record(self, row: Row) -> dict[str, Any]:
        """The event as documents have it: as on the command line, and how far it is."""
        return {**event_record(self.event(row, clock=False)), "state": self.state(row)}

    def state(self, row: Row) -> str:
        """`waiting` (no stamp yet), `incomplete` (some of its past was given up) or `complete`."""
        if row.state != STAMPED:
            return "waiting"
        return "complete" if row.index <= self.member(row.process).complete else "incomplete"

    def last_here(self, process: int, index: int) -> int:
        """The greatest index up to this one that is here; 0 if none is."""
        member = self.member(process)
        index = min(index, member.newest)
        if index > member.complete:
            sql = 'SELECT "first", "last" FROM holes WHERE process = ? AND "first" <= ? ORDER BY "first" DESC LIMIT 1'
            row = self.db.execute(sql, (process, index)).fetchone()
            index = index if row is None or row[1] < index else int(row[0]) - 1
        return index if index > member.removed else 0

    def present(self, process: int, index: int) -> int:
        """How many events up to this index are here."""
        member = self.member(process)
        index = min(index, member.newest)
        if index <= member.complete:
            return max(index - member.removed, 0)
        sql = 'SELECT coalesce(sum(min("last", ?) - "first" + 1), 0) FROM holes WHERE process = ? AND "first" <= ?'
        return index - member.removed - int(self.db.execute(sql, (index, process, index)).fetchone()[0])

    def senders(self, row: Row) -> list[tuple[str, Key]]:
        """What it receives (rejected ones left out) whose send is here: messages with their senders, in order."""
        receives = decode_content(row.content)[1]
        if not receives:
            return []
        sql = """
            SELECT r.message, r.process, r.idx, s.process, s.idx FROM v
            CROSS JOIN receives r ON r.execution = v.a AND r.message = v.b
            CROSS JOIN sends s ON s.execution = r.execution AND s.message = r.message WHERE NOT r.cut"""
        found: dict[str, Key] = {}
        for message, *receiver, process, index in values_of(self.db, sql, [(row.execution, m) for m in receives]):
            if receiver == [row.process, row.index]:
                found[message] = (process, index)
        return [(message, found[message]) for message in receives if message in found]

    def named(self, row: Row) -> list[Key]:
        """The events that its reported clock names, of each other process the last that is here."""
        if not row.clocked or row.clock is None:
            return []
        ids = {member.name: member.id for member in self.members(row.execution).values()}
        found = []
        for name, count in decode_clock(row.clock).items():
            process = ids[name]
            if process == row.process or not count:
                continue
            index = self.last_here(process, count)
            if index < count:
                self.absent[process] = max(self.absent.get(process, 0), count)
            if index:
                found.append((process, index))
        return found

    # Stamps.

    def stamp(self, row: Row) -> Stamp:
        """The stamp of an event; the immediate one if it waits."""
        found = self._stamps.get(row.key)
        if found is None:
            if row.state == STAMPED:
                found = read_stamp(self.db, row.process, row.index)
                assert found is not None
                if len(self._stamps) < _STAMPS_MAX:
                    self._stamps[row.key] = found
            else:
                if row.key not in self._immediate:
                    self._search(row)
                found = self._immediate[row.key]
        return found

    def order_key(self, row: Row) -> tuple[int, int, str, int]:
        """Its place in the deterministic order."""
        time, size = row.causal_time, row.past_size
        if row.state != STAMPED:
            stamp = self.stamp(row)
            time, size = stamp.time, stamp.total + row.index
        return time, size, self.member(row.process).name, row.index

    def _search(self, start: Row) -> None:
        """Immediate stamps of an event and of all waiting events that it depends on; causes first."""
        stack: list[tuple[Row, list[Row] | None]] = [(start, None)]
        open_: set[Key] = set()
        while stack:
            row, causes = stack.pop()
            if row.key in self._immediate:
                continue
            if causes is None:
                if row.key in open_:
                    continue
                open_.add(row.key)
                causes = self._causes(row)
                stack.append((row, causes))
                if len(open_) > SEARCH_MAX:
                    self.cut_short = True
                    continue
                stack += [(cause, None) for cause in causes if cause.state != STAMPED]
            else:
                self._immediate[row.key] = self._merged(row, causes)

    def _causes(self, row: Row) -> list[Row]:
        keys = [key for _, key in self.senders(row)] + self.named(row)
        before = (row.process, row.index - 1)
        keys += [before] if row.index > 1 else []
        found = self.rows(key for key in dict.fromkeys(keys) if key[0] != row.process or key[1] < row.index)
        if row.index > 1 and before not in found:
            last = (row.process, self.last_here(*before))
            found |= self.rows([last]) if last[1] else {}
        return list(found.values())

    def _merged(self, row: Row, causes: list[Row]) -> Stamp:
        entries: Entries = {}
        time = NO_TIME if row.time is None else row.time
        for cause in causes:
            if cause.state == STAMPED:
                stamp = self.stamp(cause)
            elif cause.key in self._immediate:
                stamp = self._immediate[cause.key]
            else:
                continue  # In a circle, or beyond the limit of the search.
            time = max(time, stamp.time)
            for process, known in (*stamp.entries.items(), cause.key):
                if known > entries.get(process, 0) and process != row.process:
                    entries[process] = known
        return Stamp(entries, sum(entries.values()), time)


_MEMBER: Final = "id, execution, name, newest, stamped, complete, events, removed"
