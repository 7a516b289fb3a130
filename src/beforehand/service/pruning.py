"""Entries of retired processes, pruned from the stamps of an execution that lives on.

A process is *retired* when retention has removed all its events. An entry for it in a stamp then names a removed
event, and nothing else: no question about events that are here depends on it. Pruning drops the entry from every
stamp of the execution, and what it counted for from the sizes of pasts, all in one transaction. *Safe* means:

1. For any two events that are here, now or later: e happened before f says the same as before. By the consistent cut
   of retention.py what an event knows of others that are here never came through a removed event.
2. The deterministic order still respects causality: all stamps lose the same components, so whoever knew more still
   does, in every component that is left. (Concurrent events with one causal time may change places.)
3. What comes later agrees: clocks that are reported are taken without entries up to what was removed of a pruned
   process. If the process comes back, its new events have entries again.

What is lost: pasts no longer count the removed events of pruned processes, and a reported clock is shown without
them. The process itself stays in its table, without which a report of its removed events would look new; it no
longer counts for `Settings.processes_max`.

It is done when at least `RETIRED_MIN` processes and a quarter of all are retired, so that its cost is spread over as
many; if no event waits, no stamp is being raised, and the execution has at most `EVENTS_MAX` events: all its stamps
are written anew while the writer waits.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from beforehand.service.records import Entries, decode_entries, encode
from beforehand.service.schema import STAMPED

__all__ = ["EVENTS_MAX", "RETIRED_MIN", "prune"]

RETIRED_MIN: Final = 16
EVENTS_MAX: Final = 200_000


def prune(db: sqlite3.Connection, execution: int) -> int:
    """Prune what can be, within a transaction of the writer; how many processes were."""
    sql = """
        SELECT id FROM processes
        WHERE execution = ? AND events = 0 AND removed = newest AND newest > 0 AND NOT pruned"""
    retired = {process for (process,) in db.execute(sql, (execution,))}
    sql = "SELECT id FROM processes WHERE execution = ? AND events > 0"
    alive = [process for (process,) in db.execute(sql, (execution,))]
    row = db.execute("SELECT events, raising FROM executions WHERE id = ?", (execution,)).fetchone()
    waits = db.execute("SELECT 1 FROM waits WHERE execution = ? LIMIT 1", (execution,)).fetchone()
    if row is None or len(retired) < max(RETIRED_MIN, len(alive) // 4):
        return 0
    if row[0] > EVENTS_MAX or row[1] or waits is not None:
        return 0
    for process in alive:
        _prune(db, process, retired)
    db.executemany("UPDATE processes SET pruned = 1 WHERE id = ?", [(process,) for process in retired])
    db.execute("UPDATE executions SET processes = processes - ? WHERE id = ?", (len(retired), execution))
    return len(retired)


def _prune(db: sqlite3.Connection, process: int, retired: set[int]) -> None:
    """Upwards along a process: what it knows of the retired ones grows, and is given back by every event."""
    known: Entries = {}
    changes: list[tuple[Any, ...]] = []
    sql = f"""
        SELECT idx, "full", stamp, past_size FROM events WHERE process = ? AND state = {STAMPED} ORDER BY idx"""  # noqa: S608
    for index, full, data, size in db.execute(sql, (process,)):
        entries = decode_entries(data)
        if full:
            known = {}
        for other in retired & entries.keys():
            known[other] = max(entries.pop(other), known.get(other, 0))
        if known:
            kept = encode(entries) if full or entries else None
            changes.append((kept, size - sum(known.values()), process, index))
    db.executemany("UPDATE events SET stamp = ?, past_size = ? WHERE process = ? AND idx = ?", changes)
