"""Deadlines, and events that wait for each other.

What waits longer than the deadline gives up what is not here. What then still waits, waits for events that are here
and wait too: until their own deadline, or, if the waiting goes in a circle, for ever. A circle of waiting is a cycle
of causes: a message received before it was sent, going by the order of events on the processes. Then all waiting
events of the execution are looked at together, and the receives inside each knot are rejected with reason `cycle`,
exactly as `History` does it, with the same witness; the events stay. A clock that closes a cycle is not followed: a
finding.

A knot is looked for only among events whose deadline has passed: until then, what is missing may still come.
"""

from __future__ import annotations

from typing import Final

from beforehand.events import Event, Rejection
from beforehand.service.ledger import DEAF, Key, Ledger, Pending

__all__ = ["expire", "untie"]

KNOT_MAX: Final = 100_000
"""Waiting events of an execution that are looked at together; of more, only those of one circle at a time."""

_CLOCK: Final = "~clock "


def expire(ledger: Ledger, now: int) -> list[Key]:
    """The events whose deadline has passed and that did not know it yet; now they do."""
    # The clock was set back: whoever began to wait in what is now the future begins now.
    ledger.db.execute("UPDATE waits SET since = ? WHERE expired = 0 AND since > ?", (now, now))
    sql = "SELECT process, idx FROM waits WHERE expired = 0 AND since <= ? ORDER BY since LIMIT ?"
    keys = ledger.db.execute(sql, (now - ledger.settings.deadline_ns, ledger.settings.steps_max)).fetchall()
    ledger.db.executemany("UPDATE waits SET expired = 1 WHERE process = ? AND idx = ?", keys)
    return keys


def untie(ledger: Ledger) -> list[Key]:
    """Cut the knots among events whose deadline has passed; the events to look at again."""
    waiting: dict[Key, Key] = {}
    executions: dict[Key, int] = {}
    sql = """
        SELECT w.process, w.idx, w.execution, coalesce(w.on_process, s.process), coalesce(w.on_idx, s.idx)
        FROM waits w LEFT JOIN sends s ON s.execution = w.execution AND s.message = w.on_message
        WHERE w.expired > 0 AND w.on_message IS NOT '' LIMIT ?"""
    for process, index, execution, on_process, on_index in ledger.db.execute(sql, (2 * KNOT_MAX,)):
        waiting[process, index] = (on_process, on_index)
        executions[process, index] = execution
    keys: list[Key] = []
    done: set[int] = set()
    for circle in _circles(waiting):
        execution = executions[circle[0]]
        (count,) = ledger.db.execute("SELECT count(*) FROM waits WHERE execution = ?", (execution,)).fetchone()
        if count > KNOT_MAX:
            keys += _cut(ledger, circle)
        elif execution not in done:
            done.add(execution)
            sql = "SELECT process, idx FROM waits WHERE execution = ?"
            keys += _cut(ledger, ledger.db.execute(sql, (execution,)).fetchall())
    return keys


def _circles(waiting: dict[Key, Key]) -> list[list[Key]]:
    """Each event waits for one other, so following them ends, or goes in a circle."""
    found: list[list[Key]] = []
    seen: dict[Key, Key] = {}  # Event to the one that its walk began with.
    for start in waiting:
        at = start
        while at in waiting and at not in seen:
            seen[at] = start
            at = waiting[at]
        if seen.get(at) == start and at in waiting:
            circle = [at]
            while waiting[circle[-1]] != at:
                circle.append(waiting[circle[-1]])
            found.append(circle)
    return found


def _cut(ledger: Ledger, keys: list[Key]) -> list[Key]:
    """Reject the receives inside the knots of these events; those that received."""
    from beforehand.history.columns import from_events  # It compiles kernels; most stores never have a knot.

    pending = {event.key: event for event in ledger.load(keys)}
    members: dict[int, list[int]] = {}
    for process, index in sorted(pending):
        members.setdefault(process, []).append(index)
    names = {event.process.id: event.process.name for event in pending.values()}
    named = {key: _named(event, members) for key, event in pending.items()}
    claimed = {key for keys in named.values() for key in keys}
    events = []
    for key, event in sorted(pending.items(), key=lambda item: item[1].arrival):
        own = (f"{_CLOCK}{event.process.name}:{event.index}",) if key in claimed else ()
        told = tuple(f"{_CLOCK}{names[p]}:{index}" for p, index in named[key])
        events.append(
            Event(
                execution=event.process.execution.name,
                process=event.process.name,
                index=event.index,
                sends=(*event.sends, *own),
                receives=(*event.receives, *told),
            )
        )
    columns = from_events(events)
    rows = columns.receive_row
    kept = {
        (columns.event_id(int(row)), columns.messages[m])
        for row, m in zip(rows, columns.receive_message, strict=True)
    }
    for rejection in columns.rejections:
        if rejection.message is not None and not rejection.message.startswith(_CLOCK):
            ledger.reject(rejection, columns.execution)
    again: list[Key] = []
    for event in pending.values():
        cut = [message for message in event.receives if (event.id, message) not in kept]
        deaf = [p for p, index in named[event.key] if (event.id, f"{_CLOCK}{names[p]}:{index}") not in kept]
        if cut or deaf:
            again.append(event.key)
            _mark(ledger, event, cut, columns.rejections if deaf else ())
    return again


def _named(event: Pending, members: dict[int, list[int]]) -> list[Key]:
    """The waiting events that a clock names: of each process the last that it can mean."""
    if event.clock is None or event.deaf:
        return []
    found = []
    for process, count in event.clock.items():
        indexes = [index for index in members.get(process, ()) if index <= count]
        if indexes:
            found.append((process, indexes[-1]))
    return found


def _mark(ledger: Ledger, event: Pending, cut: list[str], rejections: tuple[Rejection, ...]) -> None:
    execution = event.process.execution.id
    for message in cut:
        ledger.receivers[execution, message][event.process.id] = (event.index, True)
        ledger.cuts.append((execution, message, event.process.id))
    if rejections:
        ledger.db.execute("UPDATE waits SET expired = ? WHERE process = ? AND idx = ?", (DEAF, *event.key))
        why = f"{event.id} reports a clock that is part of a cycle: it is not followed"
        ledger.findings.append((*event.key, execution, why))
