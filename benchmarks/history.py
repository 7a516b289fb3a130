"""History in memory: a million events of fifty processes."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from random import Random

import numpy as np

from beforehand.events import Event
from beforehand.history import History
from beforehand.history.columns import from_events
from beforehand.history.kernels import NO_TIME, replay
from benchmarks.timing import compare, once

__all__ = ["report"]


def report(*, events: int = 1_000_000, processes: int = 50) -> Iterator[str]:
    """Lines of Markdown."""
    made = random_events(events, processes)
    History(made[:1000])  # Compile, or load what was compiled before.

    start = time.perf_counter()
    columns = from_events(made)
    loading = time.perf_counter() - start
    history = History.from_columns(columns)

    stamps = np.zeros((events, processes), np.int32)
    causal_time, past_size = np.empty(events, np.int64), np.empty(events, np.int64)

    def stamp() -> None:
        replay(
            columns.order,
            columns.process,
            columns.index,
            columns.time,
            columns.receive_start,
            columns.source,
            np.zeros((processes, processes), np.int32),
            np.full(processes, NO_TIME, np.int64),
            np.empty((0, processes), np.int32),
            np.empty(0, np.int64),
            np.arange(events),
            stamps,
            causal_time,
            past_size,
        )

    rows = [
        ("events to arrays, with all structure checked", loading),
        ("stamps, causal times and sizes of pasts", once(stamp)),
        ("a history from arrays (stamps in fresh memory)", once(lambda: History.from_columns(columns))),
        (
            "the deterministic order",
            once(lambda: History.from_columns(columns)._order) - once(lambda: History.from_columns(columns)),
        ),
        ("all checks (FIFO, causal, total, clocks)", once(lambda: history.check(limit=10))),
        ("all measures", once(history.measure)),
    ]
    yield "## A history in memory"
    yield ""
    yield f"{events:,} events of {processes} processes: 30 % send, 30 % receive, 40 % are local. One core."
    yield ""
    yield "| step | seconds | events per second |"
    yield "|---|---|---|"
    for name, seconds in rows:
        yield f"| {name} | {seconds:.2f} | {events / max(seconds, 1e-9):,.0f} |"
    last, middle = columns.event_id(int(columns.order[-1])), columns.event_id(int(columns.order[events // 2]))
    timings = compare(
        {
            "explain the last event, last 25": lambda: history.explain(last),
            "explain one in the middle, last 25": lambda: history.explain(middle),
            "happened before": lambda: history.happened_before(middle, last),
            "a causal chain": lambda: history.chain(middle, last),
            "the smallest consistent cut after an event": lambda: history.cut_after(middle),
        }
    )
    yield ""
    yield "| query | ms | median / best |"
    yield "|---|---|---|"
    for query, timing in timings.items():
        yield f"| {query} | {timing.best_ns / 1e6:,.3f} | {timing.spread:.2f} |"
    yield ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"Peak memory of the process, the event objects included: {peak:,.0f} MiB."
    yield ""


def random_events(events: int, processes: int) -> list[Event]:
    random = Random(1)
    names = [f"p{i:02}" for i in range(processes)]
    count = [0] * processes
    waiting: list[list[tuple[int, str]]] = [[] for _ in names]
    result = []
    for now in range(events):
        p = random.randrange(processes)
        count[p] += 1
        kind = random.random()
        sends: tuple[str, ...] = ()
        receives: tuple[str, ...] = ()
        if kind < 0.3:
            sends = (f"m{now}",)
            waiting[random.randrange(processes)].append((now + random.randrange(200), f"m{now}"))
        elif kind < 0.6 and waiting[p]:
            receives = (waiting[p].pop(0)[1],)
        result.append(Event(process=names[p], index=count[p], sends=sends, receives=receives, time=now * 1000))
    return result
