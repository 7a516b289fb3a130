"""OTLP: what the specification says, what is tolerated, logs, and protobuf against JSON."""

from __future__ import annotations

import base64
import io
import json
import struct
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.events import Rejection
from beforehand.formats.lines import Line
from beforehand.formats.spans.lanes import spans_to_events
from beforehand.formats.spans.otlp import read_otlp, read_otlp_lines
from beforehand.formats.spans.records import (
    LogRecord,
    Note,
    Parsed,
    Reference,
    ReferenceKind,
    Span,
    SpanEvent,
    SpanKind,
)
from beforehand.history import History
from real_data import real_file
from span_worlds import attributes, block, fixed64, message, number, span_bytes, varint

TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = {
    "traceId": "5B8EFFF798038103D269B633813FC60C",
    "spanId": "EEE19B7EC3C1B174",
    "parentSpanId": "EEE19B7EC3C1B173",
    "flags": 0x301,
    "name": "GET /",
    "kind": 3,
    "startTimeUnixNano": "1544712660000000001",
    "endTimeUnixNano": "1544712661000000000",
    "attributes": [
        {"key": "s", "value": {"stringValue": "text"}},
        {"key": "i", "value": {"intValue": "9223372036854775807"}},
        {"key": "n", "value": {"intValue": "-5"}},
        {"key": "d", "value": {"doubleValue": 72.5}},
        {"key": "b", "value": {"boolValue": True}},
        {"key": "y", "value": {"bytesValue": "AAAwOQ=="}},
        {"key": "a", "value": {"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "é"}]}}},
        {"key": "m", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": False}}]}}},
        {"key": "none", "value": {}},
    ],
    "events": [{"timeUnixNano": "1544712660500000000", "name": "e", "attributes": []}],
    "links": [{"traceId": "5b8efff798038103d269b633813fc60d", "spanId": "00000000000000ff"}],
    "status": {"code": 2, "message": "boom"},
}
RESOURCE = {
    "attributes": [
        {"key": "service.name", "value": {"stringValue": "cart"}},
        {"key": "service.instance.id", "value": {"stringValue": "i-1"}},
        {"key": "host.name", "value": {"stringValue": "h"}},
    ]
}
EXPECTED = Span(
    trace_id=TRACE,
    span_id="eee19b7ec3c1b174",
    references=(
        Reference(TRACE, "eee19b7ec3c1b173", ReferenceKind.CHILD_OF),
        Reference("5b8efff798038103d269b633813fc60d", "00000000000000ff", ReferenceKind.LINK),
    ),
    service="cart",
    instance="i-1",
    host="h",
    name="GET /",
    kind=SpanKind.CLIENT,
    start_ns=1544712660000000001,
    end_ns=1544712661000000000,
    error=True,
    message="boom",
    attributes={
        "s": "text",
        "i": "9223372036854775807",
        "n": "-5",
        "d": "72.5",
        "b": "true",
        "y": "AAAwOQ==",
        "a": '[1,"é"]',
        "m": '{"k":false}',
        "none": "",
    },
    events=(SpanEvent(1544712660500000000, "e", {}),),
    remote_parent=True,
)


def envelope(*spans: object, top: str = "resourceSpans", scopes: str = "scopeSpans") -> dict[str, Any]:
    return {top: [{"resource": RESOURCE, scopes: [{"scope": {}, "spans": list(spans)}]}]}


def read(*values: object) -> list[Parsed]:
    return list(read_otlp(io.BytesIO(b"\n".join(json.dumps(value).encode() for value in values)), file="f"))


def reasons(found: list[Parsed]) -> list[tuple[str, int]]:
    return [(item.reason, item.count) for item in found if isinstance(item, Note)]


def test_span_that_conforms_is_read_without_a_note() -> None:
    assert read(envelope(SPAN)) == [EXPECTED]


def test_lines_pretty_print_and_parts_of_a_file_give_the_same() -> None:
    line = json.dumps(envelope(SPAN)).encode()

    assert read(envelope(SPAN), envelope(SPAN)) == [EXPECTED, EXPECTED]
    assert list(read_otlp(io.BytesIO(json.dumps(envelope(SPAN), indent=2).encode()))) == [EXPECTED]
    assert list(read_otlp_lines([(0, line), Line(len(line) + 1, line, 2)])) == [EXPECTED, EXPECTED]


def test_numbers_may_be_numbers() -> None:
    times = {"startTimeUnixNano": 1544712660000000001, "endTimeUnixNano": 1544712661000000000}

    assert read(envelope({**SPAN, **times})) == [EXPECTED]


def as_base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()


DEVIATIONS = {
    "base64-ids": (
        envelope({**SPAN, "traceId": as_base64(SPAN["traceId"]), "spanId": as_base64(SPAN["spanId"])}),  # type: ignore[arg-type]
        [("base64-ids", 2)],
    ),
    "enum names": (
        envelope({**SPAN, "kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_ERROR", "message": "boom"}}),
        [("enum-names", 2)],
    ),
    "Tempo": (envelope(SPAN, top="batches"), [("batches", 1)]),
    "Jaeger's API": ({"result": envelope(SPAN)}, [("batches", 1)]),
    "old scopes": (envelope(SPAN, scopes="instrumentationLibrarySpans"), [("old-scopes", 1)]),
    "list": ([envelope(SPAN)], [("list", 1)]),
}


@pytest.mark.parametrize(("value", "notes"), DEVIATIONS.values(), ids=DEVIATIONS.keys())
def test_deviation_is_tolerated_and_counted(value: object, notes: list[tuple[str, int]]) -> None:
    span, *rest = read(value)

    assert span == EXPECTED
    assert reasons(rest) == notes


def test_snake_case_is_read() -> None:
    value = {"resource_spans": [{"scope_spans": [{"spans": [{"trace_id": "a", "span_id": "b", "name": "x_y"}]}]}]}

    span, note = read(value)

    assert isinstance(span, Span)
    assert (span.trace_id, span.span_id, span.name) == ("000000000000000a", "000000000000000b", "x_y")
    assert isinstance(note, Note)


def test_empty_ids_are_kept_unrelated_and_independent_of_order() -> None:
    empty = {"traceId": "", "spanId": "", "parentSpanId": "", "name": "operationA", "startTimeUnixNano": "5"}

    one, two, note = read(envelope(empty, {**empty, "name": "b"}))

    assert isinstance(one, Span)
    assert isinstance(two, Span)
    assert one.trace_id == two.trace_id == ""
    assert one.span_id.startswith("?")
    assert one.span_id != two.span_id
    assert isinstance(note, Note)
    assert (note.reason, note.count, note.file) == ("no-ids", 2, "f")


def test_bad_span_is_refused_and_the_others_stay() -> None:
    odd, good, text = read(envelope({**SPAN, "startTimeUnixNano": "soon"}, SPAN, "span"))

    assert isinstance(odd, Rejection)
    assert odd.reason == "not-a-span"
    assert "startTimeUnixNano" in odd.detail
    assert odd.line == 1
    assert good == EXPECTED
    assert isinstance(text, Rejection)


def test_time_beyond_64_bits_is_refused() -> None:
    [rejection] = read(envelope({**SPAN, "endTimeUnixNano": str(2**63)}))

    assert isinstance(rejection, Rejection)
    assert "2262" in rejection.detail


def test_metrics_and_empty_envelopes_are_passed_over() -> None:
    found = read({"resourceMetrics": [{}]}, {}, {"resourceSpans": []}, {"resourceSpans": None})

    assert (reasons(found), len(found)) == ([("other-signals", 1)], 1)


def test_references_of_opentracing_keep_their_kind() -> None:
    found = [item for item in read_otlp(real_file("otlp/link_attributes_trace.json")) if isinstance(item, Span)]

    assert [reference.kind for reference in found[0].references] == ["child", "child", "follows"]


LOG = {
    "timeUnixNano": "1544712660300000000",
    "observedTimeUnixNano": "1544712660300000009",
    "severityNumber": 17,
    "severityText": "ERROR",
    "body": {"stringValue": "no stock\nfor item 5"},
    "attributes": [{"key": "item", "value": {"intValue": "5"}}],
    "traceId": TRACE,
    "spanId": "eee19b7ec3c1b174",
}


def logs(*records: object) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"logRecords": list(records)}]}]}


EXPECTED_LOG = LogRecord(
    trace_id=TRACE,
    span_id="eee19b7ec3c1b174",
    service="cart",
    instance="i-1",
    host="h",
    time_ns=1544712660300000000,
    level="error",
    name="no stock",
    attributes={"item": "5", "body": "no stock\nfor item 5", "severity": "ERROR"},
)


def test_log_joins_its_spans_lane() -> None:
    span, log = read(envelope(SPAN), logs(LOG))

    assert log == EXPECTED_LOG
    assert isinstance(span, Span)
    assert isinstance(log, LogRecord)
    events = spans_to_events([span], [log]).events
    assert [event.name for event in events] == ["GET /", "no stock", "e", "GET /"]
    assert len({event.process for event in events}) == 1
    assert events[1].attributes["level"] == "error"


def test_a_log_record_loses_neither_its_body_nor_an_attribute_of_that_name() -> None:
    attributes = [{"key": key, "value": {"stringValue": "mine"}} for key in ("body", "severity")]
    (log,) = read(logs({**LOG, "attributes": attributes}))

    assert isinstance(log, LogRecord)
    assert log.attributes == {
        "body": "no stock\nfor item 5",
        "attribute.body": "mine",
        "severity": "ERROR",
        "attribute.severity": "mine",
    }


@pytest.mark.parametrize(
    ("given_fields", "level"),
    [
        ({"severityNumber": 1}, "trace"),
        ({"severityNumber": 12}, "info"),
        ({"severityNumber": "SEVERITY_NUMBER_WARN2"}, "warn"),
        ({"severityNumber": 24}, "fatal"),
        ({"severityText": "Warning"}, "warn"),
        ({"severityNumber": 99}, ""),
        ({}, ""),
    ],
)
def test_severity_becomes_a_level(given_fields: dict[str, object], level: str) -> None:
    log = read(logs(given_fields))[0]

    assert isinstance(log, LogRecord)
    assert log.level == level


def test_log_without_time_has_the_time_it_was_observed() -> None:
    log = read(logs({"observedTimeUnixNano": "7", "eventName": "tick", "body": {"intValue": "3"}}))[0]

    assert isinstance(log, LogRecord)
    assert (log.time_ns, log.name, log.attributes) == (7, "tick", {"body": "3"})


# Protobuf.


def read_bytes(data: bytes, *, document_bytes_max: int = 1 << 20) -> list[Parsed]:
    return list(read_otlp(io.BytesIO(data), document_bytes_max=document_bytes_max))


def test_protobuf_gives_what_json_gives() -> None:
    assert read_bytes(message(envelope(SPAN))) == [EXPECTED]
    assert read_bytes(message(logs(LOG))) == [EXPECTED_LOG]
    assert read_bytes(message(envelope(SPAN)) + message(logs(LOG))) == [EXPECTED, EXPECTED_LOG]


@pytest.mark.parametrize("name", ["example_trace", "link_attributes_trace", "otel_traces_01", "proto-example"])
def test_real_files_in_protobuf_give_the_same_spans(name: str) -> None:
    path = real_file(f"otlp/{name}.json")
    value = json.loads(path.read_bytes())

    assert read_bytes(message(value)) == list(read_otlp(path))


def test_framed_protobuf_is_read_message_by_message() -> None:
    data = message(envelope(SPAN))
    fixed = b"".join(struct.pack(">I", len(data)) + data for _ in range(3))
    delimited = b"".join(varint(len(data)) + data for _ in range(3))

    assert read_bytes(fixed) == [EXPECTED] * 3
    assert read_bytes(delimited) == [EXPECTED] * 3


def test_cut_protobuf_keeps_what_came_before() -> None:
    data = message(envelope(SPAN))
    frame = struct.pack(">I", len(data)) + data

    first, rejection = read_bytes(frame + frame[:-1])

    assert first == EXPECTED
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "not-protobuf"
    assert rejection.offset == len(frame)


def test_unknown_fields_are_passed_over() -> None:
    extra = number(99, 5) + block(98, b"x") + fixed64(97, 1) + varint(96 << 3 | 5) + b"\0" * 4
    span = span_bytes(SPAN) + extra
    data = block(1, block(1, attributes(RESOURCE, 1)) + block(2, block(2, span) + extra) + extra)

    assert read_bytes(data) == [EXPECTED]


def test_nested_bomb_is_refused_at_its_depth() -> None:
    value = b""
    for _ in range(3_000):
        value = block(5, block(1, value))
    span = span_bytes(SPAN) + block(9, block(1, "k") + block(2, value))

    [rejection] = read_bytes(block(1, block(2, block(2, span))))

    assert isinstance(rejection, Rejection)
    assert "deep" in rejection.detail


def test_false_lengths_allocate_nothing() -> None:
    tracemalloc.start()
    try:
        for data in (b"\x0a\xff\xff\xff\x7f\x00", b"\x0f\xff\xff\xff\x0a\x00", b"\xff" * 9 + b"\x01\x00"):
            [rejection] = read_bytes(data, document_bytes_max=1 << 28)
            assert isinstance(rejection, Rejection)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200))
def test_random_bytes_never_raise(noise: bytes) -> None:
    for prefix in (b"", b"\x0a", b"\x00\x00\x00\x20\x0a", message(envelope(SPAN))):
        for item in read_bytes(prefix + noise + b"\x00"):
            assert isinstance(item, Span | LogRecord | Rejection | Note)


@given(st.integers(0, 2**32))
def test_changed_protobuf_never_raises(seed: int) -> None:
    random = Random(seed)
    data = bytearray(message(envelope(SPAN)) + message(logs(LOG)))
    for _ in range(random.randint(1, 8)):
        data[random.randrange(len(data))] = random.randrange(256)
    del data[random.randint(0, len(data)) :]

    found = read_bytes(bytes(data) + b"\x00")

    spans = [item for item in found if isinstance(item, Span)]
    records = [item for item in found if isinstance(item, LogRecord)]
    assert History(spans_to_events(spans, records).events).rejections == ()
