"""What changed after an event: the clocks' part of differential stamps."""

from __future__ import annotations

import random

import pytest

from beforehand.clocks import OrderingClock, VectorClock, VectorStamp


def test_the_first_answer_is_everything_and_later_ones_what_changed() -> None:
    clock = VectorClock("p", start=VectorStamp({"a": 5, "b": 7, "p": 2}))

    first, everything = clock.tick_since(2)
    clock.receive(VectorStamp({"b": 8, "c": 1, "a": 4}))
    second, changed = clock.tick_since(first["p"])

    assert everything == {"a": 5, "b": 7}
    assert changed == {"b": 8, "c": 1}
    assert second.to_dict() == {"a": 5, "b": 8, "c": 1, "p": 5}
    assert clock.since(second["p"]) == {}
    assert clock.count == 5


def test_what_was_merged_without_an_event_belongs_to_the_next() -> None:
    clock = VectorClock("p")
    stamp, _ = clock.tick_since(0)
    clock.merge(VectorStamp({"a": 1}))

    assert clock.since(stamp["p"]) == {"a": 1}


@pytest.mark.parametrize("seed", range(20))
def test_a_stamp_is_any_earlier_one_and_what_changed_after_it(seed: int) -> None:
    draw, clock = random.Random(seed), VectorClock("p")
    earlier = [clock.tick_since(0)[0]]
    for _ in range(100):
        known = clock.stamp().to_dict()
        step = draw.randrange(3)
        if step == 0:
            clock.receive(VectorStamp({draw.choice("abcdef"): draw.randint(1, 50), draw.choice("abc"): 3}))
        elif step == 1:
            clock.merge(VectorStamp({draw.choice("abcdef"): draw.randint(1, 50)}))
        base = draw.choice(earlier)
        stamp, changes = clock.tick_since(base["p"])
        earlier.append(stamp)

        assert base.merged(VectorStamp({**changes, "p": stamp["p"]})) == stamp
        assert all(changes[process] == stamp[process] for process in changes)
        assert known.keys() <= stamp.to_dict().keys()


def test_a_difference_is_short_when_little_changed() -> None:
    clock = VectorClock("p", start=VectorStamp({f"process-{n}": 1 for n in range(1000)}))
    clock.tick_since(0)
    for count in range(2, 100):
        clock.receive(VectorStamp({"process-3": count}))
        _, changes = clock.tick_since(clock.count - 1)

        assert changes == {"process-3": count}


def test_the_table_brings_what_changed_in_its_rows() -> None:
    clock = OrderingClock("p")
    first, _, before = clock.send_since("q", 0)
    second, _, rows = clock.send_since("r", first.time["p"])
    third, _, since_first = clock.send_since("q", first.time["p"])
    fourth, _, since_third = clock.send_since("q", third.time["p"])

    assert before == {}
    assert rows == {}  # Whoever knows the first message got it, or knows from its receiver.
    assert since_first == {"r": {"p": second.time["p"]}}
    assert since_third == {}
    assert fourth.table["q"] == third.time
    assert clock.known("p") == clock.count == 4


def test_a_row_of_others_is_news_once() -> None:
    p, q = OrderingClock("p"), OrderingClock("q")
    q.send("r")
    first, _, _ = p.send_since("q", 0)
    p.deliver(q.send("p"))

    second, changes, rows = p.send_since("q", first.time["p"])
    _, _, later = p.send_since("q", second.time["p"])

    assert (changes, rows) == ({"q": 2}, {"r": {"q": 1}})
    assert later == {}
