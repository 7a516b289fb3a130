"""Stamping all events, and the past of one, beside graph libraries and recursive queries.

    python -m benchmarks.past [EVENTS ...]

The question is the same for all: the last 25 of the events that could have led to one of the last. `History` starts
from event records, matches sends with receives and checks all structure; the others get numbered events and finished
edges, which is less to do. All stamps and the sizes of the pasts are compared: to be fast by being wrong fails.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from beforehand.events import Event
from beforehand.history import History
from benchmarks.history import random_events
from benchmarks.report import Cell, Figure, Report, Row, Section, Table, deliver, median_of, report_of, target
from benchmarks.rivals import RIVALS, Graph, Rival, graph_of, installed, last_of

__all__ = ["report"]

SIZES: Final = (10_000, 100_000, 1_000_000)
PROCESSES: Final = 50
REPEATS: Final = 3
ASKED: Final = 7
OURS: Final = "**History**"
DUCKDB_STAMPS_MAX: Final = 10_000
"""Events up to which DuckDB stamps: every step of the longest chain is a round of its query."""


def report(sizes: Sequence[int] = SIZES) -> Report:
    rows = []
    for size in sizes:
        events = random_events(size, PROCESSES)
        History(events[:1000])  # Compile, or load what was compiled before.
        graph, small = graph_of(events), graph_of(events[:100])
        asked = list(range(size - ASKED, size))
        history, ours = _ours(events, asked)
        rows.append(Row((OURS, f"{size:,}"), _cells(ours, ours)))
        order = [history._row(event) for event in events]
        sizes_of_pasts = [history.past_size(events[number]) - 1 for number in asked]  # It counts the event too.
        for name, load in RIVALS.items():
            if not installed(name):
                rows.append(Row((name, f"{size:,}"), ("not installed", None, None)))
                continue
            load(small).past(0)  # Import it, so that this is not measured.
            times: dict[str, list[float]] = {"load": [], "stamp": [], "past": []}
            for _ in range(REPEATS):
                start = time.perf_counter()
                rival = load(graph)
                times["load"].append(time.perf_counter() - start)
                if name != "DuckDB" or size <= DUCKDB_STAMPS_MAX:
                    start = time.perf_counter()
                    stamps = rival.stamps()
                    times["stamp"].append(time.perf_counter() - start)
                    assert np.array_equal(stamps, history.stamps[order]), name
            times["past"] = [_asked(rival, graph, number, sizes_of_pasts[at]) for at, number in enumerate(asked)]
            rows.append(Row((name, f"{size:,}"), _cells(times, ours)))
            print(f"{name}, {size:,}: {times}", file=sys.stderr, flush=True)
    how = median_of(REPEATS, f"Pasts are those of the last {ASKED} events. After × the ratio to History.")
    columns = ("way", "events", "load, s", "stamps of all, s", "past, ms")
    return report_of(
        "past",
        [Section("", _SAID, Table("past", columns, tuple(rows), how))],
        packages=("numpy", "numba", "networkx", "rustworkx", "igraph", "duckdb"),
        about=f"Events of {PROCESSES} processes in memory: 30 % send, 30 % receive, 40 % are local. One core, but "
        "for DuckDB.",
    )


_SAID: Final = (
    "Loading, for `History`: from event records, with sends matched, all structure checked and all events stamped; "
    "for the others: from numbered events and finished edges. The past: the last 25 events that could have led to "
    "one of the last, the graph being loaded. Stamps by a graph library are a loop over its topological order; "
    f"DuckDB's are a recursive query, up to {DUCKDB_STAMPS_MAX:,} events. All stamps and the sizes of the "
    "pasts were compared."
)


def _ours(events: Sequence[Event], asked: Sequence[int]) -> tuple[History, dict[str, list[float]]]:
    times: dict[str, list[float]] = {"load": [], "stamp": [], "past": []}
    for _ in range(REPEATS):
        start = time.perf_counter()
        history = History(events)
        times["load"].append(time.perf_counter() - start)
        start = time.perf_counter()
        History.from_columns(history.columns)
        times["stamp"].append(time.perf_counter() - start)
    for number in asked:
        start = time.perf_counter()
        history.explain(events[number], last=25)
        times["past"].append(time.perf_counter() - start)
    return history, times


def _asked(rival: Rival, graph: Graph, number: int, size: int) -> float:
    start = time.perf_counter()
    past = rival.past(number)
    last_of(graph, past)
    taken = time.perf_counter() - start
    assert len(past) == size, (len(past), size)
    return taken


def _cells(times: dict[str, list[float]], ours: dict[str, list[float]]) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for name, per, digits in (("load", 1.0, 3), ("stamp", 1.0, 3), ("past", 1e-3, 2)):
        taken = times[name]
        if not taken:
            cells.append(None)
            continue
        ratio = statistics.median(taken) / statistics.median(ours[name])
        cells.append(
            Figure.of((each / per for each in taken), digits=digits, ratio=None if taken is ours[name] else ratio)
        )
    return tuple(cells)


if __name__ == "__main__":
    rest, to = target(sys.argv[1:])
    sys.exit(deliver(report([int(size) for size in rest]) if rest else report(), to))
