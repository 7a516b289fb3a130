"""Which span is meant, what it is called, and what follows from its references: small cases, each with one reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.formats.spans import LogRecord, Reference, ReferenceKind, Span, SpanKind, process_of, spans_to_events
from beforehand.formats.spans.causes import Causes, causes_of
from beforehand.formats.spans.identity import identify
from beforehand.history import History

CHILD, FOLLOWS, LINK = ReferenceKind.CHILD_OF, ReferenceKind.FOLLOWS_FROM, ReferenceKind.LINK
CLIENT, SERVER = SpanKind.CLIENT, SpanKind.SERVER
PRODUCER, CONSUMER = SpanKind.PRODUCER, SpanKind.CONSUMER


def span(span_id: str, service: str = "s", kind: SpanKind = SpanKind.UNSPECIFIED, **more: object) -> Span:
    made = Span(trace_id="t", span_id=span_id, service=service, kind=kind, name=span_id, start_ns=10, end_ns=20)
    return replace(made, **more)  # type: ignore[arg-type]


def to(span_id: str, kind: ReferenceKind = CHILD, trace_id: str = "t") -> Reference:
    return Reference(trace_id, span_id, kind)


def meant(spans: list[Span], by: str, **more: int) -> Span | None:
    found = identify(spans, "t")
    at = found.meant(to("1"), by, **more)
    return None if at is None else found.spans[at]


# Who is meant.


def test_reference_means_the_span_on_the_referring_process() -> None:
    here, there = span("1", "a", start_ns=15), span("1", "b", start_ns=12)

    assert meant([there, here], "a") == here
    assert meant([there, here], "b") == there


def test_reference_from_elsewhere_means_the_called_side() -> None:
    client, server = span("1", "a", CLIENT), span("1", "b", SERVER)

    assert meant([client, server], "c") == server
    assert meant([client, server], "a") == client


def test_reference_from_a_process_with_both_sides_means_the_called_one() -> None:
    client, server = span("1", "a", CLIENT), span("1", "a", SERVER)

    assert meant([server, client], "a") == server


def test_reference_to_equal_candidates_means_the_first_by_time() -> None:
    later, first, last = span("1", "a", start_ns=12), span("1", "b", start_ns=11), span("1", "c", start_ns=13)

    assert meant([later, last, first], "d") == first


def test_span_that_refers_to_its_own_id_means_another() -> None:
    one, other = span("1", "a", start_ns=11), span("1", "a", start_ns=12)

    assert meant([one, other], "a", other_than=0) == other
    assert meant([one, other], "a", other_than=1) == one
    assert meant([one], "a", other_than=0) is None
    assert meant([], "a") is None


def test_log_means_the_span_on_its_own_process() -> None:
    client, server = span("1", "a", CLIENT), span("1", "b", SERVER)
    logs = [LogRecord(trace_id="t", span_id="1", service=service, name=f"log of {service}") for service in "abc"]

    events = spans_to_events([client, server], logs).events

    assert {(e.process, e.name) for e in events if e.attributes["phase"] == "log"} == {
        ("a", "log of a"), ("b", "log of b"), ("b", "log of c"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("record", "process"),
    [
        (Span(trace_id="t", span_id="1"), "unknown-service"),
        (Span(trace_id="t", span_id="1", service="cart"), "cart"),
        (Span(trace_id="t", span_id="1", service="cart", host="cart"), "cart"),  # Nothing is told apart by that.
        (Span(trace_id="t", span_id="1", service="cart", host="h"), "cart@h"),
        (Span(trace_id="t", span_id="1", service="cart", instance="i", host="h"), "cart@i"),
        (LogRecord(instance="i"), "unknown-service@i"),
    ],
)
def test_process_is_service_and_instance_or_host(record: Span | LogRecord, process: str) -> None:
    assert process_of(record) == process


# Spans with one id.


def reasons(*spans: Span) -> list[str]:
    return [finding.reason for finding in identify(spans, "t").findings]


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ((CLIENT, SERVER), []),
        ((PRODUCER, CONSUMER), []),
        ((PRODUCER, CONSUMER, CONSUMER), []),  # A push to many.
        ((CLIENT, CLIENT, SERVER), ["same-id", "same-id"]),
        ((SERVER, SERVER), ["same-id"]),
        ((CLIENT, SpanKind.INTERNAL), ["same-id"]),
    ],
)
def test_sides_of_a_call_are_one_caller_and_its_callees(kinds: tuple[SpanKind, ...], found: list[str]) -> None:
    assert reasons(*(span("1", f"s{at}", kind) for at, kind in enumerate(kinds))) == found


@pytest.mark.parametrize(("caller", "callee"), [(CLIENT, SERVER), (PRODUCER, CONSUMER)])
def test_called_side_has_its_caller_as_parent(caller: SpanKind, callee: SpanKind) -> None:
    found = identify([span("1", "b", callee), span("1", "a", caller), span("2", "c", callee)], "t")

    assert [found.caller(at) for at in range(3)] == [None, 0, None]


def test_called_side_keeps_the_references_that_its_caller_has_not() -> None:
    client = span("1", "a", CLIENT, references=(to("9"), to("7", LINK)))
    server = span("1", "b", SERVER, references=(to("9"), to("8"), to("1"), to("7", LINK), to("6", CHILD, "u")))

    found = identify([client, server], "t")

    assert found.references(0) == [to("9"), to("7", LINK)]
    assert found.references(1) == [to("8"), to("7", LINK), to("6", CHILD, "u")]
    receives = [m for event in spans_to_events([client, server]).events for m in event.receives]
    assert sorted(receives) == [
        "~child:1>1#2", "~child:8>1#2", "~child:9>1", "~child:u/6>1#2", "~link:7>1", "~link:7>1#2", "~return:1#2>1",
    ]  # fmt: skip


class Counted(list[int]):
    """A group of spans that counts how often it is gone through."""

    passes = 0

    def __iter__(self) -> Iterator[int]:
        Counted.passes += 1
        return super().__iter__()


def test_spans_of_one_id_are_gone_through_once_however_often_it_is_referenced() -> None:
    found = identify([span("1", f"s{at}", SERVER) for at in range(50)], "t")
    found.by_id["t", "1"] = Counted(found.by_id["t", "1"])
    Counted.passes = 0

    for at in range(50):
        found.meant(to("1"), "elsewhere", other_than=at)
        found.caller(at)

    assert Counted.passes == 1


def test_forty_thousand_spans_with_one_id_become_events() -> None:
    same = [span("1", "s", SERVER, name=str(at), references=(to("1"),)) for at in range(20_000)]
    children = [span(f"x{at}", "c", references=(to("1"),)) for at in range(20_000)]

    found = identify([*same, *children], "t")

    assert {found.meant(to("1"), "c", other_than=at) for at in range(40_000)} == {0, 1}


# Labels.


def test_labels_of_odd_ids_never_meet() -> None:
    spans = [
        Span(trace_id="t", span_id="b/1"),
        Span(trace_id="b", span_id="1"),
        Span(trace_id="t", span_id="1"),
        Span(trace_id="t", span_id="1", name="other"),
        Span(trace_id="t", span_id="1#2"),
        Span(trace_id="t", span_id="b%2F1"),
        Span(trace_id="t/b", span_id="1"),
    ]

    labels = identify(spans, "t").labels

    assert sorted(labels) == ["1", "1#2", "1%232", "b%252F1", "b%2F1", "b/1", "t%2Fb/1"]


def test_message_of_an_absent_span_is_not_that_of_one_that_is_there() -> None:
    spans = [
        span("b/1", references=()),
        span("2", "u", references=(to("1", CHILD, "b"), to("b/1"))),
        span("3>2", references=(to("4"),)),
        span("2", "v", SpanKind.INTERNAL, references=(to("4>3"),)),
    ]

    events = spans_to_events(spans, execution="t").events

    received = [message for event in events for message in event.receives]
    assert sorted(received) == [
        "~child:4%3E3>2#2", "~child:4>3%3E2", "~child:b%2F1>2", "~child:b/1>2", "~return:2>b%2F1",
    ]  # fmt: skip
    assert History(events).rejections == ()


IDS = st.text("1/#>%", min_size=1, max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["t", "t/1", "1"]), IDS), unique=True, max_size=6))
def test_labels_are_one_to_one(ids: list[tuple[str, str]]) -> None:
    spans = [Span(trace_id=trace, span_id=one, name=str(n)) for trace, one in ids for n in range(2)]

    found = identify(spans, "t")

    assert len(set(found.labels)) == len(spans)
    absent = [found.label(to("absent", CHILD, trace), "t") for trace in ("t", "t/1", "1")]
    assert not set(absent) & set(found.labels)


# What references cause.


def causes(*spans: Span) -> tuple[Causes, list[str]]:
    """The causes, and the names of spans in the order of positions."""
    found = identify(spans, "t")
    return causes_of(found, "t"), [one.name for one in found.spans]


@pytest.mark.parametrize(
    ("parent", "child", "nested"),
    [
        ({}, {}, True),  # The same start and end: inside.
        ({}, {"start_ns": 11, "end_ns": 19}, True),
        ({}, {"start_ns": 9}, False),
        ({}, {"end_ns": 21}, False),
        ({}, {"end_ns": None}, False),
        ({"end_ns": None}, {"end_ns": None}, True),
        ({}, {"start_ns": None, "end_ns": None}, False),
        ({"start_ns": None, "end_ns": None}, {"start_ns": None, "end_ns": None}, False),
        ({}, {"service": "other"}, False),
        ({}, {"remote_parent": True}, False),
        ({}, {"remote_parent": False}, True),
        ({}, {"kind": CONSUMER}, False),
        ({"kind": PRODUCER}, {}, False),
        ({"kind": CLIENT}, {"kind": SERVER}, False),
        ({"kind": CLIENT}, {}, True),
        ({}, {"kind": SERVER}, True),
        ({}, {"kind": PRODUCER}, True),
        ({"kind": CONSUMER}, {}, True),
    ],
)
def test_span_nests_in_its_parent_if_one_thread_could_have_run_both(
    parent: dict[str, object], child: dict[str, object], nested: bool
) -> None:
    found, _ = causes(span("1", **parent), span("2", references=(to("1"),), **child))  # type: ignore[arg-type]

    assert list(found.nested) == [False, nested]


def order(*spans: Span) -> list[str]:
    found, names = causes(*spans)
    return [names[node >> 1] + "+-"[node & 1] for node in found.order]


def test_at_one_instant_ends_come_before_starts_and_long_spans_first() -> None:
    before, short, long = span("1", start_ns=5, end_ns=10), span("2", end_ns=15), span("3", end_ns=30)

    assert order(short, long, before) == ["1+", "1-", "3+", "2+", "2-", "3-"]


def test_causes_come_first_whatever_the_clocks_say() -> None:
    parent, child = span("1", start_ns=100, end_ns=200), span("2", "b", start_ns=10, end_ns=20, references=(to("1"),))

    assert order(child, parent) == ["1+", "2+", "2-", "1-"]


def test_first_parent_is_the_parent_and_the_others_are_causes() -> None:
    found, names = causes(span("1"), span("2"), span("3", references=(to("2"), to("1"))))

    assert names[found.parent[2]] == "2"
    assert [(names[e.source], names[e.target]) for e in found.edges if e.kind == "child"] == [("2", "3"), ("1", "3")]
    assert [names[e.target] for e in found.edges if e.kind == "return"] == ["2"]


@pytest.mark.parametrize(("kind", "named"), [(CHILD, "parent"), (FOLLOWS, "predecessor"), (LINK, "link")])
def test_span_that_names_itself_is_a_cycle(kind: ReferenceKind, named: str) -> None:
    found, _ = causes(span("1", references=(to("1", kind),)))

    assert [(f.reason, f.detail) for f in found.findings] == [
        ("cycle", f"span 1 names itself as its {named}: left out")
    ]
    assert not found.missing


def test_same_id_in_another_trace_is_another_span() -> None:
    found, _ = causes(span("1", references=(to("1", LINK, "u"),)))

    assert found.findings == []
    assert [label for _, label, _ in found.missing] == ["u/1"]
