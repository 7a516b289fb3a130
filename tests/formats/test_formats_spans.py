"""What all tracing formats share: ids, JSON documents of any layout, limits; and every real file, end to end."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.opening import Limits
from beforehand.formats.spans.documents import (
    SPAN_LIMITS,
    Document,
    Tolerated,
    format_of,
    read_documents,
)
from beforehand.formats.spans.fields import bytes_id, integer, one_line
from beforehand.formats.spans.jaeger import read_jaeger
from beforehand.formats.spans.lanes import executions, spans_to_events
from beforehand.formats.spans.otlp import read_otlp
from beforehand.formats.spans.records import Note, Parsed, ReferenceKind, Span, SpanKind, canonical_id, made_up_id
from beforehand.formats.spans.zipkin import read_zipkin
from beforehand.history import History
from real_data import real_file
from span_worlds import phases


def documents(data: bytes, *, document_bytes_max: int = 1 << 20, limits: Limits = SPAN_LIMITS) -> list[object]:
    """Values, and the reasons of rejections."""
    found = read_documents(
        io.BytesIO(data),
        file="f",
        limits=limits,
        document_bytes_max=document_bytes_max,
        tolerated=Tolerated({}),
    )
    return [item.value if isinstance(item, Document) else item.reason for item in found]


@pytest.mark.parametrize(
    ("given_id", "expected"),
    [
        ("5B8EFFF798038103D269B633813FC60C", "5b8efff798038103d269b633813fc60c"),  # Hexadecimal in either case.
        ("abc", "0000000000000abc"),  # Leading zeros were dropped.
        ("0000000000000000000000000000abcd", "000000000000abcd"),  # The same number, however it is written.
        ("10000000000000000", "00000000000000010000000000000000"),  # Needs more than 16 digits.
        ("", ""),
        ("0000000000000000", ""),  # Zero is no id.
        ("not hex", "not hex"),
    ],
)
def test_ids_have_one_form(given_id: str, expected: str) -> None:
    assert canonical_id(given_id) == expected


def test_made_up_ids_follow_from_content() -> None:
    assert made_up_id("a", 1) == made_up_id("a", 1) != made_up_id("a", 2)


def test_base64_of_eight_and_sixteen_bytes_are_ids() -> None:
    assert bytes_id("7uGbfsPBsXQ=") == "eee19b7ec3c1b174"
    assert bytes_id("W47/95gDgQPSabYzgT/GDA==") == "5b8efff798038103d269b633813fc60c"
    assert bytes_id("????????????") is None
    assert bytes_id("short") is None


def test_whole_numbers_may_be_numbers_floats_or_text() -> None:
    assert [integer(value) for value in (5, "5", 5.0, "-5")] == [5, 5, 5, -5]
    assert [integer(value) for value in (True, 5.5, "5.0", None, [], "9" * 5_000, 1e300)] == [None] * 7


def test_name_is_the_first_line_cut() -> None:
    assert one_line("\n  first\nsecond") == "first"
    assert one_line("x" * 300) == "x" * 199 + "…"


LAYOUTS = {
    "one document on one line": (b'{"a":1}', [{"a": 1}]),
    "one document, pretty-printed": (b'{\n "a": [\n  {"b": 1}\n ]\n}\n', [{"a": [{"b": 1}]}]),
    "a list, one element a line": (b'[\n{"a":1},\n{"a":2}\n]', [[{"a": 1}, {"a": 2}]]),
    "a list with a single element on its line": (b'[\n{"a":1}\n]', [[{"a": 1}]]),
    "JSON Lines": (b'{"a":1}\n\n{"a":2}\n', [{"a": 1}, {"a": 2}]),
    "JSON Lines with a bad line": (b'{"a":1}\n{"a":\n{"a":2}\n', [{"a": 1}, "not-json", {"a": 2}]),
    "JSON Lines with a bad first line": (b'xxx"}\n{"a":2}\n', ["not-json", {"a": 2}]),
    "lists, one a line": (b"[1]\n[2]\n", [[1], [2]]),
    "byte order mark": (b'\xef\xbb\xbf{"a":1}', [{"a": 1}]),
    "byte order mark, pretty-printed": (b'\xef\xbb\xbf{\n"a":1}', [{"a": 1}]),
    "key twice, the last counts": (b'{"a":1,"a":2}', [{"a": 2}]),
    "not JSON": (b"hello\nworld\n", ["not-json"]),
    "cut": (b'{\n"a": [1,', ["not-json"]),
    "blank": (b" \n\n", []),
    "empty": (b"", []),
}


@pytest.mark.parametrize(("data", "expected"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_layout_is_told_by_content(data: bytes, expected: list[object]) -> None:
    assert documents(data) == expected


def test_document_above_its_limit_says_so() -> None:
    with pytest.raises(InputError, match="more than 64 bytes: split it"):
        documents(b'{\n"a":\n"' + b"x" * 60 + b'"\n}', document_bytes_max=64)
    with pytest.raises(InputError, match="split it"):
        documents(b"[" + b" " * 100 + b"]", document_bytes_max=64)


def test_line_above_the_limit_is_one_rejection() -> None:
    assert documents(b'{"a":1}\n' + b" " * 100 + b'{}\n{"a":2}', document_bytes_max=64) == [
        {"a": 1}, "line-too-long", {"a": 2},
    ]  # fmt: skip


def test_deep_document_is_refused() -> None:
    assert documents(b"[" * 100_000) == ["not-json"] or documents(b"[" * 100_000) == ["too-deep"]
    assert documents(b"[[[[1]]]]", limits=Limits(depth_max=3)) == ["too-deep"]


def test_broken_stream_is_a_rejection() -> None:
    class Broken:
        def __init__(self, first: bytes) -> None:
            self._pieces = [first]

        def read(self, size: int, /) -> bytes:
            if not self._pieces:
                raise InputError("the disk is on fire")
            return self._pieces.pop()

    for read in (read_otlp, read_jaeger, read_zipkin):
        found = list(read(Broken(b'{"a":1}\n{')))
        assert [item.reason for item in found if isinstance(item, Rejection)][-1] == "unreadable"
        assert "on fire" in str(found[-1])


def test_compressed_file_is_read_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'[{"traceId":"a","id":"1"}]'))

    [span] = read_zipkin(path)

    assert isinstance(span, Span)


def test_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        list(read_jaeger(tmp_path / "none"))


CONSOLE = """{
    "name": "hello",
    "context": {
        "trace_id": "0x1",
        "span_id": "0x2"
    },
    "kind": "SpanKind.INTERNAL",
    "start_time": "2026-01-01T00:00:00Z"
}
"""


@pytest.mark.parametrize("data", [CONSOLE, CONSOLE * 2, '{"Name":"x","SpanContext":{"TraceID":"1"}}'])
@pytest.mark.parametrize("read", [read_otlp, read_jaeger])
def test_console_exporters_are_named(read: Callable[..., Iterator[Parsed]], data: str) -> None:
    [rejection] = read(io.BytesIO(data.encode()))

    assert isinstance(rejection, Rejection)
    assert rejection.reason == "other-format"
    assert "console exporter" in rejection.detail


@pytest.mark.parametrize(
    ("read", "value", "named"),
    [
        (read_otlp, [{"traceId": "a", "id": "1"}], "zipkin"),
        (read_otlp, {"data": [{"traceID": "a", "spans": []}]}, "jaeger"),
        (read_jaeger, {"resourceSpans": []}, "otlp"),
        (read_zipkin, {"traceID": "a", "spans": []}, "jaeger"),
        (read_zipkin, {"hello": "world"}, "none of the layouts"),
    ],
)
def test_other_formats_are_named(read: Callable[..., Iterator[Parsed]], value: object, named: str) -> None:
    [rejection] = read(io.BytesIO(json.dumps(value).encode()), file="f")

    assert isinstance(rejection, Rejection)
    assert rejection.reason == "other-format"
    assert named in rejection.detail
    assert rejection.file == "f"


def test_format_of_real_files() -> None:
    for name, expected in [
        ("otlp/example_trace", "otlp"),
        ("zipkin/skew", "zipkin"),
        ("jaeger/deathstarbench", "jaeger"),
    ]:
        assert format_of(json.loads(real_file(f"{name}.json").read_bytes())) == expected


# Real files: what their README counts, and that events come out whole.

FILES = [
    # Reader, file, traces, span records, services, executions, events.
    (read_otlp, "otlp/proto-example.json", 1, 1, 1, 1, 2),
    (read_otlp, "otlp/example_trace.json", 1, 5, 3, 1, 20),
    (read_otlp, "otlp/link_attributes_trace.json", 1, 1, 1, 1, 2),
    (read_otlp, "otlp/otel_traces_01.json", 2, 4, 1, 1, 16),
    (read_jaeger, "jaeger/deathstarbench.json", 20, 660, 12, 20, 1_320),
    (read_jaeger, "jaeger/jaeger-ui-flamegraph.json", 1, 4, 2, 1, 8),
    (read_jaeger, "jaeger/jaeger-ui-genai.json", 1, 57, 10, 1, 114),
    (read_jaeger, "jaeger/jaeger-ui-odd-references.json", 1, 5, 2, 1, 12),
    (read_zipkin, "zipkin/skew.json", 1, 4, 2, 1, 8),
    (read_zipkin, "zipkin/messaging-kafka.json", 1, 28, 2, 1, 56),
    (read_zipkin, "zipkin/yelp.json", 1, 16, 6, 1, 33),
    (read_zipkin, "zipkin/smartthings-oauth-authorization.json", 1, 175, 8, 1, 340),
    (read_zipkin, "train-ticket/zipkin-v1.json", 1, 157, 16, 1, 314),  # 79 records, 78 of them with both halves.
]


def grouped(spans: list[Span]) -> dict[str, list[Span]]:
    names = executions(spans)
    groups: dict[str, list[Span]] = {}
    for span in spans:
        groups.setdefault(names[span.trace_id], []).append(span)
    return groups


@pytest.mark.parametrize(
    ("read", "name", "traces", "records", "services", "groups", "events"), FILES, ids=[row[1] for row in FILES]
)
def test_real_file_has_the_counts_of_its_readme(
    read: Callable[..., Iterator[Parsed]],
    name: str,
    traces: int,
    records: int,
    services: int,
    groups: int,
    events: int,
) -> None:
    found = list(read(real_file(name)))

    spans = [item for item in found if isinstance(item, Span)]
    assert not [item for item in found if isinstance(item, Rejection)]
    assert len({span.trace_id for span in spans}) == traces
    assert len(spans) == records
    assert len({span.service for span in spans}) == services
    by_execution = grouped(spans)
    assert len(by_execution) == groups
    assert sum(len(spans_to_events(group).events) for group in by_execution.values()) == events


@pytest.mark.parametrize(("read", "name"), [row[:2] for row in FILES], ids=[row[1] for row in FILES])
def test_real_file_makes_a_history_that_respects_its_references(
    read: Callable[..., Iterator[Parsed]], name: str
) -> None:
    spans = [item for item in read(real_file(name)) if isinstance(item, Span)]

    for execution, group in grouped(spans).items():
        laned = spans_to_events(group)
        history = History(laned.events)
        assert history.execution == execution
        assert history.rejections == ()
        assert history.gaps == {}
        of = phases(laned.events)
        shared = Counter(span.span_id for span in group)
        present = {(span.trace_id, span.span_id) for span in group}
        for span in group:
            for reference in span.references:
                there = (reference.trace_id, reference.span_id) in present and reference.span_id != span.span_id
                if there and shared[span.span_id] == shared[reference.span_id] == 1:
                    [parent], [child] = of[reference.span_id, "start"], of[span.span_id, "start"]
                    assert history.happened_before(parent, child)
        random = Random(5)
        random.shuffle(group)
        assert spans_to_events(group) == laned


def test_synchronous_calls_of_a_real_trace_return_and_queued_ones_do_not() -> None:
    calls = [s for s in read_jaeger(real_file("jaeger/deathstarbench.json")) if isinstance(s, Span)]
    queue = [s for s in read_zipkin(real_file("zipkin/messaging-kafka.json")) if isinstance(s, Span)]

    for group in grouped(calls).values():
        laned = spans_to_events(group)
        history, of = History(laned.events), phases(laned.events)
        by_id = {span.span_id: span for span in group}
        for span in group:
            for reference in span.references:
                parent = by_id[reference.span_id]
                assert span.end_ns is not None
                assert parent.end_ns is not None
                if span.end_ns <= parent.end_ns:
                    assert history.happened_before(of[span.span_id, "end"][0], of[parent.span_id, "end"][0])
    queued = {span.span_id for span in queue if span.kind in (SpanKind.PRODUCER, SpanKind.CONSUMER)}
    returned = [m for event in spans_to_events(queue).events for m in event.receives if m.startswith("~return:")]
    assert queued
    assert not [message for message in returned if message.removeprefix("~return:").split(">")[0] in queued]


def test_skew_of_a_real_trace_is_measured_not_repaired() -> None:
    spans = [s for s in read_zipkin(real_file("zipkin/skew.json")) if isinstance(s, Span)]

    measures = History(spans_to_events(spans).events).measure()

    bounds = measures.clocks["serviceb@192.0.0.0"]
    assert (bounds.offset_min_ns, bounds.offset_max_ns) == (-66_403_000, -65_441_000)
    assert measures.epsilon_min_ns == 65_441_000


# Whatever comes, there are records, rejections and notes, or an InputError that says why.

READERS = {"otlp": read_otlp, "jaeger": read_jaeger, "zipkin": read_zipkin}
SEEDS = {
    "otlp": {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "5b8efff798038103d269b633813fc60c",
                                "spanId": "eee19b7ec3c1b174",
                                "parentSpanId": "eee19b7ec3c1b173",
                                "name": "n",
                                "kind": 2,
                                "startTimeUnixNano": "1544712660000000000",
                                "endTimeUnixNano": "1544712661000000000",
                                "flags": 768,
                                "status": {"code": 2, "message": "m"},
                                "attributes": [
                                    {"key": "k", "value": {"arrayValue": {"values": [{"intValue": "5"}]}}},
                                    {"key": "l", "value": {"kvlistValue": {"values": [{"key": "a"}]}}},
                                ],
                                "events": [{"timeUnixNano": 1544712660500000000, "name": "e"}],
                                "links": [{"traceId": "5b8efff798038103d269b633813fc60d", "spanId": "1"}],
                            }
                        ]
                    }
                ],
            }
        ],
        "resourceLogs": [{"scopeLogs": [{"logRecords": [{"severityNumber": 17, "body": {"stringValue": "b"}}]}]}],
    },
    "jaeger": {
        "data": [
            {
                "traceID": "a",
                "spans": [
                    {
                        "traceID": "a",
                        "spanID": "b",
                        "operationName": "o",
                        "references": [{"refType": "CHILD_OF", "traceID": "a", "spanID": "c"}],
                        "startTime": 1485467191639875,
                        "duration": 5,
                        "tags": [{"key": "error", "type": "bool", "value": True}],
                        "logs": [{"timestamp": 1485467191639876, "fields": [{"key": "event", "value": "e"}]}],
                        "processID": "p1",
                        "warnings": None,
                    }
                ],
                "processes": {"p1": {"serviceName": "s", "tags": []}},
            }
        ]
    },
    "zipkin": [
        {
            "traceId": "a",
            "id": "1",
            "parentId": "2",
            "kind": "CLIENT",
            "timestamp": 5,
            "duration": 6,
            "localEndpoint": {"serviceName": "s", "ipv4": "1.1.1.1"},
            "annotations": [{"timestamp": 7, "value": "x"}],
            "tags": {"error": ""},
        },
        {
            "traceId": "a",
            "id": "3",
            "annotations": [
                {"timestamp": 7, "value": "cs", "endpoint": {"serviceName": "s"}},
                {"timestamp": 8, "value": "sr", "endpoint": {"serviceName": "t"}},
            ],
            "binaryAnnotations": [{"key": "sa", "value": True}],
        },
    ],
}
ODD = st.sampled_from(
    [None, True, 0, -1, 2**63, 2**70, 1.5, 1e300, "", "x", "0", "é\n", "9" * 30, [], {}, [[]], [None], {"a": {}}]
)


def mutated(value: object, random: Random, odd: list[object]) -> object:
    if random.random() < 0.08:
        return odd[random.randrange(len(odd))]
    if isinstance(value, dict):
        return {key: mutated(item, random, odd) for key, item in value.items() if random.random() > 0.03}
    if isinstance(value, list):
        return [mutated(item, random, odd) for item in value for _ in range(random.choice([1, 1, 1, 2]))]
    return value


@given(st.sampled_from(sorted(READERS)), st.integers(0, 2**32), st.lists(ODD, min_size=1))
def test_mutated_json_never_raises_and_always_makes_a_history(which: str, seed: int, odd: list[object]) -> None:
    random = Random(seed)
    data = json.dumps(mutated(SEEDS[which], random, odd)).encode()

    found = list(READERS[which](io.BytesIO(data)))

    spans = [item for item in found if isinstance(item, Span)]
    for group in grouped(spans).values():
        assert History(spans_to_events(group).events).rejections == ()


@given(st.sampled_from(sorted(READERS)), st.binary(max_size=300), st.integers(0, 400), st.integers(0, 400))
def test_spliced_bytes_never_raise(which: str, noise: bytes, start: int, end: int) -> None:
    whole = json.dumps(SEEDS[which]).encode()
    data = whole[:start] + noise + whole[end:]

    for item in READERS[which](io.BytesIO(data)):
        assert isinstance(item, Span | Rejection | Note) or item is not None


def test_every_reader_reads_its_seed() -> None:
    for which, read in READERS.items():
        found = list(read(io.BytesIO(json.dumps(SEEDS[which]).encode())))
        assert any(isinstance(item, Span) for item in found), which
        assert not [item for item in found if isinstance(item, Rejection)]


def test_reference_kinds_begin_message_ids() -> None:
    assert [kind.value for kind in ReferenceKind] == ["child", "follows", "link"]
