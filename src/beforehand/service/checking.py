"""Checks of what is stored: order of messages by `History`, reported clocks by what the observer found.

FIFO, causal and total order are judged on the newest `CHECKED_MAX` events of an execution, in the deterministic
order; on fewer where there are many processes (`CELLS_MAX`). What is found there is true of the whole: whatever led
from one of them to another is among them too. What lies further back is not judged, and a note says so.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Final

from beforehand.events import Event
from beforehand.service import deadlines
from beforehand.service.finding import walk
from beforehand.service.view import View

__all__ = ["CELLS_MAX", "CHECKED_MAX", "accepted", "check", "rejected_messages"]

CHECKED_MAX: Final = 100_000
"""Events that are judged together."""

CELLS_MAX: Final = 50_000_000
"""Events × processes that are: the stamps of a `History` take four bytes each."""


def check(view: View, execution: int, *, delta_ns: int | None, limit: int) -> dict[str, Any]:
    """Counts, violations with witnesses, and notes: the document of `beforehand check`."""
    # They compile kernels: not before they are asked for.
    from beforehand.formats.vector_logs.inference import infer_messages
    from beforehand.history import History
    from beforehand.history.judging import judged_clocks, judged_notes, known_counts

    name = view.execution_name(execution)
    lanes = sum(member.events > 0 for member in view.members(execution).values())
    most = min(CHECKED_MAX, max(CELLS_MAX // max(lanes, 1), 1))
    rows = list(islice(walk(view, execution, None, newest=True, waiting=False), most + 1))
    notes = []
    if len(rows) > most:
        rows.pop()
        notes.append(f"only the newest {most} events were judged; for all of them, export and analyze")
    (waiting,) = view.db.execute("SELECT count(*) FROM waits WHERE execution = ?", (execution,)).fetchone()
    if waiting:
        notes.append(f"{waiting} events wait for causes that are not here and were not judged")
    events = accepted(view, execution, [view.event(row) for row in rows], rejected_messages(view, execution))
    deadlines.check()
    reporting = sum(event.clock is not None for event in events)
    if reporting:
        events = [event for event in infer_messages(events) if isinstance(event, Event)]
    deadlines.check()
    # Clocks have been judged when the events were stamped; here they would be judged by messages alone.
    bare = (event if event.clock is None else replace(event, clock=None) for event in events)
    found = History(bare).check(delta_ns=delta_ns, limit=limit)
    sql = """
        SELECT f.process, f.idx, f.why FROM findings f JOIN processes p ON p.id = f.process
        WHERE f.execution = ? ORDER BY p.name, f.idx"""
    clocks = view.db.execute(sql, (execution,)).fetchall()
    firsts: dict[int, tuple[int, str]] = {}
    for process, index, why in clocks:
        firsts.setdefault(process, (index, why))
    violations = [
        {
            "execution": name,
            "kind": one.kind,
            "events": [str(event) for event in one.events],
            "messages": list(one.messages),
            "why": one.why,
            "reasons": list(one.reasons),
        }
        for one in found.violations
    ]
    violations += [
        {
            "execution": name,
            "kind": "clock",
            "events": [str(view.event_id((process, index)))],
            "messages": [],
            "why": why,
            "reasons": [],
        }
        for process, (index, why) in list(firsts.items())[:limit]
    ]
    told = {**found.judged, "clock": judged_clocks(events=len(events), clocks=max(reporting, min(len(clocks), 1)))}
    return {
        "counts": known_counts({**found.counts, "clock": len(clocks)}, told),
        "judged": {kind: one.document() for kind, one in told.items()},
        "violations": violations,
        "notes": [*notes, *found.notes, *judged_notes(told)],
    }


def rejected_messages(view: View, execution: int) -> set[str]:
    """The messages of an execution of which a send or a receive was rejected."""
    sql = "SELECT DISTINCT message FROM rejected WHERE execution = ? AND message IS NOT NULL"
    return {message for (message,) in view.db.execute(sql, (view.execution_name(execution),))}


def accepted(view: View, execution: int, events: list[Event], rejected: set[str]) -> list[Event]:
    """The events without the sends and receives that were rejected; `rejected_messages` are those to look at."""
    named = {message for event in events for message in (*event.sends, *event.receives)}
    concerned = named & rejected
    if not concerned:
        return events
    sent: dict[str, tuple[str, int]] = {}
    received: set[tuple[str, str, int]] = set()
    for message in concerned:
        key = (execution, message)
        for process, index in view.db.execute(
            "SELECT process, idx FROM sends WHERE execution = ? AND message = ?", key
        ):
            sent[message] = (view.member(process).name, index)
        sql = "SELECT process, idx FROM receives WHERE execution = ? AND message = ? AND NOT cut"
        received |= {(message, view.member(process).name, index) for process, index in view.db.execute(sql, key)}
    return [
        replace(
            event,
            sends=tuple(m for m in event.sends if m not in concerned or sent.get(m) == (event.process, event.index)),
            receives=tuple(
                m for m in event.receives if m not in concerned or (m, event.process, event.index) in received
            ),
        )
        for event in events
    ]
