"""The service's store: how fast reports are stored and stamped, how fast pasts come back, and what memory that takes.

    python -m benchmarks.service_store [EVENTS]

Each way of reporting runs in a process of its own, so that its memory is its own. Events per second are of the
processor's time that `Ingest.report` took, for the machine may be shared; making the events is left out.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median

from beforehand.events import Event
from beforehand.service import Ingest, Queries, Settings, Store
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target

__all__ = ["report", "reports"]

EVENTS = 1_000_000
PROCESSES = 50
BATCH = 2_000
ASKED = 500
REPEATS = 3

WAYS = {
    "the service stamps, reports in order": "plain",
    "the service stamps, reports up to 5,000 places out of order": "shuffled",
    "the reports carry stamps of 50 entries": "clocks",
    "the service stamps, waiting for the disk at every commit": "power",
}


def reports(events: int, *, clocks: bool, processes: int = PROCESSES) -> Iterator[Event]:
    """A third of the events send, a third receive; one in a thousand failed."""
    random = Random(1)
    names = [f"service-{number:02}" for number in range(processes)]
    count = [0] * processes
    waiting: list[list[str]] = [[] for _ in names]
    known: list[dict[str, int]] = [{} for _ in names]
    carried: dict[str, dict[str, int]] = {}
    for now in range(events):
        p = random.randrange(processes)
        count[p] += 1
        sends: tuple[str, ...] = ()
        receives: tuple[str, ...] = ()
        if waiting[p] and random.random() < 0.9:
            receives = (waiting[p].pop(0),)
            for other, index in carried.pop(receives[0], {}).items():
                known[p][other] = max(known[p].get(other, 0), index)
        elif random.random() < 0.6:
            sends = (f"message-{now:09}",)
            waiting[random.randrange(processes)].append(sends[0])
        known[p][names[p]] = count[p]
        if clocks and sends:
            carried[sends[0]] = dict(known[p])
        yield Event(
            process=names[p],
            index=count[p],
            sends=sends,
            receives=receives,
            time=1_700_000_000_000_000_000 + now * 50_000 + random.randrange(1_000_000),
            name="something happened" if now % 1_000 else "checkout failed",
            attributes={"level": "info", "request": str(now)},
            clock=dict(known[p]) if clocks else None,
        )


def shuffled(events: Iterator[Event], window: int) -> Iterator[Event]:
    """Each event up to `window` places late."""
    random = Random(2)
    held: list[Event] = []
    for event in events:
        held.append(event)
        if len(held) > window:
            at = random.randrange(len(held))
            held[at], held[-1] = held[-1], held[at]
            yield held.pop()
    random.shuffle(held)
    yield from held


def measure(way: str, events: int) -> dict[str, float]:
    """One way, in this process."""
    made = reports(events, clocks=way == "clocks")
    if way == "shuffled":
        made = shuffled(made, 5_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with Store(path, settings=Settings(power_safe=way == "power")) as store:
            ingest = Ingest(store)
            used, wall = 0.0, 0.0
            memory: list[float] = []
            batch: list[Event] = []
            for stored, event in enumerate(made, 1):
                batch.append(event)
                if len(batch) == BATCH or stored == events:
                    cpu, start = time.process_time(), time.perf_counter()
                    ingest.report(batch)
                    used += time.process_time() - cpu
                    wall += time.perf_counter() - start
                    batch = []
                    memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            cpu, start = time.process_time(), time.perf_counter()
            ingest.settle()  # What the last batches set free.
            used += time.process_time() - cpu
            wall += time.perf_counter() - start
            result = {
                "per_second": events / used,
                "per_second_wall": events / wall,
                "memory_half": memory[len(memory) // 2],
                "memory_end": memory[-1],
                **_latency(Queries(store), events),
            }
        return {**result, "bytes": path.stat().st_size / events}


def _latency(queries: Queries, events: int) -> dict[str, float]:
    """Milliseconds for the last 25 before an event, over events from everywhere in the order."""
    asked: list[str] = []
    cursor = None
    while len(asked) < ASKED:
        page = queries.find(limit=min(10_000, max(events // ASKED, 1)), after=cursor)
        asked += [page["events"][-1]["id"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    Random(3).shuffle(asked)
    taken = []
    for event in asked:
        start = time.perf_counter()
        queries.past(event)
        taken.append((time.perf_counter() - start) * 1_000)
    taken.sort()
    return {"past_median": taken[len(taken) // 2], "past_p99": taken[max(len(taken) * 99 // 100 - 1, 0)]}


def report(*, events: int = EVENTS) -> Report:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for _ in range(REPEATS):
        for name, way in WAYS.items():
            command = [sys.executable, "-m", "benchmarks.service_store", "--measure", str(events), way]
            found[name].append(
                json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
            )
            print(f"{name}: {found[name][-1]['per_second']:,.0f} events/s", file=sys.stderr, flush=True)
    first = next(iter(found.values()))
    rows = []
    for name, runs in found.items():
        ratio = median(run["per_second"] / base["per_second"] for run, base in zip(runs, first, strict=True))
        cells = [
            Figure.of((run["per_second"] for run in runs), ratio=ratio),
            *(
                Figure.of(run[key] for run in runs)
                for key in ("per_second_wall", "bytes", "memory_half", "memory_end")
            ),
            *(Figure.of((run[key] for run in runs), digits=1) for key in ("past_median", "past_p99")),
        ]
        rows.append(Row((name,), tuple(cells)))
    columns = (
        "way",
        "events/s of processor time",
        "events/s by the wall",
        "bytes an event",
        "peak memory at half, MiB",
        "at the end",
        "past, median, ms",
        "99 %",
    )
    how = median_of(REPEATS, f"All ways in turns; pasts: {ASKED} a run. After × the ratio to the first row.")
    return report_of(
        "store",
        [Section("", "", Table("ways", columns, tuple(rows), how))],
        about=f"{events:,} events of {PROCESSES} processes, {BATCH:,} in a batch; `past` asks for the last 25.",
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        sys.stdout.write(json.dumps(measure(sys.argv[3], int(sys.argv[2]))))
    else:
        rest, to = target(sys.argv[1:])
        sys.exit(deliver(report(events=int(rest[0])) if rest else report(), to))
