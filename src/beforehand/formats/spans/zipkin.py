"""Zipkin JSON, versions 2 and 1.

Source: openzipkin, zipkin-api (zipkin2-api.yaml, zipkin-api.yaml) and SpanNode.java. Accepted are a list of spans,
a list of lists (several traces), a single span, any of these one a line, and `{"data": ...}` around them. The
versions are told apart span by span.

Version 2: a span is one half of a call, with `kind` and `localEndpoint`. A server that joins its client's span
reports the same id with `shared`; the two halves become two spans with one id, which `spans_to_events` puts in
their order.

Version 1: one span may hold both halves. Its annotations `cs`, `cr` (client send, receive) and `sr`, `ss` (server
receive, send), `ms` and `mr` (message send, receive), each with an endpoint, are exactly send and receive events:
each side present becomes a span of its own from its first annotation to its last. A second `sr` from another place is
a side of its own; from the same place it is an event of the side, and if it is equal in time it is noted and left
out. Every other annotation and binary annotation goes to one side: the one whose endpoint is nearest to its own (the
same service counts more than the same address, and an endpoint may lack either), else the first, and then an event
names its own service (`service`); between sides of one service, to the one during which it happened. `sa`, `ca` and
`ma` (addresses) are left out.

1. Times and durations are microseconds. The process is `serviceName` and, to tell instances apart, the IP address;
   ports differ between the client and the server side of one process, so they are not used.
2. The tag `error`, whatever its value but "false", marks a failure; its value is the message.
3. A span without a duration was never finished, as far as the source knows.

Notes: `key-twice`, `attribute-twice`, and

    mark-twice    an annotation of version 1 such as `sr` twice, with one time and one place: it counts once

Reasons of rejections: those of documents.py (of a list in which some elements are spans, `other-format` is told per
element), and

    not-a-span    one span of which no sense can be made; the others stay
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from beforehand.formats.json_text import Json, RefusedError, shown
from beforehand.formats.opening import Limits
from beforehand.formats.sources import Source
from beforehand.formats.spans.documents import (
    DOCUMENT_BYTES_MAX,
    SPAN_LIMITS,
    Tolerated,
    odd_field,
    other_format,
)
from beforehand.formats.spans.fields import (
    NOT_A_SPAN,
    JsonObject,
    add_microseconds,
    objects,
    put_attribute,
    record,
    text,
    time_ns,
    value_text,
)
from beforehand.formats.spans.reading import Item, read_all, refuse
from beforehand.formats.spans.records import Parsed, Reference, ReferenceKind, Span, SpanEvent, SpanKind, canonical_id

__all__ = ["read_zipkin"]

_DETAILS: Final = {"mark-twice": "an annotation such as sr stands twice, with one time and one place: it counts once"}


def read_zipkin(
    source: Source,
    *,
    file: str | None = None,
    limits: Limits = SPAN_LIMITS,
    document_bytes_max: int = DOCUMENT_BYTES_MAX,
) -> Iterator[Parsed]:
    """The spans of files or a binary stream, what was refused, and after each file its notes.

    `InputError` at once if a file is missing; later, if a document is too large.
    """
    return read_all(source, _items, _DETAILS, file=file, limits=limits, document_bytes_max=document_bytes_max)


def _items(value: Json, tolerated: Tolerated) -> Iterator[Item]:
    """The span records of a document."""
    if not _is_known(value):
        yield Item(value, partial(refuse, other_format(value, "zipkin")))
    elif isinstance(value, list):
        for element in value:
            yield from _items(element, tolerated)
    elif isinstance(value, dict) and "data" in value and "id" not in value:
        yield from _items(value["data"], tolerated)
    else:
        yield Item(value, partial(_spans, value, tolerated))


def _is_known(value: Json) -> bool:
    """Whether a value, or an element of a list, looks like Zipkin's. An empty list does."""
    if isinstance(value, list):
        return not value or any(map(_is_known, value))
    if not isinstance(value, dict):
        return False
    return ("id" in value and "traceId" in value) or isinstance(value.get("data"), list)


def _spans(item: Json, tolerated: Tolerated) -> list[Span]:
    """The spans of one record: one, or the sides that a record of version 1 holds. Raises `RefusedError`."""
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    ids = _Ids(*(canonical_id(text(item.get(key), key, tolerated)) for key in ("traceId", "id", "parentId")))
    if not (ids.trace_id and ids.span_id):
        raise RefusedError(NOT_A_SPAN, "the span has no traceId or no id")
    if _is_version_1(item):
        return _version_1(item, ids, tolerated)
    return [_version_2(item, ids, tolerated)]


class _Ids(NamedTuple):
    trace_id: str
    span_id: str
    parent_id: str

    @property
    def references(self) -> tuple[Reference, ...]:
        return (Reference(self.trace_id, self.parent_id, ReferenceKind.CHILD_OF),) if self.parent_id else ()


class _Endpoint(NamedTuple):
    service: str
    host: str


def _endpoint(value: Json, what: str, tolerated: Tolerated) -> _Endpoint:
    found = record(value, what, tolerated)
    hosts = [text(found.get(key), f"{key} of an endpoint", tolerated) for key in ("ipv4", "ipv6")]
    return _Endpoint(text(found.get("serviceName"), "serviceName", tolerated), hosts[0] or hosts[1])


def _version_2(item: JsonObject, ids: _Ids, tolerated: Tolerated) -> Span:
    tags = {key: value_text(value) for key, value in record(item.get("tags"), "tags", tolerated).items()}
    local = _endpoint(item.get("localEndpoint"), "localEndpoint", tolerated)
    remote = _endpoint(item.get("remoteEndpoint"), "remoteEndpoint", tolerated)
    if remote.service:
        put_attribute(tags, "peer.service", remote.service)
    start_ns = time_ns(item.get("timestamp"), "timestamp", unit_ns=1_000)
    error, message = _failure(tags)
    return Span(
        trace_id=ids.trace_id,
        span_id=ids.span_id,
        references=ids.references,
        service=local.service,
        host=local.host,
        name=text(item.get("name"), "name", tolerated),
        kind=_kind(item, tolerated),
        start_ns=start_ns,
        end_ns=add_microseconds(start_ns, item.get("duration")),
        error=error,
        message=message,
        attributes=tags,
        events=tuple(
            SpanEvent(mark.time_ns, mark.value, {})
            for mark in (
                _mark(given, tolerated) for given in objects(item.get("annotations"), "annotations", tolerated)
            )
        ),
    )


def _kind(item: JsonObject, tolerated: Tolerated) -> SpanKind:
    written = text(item.get("kind"), "kind", tolerated)
    kind = _KINDS.get(written.upper(), SpanKind.UNSPECIFIED)
    if written and not kind:
        tolerated.lose(odd_field("kind", written, "one of CLIENT, SERVER, PRODUCER, CONSUMER"))
    # Only servers share an id that their client gave them.
    return SpanKind.SERVER if not kind and item.get("shared") is True else kind


_KINDS: Final = {kind.name: kind for kind in SpanKind if kind}


def _failure(tags: dict[str, str]) -> tuple[bool, str]:
    message = tags.get("error")
    return (False, "") if message is None or message == "false" else (True, message)


def _is_version_1(item: JsonObject) -> bool:
    if "localEndpoint" in item or "kind" in item:
        return False
    marks = item.get("annotations")
    with_endpoint = isinstance(marks, list) and any(isinstance(mark, dict) and "endpoint" in mark for mark in marks)
    return "binaryAnnotations" in item or with_endpoint


class _Mark(NamedTuple):
    """An annotation."""

    time_ns: int | None
    value: str
    endpoint: _Endpoint


def _mark(given: JsonObject, tolerated: Tolerated) -> _Mark:
    return _Mark(
        time_ns(given.get("timestamp"), "timestamp of an annotation", unit_ns=1_000),
        text(given.get("value"), "value of an annotation", tolerated),
        _endpoint(given.get("endpoint"), "endpoint of an annotation", tolerated),
    )


# What begins a side of a call, what ends it, and its kind; a message is sent, and received, in an instant.
_BEGINS: Final = {
    "cs": SpanKind.CLIENT,
    "sr": SpanKind.SERVER,
    "ms": SpanKind.PRODUCER,
    "mr": SpanKind.CONSUMER,
}
_ENDS: Final = {"cr": SpanKind.CLIENT, "ss": SpanKind.SERVER}
_ORDER: Final = tuple(_BEGINS.values())
_SIDES_MAX: Final = 100  # Each annotation is compared with each side.
_ADDRESSES: Final = frozenset({"sa", "ca", "ma"})


@dataclass(slots=True, eq=False)
class _Side:
    """One side of a span of version 1, as it is put together."""

    kind: SpanKind
    endpoint: _Endpoint
    first: _Mark | None = None
    last: _Mark | None = None
    tags: dict[str, str] = field(default_factory=dict)
    marks: list[_Mark] = field(default_factory=list)  # What else happened.

    def nearness(self, endpoint: _Endpoint) -> int:
        """From 4, the same place, down to 1, another address of the service, and 0, another place."""
        service, host = self.endpoint
        if not (service and endpoint.service):
            return 2 if host and host == endpoint.host else 0
        if service != endpoint.service:
            return 0
        return 4 if host == endpoint.host else 1 if host and endpoint.host else 3

    def lasts(self, time: int | None) -> bool:
        """Whether something happened during this side, as far as its marks tell."""
        if time is None or self.first is None or self.first.time_ns is None:
            return False
        ended = None if self.last is None else self.last.time_ns
        return self.first.time_ns <= time and (ended is None or time <= ended)


def _version_1(item: JsonObject, ids: _Ids, tolerated: Tolerated) -> list[Span]:
    marks = [_mark(given, tolerated) for given in objects(item.get("annotations"), "annotations", tolerated)]
    pairs = [
        (text(given.get("key"), "key of a binary annotation", tolerated), given.get("value"), endpoint)
        for given in objects(item.get("binaryAnnotations"), "binaryAnnotations", tolerated)
        for endpoint in (_endpoint(given.get("endpoint"), "endpoint of a binary annotation", tolerated),)
    ]
    sides = _sides(marks, tolerated)
    alone = len(sides) <= 1
    if not sides:
        local = [endpoint for key, _, endpoint in pairs if key == "lc"]  # So a local span tells its place.
        everywhere = [*local, *(mark.endpoint for mark in marks), *(endpoint for _, _, endpoint in pairs)]
        where = next((endpoint for endpoint in everywhere if endpoint.service), _Endpoint("", ""))
        sides = [_Side(SpanKind.UNSPECIFIED, where)]
    for mark in marks:
        if mark.value not in _BEGINS and mark.value not in _ENDS:
            _side_of(mark.endpoint, mark.time_ns, sides).marks.append(mark)
    for key, value, endpoint in pairs:
        if key not in _ADDRESSES:
            tags = _side_of(endpoint, None, sides).tags
            if key in tags:
                tolerated.add("attribute-twice")
            tags[key] = value_text(value)
    start_ns = time_ns(item.get("timestamp"), "timestamp", unit_ns=1_000)
    end_ns = add_microseconds(start_ns, item.get("duration"))
    name = text(item.get("name"), "name", tolerated)
    found: list[Span] = []
    for side in sides:
        # The span's own times are those of its first side, and the only ones of a span without such annotations.
        begun = side.first.time_ns if side.first is not None else (start_ns if alone else None)
        ended = side.last.time_ns if side.last is not None else (end_ns if alone else None)
        error, message = _failure(side.tags)
        found.append(
            Span(
                trace_id=ids.trace_id,
                span_id=ids.span_id,
                references=ids.references,
                service=side.endpoint.service,
                host=side.endpoint.host,
                name=name,
                kind=side.kind,
                start_ns=begun,
                end_ns=ended,
                error=error,
                message=message,
                attributes=side.tags,
                events=tuple(
                    SpanEvent(mark.time_ns, mark.value, _elsewhere(mark.endpoint, side)) for mark in side.marks
                ),
            )
        )
    return found


def _elsewhere(endpoint: _Endpoint, side: _Side) -> dict[str, str]:
    """The service of an annotation that is no side's, lest it be lost."""
    return {"service": endpoint.service} if endpoint.service and not side.nearness(endpoint) else {}


def _sides(marks: list[_Mark], tolerated: Tolerated) -> list[_Side]:
    """The sides that the annotations tell of, clients first, without their other annotations."""
    sides: list[_Side] = []
    for mark in marks:
        begins = mark.value in _BEGINS
        kind = _BEGINS.get(mark.value) or _ENDS.get(mark.value)
        if kind is None:
            continue
        # Whoever does not say where it was is taken to be where the others were.
        nowhere = mark.endpoint == _Endpoint("", "")
        near = [side for side in sides if side.kind is kind and (nowhere or side.nearness(mark.endpoint))]
        near.sort(key=lambda side: -side.nearness(mark.endpoint))
        here = [side for side in near if nowhere or side.nearness(mark.endpoint) > 1]
        if any(end is not None and end[:2] == mark[:2] for side in here for end in (side.first, side.last)):
            tolerated.add("mark-twice")
            continue
        free = next((side for side in near if (side.first if begins else side.last) is None), None)
        if here and free not in here:
            here[0].marks.append(mark)
            continue
        if free is None:
            if len(sides) == _SIDES_MAX:
                raise RefusedError(
                    NOT_A_SPAN, f"the span has more than {_SIDES_MAX} sides, each at a place of its own"
                )
            free = _Side(kind, mark.endpoint)
            sides.append(free)
        if begins:
            free.first = mark
        else:
            free.last = mark
        free.endpoint = _Endpoint(
            free.endpoint.service or mark.endpoint.service, free.endpoint.host or mark.endpoint.host
        )
    return sorted(sides, key=lambda side: _ORDER.index(side.kind))


def _side_of(endpoint: _Endpoint, time: int | None, sides: list[_Side]) -> _Side:
    """The side that something belongs to: exactly one."""
    nearest = max(side.nearness(endpoint) for side in sides)
    if not nearest:
        return sides[0]
    near = [side for side in sides if side.nearness(endpoint) == nearest]
    # What a service that calls itself does meanwhile, it does in the inner side.
    return next((side for side in reversed(near) if side.lasts(time)), near[0])
