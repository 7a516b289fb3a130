"""Zipkin JSON, both versions; and the train-ticket trace against the vector clocks that somebody else gave it."""

from __future__ import annotations

import io
import json
import re

import pytest

from beforehand.events import Rejection
from beforehand.formats.spans.lanes import spans_to_events
from beforehand.formats.spans.records import Note, Parsed, Reference, ReferenceKind, Span, SpanEvent, SpanKind
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


def test_the_other_side_is_told_beside_a_tag_of_that_name() -> None:
    (span,) = spans({**V2, "tags": {"peer.service": "by the tag"}})
    assert span.attributes == {"peer.service": "servicea", "attribute.peer.service": "by the tag"}


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


def place(service: str, host: str = "") -> dict[str, str]:
    return {"serviceName": service, **({"ipv4": host} if host else {})}


def version_1(*marks: tuple[str, int, dict[str, str]], **more: object) -> dict[str, object]:
    annotations = [{"value": value, "timestamp": time, "endpoint": where} for value, time, where in marks]
    return {"traceId": "a", "id": "2", "name": "get", "annotations": annotations, **more}


def sides(*marks: tuple[str, int, dict[str, str]], **more: object) -> list[tuple[object, ...]]:
    """Per span its kind, service and host, times in microseconds, and the names of its events."""
    return [
        (
            span.kind.value,
            f"{span.service}@{span.host}",
            *(None if time is None else time // 1_000 for time in (span.start_ns, span.end_ns)),
            [event.name for event in span.events],
        )
        for span in spans([version_1(*marks, **more)])
    ]


WEB, CART = place("web", "1.1.1.1"), place("cart", "2.2.2.2")
CALL = [("cs", 10, WEB), ("sr", 20, CART), ("ss", 30, CART), ("cr", 50, WEB)]


@pytest.mark.parametrize(
    ("where", "side"),
    [
        (CART, 1),
        (place("cart"), 1),  # Without its address.
        (place("", "2.2.2.2"), 1),  # Without its service.
        (place("cart", "9.9.9.9"), 1),  # From another address of the service.
        (WEB, 0),
        (place("web"), 0),
        (place("mail"), 0),  # From nowhere: the first side has it.
        ({}, 0),
    ],
)
def test_annotation_goes_to_the_one_side_that_is_nearest(where: dict[str, str], side: int) -> None:
    found = spans(
        [version_1(*CALL, ("hm", 25, where), binaryAnnotations=[{"key": "k", "value": 1, "endpoint": where}])]
    )

    assert [[event.name for event in span.events] for span in found] == [["hm"] * (at == side) for at in range(2)]
    assert [span.attributes for span in found] == [{"k": "1"} if at == side else {} for at in range(2)]


def test_event_of_a_service_that_is_no_side_names_it() -> None:
    client, _ = spans([version_1(*CALL, ("hm", 25, place("mail")), ("own", 26, WEB))])

    assert client.events == (SpanEvent(25_000, "hm", {"service": "mail"}), SpanEvent(26_000, "own", {}))


def test_sides_that_name_their_address_only_sometimes_stay_together() -> None:
    assert sides(("sr", 20, place("cart")), ("ss", 30, CART)) == [("server", "cart@2.2.2.2", 20, 30, [])]
    assert sides(("sr", 20, CART), ("ss", 30, {})) == [("server", "cart@2.2.2.2", 20, 30, [])]
    assert sides(("cs", 10, WEB), ("cr", 50, place("web", "8.8.8.8"))) == [("client", "web@1.1.1.1", 10, 50, [])]


def test_what_a_service_that_calls_itself_does_meanwhile_stands_once() -> None:
    marks = [("cs", 10, WEB), ("early", 15, WEB), ("sr", 20, WEB), ("hm", 25, WEB), ("ss", 30, WEB), ("cr", 50, WEB)]

    assert sides(*marks, ("late", 40, WEB)) == [
        ("client", "web@1.1.1.1", 10, 50, ["early", "late"]),
        ("server", "web@1.1.1.1", 20, 30, ["hm"]),
    ]


def test_second_server_is_a_side_of_its_own() -> None:
    other = place("cart", "3.3.3.3")

    assert sides(*CALL, ("sr", 21, other), ("ss", 31, other)) == [
        ("client", "web@1.1.1.1", 10, 50, []),
        ("server", "cart@2.2.2.2", 20, 30, []),
        ("server", "cart@3.3.3.3", 21, 31, []),
    ]
    assert sides(("sr", 20, CART), ("sr", 21, other), ("ss", 31, other), ("ss", 32, CART)) == [
        ("server", "cart@2.2.2.2", 20, 32, []),
        ("server", "cart@3.3.3.3", 21, 31, []),
    ]


def test_first_of_two_marks_in_one_place_counts_and_the_other_is_an_event() -> None:
    assert sides(("sr", 20, CART), ("sr", 22, CART), ("ss", 30, CART), ("ss", 33, CART)) == [
        ("server", "cart@2.2.2.2", 20, 30, ["sr", "ss"]),
    ]


def test_mark_that_was_reported_twice_is_noted() -> None:
    span, note = read([version_1(("sr", 20, CART), ("sr", 20, place("cart")), ("ss", 30, CART))])

    assert isinstance(span, Span)
    assert span.events == ()
    assert isinstance(note, Note)
    assert (note.reason, note.count) == ("mark-twice", 1)


def test_messages_of_version_1_are_sent_and_received() -> None:
    assert sides(("ms", 10, WEB), ("mr", 20, CART)) == [
        ("producer", "web@1.1.1.1", 10, None, []),
        ("consumer", "cart@2.2.2.2", 20, None, []),
    ]
    assert sides(("mr", 20, CART), timestamp=20, duration=5) == [("consumer", "cart@2.2.2.2", 20, 25, [])]


@pytest.mark.parametrize("key", ["sa", "ca", "ma"])
def test_addresses_of_the_other_side_are_no_tags(key: str) -> None:
    [span] = spans([version_1(("cs", 10, WEB), binaryAnnotations=[{"key": key, "value": True, "endpoint": CART}])])

    assert span.attributes == {}


def test_span_with_very_many_sides_is_refused() -> None:
    [rejection] = read([version_1(*(("sr", 5, place(f"s{at}")) for at in range(101)))])

    assert isinstance(rejection, Rejection)
    assert "more than 100 sides" in rejection.detail


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
