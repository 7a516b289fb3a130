"""Two executions compared: on each process, which steps both have and which only one has.

Processes are matched by name. On each, the sequences of steps (kind and name of each event) are aligned: common
beginnings and ends first, then steps that both have exactly once (patience), then a longest common subsequence of
what lies between, where that is small enough. So what is found common appears in both in the same order; `exact` says
whether no larger alignment was left out by the bounds. Causality is not compared, only what each process did.

Bounds: `EVENTS_MAX` events a side; `CELLS_MAX` cells of the table of a longest common subsequence; beyond, the steps
between are counted as different.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from beforehand.errors import InputError
from beforehand.events import EventId
from beforehand.service.deadlines import check
from beforehand.service.views.lanes import Lanes
from beforehand.service.views.source import Source

__all__ = ["EVENTS_MAX", "aligned", "compare"]

EVENTS_MAX: Final = 50_000
"""Events of each execution; larger ones are not compared."""
CELLS_MAX: Final = 4_000_000
IDS_MAX: Final = 100
"""Events that only one has, named per process and side."""
_CHUNK: Final = 2_000

Pair = tuple[int, int]
Step = tuple[str, str]  # Kind and name.


def compare(first: Source, one: str, second: Source, other: str) -> dict[str, Any]:
    """The document: per process what is common and what is not."""
    sides = []
    for source, execution in ((first, one), (second, other)):
        lanes = source.lanes(execution, None)
        if lanes.count > EVENTS_MAX:
            raise InputError(
                f"execution {execution[:100]!r} has {lanes.count} events: at most {EVENTS_MAX} are compared"
            )
        sides.append((source, lanes))
    steps = [_steps(source, lanes) for source, lanes in sides]
    names = sorted(steps[0].keys() | steps[1].keys())
    a, b = (lanes for _, lanes in sides)
    processes = [_process(name, a, steps[0].get(name, []), b, steps[1].get(name, [])) for name in names]
    notes = []
    if not all(one["exact"] for one in processes):
        notes.append("some processes differ over long stretches: there, steps in common may have been left out")
    described = [
        {"source": source.name, "execution": lanes.execution, "events": lanes.count} for source, lanes in sides
    ]
    return {
        "first": described[0],
        "second": described[1],
        "same": all(not one["only_first"] and not one["only_second"] for one in processes),
        "processes": processes,
        "notes": notes,
    }


def _steps(source: Source, lanes: Lanes) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for at, lane in enumerate(lanes.lanes):
        steps: list[Step] = []
        for begin in range(0, lane.index.size, _CHUNK):
            check()
            points = [(at, index) for index in lane.index[begin : begin + _CHUNK].tolist()]
            details = source.details(lanes, points)
            steps += [("", "") if detail is None else (detail.kind, detail.name) for detail in details]
        found[lane.process] = steps
    return found


def _process(name: str, first: Lanes, a: list[Step], second: Lanes, b: list[Step]) -> dict[str, Any]:
    pairs, exact = aligned(a, b)
    left = {i for i, _ in pairs}
    right = {j for _, j in pairs}
    only = [[i for i in range(len(a)) if i not in left], [j for j in range(len(b)) if j not in right]]

    def ids(lanes: Lanes, positions: Sequence[int]) -> list[str]:
        lane = lanes.lanes[lanes.names[name]] if positions else None
        return [] if lane is None else [str(EventId(lanes.execution, name, int(lane.index[at]))) for at in positions]

    # The first place where the two part: what each does next there.
    apart = next((at for at, pair in enumerate(pairs) if pair != (at, at)), len(pairs))
    difference: dict[str, str | None] | None = None
    if only[0] or only[1]:
        difference = {
            "first": ids(first, [apart])[0] if apart < len(a) else None,
            "second": ids(second, [apart])[0] if apart < len(b) else None,
        }
    return {
        "name": name,
        "lane_first": first.names.get(name),
        "lane_second": second.names.get(name),
        "common": len(pairs),
        "only_first": len(only[0]),
        "only_second": len(only[1]),
        "only_first_ids": ids(first, only[0][:IDS_MAX]),
        "only_second_ids": ids(second, only[1][:IDS_MAX]),
        "first_difference": difference,
        "exact": exact,
    }


def aligned(a: Sequence[Step], b: Sequence[Step]) -> tuple[list[Pair], bool]:
    """Positions that go together, growing on both sides, and whether nothing was cut short by a bound."""
    pairs: list[Pair] = []
    exact = True
    todo = [(0, len(a), 0, len(b))]
    while todo:
        check()
        low, high, start, end = todo.pop()
        while low < high and start < end and a[low] == b[start]:
            pairs.append((low, start))
            low, start = low + 1, start + 1
        while low < high and start < end and a[high - 1] == b[end - 1]:
            high, end = high - 1, end - 1
            pairs.append((high, end))
        if low == high or start == end:
            continue
        if (high - low) * (end - start) <= CELLS_MAX:
            pairs += [(low + i, start + j) for i, j in _longest(a[low:high], b[start:end])]
            continue
        anchors = _patience(a, low, high, b, start, end)
        exact = False  # Anchors are a good choice, not always the best one.
        for i, j in [*anchors, (high, end)]:
            todo.append((low, i, start, j))
            low, start = i + 1, j + 1
            if i < high:
                pairs.append((i, j))
        if not anchors:
            todo.pop()  # Nothing to hold on to: all of it counts as different.
    return sorted(pairs), exact


def _patience(a: Sequence[Step], low: int, high: int, b: Sequence[Step], start: int, end: int) -> list[Pair]:
    """Steps that stand exactly once on both sides, in the longest common order."""
    counts = Counter(a[low:high]), Counter(b[start:end])
    where = {b[j]: j for j in range(start, end)}
    found = [(i, where[a[i]]) for i in range(low, high) if counts[0][a[i]] == 1 and counts[1][a[i]] == 1]
    tails: list[int] = []  # The least end of a growing sequence of each length,
    at: list[int] = []  # where it is in `found`,
    before: list[int] = []  # and what comes before each of `found` there.
    for number, (_, j) in enumerate(found):
        length = bisect_left(tails, j)
        before.append(at[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        at[length : length + 1] = [number]
    chosen: list[Pair] = []
    number = at[-1] if at else -1
    while number >= 0:
        chosen.append(found[number])
        number = before[number]
    return chosen[::-1]


def _longest(a: Sequence[Step], b: Sequence[Step]) -> list[Pair]:
    """A longest common subsequence, by the usual table; one row of it at a time is made by numpy."""
    numbers: dict[Step, int] = {}
    left = [numbers.setdefault(step, len(numbers)) for step in a]
    right = np.array([numbers.setdefault(step, len(numbers)) for step in b])
    table = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i, step in enumerate(left):
        row = np.maximum(table[i, 1:], np.where(right == step, table[i, :-1] + 1, 0))
        table[i + 1, 1:] = np.maximum.accumulate(row)
    pairs: list[Pair] = []
    i, j = len(a), len(b)
    while i and j:
        if table[i, j] == table[i - 1, j]:
            i -= 1
        elif table[i, j] == table[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]
