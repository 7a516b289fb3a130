"""The past of an event, newest first, and what of it is missing.

Along a process the deterministic order is the process's own, so the next event is always the last untaken one of some
process: from the event's stamp downwards, merged by a heap. About as many rows are read as there are processes in the
stamp and events asked for, whatever the size of the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import Final

from beforehand.service.ledger import Key
from beforehand.service.view import COLUMNS, Row, View

__all__ = [
    "RANGES_MAX",
    "missing_messages",
    "missing_ranges",
    "newest_first",
    "past_count",
    "reach_of",
    "removed_count",
    "wanted",
]

RANGES_MAX: Final = 100
"""Missing ranges, and missing messages, that an answer names; it says how many more there are."""

_CHUNK_MAX: Final = 256


def reach_of(view: View, row: Row) -> dict[int, int]:
    """Per process, the greatest index in the past; the event's own process up to the event itself."""
    return {**view.stamp(row).entries, row.process: row.index}


def past_count(view: View, reach: dict[int, int]) -> int:
    """How many events that are here lie within reach, the event itself left out."""
    return sum(view.present(process, index) for process, index in reach.items()) - 1


def removed_count(view: View, reach: dict[int, int]) -> int:
    """How many of the events within reach retention has removed; those that were never reported count too."""
    return sum(min(index, view.member(process).removed) for process, index in reach.items())


def newest_first(view: View, reach: dict[int, int], without: Key, process: int | None = None) -> Iterator[Row]:
    """All that lies within reach, against the deterministic order."""
    members = {p: view.member(p) for p in reach if process is None or p == process}
    ranks = {p: rank for rank, p in enumerate(sorted(members, key=lambda p: members[p].name))}
    fronts = view.rows((p, reach[p] - (p == without[0])) for p in members if reach[p] - (p == without[0]) > 0)
    lanes: list[_Lane] = []
    for p in members:
        index = reach[p] - (p == without[0])
        lane = _Lane(view, p, index, fronts.get((p, index)))
        if lane.head is not None:
            lanes.append(lane)

    def entry(lane: _Lane) -> tuple[int, int, int, int, _Lane]:
        assert lane.head is not None
        time, size, _, index = view.order_key(lane.head)
        return -time, -size, -ranks[lane.head.process], -index, lane

    heap = [entry(lane) for lane in lanes]
    heapify(heap)
    while heap:
        lane = heap[0][4]
        yield lane.take()
        if lane.head is None:
            heappop(heap)
        else:
            heapreplace(heap, entry(lane))


class _Lane:
    """One process, downwards, read in chunks that grow."""

    def __init__(self, view: View, process: int, index: int, front: Row | None) -> None:
        self._view: Final = view
        self._process: Final = process
        self._below = index + 1
        self._chunk = 2
        self._rows: list[Row] = []  # Reversed: the next one is last.
        if front is not None:
            self._rows, self._below = [front], index
        self.head: Row | None = None
        self._advance()

    def take(self) -> Row:
        """The head, which is there; the next one takes its place."""
        head = self.head
        assert head is not None
        self._advance()
        return head

    def _advance(self) -> None:
        if not self._rows and self._below > 1:
            sql = f"SELECT {COLUMNS} FROM events e WHERE e.process = ? AND e.idx < ? ORDER BY e.idx DESC LIMIT ?"  # noqa: S608
            found = self._view.db.execute(sql, (self._process, self._below, self._chunk)).fetchall()
            self._rows = [Row(*row) for row in reversed(found)]
            self._chunk = min(self._chunk * 2, _CHUNK_MAX)
        self.head = self._rows.pop() if self._rows else None
        self._below = 0 if self.head is None else self.head.index

    def __lt__(self, _: _Lane) -> bool:
        return False  # Keys differ: no two events of a process have one index.


def wanted(view: View, reach: dict[int, int]) -> dict[int, int]:
    """Per process, the greatest index that must have happened, here or not: what clocks name counts too."""
    found = dict(reach)
    for process, index in reach.items():
        if index > view.member(process).complete:
            sql = "SELECT process, idx FROM claims WHERE by_process = ? AND by_idx <= ?"
            for other, claimed in view.db.execute(sql, (process, index)):
                found[other] = max(found.get(other, 0), claimed)
    for process, index in view.absent.items():
        found[process] = max(found.get(process, 0), index)
    return found


def missing_ranges(view: View, upto: dict[int, int]) -> tuple[list[str], int]:
    """What is not here up to these indexes, as `cart:17–19`, and how many ranges were left out."""
    texts: list[str] = []
    more = 0
    for process in sorted(upto, key=lambda p: view.member(p).name):
        member, last = view.member(process), upto[process]
        if last <= member.complete:
            continue
        sql = 'SELECT "first", min("last", ?) FROM holes WHERE process = ? AND "first" <= ? ORDER BY "first" LIMIT ?'
        ranges = view.db.execute(sql, (last, process, last, RANGES_MAX + 1)).fetchall()
        if last > member.newest:
            ranges.append((member.newest + 1, last))
        execution = view.execution_name(member.execution)
        name = f"{execution}/{member.name}" if execution else member.name
        for first, end in ranges:
            if len(texts) < RANGES_MAX:
                texts.append(f"{name}:{first}" if first == end else f"{name}:{first}–{end}")
            else:
                more += 1
    return texts, more


def missing_messages(view: View, upto: dict[int, int]) -> tuple[list[dict[str, str]], int]:
    """Messages received up to these indexes whose send is not here, and how many were left out."""
    found: list[dict[str, str]] = []
    more = 0
    for process in sorted(upto, key=lambda p: view.member(p).name):
        member = view.member(process)
        sql = """
            SELECT u.idx, u.message FROM unsent u WHERE u.process = ? AND u.idx > ? AND u.idx <= ? AND NOT EXISTS (
                SELECT 1 FROM sends s WHERE s.execution = u.execution AND s.message = u.message)
            ORDER BY u.idx LIMIT ?"""
        for index, message in view.db.execute(sql, (process, member.complete, upto[process], RANGES_MAX + 1)):
            if len(found) < RANGES_MAX:
                found.append({"message": message, "received": str(view.event_id((process, index)))})
            else:
                more += 1
    return found, more
