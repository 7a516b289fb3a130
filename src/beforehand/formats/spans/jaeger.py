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
    attribute-twice    a tag twice in one list: the last one counts, as in Jaeger
    key-twice          a key twice in one object

Reasons of rejections: those of documents.py (of a list in which some elements are traces or spans, `other-format` is
told per element), and

    not-a-span    one span of which no sense can be made; the others stay
    api-error     the answer of Jaeger's API holds errors; what it holds besides is read
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from beforehand.events import parse_time
from beforehand.formats.json_text import Json, RefusedError, compact_json, shown
from beforehand.formats.opening import Limits
from beforehand.formats.sources import Source
from beforehand.formats.spans.documents import (
    DOCUMENT_BYTES_MAX,
    ODD_FIELD,
    SPAN_LIMITS,
    Tolerated,
    odd_field,
    other_format,
)
from beforehand.formats.spans.fields import (
    NOT_A_SPAN,
    JsonObject,
    add_microseconds,
    bytes_id,
    objects,
    one_line,
    record,
    text,
    time_ns,
    value_text,
)
from beforehand.formats.spans.reading import Item, read_all, refuse
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

__all__ = ["API_ERROR", "read_jaeger"]

API_ERROR: Final = "api-error"

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
    """The spans of files or a binary stream, what was refused, and after each file its notes.

    `InputError` at once if a file is missing; later, if a document is too large.
    """
    return read_all(source, _items, _DETAILS, file=file, limits=limits, document_bytes_max=document_bytes_max)


def _items(value: Json, tolerated: Tolerated) -> Iterator[Item]:
    """The span records of a document, each with the processes of its trace."""
    if not _is_known(value):
        yield Item(value, partial(refuse, other_format(value, "jaeger")))
    elif isinstance(value, list):
        for element in value:
            yield from _items(element, tolerated)
    elif isinstance(value, dict):
        tolerated.quoted = value
        if _is_answer(value) and value.get("errors"):
            yield Item(value, partial(refuse, _api_error(value["errors"])))
        if _is_span(value):
            yield Item(value, partial(_span, value, {}, tolerated))
        elif "spans" in value:
            yield from _of_trace(value, tolerated)
        else:
            key = next((key for key in _AROUND if key in value), "data")
            inner = value.get(key)
            if isinstance(inner, dict | list):
                yield from _items(inner, tolerated)
            elif inner is not None:  # "data": null is an answer without traces.
                tolerated.lose(odd_field(key, inner, "a trace or a list"))


_AROUND: Final = ("data", "_source", "hits")
_ANSWER: Final = frozenset({"data", "errors", "total", "limit", "offset"})


def _is_known(value: Json) -> bool:
    """Whether a value, or an element of a list, looks like Jaeger's. An empty list does."""
    if isinstance(value, list):
        return not value or any(map(_is_known, value))
    if not isinstance(value, dict):
        return False
    return "spans" in value or _is_span(value) or any(key in value for key in _AROUND) or _is_answer(value)


def _is_span(value: JsonObject) -> bool:
    return "spanID" in value or ("spanId" in value and "operationName" in value)


def _is_answer(value: JsonObject) -> bool:
    """Whether this is an answer of the API, perhaps one that holds nothing but errors."""
    return "data" in value or ("errors" in value and value.keys() <= _ANSWER)


def _api_error(errors: Json) -> RefusedError:
    """What the API says went wrong, such as `[{"code": 404, "msg": "trace not found"}]`."""
    first = errors[0] if isinstance(errors, list) else errors
    said = first.get("msg") or first.get("message") if isinstance(first, dict) else first
    said = said if isinstance(said, str) else compact_json(first)
    more = f" (and {len(errors) - 1} more)" if isinstance(errors, list) and len(errors) > 1 else ""
    return RefusedError(API_ERROR, f"the answer of Jaeger's API holds an error: {one_line(said)}{more}")


def _of_trace(trace: JsonObject, tolerated: Tolerated) -> Iterator[Item]:
    processes = record(trace.get("processes"), "processes", tolerated)
    spans = trace["spans"]
    if isinstance(spans, list):
        for item in spans:
            yield Item(item, partial(_span, item, processes, tolerated))
    elif spans is not None:
        tolerated.lose(odd_field("spans", spans, "a list"))
    yield Item(trace, tuple)  # Nothing more: what was lost is told before the next trace.


def _span(item: Json, processes: JsonObject, tolerated: Tolerated) -> tuple[Span]:
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    trace_id = _id(item, ("traceID", "traceId"), tolerated)
    span_id = _id(item, ("spanID", "spanId"), tolerated)
    if not (trace_id and span_id):
        raise RefusedError(NOT_A_SPAN, "the span has no traceID or no spanID")
    start_ns = _start(item.get("startTime"))
    tags = _tags(item, "tags", tolerated)
    process = _process(item, processes, tolerated)
    status = tags.get("otel.status_code", "").upper()
    failed = tags.get("error", "false").lower() not in ("false", "") or status == "ERROR"
    warnings = item.get("warnings")
    if isinstance(warnings, list):
        if any("clock skew" in warning for warning in warnings if isinstance(warning, str)):
            tolerated.add("adjusted-times")
    elif warnings is not None:
        tolerated.lose(odd_field("warnings", warnings, "a list"))
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        references=_references(item, trace_id, tolerated),
        service=process.service,
        instance=process.instance,
        host=process.host,
        name=text(item.get("operationName"), "operationName", tolerated),
        kind=_KINDS.get(tags.get("span.kind", "").lower(), SpanKind.UNSPECIFIED),
        start_ns=start_ns,
        end_ns=_end(start_ns, item.get("duration")),
        error=failed,
        message=tags.get("otel.status_description", "") if failed else "",
        attributes=tags,
        events=tuple(_event(log, tolerated) for log in objects(item.get("logs"), "logs", tolerated)),
        remote_parent=None,
    )
    return (span,)


_KINDS: Final = {kind.value: kind for kind in SpanKind}


def _id(item: JsonObject, keys: tuple[str, str], tolerated: Tolerated) -> str:
    """The id under one of two keys: Jaeger's own, or that of its protobuf mapping."""
    key = keys[0] if keys[0] in item else keys[1]
    written = text(item.get(key), key, tolerated)
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
    for reference in objects(item.get("references"), "references", tolerated):
        if "span" in reference:
            tolerated.add("embedded-spans")
        span_id = _id(reference, ("spanID", "spanId"), tolerated)
        if not span_id:
            tolerated.lose(RefusedError(ODD_FIELD, "a reference has no spanID: left out"))
            continue
        other = _id(reference, ("traceID", "traceId"), tolerated) or trace_id
        written = text(reference.get("refType"), "refType", tolerated).upper()
        kind = _KINDS_OF_REFERENCE.get(written)
        if kind is None:
            kind = ReferenceKind.CHILD_OF
            detail = f"refType is {shown(written)}, neither CHILD_OF nor FOLLOWS_FROM: taken for CHILD_OF"
            tolerated.lose(RefusedError(ODD_FIELD, detail))
        found.append(Reference(other, span_id, kind))
    parent = _id(item, ("parentSpanID", "parentSpanId"), tolerated)
    if parent and not found:
        tolerated.add("parent-span-id")
        found.append(Reference(trace_id, parent, ReferenceKind.CHILD_OF))
    return tuple(found)


_KINDS_OF_REFERENCE: Final = {
    "": ReferenceKind.CHILD_OF,  # The default of the protobuf mapping, which may write numbers too.
    "CHILD_OF": ReferenceKind.CHILD_OF,
    "0": ReferenceKind.CHILD_OF,
    "FOLLOWS_FROM": ReferenceKind.FOLLOWS_FROM,
    "1": ReferenceKind.FOLLOWS_FROM,
}


class _Process(NamedTuple):
    service: str
    instance: str
    host: str


def _process(item: JsonObject, processes: JsonObject, tolerated: Tolerated) -> _Process:
    key = text(item.get("processID"), "processID", tolerated)
    found = record(processes.get(key), f"process {shown(key)}", tolerated) or record(
        item.get("process"), "process", tolerated
    )
    if not found:
        tolerated.add("unknown-process")
    tags = _tags(found, "tags of a process", tolerated)
    return _Process(
        service=text(found.get("serviceName"), "serviceName", tolerated),
        instance=tags.get("service.instance.id", "") or tags.get("client-uuid", ""),
        host=next((tags[key] for key in ("hostname", "host.name", "ip") if tags.get(key)), ""),
    )


def _event(log: JsonObject, tolerated: Tolerated) -> SpanEvent:
    fields = _pairs(log.get("fields"), "fields of a log", tolerated)
    name = fields.pop("event", "") or fields.get("message", "")
    when = log.get("timestamp")
    return SpanEvent(_start(when), name, fields)


def _tags(item: JsonObject, what: str, tolerated: Tolerated) -> dict[str, str]:
    found = _pairs(item.get("tags"), what, tolerated)
    # Elasticsearch, with tags as fields: dots become @.
    for key, value in record(item.get("tag"), "tag", tolerated).items():
        found.setdefault(key.replace("@", "."), value_text(value))
    return found


def _pairs(value: Json, what: str, tolerated: Tolerated) -> dict[str, str]:
    """Tags as texts; of a key that stands twice the last one counts, as in Jaeger. Binary values stay in base64."""
    if isinstance(value, dict):  # The anonymizer and some exporters write a plain map.
        return {key: value_text(item) for key, item in value.items()}
    pairs = objects(value, what, tolerated)
    key = f"a key of {what}"
    found = {text(pair.get("key"), key, tolerated): value_text(_tag_value(pair)) for pair in pairs}
    if len(found) < len(pairs):
        tolerated.add("attribute-twice", len(pairs) - len(found))
    return found


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
