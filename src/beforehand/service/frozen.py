"""The questions of `Queries`, of a history that does not change: a directory of the pipeline, an imported file.

1. Same methods and same JSON keys as `Queries`; the answers are those of a store that was given the same events and
   whose deadlines have passed. Reported clocks differ: here they are judged, and stamps come from messages alone.
2. Nothing waits: events are `complete`, or `incomplete` where indexes or sends are missing in their past.
3. `find`, `order`, `future` and `concurrent` come page by page; a cursor is the place of an event in the
   deterministic order, as a store gives it.

What differs between a directory and a file in memory is in `Answers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.events import Event, EventId
from beforehand.formats import to_json
from beforehand.history import Cut, Explanation
from beforehand.pipeline.documents import event_record
from beforehand.predicate import Predicate
from beforehand.service.finding import Place, decode_cursor
from beforehand.service.past import RANGES_MAX
from beforehand.service.queries import no_cut, page_size
from beforehand.service.reaching import Reach
from beforehand.service.schema import NO_TIME

__all__ = ["Answers", "Found", "FrozenQueries", "Lacks", "NamedSpan", "Related", "holes_in"]

Document = dict[str, Any]
Named = EventId | str | Event
NamedSpan = tuple[str, int, int]  # A process, and its indexes from the second up to before the third.

_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """A page of events, each with its place in the deterministic order."""

    events: Sequence[tuple[Event, Place]]
    after: Place | None  # Where the next page goes on; None if there is none.


@dataclass(frozen=True, slots=True)
class Related:
    """What the first event is to the second."""

    relation: str
    chain: Sequence[EventId]  # From the earlier one to the later one; empty if they are concurrent.
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Lacks:
    """What is not in an execution though something depends on it."""

    holes: Mapping[str, Sequence[tuple[int, int]]]  # Per process, indexes that are missing, as ranges; growing.
    unsent: Mapping[str, Sequence[tuple[int, str]]]  # Per process, (index, message) of receives nobody sent; growing.

    def whole_to(self, process: str) -> int:
        """The greatest index up to which nothing is missing on the process itself."""
        first = [self.holes[process][0][0]] if self.holes.get(process) else []
        first += [self.unsent[process][0][0]] if self.unsent.get(process) else []
        return min(first, default=_END) - 1


class Answers(ABC):
    """What `FrozenQueries` asks of a history. Any thread may call any method."""

    @abstractmethod
    def find_id(self, event: Named) -> EventId: ...

    @abstractmethod
    def one_execution(self, execution: str | None) -> str | None:
        """The execution that is meant, which is there; the only one if None. None if there is no event at all."""

    @abstractmethod
    def event(self, event: EventId) -> tuple[Event, Place]: ...

    @abstractmethod
    def stamp(self, event: EventId) -> Mapping[str, int]: ...

    @abstractmethod
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
        """Events in the deterministic order, or against it; of one execution, or all; inside spans, if given."""

    @abstractmethod
    def count(self, execution: str, spans: Sequence[NamedSpan]) -> int: ...

    @abstractmethod
    def explain(self, event: EventId, last: int, where: Predicate | None, process: str | None) -> Explanation: ...

    @abstractmethod
    def relate(self, first: EventId, second: EventId) -> Related: ...

    @abstractmethod
    def reach(self, event: EventId) -> Reach: ...

    @abstractmethod
    def cut_at(self, time: int, execution: str) -> Cut: ...

    @abstractmethod
    def cut_after(self, events: Sequence[EventId]) -> Cut: ...

    @abstractmethod
    def cut(self, cut: Mapping[str, int], execution: str) -> Cut: ...

    @abstractmethod
    def largest_inside(self, cut: Mapping[str, int], execution: str) -> Mapping[str, int]:
        """The largest consistent cut inside this one."""

    @abstractmethod
    def last_indexes(self, execution: str) -> Mapping[str, int]:
        """Per process of the execution, the index of its last event."""

    @abstractmethod
    def lacks(self, execution: str) -> Lacks: ...

    @abstractmethod
    def checks(self, execution: str | None, delta_ns: int | None, limit: int) -> Document: ...

    @abstractmethod
    def rejected(self, limit: int, after: int) -> tuple[list[Document], bool]: ...

    def complete_to(self, execution: str) -> Mapping[str, int]:
        """Per process, the greatest index up to which all of the past is here."""
        lacks, last = self.lacks(execution), self.last_indexes(execution)
        whole = {process: min(lacks.whole_to(process), index) for process, index in last.items()}
        return last if whole == dict(last) else self.largest_inside(whole, execution)


class FrozenQueries:
    """`Questions` of a history that does not change."""

    def __init__(self, answers: Answers) -> None:
        self.answers: Final = answers
        self._complete: dict[str, Mapping[str, int]] = {}  # Per execution; the last `_KEPT` asked for.

    # Events.

    def find(
        self,
        where: Predicate | None = None,
        *,
        limit: int = 50,
        execution: str | None = None,
        after: str | None = None,
    ) -> Document:
        place, size = decode_cursor(after), page_size(limit)
        only = None if execution is None else self.answers.one_execution(execution)
        found = self.answers.page(only, where, place, limit=size, newest=True)
        return self._paged(found)

    def order(self, *, limit: int = 1_000, execution: str | None = None, after: str | None = None) -> Document:
        place, size = decode_cursor(after), page_size(limit)
        only = self.answers.one_execution(execution)
        if only is None:
            return {"events": [], "more": False, "cursor": None}
        found = self.answers.page(only, None, place, limit=size, newest=False)
        events = [{"id": str(event.id), **_native(event)} for event, _ in found.events]
        return {"events": events, "more": found.after is not None, "cursor": _cursor(found.after)}

    def event(self, event: Named) -> Document:
        one, place = self.answers.event(self.answers.find_id(event))
        return {
            **self._record(one),
            **_native(one),
            "id": str(one.id),
            "stamp": dict(sorted(self.answers.stamp(one.id).items())),
            "causal_time": None if place[0] == NO_TIME else place[0],
            "past_size": place[1],
            "arrival": None,
            "conflicts": [],
        }

    # Precedence.

    def past(
        self,
        event: Named,
        *,
        last: int = 25,
        where: Predicate | None = None,
        process: str | None = None,
        complete: bool = False,
    ) -> Document:
        size = page_size(last, least=0)
        one = self.answers.find_id(event)
        state = self.state(one)
        document: Document = {"event": str(one), "state": state, "complete": state == "complete"}
        notes: list[str] = []
        if complete and state != "complete":
            document |= {"past": None, "events": None}
            notes.append("the past is not complete, and this history will not grow: ask without it")
        else:
            found = self.answers.explain(one, size, where, process)
            document |= {"past": found.past, "events": [self._record(event) for event in found.events]}
        upto = {} if state == "complete" else self.answers.stamp(one)
        return {**document, **self._missing(one.execution, upto, notes), "notes": notes}

    def future(self, event: Named, *, limit: int = 50, after: str | None = None) -> Document:
        one = self.answers.find_id(event)
        reach = self.answers.reach(one)
        spans = [(process, first, _END) for process, first in reach.future_from.items()]
        return self._spans(one, spans, limit, after, "future")

    def concurrent(self, event: Named, *, limit: int = 50, after: str | None = None) -> Document:
        one = self.answers.find_id(event)
        reach = self.answers.reach(one)
        spans = [
            (process, reach.past_to.get(process, 0) + 1, reach.future_from.get(process, _END))
            for process in self.answers.last_indexes(one.execution)
            if process != one.process
        ]
        return self._spans(one, spans, limit, after, "concurrent")

    def relate(self, first: Named, second: Named) -> Document:
        a, b = self.answers.find_id(first), self.answers.find_id(second)
        found = self.answers.relate(a, b)
        return {
            "first": str(a),
            "second": str(b),
            "relation": found.relation,
            "chain": [str(event) for event in found.chain],
            "reasons": list(found.reasons),
        }

    # Cuts.

    def cut_at(self, time: int, *, execution: str | None = None) -> Document:
        only = self.answers.one_execution(execution)
        return _cut_document(None if only is None else self.answers.cut_at(time, only))

    def cut_after(self, *events: Named) -> Document:
        ids = [self.answers.find_id(event) for event in events]
        if not ids:
            raise InputError("a cut after no event: name one")
        others = [one for one in ids if one.execution != ids[0].execution]
        if others:
            raise InputError(
                f"{ids[0].execution!r} and {others[0].execution!r} are different executions: a cut is of one"
            )
        return _cut_document(self.answers.cut_after(ids))

    def cut(self, cut: Mapping[str, int], *, execution: str | None = None) -> Document:
        only = self.answers.one_execution(execution)
        if only is None and cut:
            raise InputError(f"the cut names {min(cut)!r}, which is no process of this history")
        return _cut_document(None if only is None else self.answers.cut(cut, only))

    # Judgement.

    def checks(self, *, execution: str | None = None, delta_ns: int | None = None, limit: int = 100) -> Document:
        size = page_size(limit, least=0)
        only = None if execution is None else self.answers.one_execution(execution)
        return self.answers.checks(only, delta_ns, size)

    def missing(self, *, execution: str | None = None) -> Document:
        only = self.answers.one_execution(execution)
        notes: list[str] = []
        upto = {} if only is None else self.answers.last_indexes(only)
        return {**self._missing(only or "", upto, notes), "waiting": 0, "notes": notes}

    def rejected(self, *, limit: int = 100, after: int = 0) -> Document:
        size = page_size(limit)
        if after < 0:
            raise InputError(f"{after} is no cursor: give the one of the last answer, as it was")
        found, more = self.answers.rejected(size, after)
        return {"rejected": found, "more": more, "cursor": after + len(found) if more else None, "dropped": 0}

    # Inside.

    def state(self, event: EventId) -> str:
        """`complete`, or `incomplete` where something of its past is not here."""
        return "complete" if event.index <= self.complete_to(event.execution).get(event.process, 0) else "incomplete"

    def complete_to(self, execution: str) -> Mapping[str, int]:
        """Per process, the greatest index up to which all of the past is here."""
        found = self._complete.get(execution)
        if found is None:
            found = self.answers.complete_to(execution)
            if len(self._complete) >= _KEPT:
                self._complete.pop(next(iter(self._complete)), None)
            self._complete[execution] = found
        return found

    def _record(self, event: Event) -> Document:
        return {**event_record(event), "state": self.state(event.id)}

    def _paged(self, found: Found) -> Document:
        events = [self._record(event) for event, _ in found.events]
        return {"events": events, "more": found.after is not None, "cursor": _cursor(found.after)}

    def _spans(self, one: EventId, spans: Iterable[NamedSpan], limit: int, after: str | None, what: str) -> Document:
        place, size = decode_cursor(after), page_size(limit)
        filled = [(process, first, end) for process, first, end in spans if first < end]
        found = Found((), None)
        if filled:
            found = self.answers.page(one.execution, None, place, limit=size, newest=False, spans=filled)
        count = self.answers.count(one.execution, filled) if filled else 0
        return {"event": str(one), what: count, **self._paged(found)}

    def _missing(self, execution: str, upto: Mapping[str, int], notes: list[str]) -> Document:
        """What is not here up to these indexes."""
        if not upto:
            return {"missing": [], "unsent": []}
        lacks = self.answers.lacks(execution)
        prefix = f"{execution}/" if execution else ""
        ranges: list[str] = []
        unsent: list[Document] = []
        more = others = 0
        for process in sorted(upto):
            for first, last in lacks.holes.get(process, ()):
                if first > upto[process]:
                    break
                end = min(last, upto[process])
                if len(ranges) < RANGES_MAX:
                    name = f"{prefix}{process}:{first}"
                    ranges.append(name if first == end else f"{name}–{end}")
                else:
                    more += 1
            for index, message in lacks.unsent.get(process, ()):
                if index > upto[process]:
                    break
                if len(unsent) < RANGES_MAX:
                    unsent.append({"message": message, "received": str(EventId(execution, process, index))})
                else:
                    others += 1
        if more:
            notes.append(f"at least {more} more ranges are missing; {RANGES_MAX} are named")
        if others:
            notes.append(f"at least {others} more messages have no send here; {RANGES_MAX} are named")
        return {"missing": ranges, "unsent": unsent}


_KEPT: Final = 1_000


def holes_in(index: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """The ranges of indexes from 1 that are not there, below the last one that is."""
    whole = np.concatenate([[0], index])
    gaps = np.flatnonzero(np.diff(whole) > 1)
    return [(int(whole[at]) + 1, int(whole[at + 1]) - 1) for at in gaps.tolist()]


def _cursor(place: Place | None) -> str | None:
    return None if place is None else urlsafe_b64encode(msgspec.msgpack.encode(place)).decode()


def _native(event: Event) -> Document:
    document: Document = msgspec.json.decode(to_json(event))
    return document


def _cut_document(cut: Cut | None) -> Document:
    if cut is None:
        return no_cut()
    return {
        "cut": dict(cut.cut),
        "front": [str(event) for event in cut.front],
        "in_flight": list(cut.in_flight),
        "unreceived": list(cut.unreceived),
        "consistent": cut.consistent,
    }
