"""Jaeger JSON: its envelopes, its references, its tags."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from beforehand.events import Rejection
from beforehand.formats.spans.jaeger import read_jaeger
from beforehand.formats.spans.lanes import spans_to_events
from beforehand.formats.spans.records import Note, Parsed, Reference, ReferenceKind, Span, SpanEvent, SpanKind
from real_data import real_file

SPAN: dict[str, Any] = {
    "traceID": "1f",
    "spanID": "2",
    "operationName": "GET /",
    "references": [
        {"refType": "CHILD_OF", "traceID": "000000000000001f", "spanID": "3"},
        {"refType": "FOLLOWS_FROM", "traceID": "ff", "spanID": "4"},
    ],
    "startTime": 1485467191639875,
    "duration": 5,
    "tags": [
        {"key": "span.kind", "type": "string", "value": "client"},
        {"key": "error", "type": "bool", "value": True},
        {"key": "limit", "type": "int64", "value": "9223372036854775222"},
        {"key": "blob", "type": "binary", "value": "AAAwOQ=="},
        {"key": "t", "type": "float64", "value": 72.5},
    ],
    "logs": [{"timestamp": 1485467191639876, "fields": [{"key": "event", "value": "e"}, {"key": "x", "value": "y"}]}],
    "processID": "p1",
}
PROCESSES = {"p1": {"serviceName": "cart", "tags": [{"key": "hostname", "value": "h"}, {"key": "ip", "value": "i"}]}}
TRACE = {"traceID": "1f", "spans": [SPAN], "processes": PROCESSES}
EXPECTED = Span(
    trace_id="000000000000001f",
    span_id="0000000000000002",
    references=(
        Reference("000000000000001f", "0000000000000003", ReferenceKind.CHILD_OF),
        Reference("00000000000000ff", "0000000000000004", ReferenceKind.FOLLOWS_FROM),
    ),
    service="cart",
    host="h",
    name="GET /",
    kind=SpanKind.CLIENT,
    start_ns=1485467191639875000,
    end_ns=1485467191639880000,
    error=True,
    attributes={
        "span.kind": "client",
        "error": "true",
        "limit": "9223372036854775222",
        "blob": "AAAwOQ==",
        "t": "72.5",
    },
    events=(SpanEvent(1485467191639876000, "e", {"x": "y"}),),
)


def read(*values: object) -> list[Parsed]:
    return list(read_jaeger(io.BytesIO(b"\n".join(json.dumps(value).encode() for value in values)), file="f"))


def only(value: object) -> Span:
    [span] = [item for item in read(value) if isinstance(item, Span)]
    return span


def span_with(**changes: object) -> dict[str, Any]:
    return {"spans": [{**SPAN, **changes}], "processes": PROCESSES}


EMBEDDED = {**SPAN, "process": PROCESSES["p1"]}
ENVELOPES = {
    "answer of the API": {"data": [TRACE], "total": 0, "limit": 0, "offset": 0, "errors": None},
    "state of the page": {"data": TRACE, "id": "1f", "state": "FETCH_DONE"},
    "trace": TRACE,
    "list of traces": [TRACE],
    "span": EMBEDDED,
    "list of spans": [EMBEDDED],
    "document of Elasticsearch": {"_index": "x", "_source": EMBEDDED},
    "answer of Elasticsearch": {"took": 1, "hits": {"total": 1, "hits": [{"_source": EMBEDDED}]}},
}


@pytest.mark.parametrize("value", ENVELOPES.values(), ids=ENVELOPES.keys())
def test_envelope_is_known(value: object) -> None:
    assert read(value) == [EXPECTED]


def test_one_trace_a_line_is_read_too() -> None:
    assert read(TRACE, TRACE) == [EXPECTED, EXPECTED]


def test_answer_without_traces_is_empty() -> None:
    assert read({"data": None, "errors": []}) == []
    assert read({"data": []}) == []
    assert read({"traceID": "a", "spans": None}) == []


def test_parent_span_id_counts_only_without_references() -> None:
    assert only(span_with(parentSpanID="9")).references == EXPECTED.references

    span, note = read(span_with(parentSpanID="9", references=[]))

    assert isinstance(span, Span)
    assert span.references == (Reference("000000000000001f", "0000000000000009", ReferenceKind.CHILD_OF),)
    assert isinstance(note, Note)
    assert note.reason == "parent-span-id"


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("CHILD_OF", ReferenceKind.CHILD_OF),
        ("follows_from", ReferenceKind.FOLLOWS_FROM),
        (None, ReferenceKind.CHILD_OF),
        (0, ReferenceKind.CHILD_OF),
        (1, ReferenceKind.FOLLOWS_FROM),
    ],
)
def test_kind_of_a_reference_is_a_name_or_a_number(written: object, kind: ReferenceKind) -> None:
    [span] = read(span_with(references=[{"refType": written, "spanID": "3"}]))

    assert isinstance(span, Span)
    assert span.references == (Reference("000000000000001f", "0000000000000003", kind),)


def test_span_inside_a_reference_is_ignored_and_noted() -> None:
    references = [{**reference, "span": SPAN} for reference in SPAN["references"]]

    span, note = read(span_with(references=references))

    assert span == EXPECTED
    assert isinstance(note, Note)
    assert (note.reason, note.count) == ("embedded-spans", 2)


def test_unknown_process_is_noted() -> None:
    span, note = read(span_with(processID="p9"))

    assert isinstance(span, Span)
    assert (span.service, span.host) == ("", "")
    assert isinstance(note, Note)
    assert note.reason == "unknown-process"


def test_start_of_zero_is_none() -> None:
    span = only(span_with(startTime=0))

    assert (span.start_ns, span.end_ns) == (None, None)


@pytest.mark.parametrize(
    ("tags", "error"),
    [
        ([{"key": "error", "value": True}], True),
        ([{"key": "error", "value": "true"}], True),
        ([{"key": "error", "value": False}], False),
        ([{"key": "error", "value": "false"}], False),
        ([{"key": "otel.status_code", "value": "ERROR"}], True),
        ([{"key": "otel.status_code", "value": "OK"}], False),
        ([], False),
        (None, False),
    ],
)
def test_failure_is_a_tag(tags: object, error: bool) -> None:
    assert only(span_with(tags=tags)).error is error


def test_tags_of_elasticsearch_as_fields_are_read() -> None:
    span = only(span_with(tags=[], tag={"span@kind": "server", "http@status_code": 200}))

    assert span.kind is SpanKind.SERVER
    assert span.attributes["http.status_code"] == "200"


def test_protobuf_mapping_is_read() -> None:
    value = {
        "traceId": "AAAAAAAAAAAAAAAAAAAAHw==",
        "spanId": "AAAAAAAAAAI=",
        "operationName": "GET /",
        "references": [{"traceId": "AAAAAAAAAAAAAAAAAAAAHw==", "spanId": "AAAAAAAAAAM="}],
        "startTime": "2017-01-26T16:46:31.639875Z",
        "duration": "5000ns",
        "tags": [{"key": "peer", "vType": "INT64", "vInt64": "7"}],
        "process": {"serviceName": "cart"},
    }

    span, note = read(value)

    assert isinstance(span, Span)
    assert (span.trace_id, span.span_id) == ("000000000000001f", "0000000000000002")
    assert span.references == EXPECTED.references[:1]
    assert span.start_ns == 1485449191639875000
    assert span.end_ns == span.start_ns + 5_000
    assert span.attributes == {"peer": "7"}
    assert isinstance(note, Note)
    assert note.reason == "base64-ids"


@pytest.mark.parametrize(
    ("duration", "nanoseconds"),
    [
        ("0.000001500s", 1_500),
        ("1.5us", 1_500),
        ("1.5µs", 1_500),
        ("0.0000000019s", 1),  # Finer than a nanosecond: cut.
        ("2.000000001s", 2_000_000_001),
        ("1.25ms", 1_250_000),
        ("0.5ns", 0),
        ("3s", 3_000_000_000),
    ],
)
def test_duration_may_be_text_with_a_fraction(duration: str, nanoseconds: int) -> None:
    span = only(span_with(duration=duration))

    assert span.start_ns is not None
    assert span.end_ns == span.start_ns + nanoseconds


@pytest.mark.parametrize("duration", [1.5, "1.5", "1.5h", "s"])
def test_duration_that_is_no_whole_number_of_microseconds_is_refused(duration: object) -> None:
    [rejection] = read(span_with(duration=duration))

    assert isinstance(rejection, Rejection)
    assert rejection.detail.startswith("duration is ")


def test_adjusted_times_are_noted() -> None:
    _, note = read(span_with(warnings=["This span's timestamps were adjusted by 3ms: clock skew"]))

    assert isinstance(note, Note)
    assert note.reason == "adjusted-times"


@pytest.mark.parametrize("change", [{"spanID": ""}, {"startTime": "soon"}, {"duration": []}, {"startTime": 2**62}])
def test_span_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    [rejection] = read(span_with(**change))

    assert isinstance(rejection, Rejection)
    assert rejection.reason == "not-a-span"


def test_shared_ids_of_zipkin_are_told_apart_by_kind() -> None:
    client = {**SPAN, "references": [], "logs": [], "tags": [{"key": "span.kind", "value": "client"}]}
    server = {**client, "tags": [{"key": "span.kind", "value": "server"}], "processID": "p2"}
    processes = {**PROCESSES, "p2": {"serviceName": "stock"}}
    spans = [s for s in read({"spans": [server, client], "processes": processes}) if isinstance(s, Span)]

    laned = spans_to_events(spans)

    assert laned.rejections == []
    assert [event.sends for event in laned.events if event.process == "cart@h"] == [
        ("~child:0000000000000002>0000000000000002#2",),
        (),
    ]


def test_odd_references_of_a_real_file() -> None:
    spans = [
        item for item in read_jaeger(real_file("jaeger/jaeger-ui-odd-references.json")) if isinstance(item, Span)
    ]

    laned = spans_to_events(spans)

    assert [rejection.reason for rejection in laned.rejections] == ["same-id"]
    assert [(note.reason, note.count) for note in laned.notes] == [("missing-spans", 1)]
    assert "~child:00000000000000ff/00000000000000ff>0000000000000004" in {
        message for event in laned.events for message in event.receives
    }
