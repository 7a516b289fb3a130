"""The pipeline on Spark beside Spark's own sort, and explaining beside other ways to find a causal past.

`python -m benchmarks.pipeline 1 10 30` makes histories of so many million events, analyzes them, and writes
PIPELINE.md (PIPELINE-100.md for 100 million events). Read the ratios: both sides of each were measured in one run,
one after the other.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import rustworkx
from pyspark.sql import SparkSession

from beforehand.pipeline import Progress, Settings, StoredHistory, analyze, session
from beforehand.pipeline.schemas import NATIVE, spark_type
from benchmarks.pipeline_data import make_history

RESULTS: Final = Path(__file__).parent / "PIPELINE.md"
RESULTS_100: Final = Path(__file__).parent / "PIPELINE-100.md"
CONF: Final = {"spark.driver.memory": "4g"}
RIVALS_MAX: Final = 10_000_000
"""Events up to which the other ways to find a past are tried: they hold the whole graph in memory."""
PROCESSES: Final = 200


@dataclass
class Peak:
    """The most memory that was in use at once, in MiB: resident, sampled."""

    driver: float = 0
    jvm: float = 0
    workers: float = 0


@dataclass
class Run:
    events: int
    processes: int
    seconds: float
    baseline: list[float]
    peak: Peak
    report: dict[str, Any]
    steps: dict[str, float]
    unread_ms: float = 0
    in_memory_ms: float = 0
    in_a_row_ms: float = 0
    command_s: float = 0
    rivals: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.seconds / statistics.mean(self.baseline)


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


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def sort_and_write(spark: SparkSession, source: Path, target: Path) -> float:
    """What Spark needs to merely sort the same events and write them."""
    events = spark.read.schema(spark_type(NATIVE)).parquet(str(source))
    taken = seconds(lambda: events.sort("execution", "process", "index").write.mode("overwrite").parquet(str(target)))
    shutil.rmtree(target)
    return taken


def measure(spark: SparkSession, folder: Path, events: int, processes: int) -> Run:
    source, target = folder / f"events-{events}", folder / f"history-{events}"
    make_history(source, events=events, processes=processes)
    baseline = [sort_and_write(spark, source, folder / "sorted")]
    progress = Progress()
    with watching() as peak:
        start = time.perf_counter()
        report = analyze([str(source)], target, Settings(), progress=progress)
        taken = time.perf_counter() - start
    baseline.append(sort_and_write(spark, source, folder / "sorted"))
    run = Run(events, processes, taken, baseline, peak, report, dict(progress.seconds))
    explain(run, target)
    if events <= RIVALS_MAX:
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
    run.unread_ms = statistics.median(unread(*event) for event in wanted)
    run.in_memory_ms = statistics.median(in_memory(*event) for event in wanted)
    history.cache.clear()
    run.in_a_row_ms = statistics.median(call(*event) for event in wanted)
    command = [sys.executable, "-m", "beforehand", "explain", str(target), last_event(target), "--last", "25"]
    run.command_s = min(seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(3))


def last_event(target: Path) -> str:
    row = duckdb.execute(
        f"SELECT process, index FROM '{target}/events/*.parquet' ORDER BY causal_time DESC, past_size DESC LIMIT 1"
    ).fetchone()
    assert row is not None
    return f"{row[0]}:{row[1]}"


def samples(run: Run, count: int = 25) -> list[tuple[int, int]]:
    random = np.random.default_rng(7)
    each = run.events // run.processes
    return [
        (int(p), int(i))
        for p, i in zip(
            random.integers(0, run.processes, count), random.integers(each // 2, int(each * 0.9), count), strict=True
        )
    ]


# Other ways to find the past of an event, their load included.


def ask_rivals(run: Run, source: Path) -> None:
    process, index = samples(run)[0]
    run.rivals["DuckDB, recursive query"] = seconds(lambda: duckdb_past(source, f"service-{process:04d}", index))
    run.rivals["rustworkx, ancestors"] = seconds(lambda: rustworkx_past(source, process, index))


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


def rustworkx_past(source: Path, process: int, index: int) -> int:
    """The whole graph in memory, then all ancestors."""
    table = pq.read_table(source, columns=["process", "index", "sends", "receives"])
    rows = table.num_rows
    names = table["process"].combine_chunks().dictionary_encode()
    numbers = names.indices.to_numpy().astype(np.int64)
    order = np.lexsort((table["index"].to_numpy(), numbers))
    same = numbers[order][1:] == numbers[order][:-1]
    edges = [np.stack([order[:-1][same], order[1:][same]], axis=1)]
    ends = [_ends(table[name].combine_chunks()) for name in ("sends", "receives")]
    by_message = dict(zip(ends[0][1].tolist(), ends[0][0].tolist(), strict=True))
    received = [(by_message[m], r) for r, m in zip(ends[1][0].tolist(), ends[1][1].tolist(), strict=True)]
    graph = rustworkx.PyDiGraph(multigraph=True, node_count_hint=rows, edge_count_hint=2 * rows)
    graph.add_nodes_from(range(rows))
    graph.add_edges_from_no_data(list(map(tuple, edges[0].tolist())))
    graph.add_edges_from_no_data(received)
    name = f"service-{process:04d}"
    at = names.dictionary.to_pylist().index(name)
    node = int(np.flatnonzero((numbers == at) & (table["index"].to_numpy() == index))[0])
    return len(rustworkx.ancestors(graph, node))


def _ends(column: pa.Array) -> tuple[np.ndarray[Any, Any], pa.Array]:
    lengths = pa.compute.list_value_length(column).to_numpy()
    return np.repeat(np.arange(len(column)), lengths), column.flatten()


def lines(runs: list[Run]) -> Iterator[str]:
    yield "# The pipeline on Spark"
    yield ""
    yield "Made by `make bench-pipeline`. Read ratios, not seconds: the machine is shared and noisy."
    yield ""
    memory = psutil.virtual_memory().total / 2**30
    yield (
        f"- {datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB; Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "duckdb", "numba", "rustworkx"))
    )
    yield "- One execution of native events in Parquet; a third of the events send, nearly as many receive, the rest"
    yield "  is local; every clock is off by up to 50 ms. `local[*]`, a heap of 4 GiB, session running."
    yield ""
    yield "| events | processes | seconds | events per second | sort and write (before, after) | ratio | blocks |"
    yield "|---|---|---|---|---|---|---|"
    for run in runs:
        before, after = run.baseline
        yield (
            f"| {run.events:,} | {run.processes} | {run.seconds:.1f} | {run.events / run.seconds:,.0f} | "
            f"{before:.1f}, {after:.1f} | {run.ratio:.2f} | {-(-run.events // 100_000)} |"
        )
    yield ""
    by_events = {run.events: run for run in runs}
    if 10_000_000 in by_events and 30_000_000 in by_events:
        growth = by_events[30_000_000].seconds / (3 * by_events[10_000_000].seconds)
        yield f"Time for 30 million events over three times that for 10 million: {growth:.2f}."
        yield ""
    yield "| events | peak MiB: driver's Python | driver's JVM (with the executor in it) | Python workers together |"
    yield "|---|---|---|---|"
    for run in runs:
        yield f"| {run.events:,} | {run.peak.driver:,.0f} | {run.peak.jvm:,.0f} | {run.peak.workers:,.0f} |"
    yield ""
    yield "## Steps"
    yield ""
    yield "| step | " + " | ".join(f"{run.events:,}" for run in runs) + " |"
    yield "|---|" + "---|" * len(runs)
    for step in dict.fromkeys(step for run in runs for step in run.steps):
        yield f"| {step} | " + " | ".join(f"{run.steps.get(step, 0):.1f}" for run in runs) + " |"
    yield ""
    yield "## Explaining: the last 25 events that could have led to one"
    yield ""
    rivals = list(dict.fromkeys(name for run in runs for name in run.rivals))
    ours = ("a block nobody read (ms)", "a block in memory (ms)", "25 events in a row (ms)", "the command (s)")
    yield f"| events | {' | '.join((*ours, *(f'{name} (s)' for name in rivals)))} |"
    yield "|---|" + "---|" * (len(ours) + len(rivals))
    for run in runs:
        calls = f"{run.unread_ms:.0f} | {run.in_memory_ms:.1f} | {run.in_a_row_ms:.0f} | {run.command_s:.2f}"
        found = [f"{run.rivals[name]:.1f}" if name in run.rivals else "–" for name in rivals]
        yield f"| {run.events:,} | {' | '.join((calls, *found))} |"
    yield ""
    yield "Library calls are medians of 25 events, on a history that is open, all kernels loaded. A call whose block"
    yield "nobody has read reads it; one whose block is in memory does not. *In a row* asks 25 events after the"
    yield "history was opened: at one million events they lie in a few blocks, which are soon in memory; at ten"
    yield "million and more nearly every one lies in a block of its own, so most of these calls read one."
    yield "The rivals' times include loading the events; ours are queries of the history directory."
    yield ""
    if len(runs) > 1 and runs[0].events == 1_000_000:
        one, many = runs[0], runs[1]
        yield f"At {many.events:,} events over one million, the aim being 1.5 for a warm call:"
        yield (
            f"{many.unread_ms / one.unread_ms:.2f} for a block nobody read, "
            f"{many.in_memory_ms / one.in_memory_ms:.2f} for one in memory, "
            f"{many.in_a_row_ms / one.in_a_row_ms:.2f} in a row, "
            f"{many.command_s / one.command_s:.2f} for the command."
        )
        yield ""


def main() -> int:
    millions = [float(argument) for argument in sys.argv[1:]] or [1, 10, 30]
    root = os.environ.get("BEFOREHAND_BENCH_DIR")
    runs = []
    with tempfile.TemporaryDirectory(prefix="beforehand-bench-", dir=root) as folder, session(conf=CONF) as spark:
        warm = Path(folder) / "warm"
        make_history(warm, events=200_000, processes=20)
        sort_and_write(spark, warm, Path(folder) / "sorted")
        analyze([str(warm)], Path(folder) / "warm-history", Settings(blocks=3))
        for size in millions:
            events = int(size * 1_000_000)
            runs.append(measure(spark, Path(folder), events, PROCESSES))
            print(f"{events:,}: {runs[-1].seconds:.1f} s, ratio {runs[-1].ratio:.2f}", flush=True)
    text = "\n".join(lines(runs))
    print(text)
    (RESULTS_100 if max(millions) >= 100 else RESULTS).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
