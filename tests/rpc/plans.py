"""Plans of nested calls, the truth about them that the programs note by themselves, and what was recorded."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from beforehand.clocks import VectorStamp
from beforehand.events import Event
from beforehand.formats import read_lines
from beforehand.history import History
from beforehand.reporting import Reporter

SERVICES = ("gateway", "cart", "stock")


@dataclass
class Truth:
    """What the programs did, noted by themselves: per process its steps, each (kind, call)."""

    steps: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, process: str, kind: str, call: str) -> None:
        with self.lock:
            self.steps.setdefault(process, []).append((kind, call))

    def happened_before(self) -> set[tuple[tuple[str, int], tuple[str, int]]]:
        """All pairs, each event as (process, position from 1): closure of program order and messages."""
        place = {
            (kind, call): (process, at)
            for process, steps in self.steps.items()
            for at, (kind, call) in enumerate(steps, start=1)
        }
        following: dict[tuple[str, int], list[tuple[str, int]]] = {event: [] for event in place.values()}
        for process, steps in self.steps.items():
            for at in range(1, len(steps)):
                following[process, at].append((process, at + 1))
        for (kind, call), event in place.items():
            later = {"call": "serve", "answer": "answered"}.get(kind)
            if later is not None and (later, call) in place:
                following[event].append(place[later, call])
        return {(event, later) for event in following for later in _reached(event, following)}


def _reached(
    event: tuple[str, int], following: Mapping[tuple[str, int], list[tuple[str, int]]]
) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    todo = list(following[event])
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += following[at]
    return found


class Recorder:
    """Reporters that keep their lines in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._reporters: list[Reporter] = []

    def reporter(self, process: str, *, stamps: bool = True) -> Reporter:
        reporter = Reporter(self.lines.extend, process=process, stamps=stamps, linger=0)
        self._reporters.append(reporter)
        return reporter

    def events(self) -> list[Event]:
        for reporter in self._reporters:
            assert reporter.close()
            assert not reporter.dropped
        return list(read_lines(enumerate(self.lines)))


def recorded_before(events: Iterable[Event]) -> set[tuple[tuple[str, int], tuple[str, int]]]:
    """The same pairs from the history of what was reported; the reported stamps must agree with it."""
    history = History(events)
    assert history.rejections == ()
    listed = history.order()
    pairs = {
        ((a.process, a.index), (b.process, b.index)) for a in listed for b in listed if history.happened_before(a, b)
    }
    stamps = {(e.process, e.index): VectorStamp(e.clock) for e in listed if e.clock is not None}
    by_stamps = {(a, b) for a in stamps for b in stamps if stamps[a] < stamps[b]}
    assert by_stamps == {(a, b) for a, b in pairs if a in stamps and b in stamps}
    return pairs


def until(condition: Callable[[], bool]) -> None:
    """For what happens in other threads a moment later: gRPC's callbacks, a call that begins to wait."""
    waiting = threading.Event()
    for _ in range(2000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("not in time")


def kinds(events: Iterable[Event]) -> dict[str, list[str]]:
    """Per process, the first word of each event's name, in order."""
    found: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda event: (event.process, event.index)):
        found.setdefault(event.process, []).append(event.name.split(" ")[0])
    return found


Plan = dict[str, object]  # {"call": id, "to": service, "then": [plans]}


def random_plan(draw: random.Random, name: str, depth: int, *, away_from: str = "") -> Plan:
    to = draw.choice([service for service in SERVICES if service != away_from])
    below = draw.randint(0, 3) if depth else 0
    then = [random_plan(draw, f"{name}.{number}", depth - 1, away_from=to) for number in range(below)]
    return {"call": name, "to": to, "then": then}


def calls_in(plan: Plan) -> int:
    then = plan["then"]
    assert isinstance(then, list)
    return 1 + sum(calls_in(step) for step in then)
