"""Bad structure never stops an analysis and is never silent."""

from __future__ import annotations

import pytest

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event, EventId, Rejection
from beforehand.history import History


def event(name: str, *, sends: str = "", receives: str = "") -> Event:
    process, index = name.split(":")
    return Event(process=process, index=int(index), sends=tuple(sends.split()), receives=tuple(receives.split()))


def test_an_empty_history_answers_everything() -> None:
    history = History([])
    assert len(history) == 0
    assert history.order() == []
    assert history.check().passed
    assert history.cut_at(0).cut == {}
    assert history.judge_run([]).is_consistent
    assert history.measure().synchrony.tightness_ns is None
    assert set(history.conditions().broken.values()) == {0}


def test_of_two_events_with_one_index_the_first_stays() -> None:
    first = Event(process="p", index=1, name="first")
    history = History([first, Event(process="p", index=1, name="second")])
    assert history.event("p:1").name == "first"
    (rejection,) = history.rejections
    assert rejection.reason == "duplicate-event"
    assert str(rejection.events[0]) == "p:1"


def test_of_two_sends_of_one_message_the_first_stays() -> None:
    history = History([event("p:1", sends="m"), event("q:1", sends="m"), event("r:1", receives="m")])
    assert history.happened_before("p:1", "r:1")
    assert history.compare("q:1", "r:1") == "concurrent"
    (rejection,) = history.rejections
    assert (rejection.reason, rejection.message) == ("duplicate-send", "m")


def test_of_two_receives_of_one_message_by_one_process_the_first_stays() -> None:
    history = History([event("p:1", sends="m"), event("q:1", receives="m"), event("q:2", receives="m")])
    (rejection,) = history.rejections
    assert rejection.reason == "duplicate-receive"
    assert [str(e) for e in rejection.events] == ["q:1", "q:2"]
    assert len(history) == 3


def test_the_messages_of_a_cycle_are_rejected_with_a_witness_and_the_events_stay() -> None:
    # p:1 receives b, which q:2 sends after receiving a, which p:2 sends.
    history = History(
        [
            event("p:1", receives="b"),
            event("p:2", sends="a c"),
            event("q:1", receives="a"),
            event("q:2", sends="b"),
            event("r:1", receives="c"),
        ]
    )
    assert len(history) == 5
    assert [(r.reason, r.message) for r in history.rejections] == [("cycle", "b"), ("cycle", "a")]
    witness = [str(e) for e in history.rejections[0].events]
    assert witness == ["p:2", "q:1", "q:2", "p:1"]
    assert history.compare("p:2", "q:1") == "concurrent"
    assert history.happened_before("p:2", "r:1"), "messages outside the knot stay"


def test_an_event_that_receives_what_it_sends_is_a_cycle_of_one() -> None:
    history = History([event("p:1", sends="m", receives="m"), event("q:1", receives="m")])
    (rejection,) = history.rejections
    assert rejection.reason == "cycle"
    assert [str(e) for e in rejection.events] == ["p:1"]
    assert history.happened_before("p:1", "q:1")


def test_a_message_received_before_it_was_sent_by_the_same_process() -> None:
    history = History([event("p:1", receives="m"), event("p:2"), event("p:3", sends="m")])
    (rejection,) = history.rejections
    assert [str(e) for e in rejection.events] == ["p:2", "p:3", "p:1"]


def test_gaps_in_indexes_are_kept_and_counted() -> None:
    history = History([event("p:3", sends="m"), event("p:7"), event("q:1", receives="m")])
    assert history.gaps == {"p": 5}
    assert history.stamp("q:1") == {"p": 3, "q": 1}
    assert history.past_size("q:1") == 4, "the sum of the stamp"
    assert history.explain("q:1").past == 1, "the events present"
    assert history.measure().concurrency == pytest.approx(1 / 3)
    assert history.cut({"p": 5, "q": 0}).cut == {"p": 3, "q": 0}


@pytest.mark.parametrize("big", [2**31 - 1, 2**31, 2**31 + 1, 2**40, 2**63 - 1])
def test_indexes_around_and_beyond_32_bits_are_kept_exactly(big: int) -> None:
    history = History([event(f"p:{big}", sends="m"), event("q:1", receives="m")])
    assert history.stamp("q:1") == {"p": big, "q": 1}


def test_unsent_and_unreceived_messages_are_no_errors() -> None:
    history = History([event("p:1", sends="lost"), event("q:1", receives="from nowhere".replace(" ", "-"))])
    assert history.rejections == ()
    assert history.check().passed
    assert history.cut_after("p:1", "q:1").unreceived == ("lost",)


def test_executions_are_kept_apart() -> None:
    events = [Event(process="p", index=1, execution=e, sends=("m",)) for e in ("b", "a")]
    with pytest.raises(InputError, match="by_execution"):
        History(events)
    histories = History.by_execution([*events, Event(process="q", index=1, execution="a", receives=("m",))])
    assert list(histories) == ["a", "b"]
    assert histories["a"].happened_before("p:1", "a/q:1")
    assert str(histories["a"].event("q:1").id) == "a/q:1"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("p", "process:index"),
        ("p:x", "process:index"),
        ("p:٣", "process:index"),
        ("z:1", "no process 'z'"),
        ("p:9", "indexes up to 1"),
        ("p:99999999999999999999", "process:index"),
    ],
)
def test_an_unknown_event_says_what_is_wrong(name: str, hint: str) -> None:
    with pytest.raises(UnknownEventError, match=hint):
        History([event("p:1")]).event(name)


def test_process_names_may_hold_colons_and_slashes() -> None:
    history = History([Event(process="host:80/a", index=2)])
    assert history.event("host:80/a:2").index == 2


def test_a_history_too_large_for_memory_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.history.history.STAMP_BYTES_MAX", 3)
    with pytest.raises(InputError, match="take fewer events or processes"):
        History([event("p:1")])


def test_a_cut_may_lie_beyond_the_last_event_but_not_before_the_first() -> None:
    history = History([event("p:1")])
    assert history.cut({"p": 2**70}).cut == {"p": 1}
    with pytest.raises(InputError, match="negative"):
        history.cut({"p": -1})
    with pytest.raises(InputError, match="'q'"):
        history.cut({"q": 1})


@pytest.mark.parametrize("big", [2**61, 2**62, 2**63 - 1])
def test_the_order_respects_causality_however_large_the_indexes_are(big: int) -> None:
    history = History(
        [
            event(f"a:{big}", sends="m"),
            event(f"b:{big}", receives="m", sends="n"),
            event(f"c:{big}", receives="n", sends="o"),
            event(f"d:{big}", receives="o", sends="p"),
            event("e:1", receives="p"),
        ]
    )
    assert [e.process for e in history.order()] == list("abcde")
    assert history.past_size("e:1") == 4 * big + 1
    assert [e.process for e in history.explain("e:1", last=2).events] == ["c", "d"]


def test_one_bad_message_in_a_long_conversation_is_told_in_few_words() -> None:
    # Two processes play ping-pong; the last event sends what the first receives.
    turns = 300
    events = []
    for turn in range(1, turns + 1):
        events.append(event(f"p:{turn}", receives=f"b{turn - 1}" if turn > 1 else f"b{turns}", sends=f"a{turn}"))
        events.append(event(f"q:{turn}", receives=f"a{turn}", sends=f"b{turn}"))
    rejections = History(events).rejections
    assert len(rejections) == 2 * turns
    assert max(len(rejection.detail) for rejection in rejections) < 250
    assert rejections[0].detail.endswith("p:9 → … (293 more) → p:2")
    assert len({id(rejection.events) for rejection in rejections}) == 1, "the witness is shared"


def test_reasons_are_given_for_chains_only() -> None:
    history = History([event("a:1"), event("b:1")])
    with pytest.raises(InputError, match="a:1 did not happen before b:1"):
        history.reasons(["a:1", "b:1"])


def test_an_event_that_receives_from_everybody_waits_for_all_of_them() -> None:
    senders = [event(f"s{number:03}:1", sends=f"m{number}") for number in range(200)]
    gather = event("gather:1", receives=" ".join(f"m{number}" for number in range(200)))
    history = History([gather, *senders])
    assert history.explain("gather:1").past == 200


def test_the_cut_at_the_time_of_an_event_contains_it() -> None:
    history = History([Event(process="p", index=1, time=5), Event(process="p", index=2, time=6)])
    assert history.cut_at(5).cut == {"p": 1}
    assert history.cut_at(6).cut == {"p": 2}


def test_a_zero_in_a_reported_clock_is_the_same_as_no_entry() -> None:
    history = History([Event(process="p", index=1, clock={"p": 1, "q": 0}), Event(process="q", index=1)])
    assert history.check().passed


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": 1.5},
        {"index": True},
        {"index": 0},
        {"time": 1.5},
        {"sends": ["a"]},
        {"receives": (1,)},
        {"process": 5},
        {"process": ""},
        {"name": None},
        {"sends": ("a", "a")},
        {"sends": ("",)},
        {"clock": {"p": -1}},
        {"clock": {"p": 1.0}},
        {"time": 2**63},
    ],
)
def test_an_invalid_event_cannot_exist(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Event(**({"process": "p", "index": 1} | wrong))  # type: ignore[arg-type]


def test_a_rejection_among_the_events_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match="set rejections aside first"):
        History([event("p:1"), Rejection(reason="not-json", detail="")])  # type: ignore[list-item]


def test_an_event_of_another_execution_is_unknown_and_the_line_says_why() -> None:
    history = History([Event(execution="monday", process="a", index=1)])
    with pytest.raises(UnknownEventError, match="in this history: it is of execution 'monday'"):
        history.event(EventId("tuesday", "a", 1))
