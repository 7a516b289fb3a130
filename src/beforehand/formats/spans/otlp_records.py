"""One span and one log record of OTLP/JSON, and the resource that they belong to. See otlp.py."""

from __future__ import annotations

from typing import Final, NamedTuple

from beforehand.formats.json_text import Json, RefusedError, shown
from beforehand.formats.spans.documents import ODD_FIELD, Tolerated, odd_field
from beforehand.formats.spans.fields import (
    NOT_A_SPAN,
    JsonObject,
    bytes_id,
    integer,
    objects,
    one_line,
    put_attribute,
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
    "other-signals": "metrics, profiles and empty records are no spans and no log records: passed over",
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


def resource_of(value: Json, tolerated: Tolerated) -> Resource:
    given = record(value, "resource", tolerated).get("attributes")
    attributes = attributes_of(given, tolerated, "attributes of a resource")
    return Resource(
        service=attributes.get("service.name", ""),
        instance=attributes.get("service.instance.id", "") or attributes.get("k8s.pod.name", ""),
        host=attributes.get("host.name", "") or attributes.get("host.id", ""),
    )


def span_of(item: Json, resource: Resource, tolerated: Tolerated) -> Span:
    """One span. Raises `RefusedError`."""
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    trace_id = _id(item.get("traceId"), "traceId", tolerated)
    span_id = _id(item.get("spanId"), "spanId", tolerated)
    name = text(item.get("name"), "name", tolerated)
    start_ns = time_ns(item.get("startTimeUnixNano"), "startTimeUnixNano")
    end_ns = time_ns(item.get("endTimeUnixNano"), "endTimeUnixNano")
    if not (trace_id or span_id or name or start_ns):
        raise RefusedError(NOT_A_SPAN, "the object has neither ids nor a name nor a time")
    if not (trace_id and span_id):
        tolerated.add("no-ids")
        span_id = span_id or made_up_id(trace_id, name, start_ns, end_ns, resource, item)
    status = record(item.get("status"), "status", tolerated)
    flags = _number(item.get("flags"), "flags", tolerated)
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
        message=text(status.get("message"), "message of the status", tolerated),
        attributes=attributes_of(item.get("attributes"), tolerated),
        events=tuple(
            SpanEvent(
                time_ns(event.get("timeUnixNano"), "timeUnixNano of an event"),
                text(event.get("name"), "name of an event", tolerated),
                attributes_of(event.get("attributes"), tolerated, "attributes of an event"),
            )
            for event in objects(item.get("events"), "events", tolerated)
        ),
        remote_parent=bool(flags & _REMOTE) if flags & _REMOTE_KNOWN else None,
    )


def log_of(item: Json, resource: Resource, tolerated: Tolerated) -> LogRecord:
    """One log record. Its name is its event name, else the first line of its body. Raises `RefusedError`."""
    if not isinstance(item, dict):
        raise RefusedError(NOT_A_SPAN, f"{shown(item)} is not an object")
    attributes = attributes_of(item.get("attributes"), tolerated)
    body = _value(item.get("body"))
    name = text(item.get("eventName"), "eventName", tolerated) or one_line(body)
    if body and body != name:
        put_attribute(attributes, "body", body)
    number = _severity(item.get("severityNumber"), tolerated)
    severity = text(item.get("severityText"), "severityText", tolerated)
    if severity:
        put_attribute(attributes, "severity", severity)
    when = time_ns(item.get("timeUnixNano"), "timeUnixNano")
    return LogRecord(
        trace_id=_id(item.get("traceId"), "traceId", tolerated),
        span_id=_id(item.get("spanId"), "spanId", tolerated),
        service=resource.service,
        instance=resource.instance,
        host=resource.host,
        # When the collector saw it is the next best, as logs.proto says.
        time_ns=when or time_ns(item.get("observedTimeUnixNano"), "observedTimeUnixNano"),
        level=_LEVELS[(number - 1) // 4] if 1 <= number <= 24 else _level(severity),
        name=name,
        attributes=attributes,
    )


def attributes_of(value: Json, tolerated: Tolerated, what: str = "attributes") -> dict[str, str]:
    """Attributes as texts: scalars as JSON writes them, lists and maps as JSON, bytes in base64."""
    if isinstance(value, dict):  # Some tools write a plain map.
        return {key: value_text(item) for key, item in value.items()}
    pairs = objects(value, what, tolerated)
    key = f"a key of {what}"
    found = {text(pair.get("key"), key, tolerated): _value(pair.get("value")) for pair in pairs}
    if len(found) < len(pairs):
        tolerated.add("attribute-twice", len(pairs) - len(found))
    return found


def _references(item: JsonObject, trace_id: str, tolerated: Tolerated) -> tuple[Reference, ...]:
    parent = _id(item.get("parentSpanId"), "parentSpanId", tolerated)
    found = [Reference(trace_id, parent, ReferenceKind.CHILD_OF)] if parent else []
    for link in objects(item.get("links"), "links", tolerated):
        span_id = _id(link.get("spanId"), "spanId of a link", tolerated)
        if not span_id:
            tolerated.lose(RefusedError(ODD_FIELD, "a link has no spanId: left out"))
            continue
        # Bridges from OpenTracing say what kind of reference the link was; a second parent stays a parent.
        attributes = attributes_of(link.get("attributes"), tolerated, "attributes of a link")
        kind = attributes.get("opentracing.ref_type", "")
        other = _id(link.get("traceId"), "traceId of a link", tolerated) or trace_id
        found.append(Reference(other, span_id, _KINDS_OF_LINK.get(kind, ReferenceKind.LINK)))
    return tuple(found)


_KINDS_OF_LINK: Final = {"child_of": ReferenceKind.CHILD_OF, "follows_from": ReferenceKind.FOLLOWS_FROM}


def _id(value: Json, what: str, tolerated: Tolerated) -> str:
    if not isinstance(value, str):
        if value is not None:
            tolerated.lose(odd_field(what, value, "a text"))
        return ""
    found = hexadecimal_id(value)
    if found is not None:
        return found
    as_bytes = bytes_id(value)
    tolerated.add("odd-ids" if as_bytes is None else "base64-ids")
    return value if as_bytes is None else canonical_id(as_bytes)


def _number(value: Json, what: str, tolerated: Tolerated) -> int:
    number = integer(value)
    if number is None and value is not None:
        tolerated.lose(odd_field(what, value, "a whole number"))
    return number or 0


def _enum(value: Json, prefix: str, names: tuple[str, ...], tolerated: Tolerated) -> int:
    """The number of an enum value; 0, which means unspecified everywhere, for what is unknown."""
    number = integer(value)
    if number is None and isinstance(value, str):
        name = value.upper().removeprefix(prefix)
        if name in names:
            tolerated.add("enum-names")
            number = names.index(name)
    if number is None or not 0 <= number < len(names):
        if value is not None and value != "":
            tolerated.lose(odd_field(f"{prefix.rstrip('_').lower()}", value, f"one of 0 to {len(names) - 1}"))
        return 0
    return number


_KIND_NAMES: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")


def _severity(value: Json, tolerated: Tolerated) -> int:
    """From 1 to 24, 0 if unspecified; by name it is SEVERITY_NUMBER_WARN2 and the like."""
    number = integer(value)
    if number is None and isinstance(value, str) and value:
        name = value.lower().removeprefix("severity_number_")
        stem = name.rstrip("234")
        if stem in _LEVELS and len(name) <= len(stem) + 1:
            tolerated.add("enum-names")
            number = _LEVELS.index(stem) * 4 + int(name[len(stem) :] or 1)
        elif name == "unspecified":
            tolerated.add("enum-names")
            number = 0
    if value is not None and value != "" and (number is None or not 0 <= number <= 24):
        tolerated.lose(odd_field("severityNumber", value, "one of 0 to 24"))
    return number or 0


def _level(severity: str) -> str:
    word = severity.lower()
    return {"warning": "warn", "err": "error", "critical": "fatal"}.get(word, word if word in _LEVELS else "")


def _value(value: Json) -> str:
    """The text of an AnyValue."""
    if not isinstance(value, dict) or not value:
        return value_text(value) if not isinstance(value, dict) else ""
    if len(value) > 1:
        return value_text(value)  # Only one should be set: all of it is kept.
    key, inner = next(iter(value.items()))
    if isinstance(inner, str) and key in ("stringValue", "intValue", "bytesValue"):
        return inner
    if isinstance(inner, bool | int | float):
        return value_text(inner)
    return value_text(_plain(value))


def _plain(value: Json) -> Json:
    """An AnyValue as the JSON value that it stands for, or as it is if it is none. The decoder limits depth."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    key, inner = next(iter(value.items()))
    if key in ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue"):
        return inner
    values = inner.get("values", []) if isinstance(inner, dict) else None
    if key == "arrayValue" and isinstance(values, list):
        return [_plain(item) for item in values]
    if key == "kvlistValue" and isinstance(values, list):
        pairs = [item for item in values if isinstance(item, dict) and isinstance(item.get("key", ""), str)]
        if len(pairs) == len(values):
            return {str(pair.get("key", "")): _plain(pair.get("value")) for pair in pairs}
    return value
