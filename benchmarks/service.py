"""The service over HTTP: events stored per second, how fast pasts of failures come back, what memory it takes.

    python -m benchmarks.service [EVENTS [REPORTERS [REPEATS]]]

A real `beforehand serve` takes reports from several processes, each over one connection that is kept open. Bodies are
made before the clock starts (JSON Lines of 1,000 events, gzipped, as the Reporter sends them), for the machine is
shared by all of them: what making them costs is the reporters' own matter. The reporters own different processes of
the system and have one request under way each, so reports come out of order. Systems report what happens now: no
reporter is further ahead than `APART` events. A row shows what it costs if they are as far apart as they like, as
after an outage.
"""

from __future__ import annotations

import gzip
import http.client
import json
import mmap
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from urllib.parse import quote, urlsplit

import psutil

from beforehand.events import Event
from beforehand.formats import to_json
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target
from benchmarks.service_store import PROCESSES, reports

__all__ = ["main", "measure", "report"]

BATCH = 1_000
ASKED = 500
DEFAULTS = (1_000_000, 4, 3)  # Events, reporters, repeats.
APART = 20_000
PLACES = "places"
HEADERS = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
WAYS = {
    "10 processes, the reports carry stamps": (10, True, APART),
    f"{PROCESSES} processes, the reports carry stamps": (PROCESSES, True, APART),
    f"{PROCESSES} processes, the service stamps": (PROCESSES, False, APART),
    "10 processes, the reports carry stamps, reporters far apart": (10, True, sys.maxsize),
}
AIMS = {True: 20_000, False: 8_000}
PAST_AIM_MS = 50


class Sampled:
    """Memory of a process, looked at twice a second."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._done = threading.Event()
        self.mebibytes: list[float] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._done.is_set():
            self.mebibytes.append(self._process.memory_info().rss / 2**20)
            self._done.wait(0.5)

    def at(self, share: float) -> float:
        """The most up to this share of the time."""
        return max(self.mebibytes[: max(round(len(self.mebibytes) * share), 1)])

    def stop(self) -> None:
        self._done.set()
        self._thread.join()


@contextmanager
def serving(store: Path) -> Iterator[tuple[psutil.Process, int]]:
    """A service of this store; its process and its port."""
    command = [sys.executable, "-m", "beforehand", "serve", "--store", str(store), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield psutil.Process(process.pid), urlsplit(json.loads(process.stdout.readline())["url"]).port or 0
        finally:
            process.terminate()


def make_bodies(folder: Path, events: int, reporters: int, *, processes: int, clocks: bool) -> None:
    """One folder of gzipped bodies per reporter; a process of the system belongs to one of them.

    A body is named by the place of its last event among all events.
    """
    batches: list[list[Event]] = [[] for _ in range(reporters)]

    def write(at: int, place: int) -> None:
        body = b"".join(to_json(event) + b"\n" for event in batches[at])
        (folder / str(at)).mkdir(exist_ok=True)
        (folder / str(at) / f"{place:09}.gz").write_bytes(gzip.compress(body, compresslevel=1, mtime=0))
        batches[at] = []

    for place, event in enumerate(reports(events, clocks=clocks, processes=processes)):
        at = int(event.process.rpartition("-")[2]) % reporters
        batches[at].append(event)
        if len(batches[at]) == BATCH:
            write(at, place)
    for at in range(reporters):
        if batches[at]:
            write(at, events)


class Places:
    """How far each reporter is, in a file that all of them see."""

    def __init__(self, path: Path, own: int) -> None:
        with path.open("r+b") as file:
            self._places = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._own = own

    def reach(self, place: int, apart: int) -> None:
        """The own place is this now; waits for those that are further behind than `apart`."""
        self._places[self._own] = place
        while min(self._places) < place - apart:
            time.sleep(0.001)


def post(folder: Path, port: int, apart: int) -> None:
    """A reporter: all bodies of a folder, one after the other. Begins when it is told to."""
    places = Places(folder.parent / PLACES, int(folder.name))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.connect()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    stored = 0
    for file in sorted(folder.iterdir()):
        places.reach(int(file.stem), apart)
        while True:
            connection.request("POST", "/api/events", file.read_bytes(), HEADERS)
            response = connection.getresponse()
            answer = json.loads(response.read())
            if response.status == 200:
                break
            if response.status not in (429, 503):
                raise SystemExit(f"the service answered {response.status}: {answer}")
            time.sleep(float(response.headers["Retry-After"]))
        stored += answer["stored"]
    places.reach(sys.maxsize, sys.maxsize)
    sys.stdout.write(f"{stored}\n")


def ask(connection: http.client.HTTPConnection, path: str) -> dict[str, object]:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise SystemExit(f"{path}: {response.status} {body!r}")
    found: dict[str, object] = json.loads(body)
    return found


def failures_of(connection: http.client.HTTPConnection) -> list[str]:
    """Ids of failures from everywhere in the order, at most `ASKED`."""
    found: list[str] = []
    path = f"/api/find?limit={ASKED}&where={quote('name ~ failed')}"
    cursor: object = None
    while len(found) < 20 * ASKED:
        page = ask(connection, path if cursor is None else f"{path}&after={cursor}")
        events = page["events"]
        assert isinstance(events, list)
        found += [event["id"] for event in events]
        cursor = page["cursor"]
        if cursor is None:
            break
    Random(3).shuffle(found)
    return found[:ASKED]


def latencies(connection: http.client.HTTPConnection, failures: list[str]) -> dict[str, float]:
    """Milliseconds until the last 25 before a failure are here, over one connection."""
    taken = []
    for event in failures:
        start = time.perf_counter()
        ask(connection, f"/api/past?last=25&id={quote(event)}")
        taken.append((time.perf_counter() - start) * 1_000)
    taken.sort()
    return {"median": taken[len(taken) // 2], "p99": taken[max(len(taken) * 99 // 100 - 1, 0)], "most": taken[-1]}


def measure(bodies: Path, events: int, reporters: int, apart: int) -> dict[str, float]:
    """One run of one way of reporting: these bodies, to a service of its own."""
    (bodies / PLACES).write_bytes(bytes(8 * reporters))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "store.db") as (process, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        command = [sys.executable, "-m", "benchmarks.service", "--post", str(port), str(apart)]
        children = [
            subprocess.Popen(
                [*command, str(bodies / str(at))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for at in range(reporters)
        ]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        sampled = Sampled(process)
        used, start = sum(process.cpu_times()[:2]), time.perf_counter()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        stored = 0
        for child in children:
            assert child.stdout is not None
            stored += int(child.stdout.readline())
            child.wait()
        wall, used = time.perf_counter() - start, sum(process.cpu_times()[:2]) - used
        sampled.stop()
        while ask(connection, "/api/status")["waiting"]:
            time.sleep(0.1)
        settled = time.perf_counter() - start
        if stored != events:
            raise SystemExit(f"{stored} of {events} events were stored")
        failures = failures_of(connection)
        latencies(connection, failures[: ASKED // 10])
        past = latencies(connection, failures)
        return {
            "per_second": events / wall,
            "per_second_stamped": events / settled,
            "per_second_of_processor": events / used,
            "memory_quarter": sampled.at(0.25),
            "memory_half": sampled.at(0.5),
            "memory_three_quarters": sampled.at(0.75),
            "memory_end": sampled.at(1),
            **{f"past_{name}": value for name, value in past.items()},
        }


def report(events: int, reporters: int, repeats: int) -> Report:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for number, (processes, clocks, _) in enumerate(WAYS.values()):
            bodies = Path(folder) / str(number)
            bodies.mkdir()
            make_bodies(bodies, events, reporters, processes=processes, clocks=clocks)
        for _ in range(repeats):
            for number, (name, (_, _, apart)) in enumerate(WAYS.items()):
                found[name].append(measure(Path(folder) / str(number), events, reporters, apart))
                print(f"{name}: {found[name][-1]['per_second']:,.0f} events/s", file=sys.stderr, flush=True)
    rows = []
    for name, (_, clocks, _) in WAYS.items():

        def figure(key: str, digits: int = 0, runs: list[dict[str, float]] = found[name]) -> Figure:
            return Figure.of((run[key] for run in runs), digits=digits)

        cells = (
            figure("per_second"),
            Figure(AIMS[clocks]),
            *map(figure, ("per_second_stamped", "per_second_of_processor")),
            *map(figure, ("memory_quarter", "memory_half", "memory_three_quarters", "memory_end")),
            *(figure(key, 1) for key in ("past_median", "past_p99", "past_most")),
            Figure(PAST_AIM_MS),
        )
        rows.append(Row((name,), cells))
    columns = (
        "way",
        "stored, events/s",
        "aim",
        "stored and stamped, events/s",
        "events/s of the service's processor time",
        "memory at a quarter, MiB",
        "at half",
        "at three quarters",
        "at the end",
        "past of a failure, median, ms",
        "past of a failure, 99 %, ms",
        "most",
        "aim, 99 %",
    )
    return report_of(
        "service",
        [
            Section(
                "",
                "Stored: until every reporter had its last answer. Stamped: until nothing waits any more. The past: "
                f"the last 25 events before each of {ASKED} failures from everywhere in the order, over one "
                "connection, when all are stored. Memory: the most up to then; what is kept in memory is full after "
                "some hundred thousand events.",
                Table("ways", columns, tuple(rows), median_of(repeats, f"All ways in turns; pasts: {ASKED} a run.")),
            )
        ],
        packages=("fastapi", "uvicorn", "msgspec"),
        about=f"{events:,} events, from {reporters} reporting processes, each at most {APART:,} events ahead of the "
        f"last (but for the last row), {BATCH:,} events in a request, gzipped.",
    )


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--post"]:
        post(Path(arguments[3]), int(arguments[1]), int(arguments[2]))
        return 0
    rest, to = target(arguments)
    events, reporters, repeats = (int(rest[at]) if len(rest) > at else default for at, default in enumerate(DEFAULTS))
    return deliver(report(events, reporters, repeats), to)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
