"""The service's views: how long the first overview and window take, and later ones; of a store or a directory.

    python -m benchmarks.service_views [EVENTS | DIR]

A store with so many events (1,000,000) is made first, which is not measured; a history directory is taken as it is.
What is cold is of a new process, the rest is the median of several.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from beforehand.service import Ingest, Store
from beforehand.service.views import Viewer
from benchmarks.service_store import BATCH, reports

__all__ = ["measure"]

SHARES = (0.1, 0.01, 0.001)
REPEATS = 7


def measure(path: Path) -> dict[str, float]:
    """Of what is at this path, in this process: milliseconds of wall clock, with the encoding of the answer."""
    viewer, close = _opened(path)
    found: dict[str, float] = {}

    def ask(name: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        start = time.perf_counter()
        document = call()
        msgspec.json.encode(document)
        found[name] = (time.perf_counter() - start) * 1_000
        return document

    overview = ask("overview, cold", viewer.overview)
    execution, span = overview["execution"], overview["span"]
    ask("first window (all, columns)", lambda: viewer.window(execution))
    found["both"] = sum(found.values())
    for share in (1.0, *SHARES):
        times = []
        for at in range(REPEATS):
            first = int(span * (1 - share) * at / REPEATS)
            last = first + int(span * share)
            drawn = ask("window", lambda first=first, last=last: viewer.window(execution, first=first, last=last))  # type: ignore[misc]
            times.append(found.pop("window"))
        found[f"window of {share:.1%} ({drawn['detail']})"] = statistics.median(times)
    events = viewer.window(execution, first=int(span * 0.5), last=int(span * 0.5005))["events"]
    times = []
    for event in events[:REPEATS]:
        ask("relations", lambda event=event: viewer.relations(event["id"]))  # type: ignore[misc]
        times.append(found.pop("relations"))
    found["relations"] = statistics.median(times) if times else 0.0
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


def _report(path: Path, what: str) -> None:
    command = [sys.executable, "-m", "benchmarks.service_views", "--measure", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    print(what)
    for name, milliseconds in json.loads(done.stdout).items():
        print(f"  {name:<36}{milliseconds:>10.1f} ms")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--measure"]:
        print(json.dumps(measure(Path(arguments[1]))))
    elif arguments and Path(arguments[0]).is_dir():
        _report(Path(arguments[0]), f"the directory {arguments[0]}")
    else:
        events = int(arguments[0]) if arguments else 1_000_000
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store.db"
            _make(path, events)
            _report(path, f"a store of {events:,} events")


if __name__ == "__main__":
    main(sys.argv[1:])
