"""Spans that come for a trace whose events are in the store: on lanes of their own, tied to what is there.

1. Lanes are named `cart#late2`, with the first number that no lane of the execution has: what is there stays.
2. A reference to a span that is there: its start is known by the late span's start, which reports a clock that names
   it. The clock is exact: what the named event knows, and what came before on the late lanes.
3. A span that is there and names a late one as its parent received a message that nobody had sent: the late span's
   start sends it. The store then raises what lies behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from beforehand.events import INFERRED, Event
from beforehand.formats.spans import Laned, LogRecord, ReferenceKind, Span, spans_to_events
from beforehand.service.schema import STAMPED
from beforehand.service.view import COLUMNS, Row, View

__all__ = ["laned_late"]

_ROWS_MAX: Final = 100_000  # Events of the execution that are looked at; a trace that is larger is no trace.
Clock = dict[str, int]


def laned_late(db: sqlite3.Connection, spans: list[Span], logs: list[LogRecord], execution: str) -> Laned | None:
    """None if the execution has no events: then nothing is late."""
    found = db.execute("SELECT id FROM executions WHERE name = ? AND events > 0", (execution,)).fetchone()
    if found is None:
        return None
    view = View(db)
    laned = spans_to_events(spans, logs, execution=execution)
    names = {member.name for member in view.members(found[0]).values()}
    suffix = next(
        f"#late{n}" for n in range(2, len(names) + 3) if not any(one.endswith(f"#late{n}") for one in names)
    )
    events = [replace(event, process=event.process + suffix) for event in laned.events]
    late = {(event.process.removesuffix(suffix), event.index): event for event in events}
    rejections = [
        replace(
            one, events=tuple(late[e.process, e.index].id if (e.process, e.index) in late else e for e in one.events)
        )
        for one in laned.rejections
    ]
    events = [_sending(db, found[0], event) for event in events]
    return Laned(_clocked(events, _starts(view, found[0], events)), rejections, laned.notes)


def _starts(view: View, execution: int, events: Iterable[Event]) -> dict[str, Clock]:
    """Per label of a span that is named by late ones and is there: what its start knows, itself included."""
    sent = {message for event in events for message in event.sends}
    labels = {_label(m) for event in events for m in event.receives if m not in sent} - {None}
    if not labels:
        return {}
    sql = f"SELECT {COLUMNS} FROM events e WHERE e.execution = ? LIMIT ?"  # noqa: S608
    found: dict[str, Clock] = {}
    for values in view.db.execute(sql, (execution, _ROWS_MAX)).fetchall():
        row = Row(*values)
        attributes = view.event(row, clock=False).attributes
        label = attributes.get("span")
        is_start = attributes.get("phase") in ("start", "end") and row.state == STAMPED
        if is_start and label is not None and label in labels and label not in found:
            clock = {view.member(p).name: n for p, n in view.stamp(row).entries.items()}
            found[label] = {**clock, view.member(row.process).name: row.index}
    return found


def _sending(db: sqlite3.Connection, execution: int, event: Event) -> Event:
    """The event with what others wait for from its span, if it is the span's start."""
    label = event.attributes.get("span")
    if label is None or event.attributes.get("phase") != "start":
        return event
    waited: list[str] = []
    for kind in ReferenceKind:
        prefix = f"{INFERRED}{kind.value}:{label}"
        sql = "SELECT DISTINCT message FROM unsent WHERE execution = ? AND message > ? AND message < ?"
        waited += [m for (m,) in db.execute(sql, (execution, f"{prefix}>", f"{prefix}?"))]
    new = tuple(message for message in dict.fromkeys(waited) if message not in event.sends)
    return replace(event, sends=(*event.sends, *new)) if new else event


def _clocked(events: list[Event], starts: dict[str, Clock]) -> list[Event]:
    """Events whose causes are in the store report a clock in place of the message; each clock knows all it must."""
    if not starts:
        return events
    senders = {message: event.id for event in events for message in event.sends}
    before: dict[tuple[str, int], Clock] = {}
    known: dict[object, Clock] = {}
    made: list[Event] = []
    waiting = list(events)
    while waiting:  # Lanes respect all messages between them, so each round gets further.
        left: list[Event] = []
        for event in waiting:
            causes = [senders[m] for m in event.receives if m in senders and senders[m] != event.id]
            previous = before.get((event.process, event.index - 1))
            if (event.index > 1 and previous is None) or any(cause not in known for cause in causes):
                left.append(event)
                continue
            clock = dict(previous or {})
            for cause in causes:
                _merge(clock, known[cause])
            outside = {
                m: starts[label] for m in event.receives if m not in senders and (label := _label(m)) in starts
            }
            for one in outside.values():
                _merge(clock, one)
            clock[event.process] = event.index
            before[event.process, event.index] = known[event.id] = clock
            if outside:
                kept = tuple(m for m in event.receives if m not in outside)
                event = replace(event, receives=kept, clock=clock)
            made.append(event)
        if len(left) == len(waiting):
            return events  # A circle, which `spans_to_events` does not make.
        waiting = left
    return made


def _label(message: str) -> str | None:
    """The label of the span that an inferred message comes from."""
    kind, _, rest = message.removeprefix(INFERRED).partition(":")
    label, arrow, _ = rest.partition(">")
    return label if arrow and kind else None


def _merge(clock: Clock, more: Clock) -> None:
    for process, count in more.items():
        if count > clock.get(process, 0):
            clock[process] = count
