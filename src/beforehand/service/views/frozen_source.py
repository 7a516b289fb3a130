"""A history that does not change as a source of pictures: a directory of the pipeline, an imported file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

from beforehand.events import EventId
from beforehand.service.frozen import FrozenQueries
from beforehand.service.reaching import Reach
from beforehand.service.views.cache import LanesCache
from beforehand.service.views.lanes import Axis, Lanes
from beforehand.service.views.source import Detail, Executions, Point, Violations, violations_of

__all__ = ["Drawn", "FrozenSource"]

VIOLATIONS_MAX: Final = 1_000
"""Violations of an execution that pictures show."""

_KEPT: Final = 100


class Drawn(Protocol):
    """What a frozen history gives for pictures, beside its answers. Any thread may call any method."""

    def executions(self, most: int) -> Executions: ...

    def lanes(self, execution: str, axis: Axis | None) -> Lanes: ...

    def details(self, lanes: Lanes, points: Sequence[Point], complete: dict[str, int]) -> list[Detail | None]: ...


class FrozenSource:
    """Of its questions, and of what it gives for pictures."""

    def __init__(self, name: str, queries: FrozenQueries, drawn: Drawn) -> None:
        self.name: Final = name
        self._queries: Final = queries
        self._drawn: Final = drawn
        self._lanes: Final = LanesCache()
        self._lock: Final = threading.Lock()
        self._violations: Final[OrderedDict[str, Violations]] = OrderedDict()  # At most `_KEPT`.

    def close(self) -> None:
        self._lanes.close()

    def executions(self, most: int) -> Executions:
        return self._drawn.executions(most)

    def one_execution(self, execution: str | None) -> str | None:
        return self._queries.answers.one_execution(execution)

    def lanes(self, execution: str, axis: Axis | None) -> Lanes:
        default = self._lanes.kept((execution, ""))
        if default is not None and default.axis == axis:
            return default
        return self._lanes.get((execution, axis or ""), lambda _: self._drawn.lanes(execution, axis), lambda _: True)

    def details(self, lanes: Lanes, points: Sequence[Point]) -> list[Detail | None]:
        return self._drawn.details(lanes, points, dict(self._queries.complete_to(lanes.execution)))

    def find_id(self, event: EventId | str) -> EventId:
        return self._queries.answers.find_id(event)

    def reach(self, event: EventId) -> Reach:
        return self._queries.answers.reach(event)

    def violations(self, execution: str) -> Violations:
        with self._lock:
            found = self._violations.get(execution)
        if found is None:
            document = self._queries.checks(execution=execution, limit=VIOLATIONS_MAX)
            counts = [count for count in document["counts"].values() if count is not None]
            found = violations_of(execution, sum(counts) if counts else None, document["violations"])
            with self._lock:
                self._violations[execution] = found
                while len(self._violations) > _KEPT:
                    self._violations.popitem(last=False)
        return found
