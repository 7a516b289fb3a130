"""A history directory of the pipeline, served the same way as a store: `beforehand serve --open DIR`.

1. The questions of `Queries` and the views of the page, with the same JSON keys; nothing is written.
2. `StoredHistory` is not safe for several threads, so one question is answered at a time; what it reads is kept, up
   to its limit. A page of `find`, `order`, `future` or `concurrent` is one scan by DuckDB that holds no more than it.
3. What is damaged is an `InputError` of one line.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from beforehand.events import Event, EventId
from beforehand.history import Cut, Explanation
from beforehand.history.judging import Judged, judged_notes, known_counts
from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.schemas import (
    CAUSAL_TIME,
    EXECUTION,
    INDEX,
    MESSAGE,
    OUTCOME,
    PAST_SIZE,
    PROCESS,
    RECEIVE_INDEX,
    RECEIVE_PROCESS,
    REJECTED,
    UNSENT,
)
from beforehand.pipeline.stored import StoredHistory
from beforehand.pipeline.stored import cutting as block_cuts
from beforehand.pipeline.stored.arrays import open_parquet, reading
from beforehand.pipeline.stored.checking import (
    found_violations,
    judged_in,
    judged_of,
    temporal_judged,
    temporal_violations,
)
from beforehand.pipeline.stored.conditions import Condition, condition_of
from beforehand.pipeline.stored.records import EVENT_COLUMNS, event_of
from beforehand.predicate import Predicate
from beforehand.service.deadlines import OverdueError, check, left
from beforehand.service.finding import SCANNED_MAX, Place
from beforehand.service.frozen import Answers, Found, FrozenQueries, Lacks, NamedSpan, Related, holes_in
from beforehand.service.reaching import Reach, reach_in_memory
from beforehand.service.reaching_blocks import reach_in_blocks

__all__ = ["Directory", "open_history"]

_TIME_KEY: Final = f'COALESCE("{CAUSAL_TIME}", {NO_TIME})'
_KEYS: Final = (_TIME_KEY, f'"{PAST_SIZE}"', f'"{PROCESS}"', f'"{INDEX}"', f'"{EXECUTION}"')
_FIRST_ROWS: Final = 1_000
_LACKS_KEPT: Final = 100


def open_history(path: str | os.PathLike[str]) -> Directory:
    """The directory, opened. `InputError` says what is wrong with one that is not whole."""
    return Directory(StoredHistory.open(path))


class Directory(Answers):
    """Any thread may call any method; they take turns."""

    def __init__(self, history: StoredHistory) -> None:
        self._history: Final = history
        self._lock: Final = threading.RLock()
        self._lacks: Final[dict[str, Lacks]] = {}  # At most `_LACKS_KEPT`.
        self.queries: Final = FrozenQueries(self)

    @contextmanager
    def asked(self) -> Iterator[StoredHistory]:
        """The history, for one thread. Waits for its turn, not longer than the question may take."""
        seconds = left()
        if not self._lock.acquire(timeout=-1 if seconds is None else seconds):
            raise OverdueError
        try:
            yield self._history
        finally:
            self._lock.release()

    # Events.

    def find_id(self, event: EventId | str | Event) -> EventId:
        with self.asked() as history:
            return history.find_id(event)

    def one_execution(self, execution: str | None) -> str | None:
        with self.asked() as history:
            if execution is None and not history.manifest.events:
                return None
            return history.one_execution(execution)

    def event(self, event: EventId) -> tuple[Event, Place]:
        with self.asked() as history:
            found = history.event(event)
            if history.is_cut(event.execution):
                of = history.cut_execution(event.execution)
                at = of.sure_place(of.members[event.process], event.index)
                keys = of.keys(at.block)
                time, size = int(keys.causal_time[at.row]), int(keys.past_size[at.row])
            else:
                small = history.history(event.execution)
                causal = small.causal_time(event)
                time, size = NO_TIME if causal is None else causal, small.past_size(event)
            return found, (time, size, event.process, event.index, event.execution)

    def stamp(self, event: EventId) -> Mapping[str, int]:
        with self.asked() as history:
            return history.stamp(event)

    def page(
        self,
        execution: str | None,
        where: Predicate | None,
        after: Place | None,
        *,
        limit: int,
        newest: bool,
        spans: Sequence[NamedSpan] | None = None,
    ) -> Found:
        with self.asked() as history:
            condition = Condition("TRUE") if where is None else condition_of(where.tree, history.scanner.values)
            found: list[tuple[Event, Place]] = []
            looked, rows = 0, limit + 1 if condition.exact else max(limit + 1, _FIRST_ROWS)
            while True:
                check()
                seen = 0
                for event, place in self._rows(condition, execution, after, rows, newest, spans):
                    if len(found) == limit or looked == SCANNED_MAX:
                        return Found(found, after)
                    seen, looked, after = seen + 1, looked + 1, place
                    if where is not None and not condition.exact:
                        check()  # A pattern may take its time with each event.
                        if not where(event):
                            continue
                    found.append((event, place))
                if seen < rows:
                    return Found(found, None)
                rows = min(rows * 8, SCANNED_MAX)

    def _rows(
        self,
        condition: Condition,
        execution: str | None,
        after: Place | None,
        rows: int,
        newest: bool,
        spans: Sequence[NamedSpan] | None,
    ) -> Iterator[tuple[Event, Place]]:
        scanner = self._history.scanner
        direction, sign = ("DESC", "<") if newest else ("ASC", ">")
        condition = _within(condition, execution)
        if after is not None:
            further = f"({condition.sql} AND ({', '.join(_KEYS)}) {sign} (?, ?, ?, ?, ?))"
            condition = replace(condition, sql=further, values=(*condition.values, *after))
        columns = ", ".join(f'"{name}"' for name in EVENT_COLUMNS)
        ordered = ", ".join(f"{key} {direction}" for key in _KEYS)
        joined, bound = _joined(spans)
        sql = (
            f'SELECT {columns}, {_TIME_KEY}, "{PAST_SIZE}" FROM {scanner.events()} {joined} '  # noqa: S608
            f"WHERE {condition.sql} ORDER BY {ordered} LIMIT {rows:d}"
        )
        for *row, time, size in scanner.rows(sql, (*bound, *condition.values)):
            event = event_of(*row)
            yield event, (time, size, event.process, event.index, event.execution)

    def count(self, execution: str, spans: Sequence[NamedSpan]) -> int:
        with self.asked() as history:
            joined, bound = _joined(spans)
            sql = f'SELECT count(*) FROM {history.scanner.events()} {joined} WHERE "{EXECUTION}" = ?'  # noqa: S608
            ((found,),) = history.scanner.rows(sql, (*bound, execution))
            return int(found)

    # Precedence.

    def explain(self, event: EventId, last: int, where: Predicate | None, process: str | None) -> Explanation:
        with self.asked() as history:
            return history.explain(event, last=last, where=where, process=process)

    def relate(self, first: EventId, second: EventId) -> Related:
        with self.asked() as history:
            found = history.relate(first, second)
            return Related(found.relation, found.chain, found.reasons)

    def reach(self, event: EventId) -> Reach:
        with self.asked() as history:
            if history.is_cut(event.execution):
                return reach_in_blocks(history.cut_execution(event.execution), event)
            return reach_in_memory(history.history(event.execution), event)

    # Cuts.

    def cut_at(self, time: int, execution: str) -> Cut:
        with self.asked() as history:
            return history.cut_at(time, execution=execution)

    def cut_after(self, events: Sequence[EventId]) -> Cut:
        with self.asked() as history:
            return history.cut_after(*events)

    def cut(self, cut: Mapping[str, int], execution: str) -> Cut:
        with self.asked() as history:
            return history.describe(cut, execution=execution)

    def largest_inside(self, cut: Mapping[str, int], execution: str) -> Mapping[str, int]:
        with self.asked() as history:
            if not history.is_cut(execution):
                return history.history(execution).largest_consistent_cut(cut).cut
            of = history.cut_execution(execution)
            inside = block_cuts.largest_consistent(of, block_cuts.vector(of, cut))
            return {process: int(inside[member]) for process, member in of.members.items()}

    def last_indexes(self, execution: str) -> Mapping[str, int]:
        with self.asked() as history:
            if history.is_cut(execution):
                of = history.cut_execution(execution)
                return {process: int(of.cuts[-1, member]) for process, member in of.members.items()}
            columns = history.history(execution).columns
            return {p: int(columns.index[columns.start[at + 1] - 1]) for at, p in enumerate(columns.processes)}

    # Judgement.

    def lacks(self, execution: str) -> Lacks:
        with self.asked() as history:
            found = self._lacks.get(execution)
            if found is None:
                sql = (
                    f'SELECT "{RECEIVE_PROCESS}", "{RECEIVE_INDEX}", "{MESSAGE}" '  # noqa: S608
                    f'FROM {history.scanner.messages()} WHERE "{EXECUTION}" = ? AND "{OUTCOME}" = \'{UNSENT}\' '
                    "ORDER BY ALL"
                )
                unsent: dict[str, list[tuple[int, str]]] = {}
                for process, index, message in history.scanner.rows(sql, (execution,)):
                    unsent.setdefault(process, []).append((index, message))
                found = Lacks(dict(self._holes(history, execution)), unsent)
                if len(self._lacks) >= _LACKS_KEPT:
                    self._lacks.pop(next(iter(self._lacks)))
                self._lacks[execution] = found
            return found

    def _holes(self, history: StoredHistory, execution: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        if not history.is_cut(execution):
            columns = history.history(execution).columns
            for at, process in enumerate(columns.processes):
                yield process, holes_in(columns.index[columns.start[at] : columns.start[at + 1]])
            return
        of = history.cut_execution(execution)
        for member, process in enumerate(of.processes):
            if of.cuts[-1, member] == of.counts[-1, member]:
                continue  # As many events as the last index says: none is missing.
            parts = [of.rows_of(block, member) for block in of.full.tolist()]
            yield process, holes_in(np.concatenate(parts))

    def checks(self, execution: str | None, delta_ns: int | None, limit: int) -> dict[str, Any]:
        with self.asked() as history:
            found = history.report.get("violations")
            counts: dict[str, Any] = dict(found) if isinstance(found, dict) else {}
            judged = judged_of(history.report)
            notes = [str(note) for note in history.report.get("notes") or []]
            listed = []
            kinds: dict[str, int] = dict.fromkeys(counts, 0)
            for one in found_violations(history.directory):
                if execution is None or one["execution"] == execution:
                    kinds[str(one["kind"])] = kinds.get(str(one["kind"]), 0) + 1
                    if kinds[str(one["kind"])] <= limit:
                        listed.append(one)
            if execution is not None and history.executions > 1:
                here = judged_in(history.scanner, execution)
                if here["total"].judged and "total" in judged and not judged["total"].judged:  # It was given up.
                    here["total"] = Judged(0, here["total"].of, judged["total"].why)
                judged = here
                counts = dict(known_counts(kinds, judged))
                notes = [
                    "counts are of the witnesses that the analysis kept, in this execution",
                    *judged_notes(judged),
                ]
            if delta_ns is not None:
                counts["temporal"], late, more = temporal_violations(history.scanner, delta_ns, limit)
                judged["temporal"] = temporal_judged(history.scanner)
                counts |= known_counts({"temporal": counts["temporal"]}, judged)
                notes += more + judged_notes({"temporal": judged["temporal"]})
                listed += [
                    {
                        "execution": one.events[-1].execution,
                        "kind": one.kind,
                        "events": [str(event) for event in one.events],
                        "messages": list(one.messages),
                        "why": one.why,
                        "reasons": list(one.reasons),
                    }
                    for one in late
                    if execution is None or one.events[-1].execution == execution
                ]
            told = {kind: one.document() for kind, one in judged.items()}
            return {"counts": counts, "judged": told, "violations": listed, "notes": notes}

    def rejected(self, limit: int, after: int) -> tuple[list[dict[str, Any]], bool]:
        with self.asked() as history:
            found: list[dict[str, Any]] = []
            before = 0
            for path in sorted(history.directory.rejected.glob("**/*.parquet")):
                with open_parquet(path, REJECTED) as file, reading(path):
                    for group in range(file.num_row_groups):
                        size = file.metadata.row_group(group).num_rows
                        first, before = max(after - before, 0), before + size
                        if first >= size:
                            continue
                        table = file.read_row_group(group, columns=REJECTED.names, use_threads=False)
                        found += table.slice(first, limit + 1 - len(found)).to_pylist()
                        if len(found) > limit:
                            return [_rejection(row) for row in found[:limit]], True
            return [_rejection(row) for row in found], False


def _rejection(row: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("reason", "detail", "message", "events", "text", "file", "line", "offset")
    return {"execution": None, **{key: row[key] for key in keys}}


def _within(condition: Condition, execution: str | None) -> Condition:
    if execution is None:
        return condition
    sql = f'({condition.sql} AND "{EXECUTION}" = ?)'
    return replace(condition, sql=sql, values=(*condition.values, execution))


def _joined(spans: Sequence[NamedSpan] | None) -> tuple[str, tuple[object, ...]]:
    """A join that leaves what is inside the spans, and what is bound in it."""
    if spans is None:
        return "", ()
    sql = (
        "JOIN (SELECT unnest(?::VARCHAR[]) AS span_of, unnest(?::BIGINT[]) AS span_from, "
        "unnest(?::BIGINT[]) AS span_to) "
        f'ON "{PROCESS}" = span_of AND "{INDEX}" >= span_from AND "{INDEX}" < span_to'
    )
    processes, firsts, ends = zip(*spans, strict=True)
    return sql, (list(processes), list(firsts), list(ends))
