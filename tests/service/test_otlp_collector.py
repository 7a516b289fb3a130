"""Spans that come in any order, in batches, twice and late, as events."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from service_stores import Service, opened

from beforehand.formats.spans import Span, read_otlp, spans_to_events
from beforehand.service import Ingest
from beforehand.service.otlp import Collector, CollectorSettings
from beforehand.service.work import BusyError

TRACE = "5b8efff798038103d269b633813fc60c"
SECOND = 1_000_000_000
SETTINGS = CollectorSettings(quiet_ns=10 * SECOND, orphaned_ns=60 * SECOND, open_ns=600 * SECOND)


def span(name: str, parent: str = "", *, at: tuple[int, int], service: str = "web", **more: Any) -> dict[str, Any]:
    """A span whose id is made of its name."""
    made = {
        "traceId": TRACE,
        "spanId": f"{ord(name[0]):016x}",
        "parentSpanId": f"{ord(parent[0]):016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(at[0]),
        "endTimeUnixNano": str(at[1]),
        **more,
    }
    return {"resource": _resource(service), "scopeSpans": [{"spans": [made]}]}


def _resource(service: str) -> dict[str, Any]:
    return {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}


def body(*spans: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": list(spans)}).encode()


def log(text: str, at: int, **more: Any) -> bytes:
    record = {"timeUnixNano": str(at), "body": {"stringValue": text}, **more}
    found = {"resource": _resource("web"), "scopeLogs": [{"logRecords": [record]}]}
    return json.dumps({"resourceLogs": [found]}).encode()


CALL = [
    span("a checkout", at=(100, 900)),
    span("b call", "a", at=(200, 800), kind=3),
    span("c serve", "b", at=(300, 700), kind=2, service="cart"),
    span("d query", "c", at=(400, 600), service="cart"),
]


class Collecting:
    def __init__(self, service: Service, settings: CollectorSettings = SETTINGS) -> None:
        self.service = service
        self.service.now = 1_000 * SECOND
        self.collector = Collector(service.store, service.ingest, settings=settings, clock=lambda: service.now)

    def take(self, data: bytes) -> int:
        return self.collector.keep(self.collector.read(data))

    def after(self, seconds: float) -> int:
        self.service.now += int(seconds * SECOND)
        return self.collector.settle()

    def order(self, execution: str = TRACE) -> list[tuple[str, str, str]]:
        events = self.service.queries.order(execution=execution)["events"]
        return [(one["process"], one["attributes"]["phase"], one["name"]) for one in events]


WHOLE = [
    ("web", "start", "a checkout"),
    ("web", "start", "b call"),
    ("cart", "start", "c serve"),
    ("cart", "start", "d query"),
    ("cart", "end", "d query"),
    ("cart", "end", "c serve"),
    ("web", "end", "b call"),
    ("web", "end", "a checkout"),
]


@pytest.mark.parametrize("order", list(permutations(range(4)))[::5])
def test_spans_in_any_order_become_the_same_events(tmp_path: Path, order: tuple[int, ...]) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        for at in order:
            assert collecting.take(body(CALL[at])) == 1
            assert collecting.after(5) == 0
        assert collecting.after(5) == 1
        assert collecting.order() == WHOLE
        spans = [one for one in read_otlp_of(body(*CALL)) if isinstance(one, Span)]
        expected = {str(one.id): one.sends for one in spans_to_events(spans).events}
        found = service.queries.order(execution=TRACE)["events"]
        assert {one["id"]: tuple(one.get("sends", ())) for one in found} == expected


def read_otlp_of(data: bytes) -> list[object]:
    from io import BytesIO

    return list(read_otlp(BytesIO(data)))


def test_a_request_that_is_sent_again_changes_nothing_before_and_after_the_trace_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        assert collecting.take(body(*CALL)) == 4
        assert collecting.after(6) == 0
        assert collecting.take(body(*CALL)) == 0
        assert collecting.after(4) == 1  # It was no news, so the trace was quiet all the while.
        assert collecting.take(body(*CALL[2:])) == 0
        assert collecting.after(1_000) == 0
        assert collecting.order() == WHOLE
        assert service.count("conflicts") == service.count("rejected") == 0


def test_a_trace_whose_root_is_not_here_waits_longer_for_it(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        collecting.take(body(*CALL[1:]))
        assert collecting.after(30) == 0
        collecting.take(body(CALL[0]))
        assert collecting.after(9) == 0
        assert collecting.after(1) == 1
        assert collecting.order() == WHOLE


def test_a_root_that_never_comes_is_given_up_and_named(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        collecting.take(body(*CALL[1:]))
        collecting.after(59)
        assert collecting.after(1) == 1
        service.expire()
        found = service.queries.find(where=None, execution=TRACE)["events"]
        first = min(found, key=lambda one: one["time"])
        past = service.queries.past(first["id"])
        message = f"~child:{ord('a'):016x}>{ord('b'):016x}"
        assert past["unsent"] == [{"message": message, "received": f"{TRACE}/web:1"}]


def test_a_trace_that_never_gets_quiet_is_closed_after_its_time(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        closed = 0
        for number in range(100):
            spans = span(f"{chr(0x100 + number)} step", at=(number * 10, number * 10 + 5))
            collecting.take(body(spans))
            closed += collecting.after(9)
        assert closed == 1


def test_a_late_root_comes_before_its_children_and_they_become_complete(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        collecting.take(body(*CALL[1:]))
        collecting.after(60)
        service.expire()
        incomplete = service.queries.past(f"{TRACE}/web:2")
        assert not incomplete["complete"]
        collecting.take(body(CALL[0]))
        assert collecting.after(10) == 1
        service.ingest.settle()
        found = service.queries.past(f"{TRACE}/web:2")
        assert found["complete"]
        assert found["events"][0]["id"] == f"{TRACE}/web#late2:1"
        assert found["events"][0]["name"] == "a checkout"
        assert service.queries.checks(execution=TRACE)["violations"] == []


def test_a_late_child_comes_after_its_parent(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        collecting.take(body(*CALL[:3]))
        collecting.after(10)
        collecting.take(body(CALL[3], span("e inner", "d", at=(410, 420), service="cart")))
        assert collecting.after(10) == 1
        late = f"{TRACE}/cart#late2:2"
        assert service.queries.event(late)["name"] == "e inner"
        past = [one["name"] for one in service.queries.past(late)["events"]]
        assert past == ["a checkout", "b call", "c serve", "d query"]
        assert service.queries.past(late)["complete"]
        assert service.queries.checks(execution=TRACE)["counts"]["clock"] == 0
        collecting.take(body(span("f again", "d", at=(420, 430), service="cart")))
        assert collecting.after(10) == 1
        assert service.queries.past(f"{TRACE}/cart#late3:1")["complete"]
        assert service.queries.checks(execution=TRACE)["counts"]["clock"] == 0


def test_links_to_other_traces_join_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        linked = span("a checkout", at=(1, 2), links=[{"traceId": "ab" * 16, "spanId": "cd" * 8}])
        collecting.take(body(linked))
        collecting.after(10)
        found = service.queries.event(f"{TRACE}/web:1")
        assert (found["state"], found["attributes"]["links"]) == ("complete", f"{'ab' * 16}/{'cd' * 8}")


def test_logs_of_a_span_stand_inside_it_and_others_on_their_own_lane(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        collecting.take(log("inside", 500, traceId=TRACE, spanId=f"{ord('a'):016x}"))
        collecting.take(body(CALL[0]))
        collecting.take(log("alone", 5))
        collecting.take(log("alone", 5))
        collecting.take(log("alone", 6))
        collecting.after(1)
        collecting.take(log("alone", 5))
        collecting.after(9)
        assert collecting.order() == [
            ("web", "start", "a checkout"),
            ("web", "log", "inside"),
            ("web", "end", "a checkout"),
        ]
        found = service.queries.order(execution="otlp-logs")["events"]
        assert [(one["id"], one["time"]) for one in found] == [("otlp-logs/web:1", 5), ("otlp-logs/web:2", 6)]


def test_a_trace_at_its_bound_is_closed_at_once_and_what_waits_is_bounded(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service, CollectorSettings(trace_records_max=3, pending_records_max=5))
        collecting.take(body(*CALL[1:]))
        assert collecting.after(0) == 1
        for number in range(5):
            other = span("a", at=(1, 2), traceId=f"{number + 1:032x}")
            assert collecting.take(body(other)) == 1
        with pytest.raises(BusyError):
            collecting.take(body(span("a", at=(1, 2), traceId="f" * 32)))
        assert collecting.after(10) == 5
        assert collecting.take(body(span("a", at=(1, 2), traceId="f" * 32))) == 1


def test_a_trace_with_too_many_bytes_is_closed_at_once_though_a_parent_is_not_there(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service, CollectorSettings(trace_bytes_max=200))
        collecting.take(body(CALL[1] | {"resource": _resource("w" * 200)}))
        assert collecting.after(0) == 1


def test_a_span_that_comes_while_its_trace_is_closed_is_not_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)

        coming = [body(CALL[3])]

        class Interrupted(Ingest):
            """Between the reading of a trace and its closing, another span comes."""

            def take(self, reports: Any, also: Any) -> Any:
                if coming:
                    assert collecting.take(coming.pop()) == 1
                return super().take(reports, also)

        ingest = Interrupted(service.store, clock=lambda: service.now)
        collecting.collector = Collector(service.store, ingest, settings=SETTINGS, clock=lambda: service.now)
        collecting.take(body(*CALL[:3]))
        assert collecting.after(10) == 0
        assert collecting.after(10) == 1
        assert collecting.order() == WHOLE


def test_what_was_kept_survives_the_end_of_the_service(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        Collecting(service).take(body(*CALL[:2]))
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        collecting.take(body(*CALL[2:]))
        assert collecting.after(10) == 1
        assert collecting.order() == WHOLE


def test_digests_of_closed_traces_are_forgotten_in_the_end(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        collecting.take(body(*CALL))
        collecting.take(log("alone", 5))
        collecting.after(10)
        assert service.count("spans") == 5
        collecting.after(3_600)
        assert service.count("spans") == 0
        assert service.count("traces") == 1  # The one of log records without a trace.


def test_random_traces_in_random_batches_agree_with_reading_them_as_a_file(tmp_path: Path) -> None:
    random = Random(31)
    with opened(tmp_path) as service:
        collecting = Collecting(service)
        for number in range(15):
            trace, count = f"f{number:031x}", random.randint(1, 25)
            spans = []
            for at in range(count):
                begun = random.randint(0, 500)
                spans.append(
                    span(
                        f"{chr(0x100 + at)} step",
                        chr(0x100 + random.randrange(at)) if at else "",
                        at=(begun + 1, begun + random.randint(1, 500)),
                        service=random.choice(["web", "cart", "stock"]),
                        kind=random.randint(0, 5),
                        traceId=trace,
                    )
                )
            shuffled = random.sample(spans, count)
            while shuffled:
                size = random.randint(1, 6)
                collecting.take(body(*shuffled[:size], *random.sample(spans, 1)))
                shuffled = shuffled[size:]
            collecting.after(10)
            read = [one for one in read_otlp_of(body(*spans)) if isinstance(one, Span)]
            expected = [
                (one.process, one.index, one.name, one.sends, one.receives) for one in spans_to_events(read).events
            ]
            found = service.queries.order(execution=trace)["events"]
            assert sorted(expected) == sorted(
                (e["process"], e["index"], e["name"], tuple(e.get("sends", ())), tuple(e.get("receives", ())))
                for e in found
            )
