"""Rules of lanes one by one: what shares a lane, where inner events stand, what lanes are called; executions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from beforehand.formats.spans import Laned, LogRecord, Reference, ReferenceKind, Span, SpanEvent, executions
from beforehand.formats.spans import spans_to_events as laned


def span(span_id: str, start: int, end: int, *, parent: str = "", service: str = "cart", **more: object) -> Span:
    references = (Reference("t", parent, ReferenceKind.CHILD_OF),) if parent else ()
    made = Span(trace_id="t", span_id=span_id, name=span_id, service=service, references=references)
    return replace(made, start_ns=start, end_ns=end, **more)  # type: ignore[arg-type]


def log(name: str, **fields: object) -> LogRecord:
    return replace(LogRecord(trace_id="t", name=name, service="cart"), **fields)  # type: ignore[arg-type]


def lanes(found: Laned) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for event in found.events:
        result.setdefault(event.process, []).append(event.name)
    return result


def test_span_that_starts_when_another_ends_takes_its_lane() -> None:
    assert lanes(laned([span("1", 10, 20), span("2", 20, 30)])) == {"cart": ["1", "1", "2", "2"]}
    assert list(lanes(laned([span("1", 10, 21), span("2", 20, 30)]))) == ["cart", "cart#2"]


def test_child_that_starts_when_its_sibling_ends_joins_it() -> None:
    family = [span("1", 10, 90), span("2", 20, 30, parent="1")]

    assert list(lanes(laned([*family, span("3", 30, 40, parent="1")]))) == ["cart"]
    assert list(lanes(laned([*family, span("3", 29, 40, parent="1")]))) == ["cart", "cart#2"]


def test_inner_event_at_the_start_of_a_child_stands_before_it() -> None:
    events = tuple(SpanEvent(time, f"e{time}", {}) for time in (19, 20, 21))

    found = laned([span("1", 10, 90, events=events), span("2", 20, 30, parent="1")])

    assert lanes(found) == {"cart": ["1", "e19", "e20", "2", "2", "e21", "1"]}


def test_lane_of_logs_leaves_its_name_to_a_real_service() -> None:
    spans = [span("1", 10, 20), span("2", 10, 20, service="cart#logs")]

    found = laned(spans, [log("hello")])

    assert lanes(found) == {"cart": ["1", "1"], "cart#logs": ["2", "2"], "cart#logs'": ["hello"]}


def test_lone_logs_stand_on_the_lane_of_their_own_process() -> None:
    logs = [log("a", instance="i1"), log("b", instance="i2"), log("c", instance="", host="h")]

    found = laned([span("1", 10, 20, instance="i1")], logs)

    assert lanes(found) == {"cart@h": ["c"], "cart@i1": ["1", "1"], "cart@i1#logs": ["a"], "cart@i2": ["b"]}


@pytest.mark.parametrize(
    ("fields", "service"),
    [
        ({"service": "sidecar"}, "sidecar"),
        ({"service": "cart", "instance": "i2"}, "cart@i2"),
        ({"service": "cart", "instance": "i1"}, None),  # The span's own.
        ({"service": ""}, None),  # It does not say.
    ],
)
def test_log_of_another_process_than_its_span_names_it(fields: dict[str, object], service: str | None) -> None:
    found = laned([span("1", 10, 20, instance="i1")], [log("hello", span_id="1", **fields)])

    [event] = [event for event in found.events if event.name == "hello"]
    assert event.process == "cart@i1"
    assert event.attributes.get("service") == service


def test_attribute_service_of_a_log_is_kept_beside_ours() -> None:
    found = laned([span("1", 10, 20)], [log("hello", span_id="1", service="sidecar", attributes={"service": "own"})])

    attributes = found.events[1].attributes
    assert (attributes["service"], attributes["attribute.service"]) == ("sidecar", "own")


# Executions.


def test_trace_of_logs_alone_is_an_execution() -> None:
    logs = [log("a", trace_id="b"), log("b", trace_id=""), log("c", trace_id="t")]

    assert executions([span("1", 10, 20)], logs) == {"": "", "b": "b", "t": "t"}
    assert executions([], logs[:1]) == {"b": "b"}
    assert executions([span("1", 10, 20)]) == {"t": "t"}


def test_reference_to_a_trace_of_logs_alone_joins_it() -> None:
    linking = span("1", 10, 20, references=(Reference("a", "9", ReferenceKind.LINK),))

    assert executions([linking], [log("x", trace_id="a")]) == {"a": "a", "t": "a"}
    assert executions([linking]) == {"t": "t"}


def test_execution_is_named_as_executions_name_it() -> None:
    linking = span("1", 10, 20, references=(Reference("a", "9", ReferenceKind.LINK),))
    logs = [log("x", trace_id="a"), log("y", trace_id="")]

    found = laned([linking], logs)

    assert {event.execution for event in found.events} == {"a"}
    assert {event.execution for event in laned([], logs).events} == {"a"}
    assert {event.execution for event in laned([], logs[1:]).events} == {""}
