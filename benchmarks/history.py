"""History in memory: a million events of fifty processes."""

from __future__ import annotations

import resource
import statistics
import sys
from random import Random

import numpy as np

from beforehand.events import Event
from beforehand.history import History
from beforehand.history.columns import from_events
from beforehand.history.kernels import NO_TIME, replay
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target
from benchmarks.timing import REPEATS as OFTEN
from benchmarks.timing import compare, repeated

__all__ = ["random_events", "report"]

REPEATS = 3


def report(*, events: int = 1_000_000, processes: int = 50) -> Report:
    made = random_events(events, processes)
    History(made[:1000])  # Compile, or load what was compiled before.
    loading = repeated(lambda: from_events(made), repeats=REPEATS)
    columns = from_events(made)
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

    fresh = repeated(lambda: History.from_columns(columns), repeats=REPEATS)
    ordered = repeated(lambda: History.from_columns(columns)._order, repeats=REPEATS)
    steps = {
        "events to arrays, with all structure checked": loading,
        "stamps, causal times and sizes of pasts": repeated(stamp, repeats=REPEATS),
        "a history from arrays (stamps in fresh memory)": fresh,
        "the deterministic order": [max(a - min(fresh), 1e-3) for a in ordered],
        "all checks (FIFO, causal, total, clocks)": repeated(lambda: history.check(limit=10), repeats=REPEATS),
        "all measures": repeated(history.measure, repeats=REPEATS),
    }
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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = tuple(
        Row((name,), (Figure.of(taken, digits=2), Figure.of([events / statistics.median(taken)])))
        for name, taken in steps.items()
    )
    queries = tuple(Row((name,), (timing.figure(per=1e6, digits=3),)) for name, timing in timings.items())
    return report_of(
        "history",
        [
            Section("", "", Table("steps", ("step", "seconds", "events per second"), rows, median_of(REPEATS))),
            Section(
                "Questions to it",
                "",
                Table("queries", ("query", "ms"), queries, median_of(OFTEN, "All in turns.")),
                f"Peak memory of the process, the event objects included: {peak:,.0f} MiB.",
            ),
        ],
        packages=("numpy", "numba"),
        about=f"{events:,} events of {processes} processes: 30 % send, 30 % receive, 40 % are local. One core.",
    )


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


if __name__ == "__main__":
    rest, to = target(sys.argv[1:])
    sys.exit(deliver(report(events=int(rest[0])) if rest else report(), to))
