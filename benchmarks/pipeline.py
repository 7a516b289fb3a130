"""The pipeline on Spark beside Spark's own sort, and explaining beside other ways to find a causal past.

    python -m benchmarks.pipeline [MILLIONS ...]

Makes histories of so many million events and analyzes them. Read the ratios: both sides of each were measured in one
run, one after the other. `BEFOREHAND_BENCH_DIR` is where the files go for the time being.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from functools import partial
from itertools import pairwise
from math import isqrt
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import psutil
from pyspark.sql import SparkSession

from beforehand.pipeline import Progress, Settings, StoredHistory, analyze, session
from beforehand.pipeline.schemas import NATIVE, spark_type
from benchmarks.pipeline_data import make_history
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, report_of, target
from benchmarks.rivals import RIVALS, installed, last_of, read_graph
from benchmarks.timing import seconds

PACKAGES: Final = ("pyspark", "pyarrow", "duckdb", "numba", "rustworkx", "networkx", "igraph")
CONF: Final = {"spark.driver.memory": "4g"}
RIVALS_MAX: Final = 10_000_000
"""Events up to which the other ways to find a past are tried: they hold the whole graph in memory."""
NETWORKX_MAX: Final = 1_000_000
PROCESSES: Final = 200
REPEATED_MAX: Final = 1_000_000
"""Events up to which everything is measured `REPEATS` times."""
REPEATS: Final = 3
DUCKDB: Final = "DuckDB, recursive query"
ABOUT: Final = (
    "One execution of native events in Parquet; a third of the events send, nearly as many receive, the rest is "
    "local; every clock is off by up to 50 ms. `local[*]`, a heap of 4 GiB, session running."
)


@dataclass
class Peak:
    """The most memory that was in use at once, in MiB: resident, sampled."""

    driver: float = 0
    jvm: float = 0
    workers: float = 0


@dataclass
class Run:
    """Of one size: seconds of each repeat, and of the sort before the first and after each."""

    events: int
    processes: int
    seconds: list[float]
    baseline: list[float]
    peak: Peak
    report: dict[str, Any]
    steps: dict[str, list[float]]
    unread_ms: list[float] = field(default_factory=list)
    in_memory_ms: list[float] = field(default_factory=list)
    in_a_row_ms: list[float] = field(default_factory=list)
    command_s: list[float] = field(default_factory=list)
    rivals: dict[str, float] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """Each repeat over the sorts before and after it."""
        return [taken / statistics.mean(self.baseline[at : at + 2]) for at, taken in enumerate(self.seconds)]


@contextmanager
def watching() -> Iterator[Peak]:
    """Sample the memory of this process, of Spark's JVM and of its Python workers."""
    peak, ended = Peak(), threading.Event()

    def sample() -> None:
        while not ended.wait(0.2):
            jvm = workers = 0.0
            for child in psutil.Process().children(recursive=True):
                try:
                    resident = child.memory_info().rss / 2**20
                    if child.name() == "java":
                        jvm += resident
                    elif "python" in child.name():
                        workers += resident
                except psutil.Error:
                    continue
            peak.driver = max(peak.driver, psutil.Process().memory_info().rss / 2**20)
            peak.jvm, peak.workers = max(peak.jvm, jvm), max(peak.workers, workers)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def sort_and_write(spark: SparkSession, source: Path, target: Path) -> float:
    """What Spark needs to merely sort the same events and write them."""
    events = spark.read.schema(spark_type(NATIVE)).parquet(str(source))
    taken = seconds(lambda: events.sort("execution", "process", "index").write.mode("overwrite").parquet(str(target)))
    shutil.rmtree(target)
    return taken


def measure(spark: SparkSession, folder: Path, events: int, processes: int, *, rivals: bool = True) -> Run:
    source, target = folder / f"events-{events}", folder / f"history-{events}"
    make_history(source, events=events, processes=processes)
    run = Run(events, processes, [], [sort_and_write(spark, source, folder / "sorted")], Peak(), {}, {})
    for _ in range(REPEATS if events <= REPEATED_MAX else 1):
        shutil.rmtree(target, ignore_errors=True)
        progress = Progress()
        with watching() as peak:
            start = time.perf_counter()
            run.report = analyze([str(source)], target, Settings(), progress=progress)
            run.seconds.append(time.perf_counter() - start)
        run.baseline.append(sort_and_write(spark, source, folder / "sorted"))
        run.peak = Peak(*(max(pair) for pair in zip(astuple(run.peak), astuple(peak), strict=True)))
        for step, taken in progress.seconds.items():
            run.steps.setdefault(step, []).append(taken)
    explain(run, target)
    if rivals and events <= RIVALS_MAX:
        ask_rivals(run, source)
    shutil.rmtree(source)
    shutil.rmtree(target)
    return run


def explain(run: Run, target: Path) -> None:
    """The last 25 before an event: as a library call on a history that is open, and as a command."""
    history, wanted = StoredHistory.open(target), samples(run)

    def call(process: int, index: int) -> float:
        return 1_000 * seconds(lambda: history.explain(f"service-{process:04d}:{index}", last=25))

    def unread(process: int, index: int) -> float:
        history.cache.clear()
        return call(process, index)

    def in_memory(process: int, index: int) -> float:
        call(process, index - 3)
        return call(process, index)

    call(*wanted[0])  # The library and the tables of the cuts are warm after this.
    run.unread_ms = [unread(*event) for event in wanted]
    run.in_memory_ms = [in_memory(*event) for event in wanted]
    history.cache.clear()
    run.in_a_row_ms = [call(*event) for event in wanted]
    command = [sys.executable, "-m", "beforehand", "explain", str(target), last_event(target), "--last", "25"]
    run.command_s = [seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(3)]


def last_event(target: Path) -> str:
    row = duckdb.execute(
        f"SELECT process, index FROM '{target}/events/*.parquet' ORDER BY causal_time DESC, past_size DESC LIMIT 1"
    ).fetchone()
    assert row is not None
    return f"{row[0]}:{row[1]}"


def samples(run: Run, count: int = 25) -> list[tuple[int, int]]:
    """Processes and indexes from the second half. Not every process has the same number of events."""
    random = np.random.default_rng(7)
    each = run.events // run.processes
    last = max(int(each * 0.9) - 4 * isqrt(each), each // 2 + 1)
    return [
        (int(p), int(i))
        for p, i in zip(
            random.integers(0, run.processes, count), random.integers(each // 2, last, count), strict=True
        )
    ]


# Other ways to find the past of an event, their load included.


def ask_rivals(run: Run, source: Path) -> None:
    process, index = samples(run)[0]
    run.rivals[DUCKDB] = seconds(lambda: duckdb_past(source, f"service-{process:04d}", index))
    for name in ("rustworkx", "igraph", "networkx"):
        if installed(name) and (name != "networkx" or run.events <= NETWORKX_MAX):
            run.rivals[f"{name}, ancestors"] = seconds(partial(graph_past, name, source, process, index))


def duckdb_past(source: Path, process: str, index: int) -> int:
    """Per process the last event that is known, as a recursive query with a key; then the events up to there."""
    with duckdb.connect() as connection:
        connection.sql(f"""
            CREATE TABLE event AS SELECT process, index, sends, receives, time FROM '{source}/*.parquet';
            CREATE TABLE edge AS
                SELECT s.process AS p, s.index AS i, r.process AS q, r.index AS j
                FROM (SELECT process, index, unnest(sends) AS m FROM event) AS s
                JOIN (SELECT process, index, unnest(receives) AS m FROM event) AS r USING (m);
        """)
        past = connection.execute(
            """
            WITH RECURSIVE known(process, index) USING KEY (process) AS (
                SELECT ?::VARCHAR, ?::BIGINT
                UNION
                SELECT edge.p, max(edge.i) FROM known JOIN edge ON edge.q = known.process AND edge.j <= known.index
                LEFT JOIN recurring.known AS had ON had.process = edge.p
                WHERE edge.i > coalesce(had.index, 0)
                GROUP BY edge.p
            )
            SELECT event.process, event.index, event.time FROM event JOIN known USING (process)
            WHERE event.index <= known.index ORDER BY event.time DESC LIMIT 25
            """,
            [process, index],
        ).fetchall()
    return len(past)


def graph_past(name: str, source: Path, process: int, index: int) -> list[int]:
    """The whole graph in memory, then all ancestors, then the last 25 of them."""
    graph, names = read_graph(source)
    number = names.index(f"service-{process:04d}")
    event = int(np.flatnonzero((graph.process == number) & (graph.index == index))[0])
    return last_of(graph, RIVALS[name](graph).past(event))


def report(runs: Sequence[Run]) -> Report:
    heads = tuple(f"{run.events:,}" for run in runs)
    steps = tuple(
        Row((step,), tuple(Figure.of(run.steps[step], digits=1) if step in run.steps else None for run in runs))
        for step in dict.fromkeys(step for run in runs for step in run.steps)
    )
    rivals = list(dict.fromkeys(name for run in runs for name in run.rivals))
    explained = tuple(
        Row(
            (f"{run.events:,}",),
            (
                Figure.of(run.unread_ms),
                Figure.of(run.in_memory_ms, digits=1),
                Figure.of(run.in_a_row_ms),
                Figure.of(run.command_s, digits=2),
                *(Figure.of([run.rivals[name]], digits=1) if name in run.rivals else None for name in rivals),
            ),
        )
        for run in runs
    )
    peaks = tuple(Row((f"{run.events:,}",), tuple(Figure.of([value]) for value in astuple(run.peak))) for run in runs)
    ours = ("a block nobody read, ms", "a block in memory, ms", "25 events in a row, ms", "the command, s")
    return report_of(
        "pipeline",
        [
            Section("", "", growth_table(runs), _growth(runs)),
            Section("Memory", "The most that was resident at once, in MiB.", Table("memory", MEMORY, peaks, SAMPLED)),
            Section("Steps", "Seconds.", Table("steps", ("step", *heads), steps, HOW)),
            Section(
                "Explaining: the last 25 events that could have led to one",
                _EXPLAINING,
                Table(
                    "explaining",
                    ("events", *ours, *(f"{name}, s" for name in rivals)),
                    explained,
                    "Library calls: median of 25 events, in brackets the quartiles; the command: of 3 runs; "
                    "the others: one run.",
                ),
                _aims(runs),
            ),
        ],
        packages=PACKAGES,
        about=ABOUT,
    )


HOW: Final = (
    f"Up to {REPEATED_MAX:,} events the median of {REPEATS} runs, in brackets the least and the most; "
    "beyond, one run."
)
SAMPLED: Final = "Sampled five times a second; the most of all runs."
MEMORY: Final = ("events", "driver's Python", "driver's JVM, with the executor in it", "Python workers together")
_EXPLAINING: Final = (
    "Library calls on a history that is open, all kernels loaded. A call whose block nobody has read reads it; one "
    "whose block is in memory does not. *In a row* asks 25 events after the history was opened: at one million "
    "events they lie in a few blocks, which are soon in memory; at ten million and more nearly every one lies in a "
    "block of its own, so most of these calls read one. The rivals' times include loading the events; ours are "
    "queries of the history directory."
)


def growth_table(runs: Sequence[Run], *, name: str = "growth", by: str = "events") -> Table:
    """One row for each size; its name is the number of events, or of processes."""
    other = "processes" if by == "events" else "events"
    rows = []
    for run in runs:
        varied, same = (run.events, run.processes) if by == "events" else (run.processes, run.events)
        cells = (
            Figure(same),
            Figure.of(run.seconds, digits=1),
            Figure.of(run.events / taken for taken in run.seconds),
            Figure.of(run.baseline, digits=1),
            Figure.of(run.ratios, digits=2),
            Figure(-(-run.events // 100_000)),
        )
        rows.append(Row((f"{varied:,}",), cells))
    columns = (by, other, "seconds", "events per second", "sort and write, s", "ratio", "blocks")
    return Table(name, columns, tuple(rows), f"{HOW} The sort ran before and after each run.")


def _growth(runs: Sequence[Run]) -> str:
    times = {run.events: statistics.median(run.seconds) for run in runs}
    pairs = [(a, b) for a, b in pairwise(times) if a >= 10_000_000]
    return " ".join(
        f"Time for {b:,} events over {b / a:g} times that for {a:,}: {times[b] / (b / a * times[a]):.2f}."
        for a, b in pairs
    )


def _aims(runs: Sequence[Run]) -> str:
    if len(runs) < 2 or runs[0].events != 1_000_000:
        return ""
    one, many = runs[0], runs[1]

    def grown(name: str) -> str:
        return f"{statistics.median(getattr(many, name)) / statistics.median(getattr(one, name)):.2f}"

    return (
        f"At {many.events:,} events over one million, the aim being 1.5 for a warm call: {grown('unread_ms')} for a "
        f"block nobody read, {grown('in_memory_ms')} for one in memory, {grown('in_a_row_ms')} in a row, "
        f"{grown('command_s')} for the command."
    )


@contextmanager
def prepared() -> Iterator[tuple[SparkSession, Path]]:
    """A session in which everything has run once, and a folder."""
    root = os.environ.get("BEFOREHAND_BENCH_DIR")
    with tempfile.TemporaryDirectory(prefix="beforehand-bench-", dir=root) as name, session(conf=CONF) as spark:
        folder = Path(name)
        make_history(folder / "warm", events=200_000, processes=20)
        sort_and_write(spark, folder / "warm", folder / "sorted")
        analyze([str(folder / "warm")], folder / "warm-history", Settings(blocks=3))
        yield spark, folder


def main(arguments: Sequence[str]) -> int:
    rest, to = target(arguments)
    millions = [float(argument) for argument in rest] or [1, 10, 30]
    runs = []
    with prepared() as (spark, folder):
        for size in millions:
            runs.append(measure(spark, folder, int(size * 1_000_000), PROCESSES))
            print(f"{runs[-1].events:,}: {runs[-1].seconds} s, ratio {runs[-1].ratios}", file=sys.stderr, flush=True)
    return deliver(report(runs), to)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
