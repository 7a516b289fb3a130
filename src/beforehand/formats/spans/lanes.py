"""Spans of one execution as events on lanes: the second stage of reading a trace.

A process is sequential, and what a tracer calls a service is not: many spans run in it at once. So the spans of a
process (service and instance, else host) are laid on lanes, each of which is a process of the history: `cart`,
`cart#2`, and so on. Guaranteed:

1. Each span gives an event `start` and an event `end` (attribute `phase`), with its name, its attributes and its id
   (`span`); a failed span's end has `level` = error. An unfinished span gives no end. What happened inside it, its
   own events and the log records that name it, stands between the two, whatever the times say; a log record from
   another process than its span's names that process (`service`). Times are as they came.
2. On a lane, spans are nested or one after the other, in time and in order; indexes are 1, 2, 3, ... A span joins
   its parent's lane if it ran inside it on the same process and nothing else is open there; else it takes the
   lowest lane of its process that is free. A child that starts before its parent, by skew, has its own lane.
3. Edges between lanes are inferred messages, one each: `~child:`, `~return:`, `~follows:`, `~link:` with the labels
   of the two spans (causes.py says which edges there are). A reference to an absent span is the receive of a
   message that nobody sent.
4. The events have no cycle: lanes follow one order that respects every edge.
5. The same spans in any order give the same events. No input raises.

A log record without a span, or whose span is absent, goes to its service's own lane: `cart` if the service has no
spans in this execution, else `cart#logs`.

Reasons of rejections: `duplicate-span`, `same-id` (identity.py), `cycle` (causes.py), and

    negative-duration   a span ends before it starts by its own clock: both times are kept, and start comes before end
    no-time             a span has neither start nor end: its event has no time and is alone on its lane

Notes: `missing-spans`, `unfinished`, `outside` (events that lie outside their span by the clock), `lone-logs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from beforehand.events import INFERRED, Event, EventId, Rejection
from beforehand.formats.spans.causes import RETURN, Causes, causes_of, end_of, start_of
from beforehand.formats.spans.fields import put_attribute
from beforehand.formats.spans.identity import Finding, Identified, identify, process_of
from beforehand.formats.spans.records import LogRecord, Note, Span

__all__ = ["NEGATIVE_DURATION", "NO_TIME", "Laned", "executions", "spans_to_events"]

NEGATIVE_DURATION: Final = "negative-duration"
NO_TIME: Final = "no-time"

# How many free lanes are tried before a new one is opened; one fails only where clocks contradict causality.
_TRIED_MAX: Final = 64
_NOTES: Final = {
    "missing-spans": "references name spans that are not in the input: each is a receive that nobody sent",
    "unfinished": "spans have no end: they have one event",
    "outside": "events or log records lie outside their span by the clock: they stand inside it, with their times",
    "lone-logs": "log records name no span of the input: they stand on their service's own lane",
}


@dataclass(frozen=True, slots=True)
class Laned:
    """The events of one execution, by process and index, and what there is to say about them."""

    events: list[Event]
    rejections: list[Rejection]
    notes: list[Note]


def executions(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> dict[str, str]:
    """Trace id to the name of its execution: traces that reference each other are one, named by their smallest id.

    A reference to a trace of which there is neither a span nor a log record joins nothing.
    """
    leader = {log.trace_id: log.trace_id for log in logs}
    joins: set[tuple[str, str]] = set()
    for span in spans:
        leader.setdefault(span.trace_id, span.trace_id)
        for reference in span.references:
            if reference.trace_id != span.trace_id:
                joins.add((span.trace_id, reference.trace_id))

    def find(trace_id: str) -> str:
        while leader[trace_id] != trace_id:
            leader[trace_id] = leader[leader[trace_id]]
            trace_id = leader[trace_id]
        return trace_id

    for one, other in joins:
        if other in leader:
            first, second = sorted((find(one), find(other)))
            leader[second] = first
    return {trace_id: find(trace_id) for trace_id in leader}


def spans_to_events(spans: Iterable[Span], logs: Iterable[LogRecord] = (), *, execution: str | None = None) -> Laned:
    """The events of one execution, named by `execution` or else by its smallest trace id."""
    given, records = list(spans), list(logs)
    if execution is None:
        # A log record without a trace says nothing about the name.
        traces = [span.trace_id for span in given] + [log.trace_id for log in records if log.trace_id]
        execution = min(traces, default="")
    identified = identify(given, execution)
    causes = causes_of(identified, execution)
    board = _Board(identified, causes, execution)
    board.take_logs(records)
    board.place()
    board.join()
    return board.result()


@dataclass(slots=True, eq=False)
class _Draft:
    """An event before it has its index and messages."""

    time: int | None
    name: str
    attributes: dict[str, str]
    sends: list[str] = field(default_factory=list)
    receives: list[str] = field(default_factory=list)
    id: EventId | None = None


@dataclass(slots=True, eq=False)
class _Lane:
    name: str
    number: int  # From 1, within its process.
    drafts: list[_Draft] = field(default_factory=list)
    open: list[int] = field(default_factory=list)  # Spans, each inside the one before it.
    last: int = -(2**63)  # The latest time on the lane so far.


class _Board:
    """Lays the spans of one execution on lanes."""

    def __init__(self, identified: Identified, causes: Causes, execution: str) -> None:
        self._identified = identified
        self._causes = causes
        self._execution = execution
        size = len(identified.spans)
        self._lane: list[_Lane | None] = [None] * size
        self._first: list[_Draft | None] = [None] * size  # Per span, its first own event.
        self._end: list[_Draft | None] = [None] * size  # Per span, its end, if that is another event than its first.
        self._inside: list[list[tuple[int, _Draft]]] = [[] for _ in range(size)]  # Latest first, to be taken off.
        self._lanes: dict[str, list[_Lane]] = {}
        self._free: dict[str, list[int]] = {}  # Per process, a heap of lane numbers.
        self._taken = set(identified.processes)  # Names that a numbered lane may not have.
        self._lone: dict[str, list[LogRecord]] = {}
        self._notes: Counter[str] = Counter()

    # Log records join their spans.

    def take_logs(self, logs: list[LogRecord]) -> None:
        of_span: dict[int, list[LogRecord]] = {}
        for log in sorted(logs, key=_log_content):
            process = process_of(log)
            at = self._identified.meant(log, process) if log.span_id else None
            if at is None:
                self._lone.setdefault(process, []).append(log)
                self._taken.add(process)
            else:
                of_span.setdefault(at, []).append(log)
        for at, span in enumerate(self._identified.spans):
            if span.events or at in of_span:
                self._inside[at] = self._inner(span, of_span.get(at, []))

    def _inner(self, span: Span, logs: list[LogRecord]) -> list[tuple[int, _Draft]]:
        begun, over = start_of(span), end_of(span)
        found: list[tuple[int, _Draft]] = []
        for event in span.events:
            attributes = self._marked(event.attributes, span.trace_id, span.span_id, "event")
            found.append((begun, _Draft(event.time_ns, event.name, attributes)))
        found += [(begun, self._log_draft(log, process_of(span))) for log in logs]
        found = [(begun if draft.time is None else draft.time, draft) for _, draft in found]
        self._notes["outside"] += sum(not begun <= time <= over for time, _ in found)
        found.sort(key=lambda pair: pair[0])
        found.reverse()
        return found

    def _log_draft(self, log: LogRecord, process: str) -> _Draft:
        attributes = self._marked(log.attributes, log.trace_id, log.span_id, "log")
        if process_of(log) != process and (log.service or log.instance or log.host):
            put_attribute(attributes, "service", process_of(log))
        if log.level:
            put_attribute(attributes, "level", log.level)
        return _Draft(log.time_ns, log.name, attributes)

    def _marked(self, given: Mapping[str, str], trace_id: str, span_id: str, phase: str) -> dict[str, str]:
        attributes = dict(given)
        if span_id:
            put_attribute(attributes, "span", span_id)
        put_attribute(attributes, "phase", phase)
        if trace_id and trace_id != self._execution:
            put_attribute(attributes, "trace", trace_id)
        return attributes

    # Spans take their places, in the one order that respects all edges.

    def place(self) -> None:
        for node in self._causes.order:
            at = node >> 1
            if node & 1:
                self._close(at)
            else:
                self._open(at)
        for process, logs in sorted(self._lone.items()):
            name = f"{process}#logs" if process in self._lanes else process
            lane = _Lane(self._unique(name) if process in self._lanes else name, 0)
            lane.drafts = [self._log_draft(log, process) for log in logs]
            self._lanes.setdefault(process, []).append(lane)
            self._notes["lone-logs"] += len(logs)

    def _open(self, at: int) -> None:
        span = self._identified.spans[at]
        lane = self._lane_for(at)
        self._lane[at] = lane
        if lane.open:
            self._flush(lane, up_to=start_of(span))
        attributes = self._marked(span.attributes, span.trace_id, span.span_id, "start")
        if span.kind:
            put_attribute(attributes, "span.kind", span.kind.value)
        if span.start_ns is None and span.end_ns is not None:
            draft = self._end_draft(span, attributes)  # All that is known of it is its end.
        else:
            draft = _Draft(span.start_ns, span.name, attributes)
        self._first[at] = draft
        lane.drafts.append(draft)
        lane.open.append(at)
        lane.last = max(lane.last, start_of(span) if span.start_ns is None else span.start_ns)

    def _close(self, at: int) -> None:
        span, lane, first = self._identified.spans[at], self._lane[at], self._first[at]
        assert lane is not None
        assert first is not None
        assert lane.open[-1] == at
        self._flush(lane, up_to=None)
        if span.end_ns is None:
            self._notes["unfinished"] += 1
        elif span.start_ns is not None:
            draft = self._end_draft(span, first.attributes)
            self._end[at] = draft
            lane.drafts.append(draft)
        lane.open.pop()
        lane.last = max(lane.last, end_of(span))
        if not lane.open:
            heappush(self._free[self._identified.processes[at]], lane.number)

    def _end_draft(self, span: Span, attributes: Mapping[str, str]) -> _Draft:
        ended = {**attributes, "phase": "end"}
        if span.error:
            put_attribute(ended, "level", "error")
            if span.message:
                put_attribute(ended, "message", span.message)
        return _Draft(span.end_ns, span.name, ended)

    def _flush(self, lane: _Lane, *, up_to: int | None) -> None:
        """Give the innermost open span's inner events their places, up to a time."""
        inside = self._inside[lane.open[-1]]
        while inside and (up_to is None or inside[-1][0] <= up_to):
            lane.drafts.append(inside.pop()[1])

    def _lane_for(self, at: int) -> _Lane:
        begun = start_of(self._identified.spans[at])
        if self._causes.nested[at]:
            parent = self._causes.parent[at]
            lane = self._lane[parent]
            assert lane is not None  # Causes come before effects in the order.
            if lane.open and lane.open[-1] == parent and lane.last <= begun:
                return lane
        process = self._identified.processes[at]
        lanes = self._lanes.setdefault(process, [])
        free = self._free.setdefault(process, [])
        tried: list[int] = []
        while free and len(tried) < _TRIED_MAX:
            number = heappop(free)
            if lanes[number - 1].last <= begun:
                break
            tried.append(number)
        else:
            number = len(lanes) + 1
            lanes.append(_Lane(process if number == 1 else self._unique(f"{process}#{number}"), number))
        for other in tried:
            heappush(free, other)
        return lanes[number - 1]

    def _unique(self, name: str) -> str:
        while name in self._taken:
            name += "'"  # A service may really be called cart#2.
        self._taken.add(name)
        return name

    # Edges become messages where lanes do not say the same.

    def join(self) -> None:
        labels = self._identified.labels
        for edge in self._causes.edges:
            source, target = edge.source, edge.target
            if self._lane[source] is self._lane[target]:
                continue
            if edge.kind == RETURN or edge.from_end:
                sender = self._end[source] or self._first[source]
            else:
                sender = self._first[source]
            receiver = self._end[target] if edge.kind == RETURN else self._first[target]
            if sender is not None and receiver is not None:
                message = f"{INFERRED}{edge.kind}:{labels[source]}>{labels[target]}"
                sender.sends.append(message)
                receiver.receives.append(message)
        for kind, label, at in self._causes.missing:
            receiver = self._first[at]
            assert receiver is not None
            receiver.receives.append(f"{INFERRED}{kind}:{label}>{labels[at]}")
            self._notes["missing-spans"] += 1

    def result(self) -> Laned:
        events: list[Event] = []
        lanes = sorted((lane for lanes in self._lanes.values() for lane in lanes), key=lambda lane: lane.name)
        for lane in lanes:
            for index, draft in enumerate(lane.drafts, 1):
                draft.id = EventId(self._execution, lane.name, index)
                events.append(
                    Event(
                        process=lane.name,
                        index=index,
                        execution=self._execution,
                        sends=tuple(draft.sends),
                        receives=tuple(draft.receives),
                        time=draft.time,
                        name=draft.name,
                        attributes=draft.attributes,
                    )
                )
        findings = [*self._identified.findings, *self._causes.findings, *self._odd_times()]
        notes = [Note(reason=r, detail=_NOTES[r], count=n) for r, n in sorted(self._notes.items()) if n]
        return Laned(events, [self._rejection(finding) for finding in findings], notes)

    def _odd_times(self) -> Iterable[Finding]:
        for at, span in enumerate(self._identified.spans):
            if span.start_ns is None and span.end_ns is None:
                yield Finding(NO_TIME, f"span {self._identified.labels[at]} has neither start nor end", (at,))
            elif span.start_ns is not None and span.end_ns is not None and span.end_ns < span.start_ns:
                detail = (
                    f"span {self._identified.labels[at]} ends {span.start_ns - span.end_ns} ns before it starts: "
                    "both times are kept, and its start comes before its end"
                )
                yield Finding(NEGATIVE_DURATION, detail, (at,))

    def _rejection(self, finding: Finding) -> Rejection:
        drafts = [self._first[at] for at in finding.spans]
        return Rejection(
            reason=finding.reason,
            detail=finding.detail,
            text=self._identified.spans[finding.spans[-1]].name,
            events=tuple(draft.id for draft in drafts if draft is not None and draft.id is not None),
            message=finding.message,
        )


def _log_content(log: LogRecord) -> tuple[object, ...]:
    time = log.time_ns
    return (time is not None, time or 0, log.name, log.level, process_of(log), sorted(log.attributes.items()))
