"""Zipkin JSON, versions 2 and 1.

Source: openzipkin, zipkin-api (zipkin2-api.yaml, zipkin-api.yaml) and SpanNode.java. Accepted are a list of spans,
a list of lists (several traces), a single span, any of these one a line, and `{"data": ...}` around them. The
versions are told apart span by span.

Version 2: a span is one half of a call, with `kind` and `localEndpoint`. A server that joins its client's span
reports the same id with `shared`; the two halves become two spans with one id, which `spans_to_events` puts in
their order.

Version 1: one span may hold both halves. Its annotations `cs`, `cr` (client send, receive) and `sr`, `ss` (server
receive, send), `ms` and `mr` (message send, receive), each with an endpoint, are exactly send and receive events:
each side present becomes a span of its own from its first annotation to its last. Other annotations and the binary
annotations go to the side that has their endpoint's service; `sa` and `ca` (addresses) are left out.

1. Times and durations are microseconds. The process is `serviceName` and, to tell instances apart, the IP address;
   ports differ between the client and the server side of one process, so they are not used.
2. The tag `error`, whatever its value but "false", marks a failure; its value is the message.
3. A span without a duration was never finished, as far as the source knows.

Reasons of rejections: those of documents.py, and `not-a-span`. Notes: `key-twice`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from beforehand.events import Rejection
from beforehand.formats.json_text import Json, RefusedError, shown
from beforehand.formats.opening import Limits
from beforehand.formats.spans.documents import (
    DOCUMENT_BYTES_MAX,
    SPAN_LIMITS,
    Source,
    Tolerated,
    file_name,
    opened,
    other_format,
    read_documents,
    rejection,
)
from beforehand.formats.spans.fields import (
    NOT_A_SPAN,
    JsonObject,
    add_microseconds,
    objects,
    record,
    text,
    time_ns,
    value_text,
)
from beforehand.formats.spans.records import Parsed, Reference, ReferenceKind, Span, SpanEvent, SpanKind, canonical_id

__all__ = ["read_zipkin"]


def read_zipkin(
    source: Source,
    *,
    file: str | None = None,
    limits: Limits = SPAN_LIMITS,
    document_bytes_max: int = DOCUMENT_BYTES_MAX,
) -> Iterator[Parsed]:
    """The spans of a file or a binary stream, what was refused, and at the end the notes."""
    tolerated = Tolerated({})
    name = file_name(source, file)
    with opened(source, limits=limits) as stream:
        for document in read_documents(
            stream, file=name, limits=limits, document_bytes_max=document_bytes_max, tolerated=tolerated
        ):
            if isinstance(document, Rejection):
                yield document
                continue
            value, offset, line = document
            for item in _items(value):
                try:
                    yield from _spans(item)
                except RefusedError as refused:
                    yield rejection(refused, name, limits, offset=offset, line=line, quoted=item)
    yield from tolerated.notes(name)


def _items(value: Json) -> Iterator[Json]:
    """The span records of a document; what is not one is given too, and refused by `_spans`."""
    if isinstance(value, list):
        for item in value:
            yield from _items(item)
    elif isinstance(value, dict) and isinstance(value.get("data"), list) and "id" not in value:
        yield from _items(value["data"])
    else:
        yield value


def _spans(item: Json) -> list[Span]:
    """The spans of one record: one, or the two halves that a record of version 1 holds. Raises `RefusedError`."""
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    if not ("id" in item and "traceId" in item):
        raise other_format(item, "zipkin")
    ids = _Ids(
        canonical_id(text(item.get("traceId"))),
        canonical_id(text(item.get("id"))),
        canonical_id(text(item.get("parentId"))),
    )
    if not (ids.trace_id and ids.span_id):
        raise RefusedError(NOT_A_SPAN, "the span has no traceId or no id")
    return _version_1(item, ids) if _is_version_1(item) else [_version_2(item, ids)]


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


def _endpoint(value: Json) -> _Endpoint:
    found = record(value)
    return _Endpoint(text(found.get("serviceName")), text(found.get("ipv4")) or text(found.get("ipv6")))


def _version_2(item: JsonObject, ids: _Ids) -> Span:
    tags = {key: value_text(value) for key, value in record(item.get("tags")).items()}
    local = _endpoint(item.get("localEndpoint"))
    remote = _endpoint(item.get("remoteEndpoint"))
    if remote.service:
        tags.setdefault("peer.service", remote.service)
    start_ns = time_ns(item.get("timestamp"), "timestamp", unit_ns=1_000)
    kind = _KINDS.get(text(item.get("kind")).upper(), SpanKind.UNSPECIFIED)
    error, message = _failure(tags)
    return Span(
        trace_id=ids.trace_id,
        span_id=ids.span_id,
        references=ids.references,
        service=local.service,
        host=local.host,
        name=text(item.get("name")),
        # Only servers share an id that their client gave them.
        kind=SpanKind.SERVER if not kind and item.get("shared") is True else kind,
        start_ns=start_ns,
        end_ns=add_microseconds(start_ns, item.get("duration")),
        error=error,
        message=message,
        attributes=tags,
        events=tuple(
            SpanEvent(
                time_ns(annotation.get("timestamp"), "timestamp of an annotation", unit_ns=1_000),
                text(annotation.get("value")),
                {},
            )
            for annotation in objects(item.get("annotations"))
        ),
    )


_KINDS: Final = {kind.name: kind for kind in SpanKind if kind}


def _failure(tags: dict[str, str]) -> tuple[bool, str]:
    message = tags.get("error")
    return (False, "") if message is None or message == "false" else (True, message)


def _is_version_1(item: JsonObject) -> bool:
    if "localEndpoint" in item or "kind" in item:
        return False
    return "binaryAnnotations" in item or any("endpoint" in mark for mark in objects(item.get("annotations")))


class _Mark(NamedTuple):
    """An annotation of version 1."""

    time_ns: int | None
    value: str
    endpoint: _Endpoint


# Per side: its kind, the annotation it begins with, the one it ends with.
_SIDES: Final = (
    (SpanKind.CLIENT, "cs", "cr"),
    (SpanKind.SERVER, "sr", "ss"),
    (SpanKind.PRODUCER, "ms", "ms"),
    (SpanKind.CONSUMER, "mr", "mr"),
)
_CORE: Final = frozenset(value for _, *ends in _SIDES for value in ends)
_ADDRESSES: Final = frozenset({"sa", "ca", "ma"})


def _version_1(item: JsonObject, ids: _Ids) -> list[Span]:
    marks = [
        _Mark(
            time_ns(mark.get("timestamp"), "timestamp of an annotation", unit_ns=1_000),
            text(mark.get("value")),
            _endpoint(mark.get("endpoint")),
        )
        for mark in objects(item.get("annotations"))
    ]
    pairs = [(mark, _endpoint(mark.get("endpoint"))) for mark in objects(item.get("binaryAnnotations"))]
    start_ns = time_ns(item.get("timestamp"), "timestamp", unit_ns=1_000)
    end_ns = add_microseconds(start_ns, item.get("duration"))
    named = {mark.value: mark for mark in reversed(marks) if mark.value in _CORE}
    sides = [side for side in _SIDES if side[1] in named or side[2] in named]
    found: list[Span] = []
    for kind, begin, end in sides or [(SpanKind.UNSPECIFIED, "", "")]:
        first, last = named.get(begin), named.get(end)
        known = first or last
        where = known.endpoint if known is not None else _somewhere(marks, pairs)
        alone = len(sides) <= 1
        # The span's own times are those of its first side, and the only ones of a span without core annotations.
        begun = first.time_ns if first is not None else (start_ns if alone else None)
        ended = last.time_ns if last is not None and begin != end else (end_ns if alone else None)
        home = alone or not found  # What belongs to no side's endpoint goes to the first one.
        tags = {
            text(mark.get("key")): value_text(mark.get("value"))
            for mark, endpoint in pairs
            if text(mark.get("key")) not in _ADDRESSES and (endpoint == where or (home and not _of(endpoint, named)))
        }
        error, message = _failure(tags)
        found.append(
            Span(
                trace_id=ids.trace_id,
                span_id=ids.span_id,
                references=ids.references,
                service=where.service,
                host=where.host,
                name=text(item.get("name")),
                kind=kind,
                start_ns=begun,
                end_ns=ended,
                error=error,
                message=message,
                attributes=tags,
                events=tuple(
                    SpanEvent(mark.time_ns, mark.value, {})
                    for mark in marks
                    if mark.value not in _CORE
                    and (mark.endpoint == where or (home and not _of(mark.endpoint, named)))
                ),
            )
        )
    return found


def _of(endpoint: _Endpoint, named: dict[str, _Mark]) -> bool:
    """Whether a side of the span has this endpoint."""
    return any(mark.endpoint == endpoint for mark in named.values())


def _somewhere(marks: list[_Mark], pairs: list[tuple[JsonObject, _Endpoint]]) -> _Endpoint:
    """The endpoint of a local span of version 1, whose only trace is in what it annotates (`lc` by custom)."""
    local = [endpoint for mark, endpoint in pairs if mark.get("key") == "lc"]
    everywhere = [*local, *(mark.endpoint for mark in marks), *(endpoint for _, endpoint in pairs)]
    return next((endpoint for endpoint in everywhere if endpoint.service), _Endpoint("", ""))
