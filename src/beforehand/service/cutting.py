"""Consistent cuts: the answers of `History`. The messages in flight need a look at all messages of the execution."""

from __future__ import annotations

from typing import Any

from beforehand.service.knowing import last_within
from beforehand.service.schema import STAMPED
from beforehand.service.view import View

__all__ = ["describe", "largest_consistent", "prefix_at"]


def prefix_at(view: View, execution: int, time: int) -> dict[int, int]:
    """Per process, what comes before its first event later than `time` on its own clock; events with stamps."""
    cut: dict[int, int] = {}
    for member in view.members(execution).values():
        cut[member.id] = member.stamped
        # No event whose causal time is not later is later itself; causal times grow, so they are bisected.
        low, high = 0, member.stamped + 1
        sql = f"""
            SELECT causal_time FROM events WHERE process = ? AND idx <= ? AND state = {STAMPED}
            ORDER BY idx DESC LIMIT 1"""  # noqa: S608
        while high - low > 1:
            middle = (low + high) // 2
            row = view.db.execute(sql, (member.id, middle)).fetchone()
            if row is None or row[0] <= time:
                low = middle
            else:
                high = middle
        later = f"SELECT idx FROM events WHERE process = ? AND idx >= ? AND time > ? AND state = {STAMPED}"  # noqa: S608
        row = view.db.execute(f"{later} ORDER BY idx LIMIT 1", (member.id, high, time)).fetchone()
        if row is not None:
            before = f"SELECT max(idx) FROM events WHERE process = ? AND idx < ? AND state = {STAMPED}"  # noqa: S608
            last = int(view.db.execute(before, (member.id, row[0])).fetchone()[0] or 0)
            cut[member.id] = max(last, member.removed)
    return cut


def largest_consistent(view: View, cut: dict[int, int]) -> dict[int, int]:
    """The largest consistent cut inside this one: the events whose whole past lies inside."""
    return {
        process: max(last_within(view.db, process, index, cut), min(index, view.member(process).removed))
        for process, index in cut.items()
    }


def describe(view: View, execution: int, cut: dict[int, int]) -> dict[str, Any]:
    """A cut with its front, messages in flight and unreceived ones, sorted by their sends."""
    members = sorted((m for m in view.members(execution).values() if m.events), key=lambda m: m.name)
    last = {m.id: view.last_here(m.id, cut.get(m.id, 0)) for m in members}
    front = [(m.id, last[m.id]) for m in members if last[m.id]]
    rows = view.rows(front)
    consistent = all(
        known <= max(last.get(process, 0), view.member(process).removed)
        for row in rows.values()
        for process, known in view.stamp(row).entries.items()
    )
    flying: dict[str, tuple[str, int]] = {}
    unreceived: dict[str, tuple[str, int]] = {}
    sql = """
        SELECT s.message, s.process, s.idx, r.process, r.idx FROM sends s LEFT JOIN receives r
        ON r.execution = s.execution AND r.message = s.message AND NOT r.cut WHERE s.execution = ?"""
    for message, process, index, receiver, received in view.db.execute(sql, (execution,)):
        if index > last[process]:
            continue
        if receiver is None:
            unreceived[message] = (view.member(process).name, index)
        elif received > last[receiver]:
            flying[message] = (view.member(process).name, index)
    return {
        "cut": {m.name: last[m.id] for m in members},
        "front": [str(view.event_id(key)) for key in front],
        "in_flight": sorted(flying, key=lambda message: (flying[message], message)),
        "unreceived": sorted(unreceived, key=lambda message: (unreceived[message], message)),
        "consistent": consistent,
    }
