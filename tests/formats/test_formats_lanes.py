"""Spans on lanes: nesting, messages, what returns and what does not, and that nothing goes wrong whatever comes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from beforehand.events import Event
from beforehand.formats.spans.lanes import Laned, executions, spans_to_events
from beforehand.formats.spans.records import LogRecord, Reference, ReferenceKind, Span, SpanEvent, SpanKind
from beforehand.history import History
from span_worlds import TRACE, child_of, phases, random_spans

CHILD, FOLLOWS, LINK = ReferenceKind.CHILD_OF, ReferenceKind.FOLLOWS_FROM, ReferenceKind.LINK


def span(
    number: int,
    start: int | None,
    end: int | None,
    *,
    parent: Span | None = None,
    service: str = "cart",
    kind: SpanKind = SpanKind.UNSPECIFIED,
    reference: ReferenceKind = CHILD,
    **more: object,
) -> Span:
    made = Span(
        trace_id=TRACE,
        span_id=f"{number:016x}",
        references=child_of(parent, reference) if parent else (),
        service=service,
        name=f"op{number}",
        kind=kind,
        start_ns=start,
        end_ns=end,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def steps(laned: Laned) -> dict[str, list[str]]:
    """Per lane what happened on it, like `op1+`, `op1-`."""
    signs = {"start": "+", "end": "-", "event": "!", "log": "*"}
    found: dict[str, list[str]] = {}
    for event in laned.events:
        found.setdefault(event.process, []).append(event.name + signs[event.attributes["phase"]])
    return found


def messages(laned: Laned) -> dict[str, tuple[str, str]]:
    """Message kind and labels without zeros to the names of sender and receiver."""
    found: dict[str, list[str]] = {}
    for event in laned.events:
        for message in event.sends:
            found.setdefault(message, ["", ""])[0] = event.name + event.attributes["phase"]
        for message in event.receives:
            found.setdefault(message, ["", ""])[1] = event.name + event.attributes["phase"]
    return {message.replace("0" * 15, ""): (sent, received) for message, (sent, received) in found.items()}


def test_nested_child_joins_its_parents_lane() -> None:
    root = span(1, 10, 90)

    laned = spans_to_events([root, span(2, 20, 30, parent=root), span(3, 30, 40, parent=root)])

    assert steps(laned) == {"cart": ["op1+", "op2+", "op2-", "op3+", "op3-", "op1-"]}
    assert messages(laned) == {}


def test_overlapping_siblings_take_the_lowest_free_lane() -> None:
    root = span(1, 10, 90)
    children = [span(2, 20, 40, parent=root), span(3, 30, 50, parent=root), span(4, 60, 70, parent=root)]

    laned = spans_to_events([root, *children])

    assert steps(laned) == {"cart": ["op1+", "op2+", "op2-", "op4+", "op4-", "op1-"], "cart#2": ["op3+", "op3-"]}
    assert messages(laned) == {"~child:1>3": ("op1start", "op3start"), "~return:3>1": ("op3end", "op1end")}


def test_instance_or_else_host_tells_processes_apart() -> None:
    spans = [
        span(1, 1, 2, instance="i1", host="h"),
        span(2, 1, 2, host="h"),
        span(3, 1, 2),
        span(4, 1, 2, service=""),
    ]

    laned = spans_to_events(spans)

    assert list(steps(laned)) == ["cart", "cart@h", "cart@i1", "unknown-service"]


def test_lane_name_that_is_a_services_name_is_left_to_it() -> None:
    root = span(1, 10, 90)

    others = [span(3, 1, 2, service="cart#2")], [LogRecord(trace_id=TRACE, service="cart#2", name="hi")]
    with_span = spans_to_events([root, span(2, 5, 95), *others[0]])
    with_log = spans_to_events([root, span(2, 5, 95)], others[1])

    lanes = {"cart": ["op2+", "op2-"], "cart#2'": ["op1+", "op1-"]}
    assert steps(with_span) == {**lanes, "cart#2": ["op3+", "op3-"]}
    assert steps(with_log) == {**lanes, "cart#2": ["hi*"]}


def test_child_that_starts_before_its_parent_by_skew_keeps_its_time_and_comes_after() -> None:
    root = span(1, 100, 200)
    child = span(2, 90, 150, parent=root)

    laned = spans_to_events([root, child])

    assert steps(laned) == {"cart": ["op1+", "op1-"], "cart#2": ["op2+", "op2-"]}
    assert [event.time for event in laned.events] == [100, 200, 90, 150]
    assert History(laned.events).happened_before("cart:1", "cart#2:1")


def test_client_and_server_return_whatever_their_clocks_say() -> None:
    client = span(1, 1_000, 1_100, kind=SpanKind.CLIENT)
    server = span(2, 5_000, 5_080, parent=client, service="stock", kind=SpanKind.SERVER)

    laned = spans_to_events([client, server])

    assert messages(laned) == {"~child:1>2": ("op1start", "op2start"), "~return:2>1": ("op2end", "op1end")}


def test_server_that_takes_longer_than_its_client_waited_does_not_return() -> None:
    client = span(1, 1_000, 1_100, kind=SpanKind.CLIENT)
    server = span(2, 5_000, 5_101, parent=client, service="stock", kind=SpanKind.SERVER)

    assert list(messages(spans_to_events([client, server]))) == ["~child:1>2"]


def test_failed_client_that_ended_before_its_server_timed_out() -> None:
    client = span(1, 1_000, 1_100, kind=SpanKind.CLIENT, error=True)
    server = span(2, 1_050, 1_120, parent=client, service="stock", kind=SpanKind.SERVER)

    assert list(messages(spans_to_events([client, server]))) == ["~child:1>2"]


def test_consumer_never_returns_even_inside_its_producer() -> None:
    producer = span(1, 10, 90, kind=SpanKind.PRODUCER)
    consumer = span(2, 20, 30, parent=producer, kind=SpanKind.CONSUMER)

    laned = spans_to_events([producer, consumer])

    assert messages(laned) == {"~child:1>2": ("op1start", "op2start")}
    assert History(laned.events).compare("cart#2:2", "cart:2") == "concurrent"


def test_child_of_another_service_without_kinds_returns_if_it_lies_inside() -> None:
    root = span(1, 10, 90)

    laned = spans_to_events(
        [root, span(2, 20, 30, parent=root, service="a"), span(3, 20, 95, parent=root, service="b")]
    )

    assert set(messages(laned)) == {"~child:1>2", "~return:2>1", "~child:1>3"}


def test_span_that_follows_another_comes_after_its_end_or_its_start() -> None:
    first = span(1, 10, 20)
    after = span(2, 20, 90, parent=first, service="a", reference=FOLLOWS)
    during = span(3, 15, 16, parent=first, service="b", reference=LINK)

    laned = spans_to_events([first, after, during])

    assert messages(laned) == {"~follows:1>2": ("op1end", "op2start"), "~link:1>3": ("op1start", "op3start")}


def test_remote_parent_is_another_process_even_under_one_name() -> None:
    root = span(1, 10, 90)

    laned = spans_to_events([root, span(2, 20, 30, parent=root, remote_parent=True)])

    assert list(steps(laned)) == ["cart", "cart#2"]


def test_halves_of_a_shared_span_are_a_call_and_children_belong_to_the_server() -> None:
    root = span(1, 0 + 1, 100)
    client = span(2, 10, 90, parent=root, kind=SpanKind.CLIENT)
    server = span(2, 20, 80, parent=root, kind=SpanKind.SERVER, service="stock")
    below = span(3, 30, 40, parent=server, service="stock")

    laned = spans_to_events([below, server, client, root])

    assert steps(laned) == {"cart": ["op1+", "op2+", "op2-", "op1-"], "stock": ["op2+", "op3+", "op3-", "op2-"]}
    assert set(messages(laned)) == {"~child:2>2#2", "~return:2#2>2"}
    assert laned.rejections == []


def test_equal_records_are_one_span_and_different_ones_with_one_id_both_stay() -> None:
    one = span(1, 10, 20)

    laned = spans_to_events([one, one, replace(one, name="other")])

    assert [rejection.reason for rejection in laned.rejections] == ["duplicate-span", "same-id"]
    assert len(laned.events) == 4


def test_absent_parent_is_a_receive_that_nobody_sent() -> None:
    absent = span(9, 1, 100)

    laned = spans_to_events([span(1, 10, 20, parent=absent)])

    assert messages(laned) == {"~child:9>1": ("", "op1start")}
    assert [(note.reason, note.count) for note in laned.notes] == [("missing-spans", 1)]


def test_own_parent_and_circles_of_parents_are_findings() -> None:
    own = span(1, 10, 20)
    own = replace(own, references=child_of(own))
    two, three = span(2, 10, 20), span(3, 10, 20)
    circle = [replace(two, references=child_of(three)), replace(three, references=child_of(two))]

    laned = spans_to_events([own, *circle])

    assert [rejection.reason for rejection in laned.rejections] == ["cycle"] * 3
    assert all(rejection.events for rejection in laned.rejections)
    assert messages(laned) == {}


def test_link_that_closes_a_cycle_goes_and_parents_stay() -> None:
    root = span(1, 10, 90)
    child = span(2, 20, 30, parent=root, service="a")
    linking = replace(root, references=(Reference(TRACE, child.span_id, LINK),))

    laned = spans_to_events([linking, child])

    assert [(r.reason, r.message) for r in laned.rejections] == [
        ("cycle", f"~link:{child.span_id}>{root.span_id}")
    ]  # fmt: skip
    assert set(messages(laned)) == {"~child:1>2", "~return:2>1"}


def test_link_from_an_end_that_closes_a_cycle_is_taken_from_the_start() -> None:
    # By its clock `second` began after `first` ended; yet `first` waited for a child that follows `second`.
    first = span(1, 10, 90)
    second = span(2, 100, 190, service="a", references=(Reference(TRACE, f"{1:016x}", LINK),))
    child = span(3, 20, 30, parent=first, service="b")
    child = replace(child, references=(*child.references, Reference(TRACE, second.span_id, LINK)))

    laned = spans_to_events([first, second, child])

    assert messages(laned)["~link:1>2"] == ("op1start", "op2start")
    assert laned.rejections == []
    assert History(laned.events).rejections == ()


def test_clocks_that_contradict_causality_open_lanes_instead_of_cycles() -> None:
    # Two replicas under one name, one of them 500 behind: by time, the second call came first.
    root = span(1, 1_000, 9_000, service="web")
    calls = [
        span(2, 2_000, 2_100, parent=root, service="web", kind=SpanKind.CLIENT),
        span(3, 3_000, 3_100, parent=root, service="web", kind=SpanKind.CLIENT),
    ]
    served = [
        span(4, 2_050, 2_060, parent=calls[0], kind=SpanKind.SERVER),
        span(5, 50, 60, parent=calls[1], kind=SpanKind.SERVER),
    ]

    laned = spans_to_events([root, *calls, *served])

    assert steps(laned)["cart"] == ["op4+", "op4-"]
    assert steps(laned)["cart#2"] == ["op5+", "op5-"]
    assert History(laned.events).rejections == ()


def test_odd_times_are_kept_and_told() -> None:
    laned = spans_to_events([span(1, 20, 10), span(2, None, None), span(3, 5, None), span(4, None, 7), span(5, 8, 8)])

    assert sorted(rejection.reason for rejection in laned.rejections) == ["negative-duration", "no-time"]
    assert {(e.name, e.attributes["phase"]): e.time for e in laned.events} == {
        ("op1", "start"): 20,
        ("op1", "end"): 10,
        ("op2", "start"): None,
        ("op3", "start"): 5,
        ("op4", "end"): 7,
        ("op5", "start"): 8,
        ("op5", "end"): 8,
    }


def test_nothing_joins_a_span_that_ends_before_it_starts() -> None:
    backwards = span(1, 100, 93)

    laned = spans_to_events([backwards, span(2, 95, 98, parent=backwards)])

    assert steps(laned) == {"cart": ["op1+", "op1-"], "cart#2": ["op2+", "op2-"]}


def test_failure_is_at_the_end_of_the_span() -> None:
    laned = spans_to_events([span(1, 10, 20, error=True, message="no stock", attributes={"phase": "moon", "k": "v"})])

    start, end = laned.events
    assert start.attributes == {"k": "v", "attribute.phase": "moon", "span": f"{1:016x}", "phase": "start"}
    assert end.attributes == {**start.attributes, "phase": "end", "level": "error", "message": "no stock"}


def test_what_the_source_calls_as_we_do_is_kept_under_another_name() -> None:
    given = {"level": "7", "message": "hello", "phase": "moon", "attribute.phase": "sun"}
    failed = span(1, 10, 20, error=True, message="no stock", attributes=given)
    log = LogRecord(
        trace_id=TRACE, span_id=failed.span_id, service="cart", time_ns=15, level="warn", attributes=given
    )

    start, inside, end = spans_to_events([failed], [log]).events

    assert start.attributes["level"] == "7"
    assert (inside.attributes["level"], inside.attributes["attribute.level"]) == ("warn", "7")
    assert (end.attributes["level"], end.attributes["attribute.level"]) == ("error", "7")
    assert (end.attributes["message"], end.attributes["attribute.message"]) == ("no stock", "hello")
    for event in (start, inside, end):
        assert event.attributes["attribute.phase"] == "sun"
        assert event.attributes["attribute.attribute.phase"] == "moon"


def test_events_and_logs_stand_inside_their_span_by_time() -> None:
    events = (SpanEvent(25, "b", {}), SpanEvent(15, "a", {}), SpanEvent(500, "late", {}))
    root = span(1, 10, 90, events=events)
    child = span(2, 20, 30, parent=root)
    log = LogRecord(trace_id=TRACE, span_id=child.span_id, service="cart", time_ns=22, level="warn", name="hm")

    laned = spans_to_events([child, root], [log])

    assert steps(laned) == {"cart": ["op1+", "a!", "op2+", "hm*", "op2-", "b!", "late!", "op1-"]}
    assert laned.events[3].attributes["level"] == "warn"
    assert [(note.reason, note.count) for note in laned.notes] == [("outside", 1)]


def test_log_without_span_has_its_services_own_lane() -> None:
    logs = [
        LogRecord(trace_id=TRACE, service="cart", time_ns=2, name="b"),
        LogRecord(trace_id=TRACE, service="cart", time_ns=1, name="a", span_id="absent"),
        LogRecord(trace_id=TRACE, service="mail", time_ns=3, name="c"),
    ]

    laned = spans_to_events([span(1, 10, 20)], logs)

    assert steps(laned) == {"cart": ["op1+", "op1-"], "cart#logs": ["a*", "b*"], "mail": ["c*"]}


def test_traces_that_reference_each_other_are_one_execution() -> None:
    def of(trace: str, *others: str) -> Span:
        return Span(trace_id=trace, span_id="1", references=tuple(Reference(other, "1", LINK) for other in others))

    found = executions([of("d", "b"), of("c", "absent"), of("b"), of("a", "absent"), of("e", "d")])

    assert found == {"a": "a", "b": "b", "c": "c", "d": "b", "e": "b"}


def test_joined_traces_name_the_trace_of_each_event_that_is_not_the_executions() -> None:
    one = Span(trace_id="a", span_id="1", service="s", start_ns=1, end_ns=2)
    two = Span(trace_id="b", span_id="1", service="t", start_ns=3, end_ns=4, references=(Reference("a", "1", LINK),))

    laned = spans_to_events([two, one])

    assert messages(laned) == {"~link:1>b/1": ("end", "start")}
    assert [event.attributes.get("trace") for event in laned.events] == [None, None, "b", "b"]


SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.integers(0, 60), st.sampled_from([0.0, 0.1, 0.4]))
def test_lanes_hold_what_they_promise_for_random_spans(seed: int, size: int, odd: float) -> None:
    spans = random_spans(Random(seed), size=size, odd=odd)

    laned = spans_to_events(spans)

    history = History(laned.events)
    assert history.rejections == ()  # No cycle, nothing twice.
    assert history.gaps == {}
    check_nesting(laned.events)
    assert sum(not reported_again(r.reason) for r in laned.rejections) <= 4 * size + 4


def reported_again(reason: str) -> bool:
    return reason == "duplicate-span"


def check_nesting(events: list[Event]) -> None:
    """Along each lane, what opened last closes first. Unfinished spans never close."""
    ends: dict[tuple[str, str], int] = {}
    for event in events:
        if event.attributes["phase"] == "end":
            ends[event.process, event.attributes["span"]] = ends.get((event.process, event.attributes["span"]), 0) + 1
    lane, stack, time = "", [], None
    for event in events:
        if event.process != lane:
            assert stack == []
            lane, stack, time = event.process, [], None
        name, phase = event.attributes["span"], event.attributes["phase"]
        if phase == "start" and ends.get((lane, name)):
            stack.append(name)
        elif phase == "end" and stack and stack[-1] == name:
            stack.pop()
        elif phase == "end":
            assert name not in stack
        if phase == "start" and event.time is not None:
            assert time is None or time <= event.time  # One lane is one clock that does not go back.
            time = event.time
    assert stack == []


@given(SEEDS, st.integers(1, 60))
def test_parents_start_before_their_children_and_calls_return(seed: int, size: int) -> None:
    spans = random_spans(Random(seed), size=size, odd=0.0)

    laned = spans_to_events(spans)

    history = History(laned.events)
    of = phases(laned.events)
    by_id = {one.span_id: one for one in spans}
    for one in spans:
        for reference in one.references:
            parent = by_id[reference.span_id]
            begun, ended = of[one.span_id, "start"][0], of[one.span_id, "end"][0]
            assert history.happened_before(of[parent.span_id, "start"][0], begun)
            assert begun.time == one.start_ns
            assert ended.time == one.end_ns
            returned = f"~return:{one.span_id}>{parent.span_id}" in of[parent.span_id, "end"][0].receives
            queued = {one.kind, parent.kind} & {SpanKind.PRODUCER} or one.kind is SpanKind.CONSUMER
            if reference.kind is FOLLOWS or queued:
                assert not returned
            elif one.service == parent.service and inside(one, parent):
                assert history.happened_before(ended, of[parent.span_id, "end"][0])


def inside(child: Span, parent: Span) -> bool:
    assert child.start_ns is not None
    assert child.end_ns is not None
    assert parent.start_ns is not None
    assert parent.end_ns is not None
    return parent.start_ns <= child.start_ns and child.end_ns <= parent.end_ns


@given(SEEDS, st.integers(0, 40))
def test_order_of_input_does_not_matter(seed: int, size: int) -> None:
    random = Random(seed)
    spans = random_spans(random, size=size, odd=0.3)
    logs = [
        LogRecord(
            trace_id=TRACE, span_id=f"{random.randint(0, size):016x}", service="s0", time_ns=n % 3, name=str(n % 2)
        )
        for n in range(5)
    ]
    expected = spans_to_events(spans, logs)

    random.shuffle(spans)
    random.shuffle(logs)

    assert spans_to_events(spans, logs) == expected
    assert executions(spans) == dict.fromkeys({one.trace_id for one in spans}, TRACE)
