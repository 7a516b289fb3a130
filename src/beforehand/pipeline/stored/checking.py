"""What the analysis found wrong, how much of it was judged, and temporal order for a δ that it was not asked for.

Temporal order is judged by one scan over `messages/`: per process, the latest send time among the messages received
at earlier events; a message may lie at most δ before it. The answers are those of `History.check(delta_ns=...)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from beforehand.events import EventId
from beforehand.history import Judged, Violation
from beforehand.history.judging import judged_clocks, judged_orders, judged_temporal
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.schemas import (
    CLOCK,
    EVENTS,
    EXECUTION,
    INFERRED,
    KIND,
    MESSAGE,
    MESSAGES,
    OUTCOME,
    POSITION,
    REASONS,
    RECEIVE_INDEX,
    RECEIVE_PROCESS,
    RECEIVED,
    SEND_INDEX,
    SEND_PROCESS,
    SEND_TIME,
    UNSENT,
    VIOLATION,
    WHY,
)
from beforehand.pipeline.stored.arrays import open_parquet, reading
from beforehand.pipeline.stored.naming import id_within
from beforehand.pipeline.stored.scanning import Scanner

__all__ = ["found_violations", "judged_in", "judged_of", "temporal_judged", "temporal_violations", "violating"]


def found_violations(directory: Directory) -> Iterator[dict[str, object]]:
    """The rows of `violations/`: execution, kind, events, messages, why and reasons."""
    for path in sorted(directory.violations.glob("**/*.parquet")):
        for batch in _batches(path):
            columns = [batch[name].to_pylist() for name in (EXECUTION, KIND, EVENTS, MESSAGES, WHY, REASONS)]
            for execution, kind, events, messages, why, reasons in zip(*columns, strict=True):
                yield {
                    "execution": execution,
                    "kind": kind,
                    "events": events,
                    "messages": messages,
                    "why": why,
                    "reasons": reasons,
                }


def violating(rows: Iterable[Mapping[str, Any]], execution: str) -> tuple[frozenset[EventId], frozenset[str]]:
    """What a picture of an execution points out: the events that show a violation, and the messages that broke order.

    An overtaken message is the first of its witness, and the last two events are the receives that changed places;
    of a cycle in total order all are to blame.
    """
    events: set[EventId] = set()
    messages: set[str] = set()
    for row in rows:
        if row["execution"] == execution:
            whole = row["kind"] == "total"
            events |= {id_within(execution, text) for text in (row["events"] if whole else row["events"][-2:])}
            messages |= {*(row["messages"] if whole else row["messages"][:1])}
    return frozenset(events), frozenset(messages)


def judged_of(report: Mapping[str, object]) -> dict[str, Judged]:
    """How much the analysis judged, of each kind; what report.json does not say is left out."""
    told = report.get("judged")
    result: dict[str, Judged] = {}
    for kind, one in told.items() if isinstance(told, Mapping) else ():
        if isinstance(one, Mapping) and isinstance(one.get("judged"), int) and isinstance(one.get("of"), int):
            result[str(kind)] = Judged(one["judged"], one["of"], str(one.get("why") or ""))
    return result


def judged_in(scanner: Scanner, execution: str) -> dict[str, Judged]:
    """The same of one execution, counted in the tables. Total order: as if it was not given up."""
    sql = f"""
        SELECT count(*), count(*) FILTER (WHERE "{INFERRED}"),
            count(*) FILTER (WHERE NOT "{INFERRED}" AND "{OUTCOME}" = '{UNSENT}')
        FROM {scanner.messages()} WHERE {_RECEIVES} AND "{EXECUTION}" = ?"""  # noqa: S608
    ((receives, inferred, unsent),) = scanner.rows(sql, (execution,))
    sql = f'SELECT count(*), count("{CLOCK}") FROM {scanner.events()} WHERE "{EXECUTION}" = ?'  # noqa: S608
    ((events, clocks),) = scanner.rows(sql, (execution,))
    orders = judged_orders(receives=receives, inferred=inferred, unsent=unsent)
    return orders | {"clock": judged_clocks(events=events, clocks=clocks)}


def temporal_judged(scanner: Scanner, execution: str | None = None) -> Judged:
    """How many receives temporal order can be judged by, of one execution or of all."""
    only, values = ("", ()) if execution is None else (f' AND "{EXECUTION}" = ?', (execution,))
    sql = f"""
        SELECT count(*), count(*) FILTER (WHERE "{INFERRED}"),
            count(*) FILTER (WHERE NOT "{INFERRED}" AND ("{OUTCOME}" = '{UNSENT}' OR "{SEND_TIME}" IS NULL))
        FROM {scanner.messages()} WHERE {_RECEIVES}{only}"""  # noqa: S608
    ((receives, inferred, untimed),) = scanner.rows(sql, values)
    return judged_temporal(receives=receives, inferred=inferred, untimed=untimed)


def _batches(path: Path) -> Iterator[pa.Table]:
    with open_parquet(path, VIOLATION) as file:
        for group in range(file.num_row_groups):
            with reading(path):
                table = file.read_row_group(group, columns=VIOLATION.names, use_threads=False)
            yield table


def temporal_violations(scanner: Scanner, delta_ns: int, limit: int) -> tuple[int, list[Violation], list[str]]:
    """How many there are, the first of them, and notes."""
    delta_ns = min(delta_ns, 2**64)  # No two times are further apart, and DuckDB's largest integers end somewhere.
    table = scanner.messages()
    judged = f'{_RECEIVES} AND NOT "{INFERRED}"'
    timed = f'"{OUTCOME}" = \'{RECEIVED}\' AND NOT "{INFERRED}" AND "{SEND_TIME}" IS NOT NULL'
    one = f'"{EXECUTION}", "{RECEIVE_PROCESS}", "{RECEIVE_INDEX}", "{POSITION}", "{MESSAGE}", "{SEND_PROCESS}"'
    late = f"""
        SELECT * FROM (
            SELECT {one}, "{SEND_INDEX}", "{SEND_TIME}", max("{SEND_TIME}") OVER (
                PARTITION BY "{EXECUTION}", "{RECEIVE_PROCESS}" ORDER BY "{RECEIVE_INDEX}"
                RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest
            FROM {table} WHERE {timed})
        WHERE latest::HUGEINT - "{SEND_TIME}" > ?"""  # noqa: S608
    ((count,),) = scanner.rows(f"SELECT count(*) FROM ({late})", (delta_ns,))  # noqa: S608
    notes = []
    ((without,),) = scanner.rows(f"SELECT count(*) FROM {table} WHERE {judged} AND NOT ({timed})")  # noqa: S608
    if without:
        notes.append(f"temporal order: {without} receives are of messages without a send time")
    if count > limit:
        notes.append(f"temporal: {count} found, the first {limit} are listed")
    key = ", ".join(f'late."{name}"' for name in (EXECUTION, RECEIVE_PROCESS, RECEIVE_INDEX, POSITION))
    sql = f"""
        WITH late AS ({late} ORDER BY {one} LIMIT {limit:d}), early AS (SELECT * FROM {table} WHERE {timed})
        SELECT {key}, late."{MESSAGE}", late."{SEND_PROCESS}", late."{SEND_INDEX}",
            late.latest::HUGEINT - late."{SEND_TIME}",
            min(({", ".join(f'early."{name}"' for name in _EARLY)})) AS first
        FROM late JOIN early ON early."{EXECUTION}" = late."{EXECUTION}"
            AND early."{RECEIVE_PROCESS}" = late."{RECEIVE_PROCESS}" AND early."{SEND_TIME}" = late.latest
            AND early."{RECEIVE_INDEX}" < late."{RECEIVE_INDEX}"
        GROUP BY ALL ORDER BY {key}"""  # noqa: S608
    violations = []
    for execution, process, index, _, m, send_process, send_index, ahead, early in scanner.rows(sql, (delta_ns,)):
        early_index, _, n, early_process, early_send = early.values() if isinstance(early, dict) else early
        late_id = EventId(execution, process, index)
        events = (
            EventId(execution, send_process, send_index),
            EventId(execution, early_process, early_send),
            EventId(execution, process, early_index),
            late_id,
        )
        why = (
            f"{late_id} received {m!r} after {n!r}, which was sent {int(ahead)} ns later "
            f"by the senders' clocks (δ = {delta_ns} ns)"
        )
        violations.append(Violation("temporal", events, (m, n), why))
    return count, violations, notes


_RECEIVES = f"\"{OUTCOME}\" IN ('{RECEIVED}', '{UNSENT}')"
_EARLY = (RECEIVE_INDEX, POSITION, MESSAGE, SEND_PROCESS, SEND_INDEX)
