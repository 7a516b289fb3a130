"""Zipkin JSON, both versions; and the train-ticket trace against the vector clocks that somebody else gave it."""

from __future__ import annotations

import io
import json
import re

import pytest

from beforehand.events import Rejection
from beforehand.formats.spans.lanes import spans_to_events
from beforehand.formats.spans.records import Parsed, Reference, ReferenceKind, Span, SpanEvent, SpanKind
from beforehand.formats.spans.zipkin import read_zipkin
from beforehand.history import History
from real_data import real_file

V2 = {
    "traceId": "1e223ff1f80f1c69",
    "parentId": "bf396325699c84bf",
    "id": "74280AE0C10D8062",
    "kind": "SERVER",
    "name": "post",
    "timestamp": 1470150004008761,
    "duration": 93577,
    "localEndpoint": {"serviceName": "serviceb", "ipv4": "192.0.0.0", "port": 80},
    "remoteEndpoint": {"serviceName": "servicea"},
    "annotations": [{"timestamp": 1470150004008800, "value": "cache miss"}],
    "tags": {"http.path": "/", "error": "503"},
    "shared": True,
}
EXPECTED = Span(
    trace_id="1e223ff1f80f1c69",
    span_id="74280ae0c10d8062",
    references=(Reference("1e223ff1f80f1c69", "bf396325699c84bf", ReferenceKind.CHILD_OF),),
    service="serviceb",
    host="192.0.0.0",
    name="post",
    kind=SpanKind.SERVER,
    start_ns=1470150004008761000,
    end_ns=1470150004102338000,
    error=True,
    message="503",
    attributes={"http.path": "/", "error": "503", "peer.service": "servicea"},
    events=(SpanEvent(1470150004008800000, "cache miss", {}),),
)


def read(*values: object) -> list[Parsed]:
    return list(read_zipkin(io.BytesIO(b"\n".join(json.dumps(value).encode() for value in values)), file="f"))


def spans(*values: object) -> list[Span]:
    return [item for item in read(*values) if isinstance(item, Span)]


@pytest.mark.parametrize("value", [[V2], [[V2]], V2, {"data": [V2]}])
def test_span_of_version_2(value: object) -> None:
    assert read(value) == [EXPECTED]


def test_one_list_a_line() -> None:
    assert read([V2], [V2]) == [EXPECTED, EXPECTED]


def test_shared_span_without_kind_is_a_server() -> None:
    [span] = spans({**V2, "kind": None})

    assert span.kind is SpanKind.SERVER


def test_span_without_duration_is_unfinished() -> None:
    [span] = spans({key: value for key, value in V2.items() if key != "duration"})

    assert span.end_ns is None


def mark(value: str, time: int, service: str) -> dict[str, object]:
    return {"timestamp": time, "value": value, "endpoint": {"serviceName": service, "ipv4": "1.1.1.1"}}


def test_version_1_with_both_halves_is_two_spans() -> None:
    value = {
        "traceId": "a",
        "id": "2",
        "parentId": "1",
        "name": "get",
        "timestamp": 10,
        "duration": 40,
        "annotations": [
            mark("cs", 10, "web"),
            mark("sr", 20, "cart"),
            mark("hm", 25, "cart"),
            mark("ss", 30, "cart"),
            mark("cr", 50, "web"),
        ],
        "binaryAnnotations": [
            {"key": "path", "value": "/", "endpoint": {"serviceName": "web", "ipv4": "1.1.1.1"}},
            {"key": "class", "value": "C", "endpoint": {"serviceName": "cart", "ipv4": "1.1.1.1"}},
            {"key": "sa", "value": True, "endpoint": {"serviceName": "cart", "ipv4": "1.1.1.1"}},
            {"key": "loose", "value": 5},
        ],
    }

    client, server = spans([value])

    assert (client.kind, client.service, client.start_ns, client.end_ns) == (SpanKind.CLIENT, "web", 10_000, 50_000)
    assert (server.kind, server.service, server.start_ns, server.end_ns) == (SpanKind.SERVER, "cart", 20_000, 30_000)
    assert client.attributes == {"path": "/", "loose": "5"}
    assert server.attributes == {"class": "C"}
    assert (client.events, server.events) == ((), (SpanEvent(25_000, "hm", {}),))
    laned = spans_to_events([server, client])
    assert [(event.process, event.time, event.kind.value) for event in laned.events] == [
        ("cart@1.1.1.1", 20_000, "receive"),  # sr
        ("cart@1.1.1.1", 25_000, "local"),
        ("cart@1.1.1.1", 30_000, "send"),  # ss
        ("web@1.1.1.1", 10_000, "receive"),  # cs: its parent is absent; it sends too.
        ("web@1.1.1.1", 50_000, "receive"),  # cr
    ]


def test_local_span_of_version_1_has_the_place_of_its_annotations() -> None:
    value = {
        "traceId": "a",
        "id": "2",
        "timestamp": 10,
        "duration": 5,
        "annotations": [],
        "binaryAnnotations": [{"key": "lc", "value": "", "endpoint": {"serviceName": "cart"}}],
    }

    [span] = spans([value])

    assert (span.service, span.kind, span.start_ns, span.end_ns) == ("cart", SpanKind.UNSPECIFIED, 10_000, 15_000)


def test_half_reported_client_of_version_1_uses_the_spans_own_times() -> None:
    value = {"traceId": "a", "id": "2", "timestamp": 10, "duration": 5, "annotations": [mark("cs", 10, "web")]}

    [span] = spans([value])

    assert (span.kind, span.start_ns, span.end_ns) == (SpanKind.CLIENT, 10_000, 15_000)


@pytest.mark.parametrize("change", [{"id": ""}, {"timestamp": "soon"}, {"duration": 10**20}])
def test_span_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    rejection, good = read([{**V2, **change}, V2])

    assert isinstance(rejection, Rejection)
    assert rejection.reason == "not-a-span"
    assert good == EXPECTED


def test_push_to_many_under_one_id_reaches_them_all() -> None:
    found = [s for s in read_zipkin(real_file("zipkin/smartthings-oauth-authorization.json")) if isinstance(s, Span)]

    events = spans_to_events(found).events

    [push] = [event for event in events if event.name == "send iot-events360"]
    received = [event for event in events if event.name == "receive iot-events360"]
    assert len(received) == 5
    history = History(events)
    assert all(history.happened_before(push, event) for event in received)


def test_train_ticket_agrees_with_the_vector_clocks_of_its_shiviz_form() -> None:
    """Whoever made that log gave each service one clock, so it orders more; all that we order, it orders too."""
    found = [s for s in read_zipkin(real_file("train-ticket/zipkin-v1.json")) if isinstance(s, Span)]
    pattern = re.compile(rb"spanId=([^,]*), hostName=([^,]*),.*clock=({.*?}),.* type=(\w\w),")
    clocks = {
        (match[1].decode(), match[4].decode()): (match[2].decode(), json.loads(match[3]))
        for match in map(pattern.search, real_file("train-ticket/shiviz.log").read_bytes().splitlines())
        if match
    }
    types = {("client", "start"): "cs", ("client", "end"): "cr", ("server", "start"): "sr", ("server", "end"): "ss"}

    events = spans_to_events(found).events

    history = History(events)
    named = {
        (e.attributes["span"], types[e.attributes["span.kind"], e.attributes["phase"]]): e for e in events
    }  # fmt: skip
    assert len(events) == 314
    assert sum(len(event.receives) for event in events) == 156
    assert named.keys() == clocks.keys()
    ordered = 0
    for one, (host, clock) in clocks.items():
        for other, (_, later) in clocks.items():
            if one != other and history.happened_before(named[one], named[other]):
                assert later.get(host, 0) >= clock[host], (one, other)
                ordered += 1
    assert ordered > 40_000
