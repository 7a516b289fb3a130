"""Fields and elements of the wrong type: what stands around them is read, and what was left out is told."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beforehand.events import Rejection
from beforehand.formats.spans import LogRecord, Note, Parsed, Span, read_jaeger, read_otlp, read_zipkin

OTLP = {"traceId": "a1", "spanId": "b2", "name": "n", "startTimeUnixNano": "5", "endTimeUnixNano": "6"}
JAEGER = {"traceID": "a1", "spanID": "b2", "operationName": "n", "startTime": 5, "duration": 6, "processID": "p"}
ZIPKIN = {"traceId": "a1", "id": "b2", "name": "n", "timestamp": 5, "duration": 6}


def read(reader: Callable[..., Iterator[Parsed]], value: object) -> tuple[list[Span | LogRecord], list[Rejection]]:
    found = list(reader(io.BytesIO(json.dumps(value).encode()), file="f"))
    records = [item for item in found if isinstance(item, Span | LogRecord)]
    return records, [item for item in found if isinstance(item, Rejection)]


def otlp(span: dict[str, Any], **group: object) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}], **group}]}


def logs(record: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


def jaeger(span: dict[str, Any], **trace: object) -> dict[str, Any]:
    return {"traceID": "a1", "spans": [span], "processes": {"p": {"serviceName": "s"}}, **trace}


V1 = {"traceId": "a1", "id": "b2", "timestamp": 5, "duration": 6, "binaryAnnotations": []}

# Reader, value, and how the detail of the only rejection begins. The record itself is always read.
FIELDS = [
    (read_otlp, otlp({**OTLP, "parentSpanId": 7}), "parentSpanId is 7, not a text"),
    (read_otlp, otlp({**OTLP, "name": ["n"]}), 'name is ["n"], not a text'),
    (read_otlp, otlp({**OTLP, "links": {"spanId": "1"}}), 'links is {"spanId": "1"}, not a list'),
    (read_otlp, otlp({**OTLP, "links": [{"spanId": "c", "traceId": 5}]}), "traceId of a link is 5, not a text"),
    (read_otlp, otlp({**OTLP, "links": [{"traceId": "a"}]}), "a link has no spanId: left out"),
    (read_otlp, otlp({**OTLP, "events": "e"}), 'events is "e", not a list'),
    (read_otlp, otlp({**OTLP, "events": [{"name": {}}]}), "name of an event is {}, not a text"),
    (read_otlp, otlp({**OTLP, "attributes": 5}), "attributes is 5, not a list"),
    (read_otlp, otlp({**OTLP, "attributes": [1, {"key": "k"}, 2]}), "2 of attributes are no objects, the first is 1"),
    (read_otlp, otlp({**OTLP, "attributes": [{"key": []}]}), "a key of attributes is [], not a text"),
    (read_otlp, otlp({**OTLP, "status": 2}), "status is 2, not an object"),
    (read_otlp, otlp({**OTLP, "flags": "x"}), 'flags is "x", not a whole number'),
    (read_otlp, otlp({**OTLP, "kind": 9}), "span_kind is 9, not one of 0 to 5"),
    (read_otlp, otlp({**OTLP, "kind": "SPAN_KIND_ODD"}), 'span_kind is "SPAN_KIND_ODD", not one of 0 to 5'),
    (read_otlp, otlp(OTLP, resource="cart"), 'resource is "cart", not an object'),
    (read_otlp, otlp(OTLP, resource={"attributes": "cart"}), 'attributes of a resource is "cart", not a list'),
    (read_otlp, logs({"body": {"stringValue": "b"}, "spanId": 5}), "spanId is 5, not a text"),
    (read_otlp, logs({"body": {"stringValue": "b"}, "severityNumber": "odd"}), 'severityNumber is "odd"'),
    (read_otlp, logs({"body": {"stringValue": "b"}, "severityNumber": 25}), "severityNumber is 25"),
    (read_jaeger, jaeger({**JAEGER, "references": {"spanID": "1"}}), 'references is {"spanID": "1"}, not a list'),
    (read_jaeger, jaeger({**JAEGER, "references": ["1"]}), '1 of references are no objects, the first is "1"'),
    (read_jaeger, jaeger({**JAEGER, "references": [{"refType": "CHILD_OF"}]}), "a reference has no spanID: left out"),
    (
        read_jaeger,
        jaeger({**JAEGER, "references": [{"refType": "odd", "spanID": "1"}]}),
        'refType is "ODD", neither CHILD_OF nor FOLLOWS_FROM: taken for CHILD_OF',
    ),
    (read_jaeger, jaeger({**JAEGER, "parentSpanID": ["1"]}), 'parentSpanID is ["1"], not a text'),
    (read_jaeger, jaeger({**JAEGER, "tags": "x"}), 'tags is "x", not a list'),
    (read_jaeger, jaeger({**JAEGER, "tag": "x"}), 'tag is "x", not an object'),
    (read_jaeger, jaeger({**JAEGER, "logs": 5}), "logs is 5, not a list"),
    (read_jaeger, jaeger({**JAEGER, "logs": [{"fields": 5}]}), "fields of a log is 5, not a list"),
    (read_jaeger, jaeger({**JAEGER, "warnings": "w"}), 'warnings is "w", not a list'),
    (read_jaeger, jaeger({**JAEGER, "operationName": {}}), "operationName is {}, not a text"),
    (read_jaeger, jaeger(JAEGER, processes=[]), "processes is [], not an object"),
    (read_jaeger, jaeger(JAEGER, processes={"p": "s"}), 'process "p" is "s", not an object'),
    (read_jaeger, jaeger(JAEGER, processes={"p": {"serviceName": []}}), "serviceName is [], not a text"),
    (read_zipkin, {**ZIPKIN, "tags": ["x"]}, 'tags is ["x"], not an object'),
    (read_zipkin, {**ZIPKIN, "annotations": {}}, "annotations is {}, not a list"),
    (read_zipkin, {**ZIPKIN, "annotations": [5]}, "1 of annotations are no objects, the first is 5"),
    (read_zipkin, {**ZIPKIN, "localEndpoint": "s"}, 'localEndpoint is "s", not an object'),
    (read_zipkin, {**ZIPKIN, "parentId": ["1"]}, 'parentId is ["1"], not a text'),
    (read_zipkin, {**ZIPKIN, "kind": "ODD"}, 'kind is "ODD", not one of CLIENT'),
    (read_zipkin, {**V1, "binaryAnnotations": "x"}, 'binaryAnnotations is "x", not a list'),
    (read_zipkin, {**V1, "annotations": [{"value": "v", "endpoint": 5}]}, "endpoint of an annotation is 5"),
]


@pytest.mark.parametrize(("reader", "value", "says"), FIELDS, ids=[row[2] for row in FIELDS])
def test_field_of_the_wrong_type_is_told_and_its_record_stays(
    reader: Callable[..., Iterator[Parsed]], value: object, says: str
) -> None:
    records, [rejection] = read(reader, value)

    assert len(records) == 1
    assert (rejection.reason, rejection.file, rejection.line) == ("odd-field", "f", 1)
    assert rejection.detail.startswith(says)
    assert rejection.text


# Reader, value, and the details of the rejections. Nothing is read.
CONTAINERS = [
    (read_otlp, {"resourceSpans": "x"}, ['resourceSpans is "x", not a list: left out']),
    (read_otlp, {"resourceSpans": [5]}, ["1 of resourceSpans are no objects, the first is 5: left out"]),
    (read_otlp, {"resourceLogs": {}}, ["resourceLogs is {}, not a list: left out"]),
    (read_otlp, {"resourceSpans": [{"scopeSpans": 5}]}, ["scopeSpans is 5, not a list: left out"]),
    (
        read_otlp,
        {"resourceSpans": [{"instrumentationLibrarySpans": 5}]},
        ["instrumentationLibrarySpans is 5, not a list: left out"],
    ),
    (read_otlp, {"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]}, ["spans is {}, not a list: left out"]),
    (read_otlp, {"resourceLogs": [{"scopeLogs": [{"logRecords": 1}]}]}, ["logRecords is 1, not a list: left out"]),
    (read_jaeger, {"traceID": "a", "spans": "x"}, ['spans is "x", not a list: left out']),
    (read_jaeger, {"data": "x"}, ['data is "x", not a trace or a list: left out']),
    (
        read_jaeger,
        {"data": [{"traceID": "a", "spans": 5, "processes": 6}]},
        ["processes is 6, not an object: left out", "spans is 5, not a list: left out"],
    ),
]


@pytest.mark.parametrize(("reader", "value", "says"), CONTAINERS, ids=[row[2][0] for row in CONTAINERS])
def test_container_of_the_wrong_type_is_told(
    reader: Callable[..., Iterator[Parsed]], value: object, says: list[str]
) -> None:
    records, rejections = read(reader, value)

    assert records == []
    assert [rejection.detail for rejection in rejections] == says
    assert {(rejection.reason, rejection.file, rejection.line) for rejection in rejections} == {("odd-field", "f", 1)}


def test_rejection_quotes_what_stands_around_the_container() -> None:
    _, [rejection] = read(
        read_otlp, {"resourceSpans": [{"here": 1, "scopeSpans": 5}, otlp(OTLP)["resourceSpans"][0]]}
    )

    assert rejection.text == '{"here":1,"scopeSpans":5}'


@pytest.mark.parametrize(
    ("reader", "good"), [(read_otlp, otlp(OTLP)), (read_jaeger, jaeger(JAEGER)), (read_zipkin, ZIPKIN)]
)
@pytest.mark.parametrize("bad", [5, "x", {"hello": "world"}, None])
def test_bad_element_of_a_list_costs_that_element_only(
    reader: Callable[..., Iterator[Parsed]], good: object, bad: object
) -> None:
    records, [rejection] = read(reader, [bad, good, good])

    assert len(records) == 2
    assert rejection.reason == "other-format"
    assert rejection.text == json.dumps(bad, separators=(",", ":")) or bad == "x"


@pytest.mark.parametrize("reader", [read_otlp, read_jaeger, read_zipkin])
def test_list_of_something_else_is_one_rejection(reader: Callable[..., Iterator[Parsed]]) -> None:
    records, [rejection] = read(reader, [{"hello": "world"}] * 5)

    assert records == []
    assert rejection.reason == "other-format"


def test_bad_trace_among_the_answers_of_the_api_costs_that_trace_only() -> None:
    records, [rejection] = read(read_jaeger, {"data": [jaeger(JAEGER), {"hello": 1}, jaeger(JAEGER)]})

    assert len(records) == 2
    assert (rejection.reason, rejection.text) == ("other-format", '{"hello":1}')


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ([{"code": 404, "msg": "trace not found"}], "error: trace not found"),
        ([{"code": 500, "msg": "a\nb"}, {"code": 1}], "error: a (and 1 more)"),
        ([{"code": 500}], 'error: {"code":500}'),
        ([{"code": 500, "msg": "x" * 5_000}], "error: " + "x" * 199 + "…"),
        ("down", "error: down"),
        (["down"], "error: down"),
    ],
)
def test_answer_of_the_jaeger_api_with_errors_is_refused_with_their_text(errors: object, says: str) -> None:
    records, [rejection] = read(read_jaeger, {"data": None, "total": 0, "errors": errors})

    assert records == []
    assert rejection.reason == "api-error"
    assert rejection.detail.endswith(says)


def test_answer_with_nothing_but_errors_is_refused_with_their_text() -> None:
    records, [rejection] = read(read_jaeger, {"errors": [{"msg": "down"}]})

    assert records == []
    assert rejection.reason == "api-error"


def test_errors_of_a_span_are_no_answer() -> None:
    records, rejections = read(read_jaeger, jaeger({**JAEGER, "errors": ["own"]}, errors=["own"]))

    assert (len(records), rejections) == (1, [])


def test_what_a_group_lost_is_told_before_the_next_group() -> None:
    good = otlp(OTLP)["resourceSpans"][0]
    found = read_otlp(io.BytesIO(json.dumps({"resourceSpans": [{"scopeSpans": 5}, good]}).encode()))

    assert [type(item) for item in found] == [Rejection, Span]


def test_answer_with_errors_and_traces_gives_both() -> None:
    records, [rejection] = read(read_jaeger, {"data": [jaeger(JAEGER)], "errors": [{"msg": "partial"}]})

    assert len(records) == 1
    assert rejection.reason == "api-error"


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (read_otlp, otlp({**OTLP, "attributes": [{"key": "k", "value": {"intValue": i}} for i in (1, 2)]})),
        (read_jaeger, jaeger({**JAEGER, "tags": [{"key": "k", "value": i} for i in (1, 2)]})),
        (read_zipkin, {**V1, "binaryAnnotations": [{"key": "k", "value": i} for i in (1, 2)]}),
    ],
)
def test_attribute_twice_in_a_list_is_noted(reader: Callable[..., Iterator[Parsed]], value: object) -> None:
    span, note = reader(io.BytesIO(json.dumps(value).encode()))

    assert isinstance(span, Span)
    assert span.attributes == {"k": "2"}
    assert isinstance(note, Note)
    assert (note.reason, note.count) == ("attribute-twice", 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"stringValue": "a", "intValue": 5}, '{"stringValue":"a","intValue":5}'),  # Only one should be set.
        ({"arrayValue": {"values": 5}}, '{"arrayValue":{"values":5}}'),
        ({"arrayValue": {}}, "[]"),
        ({"kvlistValue": {"values": [5]}}, '{"kvlistValue":{"values":[5]}}'),
        ({"kvlistValue": {}}, "{}"),
        ({"newValue": [1]}, '{"newValue":[1]}'),
    ],
)
def test_odd_value_of_an_attribute_is_kept_as_json(value: object, text: str) -> None:
    [span], rejections = read(read_otlp, otlp({**OTLP, "attributes": [{"key": "k", "value": value}]}))

    assert span.attributes == {"k": text}
    assert rejections == []
