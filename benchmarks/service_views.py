"""The service's views: how long the first overview and window take, and later ones; of a store or a directory.

    python -m benchmarks.service_views [EVENTS | DIR]

A store with so many events (1,000,000) is made first, which is not measured; a history directory is taken as it is.
What is cold is of a new process, the rest is the median of several.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from beforehand.service import Ingest, Store
from beforehand.service.views import Viewer
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target
from benchmarks.service_store import BATCH, reports

__all__ = ["measure", "report"]

SHARES = (0.1, 0.01, 0.001)
REPEATS = 7


def measure(path: Path) -> dict[str, list[float]]:
    """Of what is at this path, in this process: milliseconds of wall clock, with the encoding of the answer."""
    viewer, close = _opened(path)
    found: dict[str, list[float]] = {}

    def ask(name: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        start = time.perf_counter()
        document = call()
        msgspec.json.encode(document)
        found.setdefault(name, []).append((time.perf_counter() - start) * 1_000)
        return document

    overview = ask("overview, cold", viewer.overview)
    execution, span = overview["execution"], overview["span"]
    ask("first window (all, columns)", partial(viewer.window, execution))
    found["both together"] = [sum(times[0] for times in found.values())]
    for share in (1.0, *SHARES):
        for at in range(REPEATS):
            first = int(span * (1 - share) * at / REPEATS)
            drawn = ask("window", partial(viewer.window, execution, first=first, last=first + int(span * share)))
        found[f"window of {share:.1%} ({drawn['detail']})"] = found.pop("window")
    events = viewer.window(execution, first=int(span * 0.5), last=int(span * 0.5005))["events"]
    for event in events[:REPEATS]:
        ask("relations", partial(viewer.relations, event["id"]))
    close()
    return found


def _opened(path: Path) -> tuple[Viewer, Callable[[], None]]:
    if path.is_dir():
        from beforehand.service.opened import open_history
        from beforehand.service.views.directories import DrawnDirectory
        from beforehand.service.views.frozen_source import FrozenSource

        directory = open_history(path)
        viewer = Viewer(FrozenSource("directory", directory.queries, DrawnDirectory(directory)))
        return viewer, viewer.close
    from beforehand.service.views.stores import StoreSource

    store = Store(path)
    viewer = Viewer(StoreSource(store))

    def close() -> None:
        viewer.close()
        store.close()

    return viewer, close


def _make(path: Path, events: int) -> None:
    with Store(path) as store:
        ingest = Ingest(store)
        made = reports(events, clocks=False)
        while batch := list(islice(made, BATCH)):
            ingest.report(batch)
        ingest.settle()


def report(path: Path, what: str) -> Report:
    command = [sys.executable, "-m", "benchmarks.service_views", "--measure", str(path)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    rows = tuple(Row((name,), (Figure.of(times, digits=1),)) for name, times in found.items())
    how = median_of(REPEATS, "What is cold, and both together, is one call in a new process.")
    table = Table("questions", ("question", "ms"), rows, how)
    return report_of("views", [Section("", "Wall clock, with the encoding of the answer.", table)], about=what)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--measure"]:
        print(json.dumps(measure(Path(arguments[1]))))
        return 0
    rest, to = target(arguments)
    if rest and Path(rest[0]).is_dir():
        return deliver(report(Path(rest[0]), "A history directory."), to)
    events = int(rest[0]) if rest else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        _make(path, events)
        return deliver(report(path, f"A store of {events:,} events."), to)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
