"""What led to what: every question that the command line answers of a history directory, asked of a live store.

1. Same meaning and same JSON keys as the commands (docs/reference/commands.md); `state`, `complete`, `missing` and
   cursors are added. Each method gives one document, made from one moment of the store.
2. When all reports are here, the answers equal those of `History` on the same events. Before that, answers are from
   what is here; `past` says whether that is all (`complete`) and names what is not (`missing`).
3. `past` reads about as many rows as there are processes and events asked for, whatever the size of the store.
   `find`, `order`, `future` and `concurrent` come page by page. Cuts look at all messages of the execution, `checks`
   at the newest events only.

Any thread may call any method; each call takes one reader of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from beforehand.errors import InputError
from beforehand.events import Event, EventId
from beforehand.formats import to_json
from beforehand.predicate import Predicate
from beforehand.service import cutting, deadlines, finding
from beforehand.service.checking import check
from beforehand.service.finding import PAGE_BYTES_MAX
from beforehand.service.past import (
    RANGES_MAX,
    missing_messages,
    missing_ranges,
    newest_first,
    past_count,
    reach_of,
    removed_count,
    wanted,
)
from beforehand.service.relating import chain_between, knows, reasons_of
from beforehand.service.schema import NO_TIME, STAMPED
from beforehand.service.store import Store
from beforehand.service.view import SEARCH_MAX, Row, View

__all__ = ["PAGE_MAX", "Queries", "no_cut", "page_size"]

PAGE_MAX: Final = 10_000
"""Events that one answer holds at most."""

PAST_SCANNED_MAX: Final = 100_000
"""Events of a past that are looked at for those that `where` means."""

Document = dict[str, Any]
Named = EventId | str | Event


class Queries:
    """Of a store. Events are named as on the command line, or by `EventId`. Wrong questions are an `InputError`."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store

    # Events.

    def find(
        self,
        where: Predicate | None = None,
        *,
        limit: int = 50,
        execution: str | None = None,
        after: str | None = None,
    ) -> Document:
        """Events, newest first: `events`, `more`, and `cursor` to go on with as `after`."""
        place = finding.decode_cursor(after)
        with self._store.reading() as db:
            view = View(db)
            only = None if execution is None else view.one_execution(execution)
            rows = finding.walk(view, only, place, newest=True, waiting=True)
            return _paged(view, finding.page(view, rows, page_size(limit), where))

    def order(self, *, limit: int = 1_000, execution: str | None = None, after: str | None = None) -> Document:
        """A window of the deterministic run, oldest first: `events` in the native format with `id`, and `cursor`.

        Of one execution; of the only one, if none is named.
        """
        place = finding.decode_cursor(after)
        with self._store.reading() as db:
            view = View(db)
            only = view.one_execution(execution)
            if only is None:
                return {"events": [], "more": False, "cursor": None}
            rows = finding.walk(view, only, place, newest=False, waiting=False)
            found = finding.page(view, rows, page_size(limit), None)
            events = [{"id": str(view.event_id(row.key)), **_native(view, row)} for row in found.rows]
            return {"events": events, "more": found.cursor is not None, "cursor": found.cursor}

    def event(self, event: Named) -> Document:
        """One event with all that is known of it; `conflicts` are reports of it that differ."""
        with self._store.reading() as db:
            view = View(db)
            row = view.resolve(event)
            stamp = view.stamp(row)
            document = {**view.record(row), **_native(view, row)}
            sql = "SELECT report FROM conflicts WHERE process = ? AND idx = ? ORDER BY seq"
            names = {**{view.member(p).name: n for p, n in stamp.entries.items()}, document["process"]: row.index}
            document |= {
                "id": str(view.event_id(row.key)),
                "stamp": dict(sorted(names.items())),
                "causal_time": None if stamp.time == NO_TIME else stamp.time,
                "past_size": stamp.total + row.index,
                "arrival": row.arrival,
                "conflicts": [msgspec.json.decode(report) for (report,) in db.execute(sql, row.key)],
            }
            return document

    # Precedence.

    def past(
        self,
        event: Named,
        *,
        last: int = 25,
        where: Predicate | None = None,
        process: str | None = None,
        complete: bool = False,
    ) -> Document:
        """The last events that could have led to this one, oldest first.

        With `complete`, an event that is not complete gets no answer yet: `past` and `events` are null, and `missing`
        says what is waited for.
        """
        size = page_size(last, least=0)
        with self._store.reading() as db:
            view = View(db)
            row = view.resolve(event)
            reach = reach_of(view, row)
            whole = view.state(row) == "complete"
            document: Document = {"event": str(view.event_id(row.key)), "state": view.state(row), "complete": whole}
            notes: list[str] = []
            if complete and not whole:
                document |= {"past": None, "events": None}
                notes.append("the past is not complete: ask again when the missing reports are here, or without it")
            else:
                events = self._chosen(view, row, reach, size, where, process, notes)
                document |= {"past": past_count(view, reach), "events": events}
            removed = removed_count(view, reach)
            if removed:
                document["removed"] = removed
                notes.append(f"{removed} older events of the past were removed by retention")
            document |= _missing(view, {} if whole else wanted(view, reach), notes)
            if view.cut_short:
                notes.append(f"more than {SEARCH_MAX} events wait before it: its past is larger than what is shown")
            return {**document, "notes": notes}

    def future(self, event: Named, *, limit: int = 50, after: str | None = None) -> Document:
        """What it could have led to, of the events that have a stamp, oldest first, page by page."""
        place = finding.decode_cursor(after)
        with self._store.reading() as db:
            view = View(db)
            row = view.resolve(event)
            spans = finding.future_spans(view, row) if row.state == STAMPED else []
            return self._spans(view, row, spans, limit, place, "future")

    def concurrent(self, event: Named, *, limit: int = 50, after: str | None = None) -> Document:
        """What is neither in its past nor in its future, of the events that have a stamp, oldest first."""
        place = finding.decode_cursor(after)
        with self._store.reading() as db:
            view = View(db)
            row = view.resolve(event)
            return self._spans(view, row, finding.concurrent_spans(view, row), limit, place, "concurrent")

    def relate(self, first: Named, second: Named) -> Document:
        """What the first event is to the second, with a causal chain from the earlier one to the later one."""
        with self._store.reading() as db:
            view = View(db)
            a, b = view.resolve(first), view.resolve(second)
            relation, chain = "concurrent", []
            if a.key == b.key:
                relation, chain = "equal", [a.key]
            elif a.execution == b.execution and knows(view, b, a.key):
                relation, chain = "before", chain_between(view, a.key, b)
            elif a.execution == b.execution and knows(view, a, b.key):
                relation, chain = "after", chain_between(view, b.key, a)
            return {
                "first": str(view.event_id(a.key)),
                "second": str(view.event_id(b.key)),
                "relation": relation,
                "chain": [str(view.event_id(key)) for key in chain],
                "reasons": reasons_of(view, chain),
            }

    # Cuts.

    def cut_at(self, time: int, *, execution: str | None = None) -> Document:
        """The largest consistent cut with nothing later than `time` (ns), each process going by its own clock."""
        with self._store.reading() as db:
            view = View(db)
            only = view.one_execution(execution)
            if only is None:
                return no_cut()
            inside = cutting.largest_consistent(view, cutting.prefix_at(view, only, time))
            return cutting.describe(view, only, inside)

    def cut_after(self, *events: Named) -> Document:
        """The smallest consistent cut that contains these events."""
        with self._store.reading() as db:
            view = View(db)
            rows = [view.resolve(event) for event in events]
            if not rows:
                raise InputError("a cut after no event: name one")
            others = [row for row in rows if row.execution != rows[0].execution]
            if others:
                first, second = (view.execution_name(row.execution) for row in (rows[0], others[0]))
                raise InputError(f"{first!r} and {second!r} are different executions: a cut is of one")
            cut: dict[int, int] = {}
            for row in rows:
                for process, index in reach_of(view, row).items():
                    cut[process] = max(cut.get(process, 0), index)
            return cutting.describe(view, rows[0].execution, cut)

    def cut(self, cut: Mapping[str, int], *, execution: str | None = None) -> Document:
        """This cut (process to index), described."""
        with self._store.reading() as db:
            view = View(db)
            only = view.one_execution(execution)
            ids = {} if only is None else {member.name: member.id for member in view.members(only).values()}
            unknown = sorted(set(cut) - set(ids))
            if unknown:
                raise InputError(f"the cut names {unknown[0]!r}, which is no process of this history")
            if min(cut.values(), default=0) < 0:
                raise InputError("the cut has a negative index: indexes count from 1, and 0 stands for none")
            if only is None:
                return no_cut()
            return cutting.describe(view, only, {ids[name]: index for name, index in cut.items()})

    # Judgement.

    def checks(self, *, execution: str | None = None, delta_ns: int | None = None, limit: int = 100) -> Document:
        """FIFO, causal and total order and the reported clocks; with `delta_ns`, temporal order too."""
        with self._store.reading() as db:
            view = View(db)
            only = view.one_execution(execution)
            if only is None:
                return {"counts": {}, "judged": {}, "violations": [], "notes": ["there are no events"]}
            return check(view, only, delta_ns=delta_ns, limit=page_size(limit, least=0))

    def missing(self, *, execution: str | None = None) -> Document:
        """What is not here though something depends on it, and how many events wait."""
        with self._store.reading() as db:
            view = View(db)
            only = view.one_execution(execution)
            notes: list[str] = []
            upto: dict[int, int] = {}
            waiting = 0
            if only is not None:
                upto = {member.id: member.newest for member in view.members(only).values()}
                sql = "SELECT c.process, max(c.idx) FROM claims c JOIN processes p ON p.id = c.process "
                for process, index in db.execute(f"{sql} WHERE p.execution = ? GROUP BY c.process", (only,)):
                    upto[process] = max(upto[process], index)
                sql = "SELECT on_process, max(on_idx) FROM waits WHERE execution = ? AND on_process > 0 GROUP BY 1"
                for process, index in db.execute(sql, (only,)):
                    upto[process] = max(upto[process], index)
                (waiting,) = db.execute("SELECT count(*) FROM waits WHERE execution = ?", (only,)).fetchone()
            return {**_missing(view, upto, notes), "waiting": waiting, "notes": notes}

    def rejected(self, *, limit: int = 100, after: int = 0) -> Document:
        """What was refused and why, in the order in which it was."""
        size = page_size(limit)
        sql = """
            SELECT id, execution, reason, detail, message, events, text, file, line, "offset" FROM rejected
            WHERE id > ? ORDER BY id LIMIT ?"""
        keys = ("execution", "reason", "detail", "message", "events", "text", "file", "line", "offset")
        with self._store.reading() as db:
            rows, more = _some(db.execute(sql, (after, size + 1)), size)
            dropped = db.execute("SELECT value FROM counts WHERE name = 'rejected_dropped'").fetchone()
        found = [dict(zip(keys, row[1:], strict=True)) for row in rows]
        for one in found:
            one["events"] = msgspec.json.decode(one["events"])
        cursor = rows[-1][0] if more else None
        return {"rejected": found, "more": more, "cursor": cursor, "dropped": dropped[0] if dropped else 0}

    # Inside.

    def _chosen(
        self,
        view: View,
        row: Row,
        reach: dict[int, int],
        last: int,
        where: Predicate | None,
        process: str | None,
        notes: list[str],
    ) -> list[Document]:
        only: int | None = None
        if process is not None:
            ids = {member.name: member.id for member in view.members(row.execution).values()}
            if process not in ids:
                raise InputError(f"there is no process {process!r} in the execution of {view.event_id(row.key)}")
            only = ids[process]
        chosen: list[Row] = []
        size = 0
        if last:
            for scanned, one in enumerate(newest_first(view, reach, row.key, only)):
                if scanned == PAST_SCANNED_MAX:
                    notes.append(f"only the last {PAST_SCANNED_MAX} events of the past were looked at")
                    break
                deadlines.check()
                if where is None or where(view.event(one, clock=False)):
                    chosen.append(one)
                    size += finding.size_of(view, one)
                    if len(chosen) == last:
                        break
                    if size >= PAGE_BYTES_MAX:
                        notes.append(f"only the last {len(chosen)} events are shown: they have {size} bytes")
                        break
        return [view.record(one) for one in reversed(chosen)]

    def _spans(
        self, view: View, row: Row, spans: list[finding.Span], limit: int, after: finding.Place | None, what: str
    ) -> Document:
        found = finding.page(view, finding.spans_in_order(view, spans, after), page_size(limit), None)
        count = 0
        for process, first, end in spans:
            count += view.present(process, end - 1) - view.present(process, first - 1)
            sql = "SELECT count(*) FROM waits WHERE process = ? AND idx >= ? AND idx < ?"
            count -= int(view.db.execute(sql, (process, first, end)).fetchone()[0])
        return {"event": str(view.event_id(row.key)), what: count, **_paged(view, found)}


def page_size(limit: int, *, least: int = 1) -> int:
    """How many events are asked for; `InputError` if an answer does not hold as many."""
    if not least <= limit <= PAGE_MAX:
        raise InputError(f"{limit} events are asked for: ask for {least} to {PAGE_MAX}")
    return limit


def no_cut() -> Document:
    """The cut of a history without events."""
    return {"cut": {}, "front": [], "in_flight": [], "unreceived": [], "consistent": True}


def _some(rows: Iterable[tuple[Any, ...]], limit: int) -> tuple[list[tuple[Any, ...]], bool]:
    """The first rows, as many and as large as a page may be, and whether there are more."""
    found: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        if len(found) == limit or size >= PAGE_BYTES_MAX:
            return found, True
        found.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
    return found, False


def _paged(view: View, found: finding.Page) -> Document:
    events = [view.record(row) for row in found.rows]
    return {"events": events, "more": found.cursor is not None, "cursor": found.cursor}


def _native(view: View, row: Row) -> Document:
    """The event in the native format, as a document."""
    document: Document = msgspec.json.decode(to_json(view.event(row)))
    return document


def _missing(view: View, upto: dict[int, int], notes: list[str]) -> Document:
    ranges, more = missing_ranges(view, upto)
    messages, others = missing_messages(view, upto)
    if more:
        notes.append(f"at least {more} more ranges are missing; {RANGES_MAX} are named")
    if others:
        notes.append(f"at least {others} more messages have no send here; {RANGES_MAX} are named")
    return {"missing": ranges, "unsent": messages}
