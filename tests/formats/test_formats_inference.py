"""Messages inferred from clocks: exact order, few messages, missing and repeated events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.events import Event
from beforehand.formats.vector_logs.inference import infer_messages
from beforehand.history import History
from vector_logs import check_order, clocks, random_history, split


def event(process: str, clock: dict[str, int], **more: object) -> Event:
    return Event(process=process, index=clock[process], clock=clock, **more)  # type: ignore[arg-type]


def inferred(*events: Event) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    found, _ = split(infer_messages(events))
    return {str(e.id): (e.sends, e.receives) for e in found if e.sends or e.receives}


def test_entry_that_grew_is_a_message_from_the_event_that_it_names() -> None:
    assert inferred(
        event("a", {"a": 1}),
        event("b", {"b": 1, "a": 1}),
        event("b", {"b": 2, "a": 1}),
    ) == {"a:1": (("~a:1",), ()), "b:1": ((), ("~a:1",))}


def test_entry_that_another_sender_knew_is_implied() -> None:
    # a:1 → b:1 → c:1, and c learns of a:1 by b.
    assert inferred(
        event("a", {"a": 1}),
        event("b", {"b": 1, "a": 1}),
        event("c", {"c": 1, "b": 1, "a": 1}),
    ) == {"a:1": (("~a:1",), ()), "b:1": (("~b:1",), ("~a:1",)), "c:1": ((), ("~b:1",))}


def test_one_event_may_receive_from_two_senders_and_one_message_may_go_to_two() -> None:
    assert inferred(
        event("a", {"a": 1}),
        event("b", {"b": 1}),
        event("c", {"c": 1, "b": 1, "a": 1}),
        event("d", {"d": 1, "a": 1}),
    ) == {
        "a:1": (("~a:1",), ()),
        "b:1": (("~b:1",), ()),
        "c:1": ((), ("~a:1", "~b:1")),
        "d:1": ((), ("~a:1",)),
    }


def test_named_message_leaves_nothing_to_infer_that_it_implies() -> None:
    assert inferred(
        event("x", {"x": 1}),
        event("a", {"a": 1, "x": 1}, sends=("m",)),
        event("y", {"y": 1}),
        event("b", {"b": 1, "a": 1, "x": 1, "y": 1}, receives=("m",)),
    ) == {
        "x:1": (("~x:1",), ()),
        "a:1": (("m",), ("~x:1",)),
        "y:1": (("~y:1",), ()),
        "b:1": ((), ("m", "~y:1")),
    }


def test_named_message_of_a_sender_without_a_clock_is_enough() -> None:
    sender = Event(process="a", index=1, sends=("m",))

    assert inferred(sender, event("b", {"b": 1, "a": 1}, receives=("m",))) == {
        "a:1": (("m",), ()),
        "b:1": ((), ("m",)),
    }


def test_missing_event_is_received_from_but_never_sent_and_the_one_before_it_stands_in() -> None:
    events, rejections = split(
        infer_messages(
            [event("a", {"a": 1}), event("b", {"b": 1, "a": 3, "gone": 2}), event("b", {"b": 2, "a": 4, "gone": 2})],
            file="f",
        )
    )

    assert [e.sends for e in events] == [("~a:1",), (), ()]
    assert [e.receives for e in events] == [(), ("~a:1", "~a:3", "~gone:2"), ("~a:4",)]
    assert [(r.reason, r.message, r.file) for r in rejections] == [
        ("unsent", "~a:3", "f"),
        ("unsent", "~gone:2", "f"),
    ]
    assert "2 event(s) of process 'a'" in rejections[0].detail
    assert [str(e) for e in rejections[0].events] == ["b:1"]


def test_what_was_inferred_once_stays_as_it_is_when_it_is_inferred_again() -> None:
    once, _ = split(
        infer_messages(
            [event("a", {"a": 1}), event("b", {"b": 1, "a": 1, "gone": 2}), event("c", {"c": 1, "a": 1, "gone": 2})]
        )
    )

    again, _ = split(infer_messages(once))

    assert [e.receives for e in once] == [(), ("~a:1", "~gone:2"), ("~a:1", "~gone:2")]
    assert again == once


def test_message_that_one_receiver_names_is_sent_once_and_received_by_the_others() -> None:
    assert inferred(
        event("a", {"a": 1}, sends=("~a:1",)),
        event("b", {"b": 1, "a": 1}, receives=("~a:1",)),
        event("c", {"c": 1, "a": 1}),
    ) == {"a:1": (("~a:1",), ()), "b:1": ((), ("~a:1",)), "c:1": ((), ("~a:1",))}


def test_process_that_named_a_message_before_its_clock_grew_receives_it_once() -> None:
    assert inferred(
        event("a", {"a": 1}, sends=("~a:1",)),
        event("b", {"b": 1}, receives=("~a:1",)),
        event("b", {"b": 2, "a": 1}),
    ) == {"a:1": (("~a:1",), ()), "b:1": ((), ("~a:1",))}


def test_of_events_with_one_id_only_the_first_has_messages() -> None:
    events, _ = split(
        infer_messages(
            [event("a", {"a": 1}), event("b", {"b": 1, "a": 1}), event("b", {"b": 1, "a": 1}, name="again")]
        )
    )

    assert [e.receives for e in events] == [(), ("~a:1",), ()]


def test_clock_that_goes_back_receives_nothing_twice() -> None:
    events, _ = split(
        infer_messages(
            [
                event("a", {"a": 1}),
                event("b", {"b": 1, "a": 1}),
                event("b", {"b": 2}),
                event("b", {"b": 3, "a": 1}),
            ]
        )
    )
    history = History(events)

    assert [e.receives for e in events] == [(), ("~a:1",), (), ()]
    assert not history.rejections
    assert history.check().counts["clock"] == 1  # The one that went back.


def test_clocks_that_know_each_other_keep_one_message() -> None:
    # Impossible: a:1 and b:1 each happened before the other. Neither may vanish from c's past because of that.
    events, _ = split(
        infer_messages(
            [event("a", {"a": 1, "b": 1}), event("b", {"b": 1, "a": 1}), event("c", {"c": 1, "a": 1, "b": 1})]
        )
    )

    assert events[2].receives == ("~a:1",)
    assert {r.reason for r in History(events).rejections} == {"cycle"}


def test_executions_are_unrelated() -> None:
    events, rejections = split(
        infer_messages([event("a", {"a": 1}, execution="x"), event("b", {"b": 1, "a": 1}, execution="y")])
    )

    assert [e.sends for e in events] == [(), ()]
    assert [str(r.events[0]) for r in rejections] == ["y/b:1"]


@given(st.integers(0, 10**9))
def test_order_of_whole_histories_is_exact_and_confirmed(seed: int) -> None:
    random, steps = random_history(seed)
    events = [event(step.process, clock) for step, clock in zip(steps, clocks(steps), strict=True)]
    random.shuffle(events)

    found, rejections = split(infer_messages(events))

    assert not rejections
    history = check_order(found, steps)
    assert history.check().counts["clock"] == 0
    # No fewer messages could do: without any one of them the order is another.
    for receiver in found:
        for message in receiver.receives:
            others = [e for e in found if e.id != receiver.id]
            [sender] = [e for e in found if message in e.sends]
            rest = tuple(m for m in receiver.receives if m != message)
            without = History([*others, Event(process=receiver.process, index=receiver.index, receives=rest)])
            assert not without.happened_before(sender.id, receiver.id)


@given(st.integers(0, 10**9))
def test_order_is_exact_in_any_part_of_a_history(seed: int) -> None:
    random, steps = random_history(seed)
    stamps = clocks(steps)
    here = [at for at in range(len(steps)) if random.random() < 0.6]
    events = [event(steps[at].process, stamps[at]) for at in here]
    random.shuffle(events)

    found, _ = split(infer_messages(events))

    check_order(found, steps, here)


@given(st.integers(0, 10**9))
def test_messages_do_not_depend_on_the_order_of_events(seed: int) -> None:
    random, steps = random_history(seed)
    events = [event(step.process, clock) for step, clock in zip(steps, clocks(steps), strict=True)]
    events = [e for e in events if random.random() < 0.8]
    shuffled = random.sample(events, len(events))

    found, notes = split(infer_messages(events))
    found_shuffled, notes_shuffled = split(infer_messages(shuffled))

    assert sorted(found, key=lambda e: e.id) == sorted(found_shuffled, key=lambda e: e.id)
    assert notes == notes_shuffled


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4), max_size=4)),
        max_size=8,
    )
)
def test_any_clocks_at_all_give_a_history(rows: list[tuple[str, dict[str, int]]]) -> None:
    events = [event(process, {**clock, process: clock.get(process, 1)}) for process, clock in rows]

    found, _ = split(infer_messages(events))
    history = History(found)

    assert len(found) == len(events)
    assert {r.reason for r in history.rejections} <= {"duplicate-event", "cycle"}


def test_event_that_knows_a_hundred_thousand_others_takes_no_long() -> None:
    many = 100_000
    events = [event(f"p{i}", {f"p{i}": 1}) for i in range(many)]
    events.append(event("z", {"z": 1, **{f"p{i}": 1 for i in range(many)}}))

    found, _ = split(infer_messages(events))

    assert len(found[-1].receives) == many


@pytest.mark.parametrize("size", [3, 30])
def test_few_and_many_candidates_are_judged_alike(size: int) -> None:
    # A chain p0 → p1 → ... of events; the last one alone is received from, whatever the number.
    chain = [event(f"p{i:02}", {f"p{j:02}": 1 for j in range(i + 1)}) for i in range(size)]
    beside = [event(f"q{i:02}", {f"q{i:02}": 1}) for i in range(size * size)]
    all_known = {str(e.process): 1 for e in [*chain, *beside]}

    found, _ = split(infer_messages([*chain, *beside, event("z", {"z": 1, **all_known})]))

    assert found[-1].receives == (f"~p{size - 1:02}:1", *(f"~{name}:1" for name in sorted(e.process for e in beside)))
