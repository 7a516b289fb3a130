"""Random spans as a tracer would report them, with all that goes wrong in real ones; OTLP written as protobuf."""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from random import Random
from typing import Any

from beforehand.events import Event
from beforehand.formats.spans.records import Reference, ReferenceKind, Span, SpanEvent, SpanKind

TRACE = "00000000000000aa"


def child_of(span: Span, kind: ReferenceKind = ReferenceKind.CHILD_OF) -> tuple[Reference, ...]:
    return (Reference(span.trace_id, span.span_id, kind),)


def random_spans(random: Random, *, size: int = 30, odd: float = 0.1) -> list[Span]:
    """A tree of calls over a few skewed processes. `odd` is how often something is wrong."""
    skew = {f"s{i}": random.choice([0, 0, random.randint(-500, 500)]) for i in range(random.randint(1, 4))}
    spans: list[Span] = []
    true_times: list[tuple[int, int]] = []
    for number in range(size):
        span_id = f"{number + 1:016x}"
        service = random.choice(sorted(skew))
        kind = random.choice([SpanKind.UNSPECIFIED, SpanKind.INTERNAL, *SpanKind])
        start, end = 1_000, 1_000_000
        references: tuple[Reference, ...] = ()
        if spans and random.random() > 0.05:
            at = random.randrange(len(spans))
            parent = spans[at]
            low, high = true_times[at]
            start = random.randint(low, max(low, high - 1))
            end = random.randint(start, high if random.random() < 0.8 else high + 1_000)
            kinds = [ReferenceKind.CHILD_OF] * 4 + [ReferenceKind.FOLLOWS_FROM]
            references = child_of(parent, random.choice(kinds))
            if random.random() < 0.5:
                service = parent.service
            if random.random() < odd:
                references = (Reference(TRACE, "00000000000fffff", ReferenceKind.CHILD_OF),)
            while random.random() < odd:
                other = random.choice([f"{random.randint(1, size):016x}", span_id, "00000000000eeeee"])
                references += (Reference(TRACE, other, random.choice(list(ReferenceKind))),)
        offset = skew[service]
        events = tuple(
            SpanEvent(random.choice([None, start + offset, end + offset, 5]), f"e{i}", {"i": str(i)})
            for i in range(random.choice([0, 0, 1, 2]))
        )
        span = Span(
            trace_id=TRACE,
            span_id=span_id,
            references=tuple(dict.fromkeys(references)),
            service=service,
            name=f"op{number % 5}",
            kind=kind,
            start_ns=start + offset,
            end_ns=end + offset,
            error=random.random() < 0.1,
            events=events,
        )
        if random.random() < odd:
            span = random.choice(
                [
                    replace(span, end_ns=None),
                    replace(span, start_ns=None),
                    replace(span, start_ns=None, end_ns=None),
                    replace(span, end_ns=start + offset - 7),
                    replace(span, end_ns=start + offset),
                    replace(span, remote_parent=True),
                ]
            )
        spans.append(span)
        true_times.append((start, end))
        if random.random() < odd:  # The other half of a call, or the same span again, or a wrong one.
            half = replace(span, service=random.choice(sorted(skew)), kind=SpanKind.SERVER)
            spans[-1] = replace(span, kind=SpanKind.CLIENT)
            spans.append(random.choice([half, spans[-1], replace(span, name="other")]))
            true_times.append((start, end))
    random.shuffle(spans)
    return spans


def phases(events: list[Event]) -> dict[tuple[str, str], list[Event]]:
    """(span id, phase) to events, in the order of processes."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        found.setdefault((event.attributes["span"], event.attributes["phase"]), []).append(event)
    return found


# OTLP in protobuf. This encoder shares nothing with the reader but the numbers of the specification.


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def block(number: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def fixed64(field: int, value: object) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<Q", int(str(value)))


def any_value(value: dict[str, Any]) -> bytes:
    for key, inner in value.items():
        match key:
            case "stringValue":
                return block(1, inner)
            case "boolValue":
                return number(2, inner)
            case "intValue":
                return number(3, int(inner))
            case "doubleValue":
                return varint(4 << 3 | 1) + struct.pack("<d", inner)
            case "arrayValue":
                return block(5, b"".join(block(1, any_value(item)) for item in inner["values"]))
            case "kvlistValue":
                return block(6, attributes(inner, 1, "values"))
            case "bytesValue":
                return block(7, base64.b64decode(inner))
    return b""


def attributes(record: dict[str, Any], field: int, key: str = "attributes") -> bytes:
    pairs = record.get(key, [])
    return b"".join(block(field, block(1, pair["key"]) + block(2, any_value(pair["value"]))) for pair in pairs)


def span_bytes(span: dict[str, Any]) -> bytes:
    out = block(1, bytes.fromhex(span["traceId"])) + block(2, bytes.fromhex(span["spanId"]))
    out += block(3, "state") + block(4, bytes.fromhex(span.get("parentSpanId", ""))) + block(5, span["name"])
    out += (
        number(6, span.get("kind", 0)) + fixed64(7, span["startTimeUnixNano"]) + fixed64(8, span["endTimeUnixNano"])
    )
    out += attributes(span, 9) + number(10, 3)
    for event in span.get("events", []):
        out += block(11, fixed64(1, event["timeUnixNano"]) + block(2, event.get("name", "")) + attributes(event, 3))
    for link in span.get("links", []):
        ids = block(1, bytes.fromhex(link["traceId"])) + block(2, bytes.fromhex(link["spanId"]))
        out += block(13, ids + attributes(link, 4))
    status = span.get("status", {})
    out += block(15, block(2, status.get("message", "")) + number(3, status.get("code", 0)))
    return out + varint(16 << 3 | 5) + struct.pack("<I", span.get("flags", 0))


def log_bytes(log: dict[str, Any]) -> bytes:
    out = fixed64(1, log["timeUnixNano"]) + number(2, log["severityNumber"]) + block(3, log["severityText"])
    out += block(5, any_value(log["body"])) + attributes(log, 6)
    return out + block(9, bytes.fromhex(log["traceId"])) + block(10, bytes.fromhex(log["spanId"])) + fixed64(11, 9)


def message(value: dict[str, Any]) -> bytes:
    out = b""
    for group in value.get("resourceSpans", []):
        scopes = b""
        for scope in group["scopeSpans"]:
            scopes += block(2, block(1, block(1, "lib")) + b"".join(block(2, span_bytes(s)) for s in scope["spans"]))
        out += block(1, scopes + block(1, attributes(group["resource"], 1)))
    for group in value.get("resourceLogs", []):
        records = b"".join(block(2, log_bytes(log)) for scope in group["scopeLogs"] for log in scope["logRecords"])
        out += block(1, block(1, attributes(group["resource"], 1)) + block(2, records))
    return out
