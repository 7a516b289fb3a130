"""One span and one log record of OTLP/JSON, and the resource that they belong to. See otlp.py."""

from __future__ import annotations

from typing import Final, NamedTuple

from beforehand.formats.json_text import Json, RefusedError, compact_json, shown
from beforehand.formats.spans.documents import Tolerated
from beforehand.formats.spans.fields import (
    NOT_A_SPAN,
    JsonObject,
    bytes_id,
    integer,
    objects,
    one_line,
    record,
    text,
    time_ns,
    value_text,
)
from beforehand.formats.spans.records import (
    LogRecord,
    Reference,
    ReferenceKind,
    Span,
    SpanEvent,
    SpanKind,
    canonical_id,
    hexadecimal_id,
    made_up_id,
)

__all__ = ["DETAILS", "Resource", "attributes_of", "log_of", "resource_of", "span_of"]

DETAILS: Final = {
    "base64-ids": "ids are written in base64, not in hexadecimal: read as bytes",
    "odd-ids": "ids are neither hexadecimal nor base64: kept as they are",
    "enum-names": "kinds or status codes are written as names, not as numbers: read by name",
    "batches": "spans stand under batches, result, trace or keys in snake case, not under resourceSpans",
    "old-scopes": "instrumentationLibrarySpans is the old name of scopeSpans",
    "no-ids": "spans have an empty trace id or span id: they are kept and relate to nothing",
    "list": "envelopes stand in a list",
}

# In the order of their numbers.
_KINDS: Final = (
    SpanKind.UNSPECIFIED,
    SpanKind.INTERNAL,
    SpanKind.SERVER,
    SpanKind.CLIENT,
    SpanKind.PRODUCER,
    SpanKind.CONSUMER,
)
_LEVELS: Final = ("trace", "debug", "info", "warn", "error", "fatal")
# Flags, trace.proto: whether it is known that the parent is remote, and whether it is.
_REMOTE_KNOWN: Final = 0x100
_REMOTE: Final = 0x200


class Resource(NamedTuple):
    """What tells the process of a span or log record."""

    service: str
    instance: str
    host: str


def resource_of(value: Json) -> Resource:
    attributes = attributes_of(record(value).get("attributes"))
    return Resource(
        service=attributes.get("service.name", ""),
        instance=attributes.get("service.instance.id", "") or attributes.get("k8s.pod.name", ""),
        host=attributes.get("host.name", "") or attributes.get("host.id", ""),
    )


def span_of(item: Json, resource: Resource, tolerated: Tolerated) -> Span:
    """One span. Raises `RefusedError`."""
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    trace_id = _id(item.get("traceId"), tolerated)
    span_id = _id(item.get("spanId"), tolerated)
    name = text(item.get("name"))
    start_ns = time_ns(item.get("startTimeUnixNano"), "startTimeUnixNano")
    end_ns = time_ns(item.get("endTimeUnixNano"), "endTimeUnixNano")
    if not (trace_id or span_id or name or start_ns):
        raise RefusedError(NOT_A_SPAN, "the object has neither ids nor a name nor a time")
    if not (trace_id and span_id):
        tolerated.add("no-ids")
        span_id = span_id or made_up_id(trace_id, name, start_ns, end_ns, resource, item)
    status = record(item.get("status"))
    flags = integer(item.get("flags")) or 0
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        references=_references(item, trace_id, tolerated),
        service=resource.service,
        instance=resource.instance,
        host=resource.host,
        name=name,
        kind=_KINDS[_enum(item.get("kind"), "SPAN_KIND_", _KIND_NAMES, tolerated)],
        start_ns=start_ns,
        end_ns=end_ns,
        error=_enum(status.get("code"), "STATUS_CODE_", ("UNSET", "OK", "ERROR"), tolerated) == 2,
        message=text(status.get("message")),
        attributes=attributes_of(item.get("attributes")),
        events=tuple(
            SpanEvent(
                time_ns(event.get("timeUnixNano"), "timeUnixNano of an event"),
                text(event.get("name")),
                attributes_of(event.get("attributes")),
            )
            for event in objects(item.get("events"))
        ),
        remote_parent=bool(flags & _REMOTE) if flags & _REMOTE_KNOWN else None,
    )


def log_of(item: Json, resource: Resource, tolerated: Tolerated) -> LogRecord:
    """One log record. Its name is its event name, else the first line of its body. Raises `RefusedError`."""
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    attributes = attributes_of(item.get("attributes"))
    body = _value(item.get("body"))
    name = text(item.get("eventName")) or one_line(body)
    if body and body != name:
        attributes.setdefault("body", body)
    number = _severity(item.get("severityNumber"), tolerated)
    severity = text(item.get("severityText"))
    if severity:
        attributes.setdefault("severity", severity)
    when = time_ns(item.get("timeUnixNano"), "timeUnixNano")
    return LogRecord(
        trace_id=_id(item.get("traceId"), tolerated),
        span_id=_id(item.get("spanId"), tolerated),
        service=resource.service,
        instance=resource.instance,
        host=resource.host,
        # When the collector saw it is the next best, as logs.proto says.
        time_ns=when or time_ns(item.get("observedTimeUnixNano"), "observedTimeUnixNano"),
        level=_LEVELS[(number - 1) // 4] if 1 <= number <= 24 else _level(severity),
        name=name,
        attributes=attributes,
    )


def attributes_of(value: Json) -> dict[str, str]:
    """Attributes as texts: scalars as JSON writes them, lists and maps as JSON, bytes in base64."""
    found: dict[str, str] = {}
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                found[text(item.get("key"))] = _value(item.get("value"))
    elif isinstance(value, dict):  # Some tools write a plain map.
        for key, item in value.items():
            found[key] = value_text(item)
    return found


def _references(item: JsonObject, trace_id: str, tolerated: Tolerated) -> tuple[Reference, ...]:
    parent = _id(item.get("parentSpanId"), tolerated)
    found = [Reference(trace_id, parent, ReferenceKind.CHILD_OF)] if parent else []
    for link in objects(item.get("links")):
        span_id = _id(link.get("spanId"), tolerated)
        if not span_id:
            continue  # It links to nothing.
        # Bridges from OpenTracing say what kind of reference the link was; a second parent stays a parent.
        kind = attributes_of(link.get("attributes")).get("opentracing.ref_type", "")
        found.append(
            Reference(
                _id(link.get("traceId"), tolerated) or trace_id, span_id, _KINDS_OF_LINK.get(kind, ReferenceKind.LINK)
            )
        )
    return tuple(found)


_KINDS_OF_LINK: Final = {"child_of": ReferenceKind.CHILD_OF, "follows_from": ReferenceKind.FOLLOWS_FROM}


def _id(value: Json, tolerated: Tolerated) -> str:
    if not isinstance(value, str) or not value:
        return ""
    found = hexadecimal_id(value)
    if found is not None:
        return found
    as_bytes = bytes_id(value)
    tolerated.add("odd-ids" if as_bytes is None else "base64-ids")
    return value if as_bytes is None else canonical_id(as_bytes)


def _enum(value: Json, prefix: str, names: tuple[str, ...], tolerated: Tolerated) -> int:
    """The number of an enum value; 0, which means unspecified everywhere, for what is unknown."""
    number = integer(value)
    if number is None and isinstance(value, str) and value:
        tolerated.add("enum-names")
        name = value.upper().removeprefix(prefix)
        number = names.index(name) if name in names else 0
    return number if number is not None and 0 <= number < len(names) else 0


_KIND_NAMES: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")


def _severity(value: Json, tolerated: Tolerated) -> int:
    """From 1 to 24, 0 if unspecified; by name it is SEVERITY_NUMBER_WARN2 and the like."""
    number = integer(value)
    if number is None and isinstance(value, str) and value:
        tolerated.add("enum-names")
        name = value.lower().removeprefix("severity_number_")
        stem = name.rstrip("234")
        number = _LEVELS.index(stem) * 4 + int(name[len(stem) :] or 1) if stem in _LEVELS and len(name) <= 6 else 0
    return number or 0


def _level(severity: str) -> str:
    word = severity.lower()
    return {"warning": "warn", "err": "error", "critical": "fatal"}.get(word, word if word in _LEVELS else "")


def _value(value: Json) -> str:
    """The text of an AnyValue."""
    if not isinstance(value, dict) or not value:
        return value_text(value) if not isinstance(value, dict) else ""
    key, inner = next(iter(value.items()))
    if isinstance(inner, str) and key in ("stringValue", "intValue", "bytesValue"):
        return inner
    if isinstance(inner, bool | int | float):
        return value_text(inner)
    return value_text(_plain(value))


def _plain(value: Json) -> Json:
    """An AnyValue as the JSON value that it stands for. Depth is limited by the decoder."""
    if not isinstance(value, dict) or not value:
        return value
    key, inner = next(iter(value.items()))
    if key == "arrayValue":
        values = record(inner).get("values")
        return [_plain(item) for item in values] if isinstance(values, list) else []
    if key == "kvlistValue":
        return {text(item.get("key")): _plain(item.get("value")) for item in objects(record(inner).get("values"))}
    if key in ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue"):
        return inner
    return compact_json(value)
