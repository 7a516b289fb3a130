"""Which spans of an execution are which: names for each, and who is meant when a span id is referenced.

An id should name one span, and often does not. What shares an id within a trace is told apart so:

1. Records that are equal in every field are one span that was reported twice: one stays, the others are rejected
   with reason `duplicate-span`. Nothing is lost.
2. A client (or producer) and one or more servers (or consumers) are the two sides of one call (Zipkin's shared
   spans, and their copies in Jaeger). The server's parent is then the client with its own id, in place of the
   parents that both report; parents that only the server reports stay.
3. Others are different spans by mistake. All stay, each with its own events, and each but the first gives a
   rejection `same-id`: whoever references the id may mean another than we take.

A reference to an id with several spans means the one on the referring span's own process, if there is one: a server's
children run where the server runs. Else it means the server side, which is the later one; else the first.

Labels name spans in message ids: the span id, with the trace id and `/` before it where the trace is not the
execution's name, and `#2`, `#3` behind it if several spans have the id. In ids that are not hexadecimal the
characters that labels and message ids are made with (`/`, `#`, `>`, `%`) are written `%2F` and so on, so no two spans
have one label, nor has an absent one the label of another.

Nothing here depends on the order in which spans come. Who is meant is looked up in constant time, after one pass over
the spans of each id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from beforehand.formats.spans.records import LogRecord, Reference, ReferenceKind, Span, SpanKind

__all__ = ["DUPLICATE_SPAN", "SAME_ID", "Finding", "Identified", "identify", "process_of"]

DUPLICATE_SPAN: Final = "duplicate-span"
SAME_ID: Final = "same-id"

_CALLERS: Final = frozenset({SpanKind.CLIENT, SpanKind.PRODUCER})
_CALLEES: Final = frozenset({SpanKind.SERVER, SpanKind.CONSUMER})
_UNKNOWN_SERVICE: Final = "unknown-service"
_RESERVED: Final = str.maketrans({mark: quote(mark, safe="") for mark in "/#>%"})


@dataclass(frozen=True, slots=True)
class Finding:
    """A rejection in the making: which spans it is about, by position; their events get their ids later."""

    reason: str
    detail: str
    spans: tuple[int, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Identified:
    """The distinct spans of an execution, in an order of their own."""

    spans: Sequence[Span]
    labels: Sequence[str]  # Per span, its name in message ids: unique within the execution.
    processes: Sequence[str]  # Per span.
    by_id: dict[tuple[str, str], list[int]]  # (trace, span id) to positions, callers first.
    findings: list[Finding]
    # (trace, span id) of several spans, and a process, or None for any, to the two that are meant first.
    _preferred: dict[tuple[str, str], dict[str | None, list[int]]] = field(default_factory=dict)
    _shared: dict[int, frozenset[Reference]] = field(default_factory=dict)  # Per caller, its parents and itself.

    def meant(self, reference: Reference | LogRecord, by: str, *, other_than: int = -1) -> int | None:
        """The span that is meant by a reference made on process `by`; None if it is absent."""
        key = (reference.trace_id, reference.span_id)
        group = self.by_id.get(key, ())
        if len(group) < 2:
            return next((at for at in group if at != other_than), None)
        preferred = self._preferred.get(key)
        if preferred is None:
            preferred = self._preferred[key] = self._preferences(group)
        here = (at for at in preferred.get(by, ()) if at != other_than)
        anywhere = (at for at in preferred[None] if at != other_than)
        found = next(here, None)
        return next(anywhere) if found is None else found

    def caller(self, at: int) -> int | None:
        """The other side of a call, if this span is the called side and shares its id."""
        span = self.spans[at]
        if span.kind not in _CALLEES:
            return None
        first = self.by_id[span.trace_id, span.span_id][0]
        return first if self.spans[first].kind in _CALLERS else None

    def references(self, at: int) -> list[Reference]:
        """The references of a span, each once, less those that its caller has in its place."""
        span = self.spans[at]
        references = dict.fromkeys(span.references)
        caller = self.caller(at)
        if caller is None:
            return list(references)
        shared = self._shared.get(caller)
        if shared is None:
            # Whoever names its own id as its parent means the caller, which is its parent already.
            own = Reference(span.trace_id, span.span_id, ReferenceKind.CHILD_OF)
            parents = (r for r in self.spans[caller].references if r.kind is ReferenceKind.CHILD_OF)
            shared = self._shared[caller] = frozenset({own, *parents})
        return [r for r in references if r not in shared]

    def _preferences(self, group: Sequence[int]) -> dict[str | None, list[int]]:
        """Called sides first. Two are enough: whoever refers may itself be one of them."""
        found: dict[str | None, list[int]] = {None: []}
        for at in sorted(group, key=lambda at: (self.spans[at].kind not in _CALLEES, at)):
            for process in (self.processes[at], None):
                first = found.setdefault(process, [])
                if len(first) < 2:
                    first.append(at)
        return found

    def label(self, reference: Reference, execution: str) -> str:
        """The name of a span that is absent."""
        return _label(reference.trace_id, reference.span_id, execution)


def identify(spans: Iterable[Span], execution: str) -> Identified:
    """The distinct spans of an execution."""
    groups: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        groups.setdefault((span.trace_id, span.span_id), []).append(span)
    found = Identified([], [], [], {}, [])
    # Lists while they are built here; sequences to everybody else.
    kept: list[Span] = found.spans  # type: ignore[assignment]
    labels: list[str] = found.labels  # type: ignore[assignment]
    processes: list[str] = found.processes  # type: ignore[assignment]
    for (trace_id, span_id), group in sorted(groups.items(), key=lambda item: item[0]):
        label = _label(trace_id, span_id, execution)
        members: list[int] = []
        for span in group if len(group) == 1 else sorted(group, key=_content):
            if members and span == kept[members[-1]]:
                detail = f"span {label} is reported again, equal in every field: it is counted once"
                found.findings.append(Finding(DUPLICATE_SPAN, detail, (members[-1],)))
                continue
            members.append(len(kept))
            kept.append(span)
            labels.append(label if len(members) == 1 else f"{label}#{len(members)}")
            processes.append(process_of(span))
        found.by_id[trace_id, span_id] = members
        if len(members) > 1 and not _is_call([kept[at] for at in members]):
            for at in members[1:]:
                detail = f"{len(members)} different spans have the id {label}: all stay, but references to it may err"
                found.findings.append(Finding(SAME_ID, detail, (members[0], at)))
    return found


def process_of(record: Span | LogRecord) -> str:
    """The process of a span or log record: its service, and its instance or else its host."""
    service = record.service or _UNKNOWN_SERVICE
    where = record.instance or record.host
    return f"{service}@{where}" if where and where != service else service


def _label(trace_id: str, span_id: str, execution: str) -> str:
    span = span_id.translate(_RESERVED)
    return span if trace_id == execution else f"{trace_id.translate(_RESERVED)}/{span}"


def _content(span: Span) -> tuple[object, ...]:
    """A total order of spans with one id: callers first, then by time, then by all the rest."""
    return (
        span.kind not in _CALLERS,
        span.start_ns is None,
        span.start_ns or 0,
        span.end_ns is None,
        span.end_ns or 0,
        span.service,
        span.instance,
        span.host,
        span.kind,
        span.name,
        span.references,
        span.error,
        span.message,
        str(span.remote_parent),
        sorted(span.attributes.items()),
        [(str(event.time_ns), event.name, sorted(event.attributes.items())) for event in span.events],
    )


def _is_call(group: list[Span]) -> bool:
    """One caller and any number of called ones: a push to many has several."""
    callers = sum(span.kind in _CALLERS for span in group)
    callees = sum(span.kind in _CALLEES for span in group)
    return callers == 1 and callers + callees == len(group)
