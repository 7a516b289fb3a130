"""One history served in every way that there is, and what a picture of it must show, worked out by plain loops."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from service_stores import Service, feed

from beforehand.events import Event
from beforehand.history import History
from beforehand.history.judging import judged_notes
from beforehand.pipeline.schemas import VIOLATION
from beforehand.pipeline.tables import write_parquet
from beforehand.service.opened import open_history
from beforehand.service.remembered import Remembered
from beforehand.service.served import Questions
from beforehand.service.views import Viewer
from beforehand.service.views.directories import DrawnDirectory
from beforehand.service.views.frozen_source import FrozenSource
from beforehand.service.views.stores import StoreSource
from history_directories import make_pack_directory, random_events
from pipeline.by_hand import cut_by_hand

__all__ = ["WAYS", "Picture", "Way", "histories", "served", "write_violations"]

WAYS = ("store", "packs", "blocks", "memory")


@dataclass(frozen=True)
class Way:
    """A history, served."""

    name: str
    viewer: Viewer
    queries: Questions
    service: Service | None = None

    def count(self, table: str) -> int:
        """As `Service` has it: nothing waits in a history that does not change."""
        return 0


def histories() -> dict[str, list[Event]]:
    """Without reported clocks, which a store takes for true."""
    made = {
        "plain": random_events(1, processes=5, steps=160),
        "skewed": random_events(2, processes=4, steps=160, skew_ns=30_000, execution="skewed"),
        "gaps": random_events(3, processes=6, steps=140, gap=3, untimed=0.3, execution="a/b:c"),
        "untimed": random_events(4, processes=3, steps=120, untimed=1.0),
    }
    return {name: [replace(event, clock=None) for event in events] for name, events in made.items()}


@contextmanager
def served(way: str, events: Sequence[Event], folder: Path) -> Iterator[Way]:
    """The events, served in one way."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if way == "store":
            service = Service(folder / "store.db")
            stack.callback(service.store.close)
            reports = list(events)
            Random(5).shuffle(reports)
            feed(service, reports, Random(6))
            while service.expire():
                pass
            viewer = Viewer(StoreSource(service.store))
            made = Way(way, viewer, service.queries, service)
        elif way == "memory":
            remembered = Remembered(events)
            viewer = Viewer(FrozenSource("imp-test", remembered.queries, remembered))
            made = Way(way, viewer, remembered.queries)
        else:
            if way == "packs":
                case = make_pack_directory([list(events)], folder, packs=2)
            else:
                case = cut_by_hand([list(events)], folder, blocks=5, seed=3)
            write_violations(case.path, events)
            directory = open_history(case.path)
            viewer = Viewer(FrozenSource("directory", directory.queries, DrawnDirectory(directory)))
            made = Way(way, viewer, directory.queries)
        stack.callback(viewer.close)
        yield made


def write_violations(path: Path, events: Sequence[Event]) -> None:
    """What the analysis would have written: what `History` finds."""
    found = History(events).check()
    rows = [
        {
            "execution": one.events[0].execution,
            "kind": one.kind,
            "events": [str(event) for event in one.events],
            "messages": list(one.messages),
            "why": one.why,
            "reasons": list(one.reasons),
        }
        for one in found.violations
    ]
    for old in (path / "violations").glob("**/*.parquet"):
        old.unlink()
    write_parquet(pa.Table.from_pylist(rows, schema=VIOLATION), path / "violations" / "all.parquet")
    report = json.loads((path / "report.json").read_text())
    judged = {kind: one.document() for kind, one in found.judged.items()}
    told = {"violations": found.known, "judged": judged, "notes": judged_notes(found.judged)}
    (path / "report.json").write_text(json.dumps(report | told))


class Picture:
    """What must be seen, by `History` and loops."""

    def __init__(self, events: Sequence[Event], axis: str, way: str) -> None:
        self.history = History(events)
        self.processes = sorted({event.process for event in events})
        run = sorted(self.history.columns.events, key=lambda event: (event.process, event.index))
        if axis == "steps":
            # In memory by the longest chain; stored, by the size of the past.
            size = self.history.lamport_time if way in ("packs", "memory") else self.history.past_size
            absolute = {event.id: size(event) for event in run}
        else:
            absolute = {event.id: self.history.causal_time(event) for event in run}
        known = [x for x in absolute.values() if x is not None]
        self.origin = min(known, default=0)
        self.x = {one: 0 if x is None else x - self.origin for one, x in absolute.items()}
        self.span = max(self.x.values(), default=0)
        self.events: list[dict[str, Any]] = []
        same: dict[tuple[str, int], int] = {}
        for event in run:
            x = self.x[event.id]
            rank = same.get((event.process, x), 0)
            same[event.process, x] = rank + 1
            self.events.append(
                {
                    "id": str(event.id),
                    "lane": self.processes.index(event.process),
                    "index": event.index,
                    "x": x,
                    "rank": rank,
                    "name": event.name,
                    "kind": event.kind.value,
                    "failure": event.attributes.get("level") == "error",
                }
            )
        self.at = {(one["lane"], one["index"]): one for one in self.events}
        sends = {message: event for event in run for message in event.sends}
        self.messages = []
        for event in run:
            for message in event.receives:
                if message in sends:
                    ends = (sends[message], event)
                    points = [self.at[self.processes.index(end.process), end.index] for end in ends]
                    named = [{key: point[key] for key in ("lane", "index", "x", "rank")} for point in points]
                    self.messages.append({"message": message, "from": named[0], "to": named[1]})

    def inside(self, first: int, last: int, lanes: Sequence[int]) -> list[dict[str, Any]]:
        return [one for one in self.events if first <= one["x"] <= last and one["lane"] in lanes]

    def touching(self, shown: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages with an end among these events."""
        points = {(one["lane"], one["index"]) for one in shown}
        ends = [
            (one, {(one["from"]["lane"], one["from"]["index"]), (one["to"]["lane"], one["to"]["index"])})
            for one in self.messages
        ]
        return [one for one, both in ends if both & points]
