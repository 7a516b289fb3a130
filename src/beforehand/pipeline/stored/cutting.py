"""Cuts of an execution that was cut into blocks; the same answers as `history.cuts`.

How far each process lies inside is bisected over the true stamps where blocks begin, then found by one pass over a
block. Messages in flight and unreceived ones come from a scan of `messages/`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from beforehand.history import cuts
from beforehand.history.cuts import Cut
from beforehand.pipeline.schemas import (
    CYCLE,
    DUPLICATE_SEND,
    EXECUTION,
    INDEX,
    MESSAGE,
    NUMBER,
    OUTCOME,
    PROCESS,
    RECEIVE_INDEX,
    RECEIVED,
    RECEIVER,
    SEND_INDEX,
    SENDER,
    SENDS,
    TIME,
    UNRECEIVED,
)
from beforehand.pipeline.stored.blocks import CutExecution
from beforehand.pipeline.stored.scanning import Scanner

__all__ = ["describe", "largest_consistent", "prefix_at", "vector"]

Integers = npt.NDArray[np.int64]


def vector(of: CutExecution, cut: Mapping[str, int]) -> Integers:
    """The cut as an array; processes that it does not name have 0."""
    return cuts.vector(of.processes, cut)


def prefix_at(of: CutExecution, scanner: Scanner, time: int) -> Integers:
    """Per process, what comes before its first event later than `time` on its own clock."""
    sql = (
        f'SELECT "{PROCESS}", min("{INDEX}") FROM {scanner.events()} '  # noqa: S608
        f'WHERE "{EXECUTION}" = ? AND "{TIME}" > ? GROUP BY "{PROCESS}"'
    )
    result: Integers = of.cuts[-1].copy()
    for process, index in scanner.rows(sql, (of.execution, time)):
        member = of.members[process]
        result[member], _ = of.last_upto(member, index - 1)
    return result


def largest_consistent(of: CutExecution, cut: Integers) -> Integers:
    """The largest consistent cut inside `cut`: the events whose whole past lies inside."""
    result = np.zeros(of.width, np.int64)
    if not of.full.size:
        return result
    # Per process, the last block at whose beginning all of it is inside; bisected together: a front has them all.
    low, high = np.zeros(of.width, np.int64), np.full(of.width, of.full.size - 1)
    while True:
        asked = np.flatnonzero(low < high)
        if not asked.size:
            break
        middle = int((low[asked[0]] + high[asked[0]] + 1) // 2)
        inside = np.all(of.front(int(of.full[middle])).front <= cut, axis=1)
        # Stamps grow along a process: what is inside here is inside before, what is not is not behind.
        low = np.where(inside, np.maximum(low, middle), low)
        high = np.where(inside, high, np.minimum(high, middle - 1))
    for at in np.unique(low).tolist():
        block = int(of.full[at])
        start, index, inside = of.start(block), of.keys(block).index, of.inside(block, cut)
        for member in np.flatnonzero(low == at).tolist():
            first, end = int(start[member]), int(start[member + 1])
            count = int(np.count_nonzero(inside[first:end]))
            result[member] = index[first + count - 1] if count else of.cuts[block, member]
    return result


def describe(of: CutExecution, scanner: Scanner, cut: Integers) -> Cut:
    last = np.array([of.last_upto(member, int(cut[member]))[0] for member in range(of.width)], np.int64)
    return Cut(
        cut={process: int(last[member]) for member, process in enumerate(of.processes)},
        front=tuple(of.event_id(member, int(last[member])) for member in np.flatnonzero(last).tolist()),
        in_flight=_in_flight(of, scanner, last),
        unreceived=_unreceived(of, scanner, last),
        consistent=bool(np.array_equal(largest_consistent(of, last), last)),
    )


def _in_flight(of: CutExecution, scanner: Scanner, cut: Integers) -> tuple[str, ...]:
    sql = f"""
        SELECT DISTINCT "{SENDER}", "{SEND_INDEX}", "{MESSAGE}" FROM {scanner.messages()}
        WHERE "{NUMBER}" = ? AND "{OUTCOME}" = '{RECEIVED}' AND "{SEND_INDEX}" <= (?::BIGINT[])["{SENDER}" + 1]
        AND "{RECEIVE_INDEX}" > (?::BIGINT[])["{RECEIVER}" + 1] ORDER BY ALL"""  # noqa: S608
    inside = cut.tolist()
    return tuple(message for _, _, message in scanner.rows(sql, (of.number, inside, inside)))


def _unreceived(of: CutExecution, scanner: Scanner, cut: Integers) -> tuple[str, ...]:
    """Sent inside and never received; a receive that was left out for a cycle is none."""
    sql = f"""
        SELECT "{SENDER}", "{SEND_INDEX}", "{MESSAGE}" FROM {scanner.messages()}
        WHERE "{NUMBER}" = ? AND "{OUTCOME}" = '{UNRECEIVED}' AND "{SEND_INDEX}" <= (?::BIGINT[])["{SENDER}" + 1]
        """  # noqa: S608
    found = set(scanner.rows(sql, (of.number, cut.tolist())))
    found |= {one for one in _unlisted(of, scanner) if one[1] <= cut[one[0]]}
    return tuple(message for _, _, message in sorted(found))


def _unlisted(of: CutExecution, scanner: Scanner) -> set[tuple[int, int, str]]:
    """Unreceived messages without a row that says so: sent twice, or received within a cycle only. They are few."""
    table = scanner.messages()
    sql = f"""
        SELECT "{MESSAGE}", "{OUTCOME}", "{SENDER}", "{SEND_INDEX}" FROM {table}
        WHERE "{NUMBER}" = ? AND "{OUTCOME}" IN ('{CYCLE}', '{DUPLICATE_SEND}')"""  # noqa: S608
    odd = set(scanner.rows(sql, (of.number,)))
    if not odd:
        return set()
    sql = f"""
        SELECT DISTINCT "{MESSAGE}" FROM {table} WHERE "{NUMBER}" = ? AND "{OUTCOME}" = '{RECEIVED}'
        AND "{MESSAGE}" IN (SELECT unnest(?::VARCHAR[]))"""  # noqa: S608
    fine = {message for (message,) in scanner.rows(sql, (of.number, sorted({one[0] for one in odd})))}
    found = {(sender, send, message) for message, outcome, sender, send in odd if outcome == CYCLE}
    repeated = {(sender, send, message) for message, outcome, sender, send in odd if outcome == DUPLICATE_SEND}
    again = sorted({message for _, _, message in repeated} - fine)
    if again:
        sql = f"""
            SELECT "{PROCESS}", "{INDEX}", unnest(list_intersect("{SENDS}", ?::VARCHAR[])) FROM {scanner.events()}
            WHERE "{EXECUTION}" = ? AND list_has_any("{SENDS}", ?::VARCHAR[])"""  # noqa: S608
        sends = scanner.rows(sql, (again, of.execution, again))
        found |= {(of.members[process], index, message) for process, index, message in sends} - repeated
    return {one for one in found if one[2] not in fine}
