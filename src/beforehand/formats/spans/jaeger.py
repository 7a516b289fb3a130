"""Jaeger JSON: what its API, its page and its storage write.

Source: jaeger, internal/uimodel/model.go and internal/uimodel/converter; jaeger-ui, transform-trace-data.ts.
Accepted are `{"data": [trace, ...]}`, `{"data": trace}` (a saved page state), a trace, a list of traces, a span, a
list of spans (the anonymizer), any of these one a line, Elasticsearch's documents (`_source`, bare or inside
`hits`), and Jaeger's protobuf mapping (`spanId` in base64, RFC 3339 times, durations such as `0.005s`).

1. Ids are compared without regard to leading zeros, which older clients drop.
2. References are taken as they stand; `parentSpanID` counts only where there are none. A span embedded in a
   reference, and what the page adds (`depth`, `childSpanIds`, ...), is ignored: it repeats what stands elsewhere.
3. Processes are looked up in the span's own trace only. A span may carry its `process`; an unknown one is noted.
4. `duration` and times are microseconds. A start of 0 counts as none.
5. The error flag is the tag `error` (true or any text but "false") or `otel.status_code` ERROR.

Notes:

    embedded-spans     references hold whole spans: ignored
    parent-span-id     the deprecated parentSpanID was used
    unknown-process    a span names a process that its trace does not have
    base64-ids         Jaeger's protobuf mapping was read
    adjusted-times     warnings say that Jaeger's skew adjuster moved times: these are not what the processes recorded
    key-twice          a key twice in one object

Reasons of rejections: those of documents.py, and `not-a-span`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from beforehand.events import Rejection, parse_time
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
    bytes_id,
    objects,
    record,
    text,
    time_ns,
    value_text,
)
from beforehand.formats.spans.records import (
    Parsed,
    Reference,
    ReferenceKind,
    Span,
    SpanEvent,
    SpanKind,
    canonical_id,
    hexadecimal_id,
)

__all__ = ["read_jaeger"]

_DETAILS: Final = {
    "embedded-spans": "references hold whole spans: ignored, for they stand elsewhere too",
    "parent-span-id": "the deprecated parentSpanID was used, for there are no references",
    "unknown-process": "a span names a process that its trace does not have: its service is unknown",
    "base64-ids": "ids are written in base64 (Jaeger's protobuf mapping): read as bytes",
    "adjusted-times": "warnings say that Jaeger adjusted times for skew: they are not what the processes recorded",
}


def read_jaeger(
    source: Source,
    *,
    file: str | None = None,
    limits: Limits = SPAN_LIMITS,
    document_bytes_max: int = DOCUMENT_BYTES_MAX,
) -> Iterator[Parsed]:
    """The spans of a file or a binary stream, what was refused, and at the end the notes."""
    tolerated = Tolerated(_DETAILS)
    name = file_name(source, file)
    with opened(source, limits=limits) as stream:
        for document in read_documents(
            stream, file=name, limits=limits, document_bytes_max=document_bytes_max, tolerated=tolerated
        ):
            if isinstance(document, Rejection):
                yield document
                continue
            value, offset, line = document
            try:
                found = list(_spans(value))
            except RefusedError as refused:
                yield rejection(refused, name, limits, offset=offset, line=line, quoted=value)
                continue
            for item, processes in found:
                try:
                    yield _span(item, processes, tolerated)
                except RefusedError as refused:
                    yield rejection(refused, name, limits, offset=offset, line=line, quoted=item)
    yield from tolerated.notes(name)


def _spans(value: Json) -> Iterator[tuple[Json, JsonObject]]:
    """The span records of a document, each with the processes of its trace. Raises `RefusedError`."""
    if isinstance(value, list):
        for item in value:
            yield from _spans(item)
        return
    if isinstance(value, dict):
        if isinstance(value.get("spans"), list):
            processes = record(value.get("processes"))
            for item in _items(value["spans"]):
                yield item, processes
            return
        if "spanID" in value or ("spanId" in value and "operationName" in value):
            yield value, {}
            return
        for key in ("data", "_source", "hits"):
            inner = value.get(key)
            if isinstance(inner, dict | list):
                yield from _spans(inner)
                return
        if "data" in value:
            return  # "data": null, an answer without traces.
    raise other_format(value, "jaeger")


def _items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _span(item: Json, processes: JsonObject, tolerated: Tolerated) -> Span:
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    trace_id = _id(_either(item, "traceID", "traceId"), tolerated)
    span_id = _id(_either(item, "spanID", "spanId"), tolerated)
    if not (trace_id and span_id):
        raise RefusedError(NOT_A_SPAN, "the span has no traceID or no spanID")
    start_ns = _start(item.get("startTime"))
    tags = _tags(item)
    process = _process(item, processes, tolerated)
    status = tags.get("otel.status_code", "").upper()
    failed = tags.get("error", "false").lower() not in ("false", "") or status == "ERROR"
    if any("clock skew" in text(warning) for warning in _items(item.get("warnings"))):
        tolerated.add("adjusted-times")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        references=_references(item, trace_id, tolerated),
        service=process.service,
        instance=process.instance,
        host=process.host,
        name=text(item.get("operationName")),
        kind=_KINDS.get(tags.get("span.kind", "").lower(), SpanKind.UNSPECIFIED),
        start_ns=start_ns,
        end_ns=_end(start_ns, item.get("duration")),
        error=failed,
        message=tags.get("otel.status_description", "") if failed else "",
        attributes=tags,
        events=tuple(_event(log) for log in objects(item.get("logs"))),
        remote_parent=None,
    )


_KINDS: Final = {kind.value: kind for kind in SpanKind}


def _either(item: JsonObject, *keys: str) -> Json:
    return next((item[key] for key in keys if key in item), None)


def _id(value: Json, tolerated: Tolerated) -> str:
    written = text(value)
    found = hexadecimal_id(written)
    if found is not None:
        return found
    as_bytes = bytes_id(written)
    if as_bytes is None:
        return written
    tolerated.add("base64-ids")
    return canonical_id(as_bytes)


def _references(item: JsonObject, trace_id: str, tolerated: Tolerated) -> tuple[Reference, ...]:
    found = []
    for reference in objects(item.get("references")):
        if "span" in reference:
            tolerated.add("embedded-spans")
        span_id = _id(_either(reference, "spanID", "spanId"), tolerated)
        if span_id:
            other = _id(_either(reference, "traceID", "traceId"), tolerated) or trace_id
            follows = text(reference.get("refType")).upper() == "FOLLOWS_FROM"
            kind = ReferenceKind.FOLLOWS_FROM if follows else ReferenceKind.CHILD_OF
            found.append(Reference(other, span_id, kind))
    parent = _id(_either(item, "parentSpanID", "parentSpanId"), tolerated)
    if parent and not found:
        tolerated.add("parent-span-id")
        found.append(Reference(trace_id, parent, ReferenceKind.CHILD_OF))
    return tuple(found)


class _Process(NamedTuple):
    service: str
    instance: str
    host: str


def _process(item: JsonObject, processes: JsonObject, tolerated: Tolerated) -> _Process:
    given = processes.get(text(item.get("processID")))
    found = record(given if isinstance(given, dict) else item.get("process"))
    if not found:
        tolerated.add("unknown-process")
    tags = _tags(found)
    return _Process(
        service=text(found.get("serviceName")),
        instance=tags.get("service.instance.id", "") or tags.get("client-uuid", ""),
        host=next((tags[key] for key in ("hostname", "host.name", "ip") if tags.get(key)), ""),
    )


def _event(log: JsonObject) -> SpanEvent:
    fields = _pairs(log.get("fields"))
    name = fields.pop("event", "") or fields.get("message", "")
    when = log.get("timestamp")
    return SpanEvent(_start(when), name, fields)


def _tags(item: JsonObject) -> dict[str, str]:
    found = _pairs(item.get("tags"))
    for key, value in record(item.get("tag")).items():  # Elasticsearch, with tags as fields: dots become @.
        found.setdefault(key.replace("@", "."), value_text(value))
    return found


def _pairs(value: Json) -> dict[str, str]:
    """Tags as texts; of a key that stands twice the last one counts, as in Jaeger. Binary values stay in base64."""
    if isinstance(value, dict):  # The anonymizer and some exporters write a plain map.
        return {key: value_text(item) for key, item in value.items()}
    return {text(pair.get("key")): value_text(_tag_value(pair)) for pair in objects(value)}


def _tag_value(pair: JsonObject) -> Json:
    if "value" in pair:
        return pair["value"]
    # The protobuf mapping: vStr, vBool, vInt64, vFloat64, vBinary.
    return next((value for key, value in pair.items() if key.startswith("v") and key != "vType"), None)


def _start(value: Json) -> int | None:
    if isinstance(value, str) and "T" in value:
        try:
            return parse_time(value)
        except ValueError as error:
            raise RefusedError(NOT_A_SPAN, str(error)) from None
    return time_ns(value, "time", unit_ns=1_000)


def _end(start_ns: int | None, value: Json) -> int | None:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is not None and start_ns is not None:
            whole, fraction, unit = match.group(1, 2, 3)
            scale = _UNITS[unit]
            part = int((fraction or "0").ljust(9, "0")[:9]) * scale // 1_000_000_000
            end_ns = start_ns + int(whole) * scale + part
            return add_microseconds(end_ns, 0)
    return add_microseconds(start_ns, value)


_DURATION: Final = re.compile(r"(\d{1,15})(?:\.(\d{1,18}))?(ns|us|µs|ms|s)", re.ASCII)
_UNITS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
