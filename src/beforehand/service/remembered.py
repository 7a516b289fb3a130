"""Events in memory, asked the questions of `Queries`: what an imported file becomes.

Per execution there is a `History`, made when it is first asked for; the last few are kept. All events stand sorted in
the deterministic order, so that pages are found by bisection.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import INDEX_MAX, Event, EventId, Rejection
from beforehand.formats.failing import is_failure
from beforehand.history import Cut, Explanation, History
from beforehand.history.judging import judged_notes
from beforehand.history.kernels import NO_TIME
from beforehand.predicate import Predicate
from beforehand.service.deadlines import check
from beforehand.service.finding import SCANNED_MAX, Place
from beforehand.service.frozen import Answers, Found, FrozenQueries, Lacks, NamedSpan, Related, holes_in
from beforehand.service.reaching import Reach, reach_in_memory
from beforehand.service.views.histories import details_of_history, lanes_of_history
from beforehand.service.views.lanes import Axis, Lanes
from beforehand.service.views.source import Detail, Executions, Point

__all__ = ["CELLS_MAX", "Remembered"]

CELLS_MAX: Final = 50_000_000
"""Events × processes of one execution: its stamps take four bytes each."""
_HISTORIES_KEPT: Final = 32
_CELLS_KEPT: Final = 2 * CELLS_MAX
_READINGS_MAX: Final = 50

Placed = tuple[Place, Event]


class Remembered(Answers):
    """Any thread may call any method. It never changes."""

    def __init__(self, events: Iterable[Event], rejections: Iterable[Rejection] = ()) -> None:
        """`InputError` if an execution has too many processes for its events."""
        self._events: Final[dict[str, list[Event]]] = {}
        for event in events:
            self._events.setdefault(event.execution, []).append(event)
        for execution, mine in self._events.items():
            last: dict[str, int] = {}
            for event in mine:
                last[event.process] = max(last.get(event.process, 0), event.index)
            if sum(last.values()) > INDEX_MAX:
                raise InputError(
                    f"execution {execution[:100]!r} has indexes that add up to more than {INDEX_MAX}: number its "
                    "events from 1"
                )
            if len(mine) * len(last) > CELLS_MAX:
                raise InputError(
                    f"execution {execution[:100]!r} has {len(mine)} events of many processes: more than can be held "
                    "in memory; analyze it, and open the history directory"
                )
        self._lock: Final = threading.RLock()
        self._histories: Final[OrderedDict[str, History]] = (
            OrderedDict()
        )  # At most `_HISTORIES_KEPT` or `_CELLS_KEPT`.
        self._runs: Final[dict[str, list[Placed]]] = {}  # Per execution, in the deterministic order.
        found = list(rejections)
        for execution in sorted(self._events):
            history = self.history(execution)
            found += history.rejections
            self._runs[execution] = [(_place(history, event), event) for event in history.order()]
        self.rejections: Final = tuple(found)
        self._failures: Final = {
            execution: sum(is_failure(event.attributes) for _, event in run) for execution, run in self._runs.items()
        }
        self._all: Final = sorted((one for run in self._runs.values() for one in run), key=_key)
        self.queries: Final = FrozenQueries(self)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def count_of_executions(self) -> int:
        return len(self._events)

    def history(self, execution: str) -> History:
        """One that is here."""
        with self._lock:
            found = self._histories.get(execution)
            if found is None:
                found = self._histories[execution] = History(self._events[execution])
            self._histories.move_to_end(execution)
            cells = sum(kept.stamps.size for kept in self._histories.values())
            while len(self._histories) > 1 and (len(self._histories) > _HISTORIES_KEPT or cells > _CELLS_KEPT):
                _, gone = self._histories.popitem(last=False)
                cells -= gone.stamps.size
            return found

    # For pictures.

    def executions(self, most: int) -> Executions:
        named = sorted(self._runs, key=lambda execution: (-self._runs[execution][-1][0][0], execution))
        return Executions([(name, len(self._runs[name])) for name in named[:most]], len(named) > most, self._failures)

    def lanes(self, execution: str, axis: Axis | None) -> Lanes:
        return lanes_of_history(self.history(execution), axis)

    def details(self, lanes: Lanes, points: Sequence[Point], complete: Mapping[str, int]) -> list[Detail | None]:
        return details_of_history(self.history(lanes.execution), lanes, points, complete)

    # Events.

    def find_id(self, event: EventId | str | Event) -> EventId:
        if isinstance(event, Event):
            event = event.id
        if isinstance(event, EventId):
            if event.execution not in self._events:
                raise UnknownEventError(str(event))
            return self.history(event.execution).event(event).id
        process, _, digits = event.rpartition(":")
        if not process or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            raise UnknownEventError(event, ": an event is named process:index, like cart:17")
        index = int(digits)
        if not 1 <= index <= INDEX_MAX:
            raise UnknownEventError(event, ": indexes count from 1")
        readings = [EventId("", process, index)]
        if len(self._events) == 1:
            readings.append(EventId(next(iter(self._events)), process, index))
        slashes = [at for at, character in enumerate(process) if character == "/"][:_READINGS_MAX]
        readings += [EventId(process[:at], process[at + 1 :], index) for at in slashes if process[at + 1 :]]
        found = [reading for reading in dict.fromkeys(readings) if self._has(reading)]
        if not found:
            raise UnknownEventError(event, ": find shows the names of events")
        if len(found) > 1:
            raise InputError(
                f"{event!r} may be {found[0].process!r} of execution {found[0].execution!r} or "
                f"{found[1].process!r} of execution {found[1].execution!r}: say which execution"
            )
        return found[0]

    def _has(self, event: EventId) -> bool:
        if event.execution not in self._events:
            return False
        try:
            self.history(event.execution).event(event)
        except UnknownEventError:
            return False
        return True

    def one_execution(self, execution: str | None) -> str | None:
        if execution is None:
            if len(self._events) > 1:
                raise InputError(f"there are {len(self._events)} executions: say which one")
            return next(iter(self._events), None)
        if execution not in self._events:
            raise InputError(f"there is no execution {execution!r} in this file")
        return execution

    def event(self, event: EventId) -> tuple[Event, Place]:
        history = self.history(event.execution)
        found = history.event(event)
        return found, _place(history, found)

    def stamp(self, event: EventId) -> Mapping[str, int]:
        return self.history(event.execution).stamp(event)

    def page(
        self,
        execution: str | None,
        where: Predicate | None,
        after: Place | None,
        *,
        limit: int,
        newest: bool,
        spans: Sequence[NamedSpan] | None = None,
    ) -> Found:
        run = self._all if execution is None else self._runs[execution]
        inside = None if spans is None else {process: (first, end) for process, first, end in spans}
        found: list[Placed] = []
        last = after
        if newest:
            start = len(run) if after is None else bisect_left(run, after, key=_key)
            order = range(start - 1, -1, -1)
        else:
            order = range(0 if after is None else bisect_right(run, after, key=_key), len(run))
        for looked, at in enumerate(order):
            place, event = run[at]
            if len(found) == limit or looked == SCANNED_MAX:
                return Found([(one, at_place) for at_place, one in found], last)
            if where is not None or not looked % 1_000:
                check()  # A pattern may take its time with each event.
            last = place
            if inside is not None:
                first, end = inside.get(event.process, (1, 0))
                if not first <= event.index < end:
                    continue
            if where is None or where(event):
                found.append((place, event))
        return Found([(one, at_place) for at_place, one in found], None)

    def count(self, execution: str, spans: Sequence[NamedSpan]) -> int:
        columns = self.history(execution).columns
        total = 0
        for process, first, end in spans:
            at = columns.processes.index(process)
            index = columns.index[columns.start[at] : columns.start[at + 1]]
            low, high = index.searchsorted((first, end)).tolist()
            total += high - low
        return total

    # Precedence.

    def explain(self, event: EventId, last: int, where: Predicate | None, process: str | None) -> Explanation:
        history = self.history(event.execution)
        if process is not None and process not in history.processes:
            raise InputError(f"there is no process {process!r} in the execution of {event}")

        def meant(one: Event) -> bool:
            check()
            return process in (None, one.process) and (where is None or where(one))

        return history.explain(event, last=last, where=None if process is None and where is None else meant)

    def relate(self, first: EventId, second: EventId) -> Related:
        if first.execution != second.execution:
            return Related("concurrent", (), ())
        history = self.history(first.execution)
        relation = history.compare(first, second)
        chain = history.chain(second, first) if relation == "after" else history.chain(first, second)
        return Related(relation, chain, history.reasons(chain))

    def reach(self, event: EventId) -> Reach:
        return reach_in_memory(self.history(event.execution), event)

    # Cuts.

    def cut_at(self, time: int, execution: str) -> Cut:
        return self.history(execution).cut_at(time)

    def cut_after(self, events: Sequence[EventId]) -> Cut:
        return self.history(events[0].execution).cut_after(*events)

    def cut(self, cut: Mapping[str, int], execution: str) -> Cut:
        return self.history(execution).cut(cut)

    def largest_inside(self, cut: Mapping[str, int], execution: str) -> Mapping[str, int]:
        return self.history(execution).largest_consistent_cut(cut).cut

    def last_indexes(self, execution: str) -> Mapping[str, int]:
        columns = self.history(execution).columns
        return {p: int(columns.index[columns.start[at + 1] - 1]) for at, p in enumerate(columns.processes)}

    # Judgement.

    def lacks(self, execution: str) -> Lacks:
        columns = self.history(execution).columns
        unsent: dict[str, list[tuple[int, str]]] = {}
        receive_row, source = columns.receive_row, columns.source
        for r in (source < 0).nonzero()[0].tolist():
            row = int(receive_row[r])
            message = columns.messages[columns.receive_message[r]]
            unsent.setdefault(columns.processes[columns.process[row]], []).append((int(columns.index[row]), message))
        holes = {
            process: holes_in(columns.index[columns.start[at] : columns.start[at + 1]])
            for at, process in enumerate(columns.processes)
        }
        return Lacks(holes, unsent)

    def checks(self, execution: str | None, delta_ns: int | None, limit: int) -> dict[str, Any]:
        name = self.one_execution(execution)
        if name is None:
            return {"counts": {}, "judged": {}, "violations": [], "notes": ["there are no events"]}
        found = self.history(name).check(delta_ns=delta_ns, limit=limit)
        violations = [
            {
                "execution": name,
                "kind": one.kind,
                "events": [str(event) for event in one.events],
                "messages": list(one.messages),
                "why": one.why,
                "reasons": list(one.reasons),
            }
            for one in found.violations
        ]
        return {
            "counts": found.known,
            "judged": {kind: one.document() for kind, one in found.judged.items()},
            "violations": violations,
            "notes": [*found.notes, *judged_notes(found.judged)],
        }

    def rejected(self, limit: int, after: int) -> tuple[list[dict[str, Any]], bool]:
        chosen = self.rejections[after : after + limit]
        found = [
            {
                "execution": one.events[0].execution if one.events else None,
                "reason": one.reason,
                "detail": one.detail,
                "message": one.message,
                "events": [str(event) for event in one.events],
                "text": one.text,
                "file": one.file,
                "line": one.line,
                "offset": one.offset,
            }
            for one in chosen
        ]
        return found, after + limit < len(self.rejections)


def _key(placed: Placed) -> Place:
    return placed[0]


def _place(history: History, event: Event) -> Place:
    time = history.causal_time(event)
    size = history.past_size(event)
    return (NO_TIME if time is None else time, size, event.process, event.index, event.execution)
