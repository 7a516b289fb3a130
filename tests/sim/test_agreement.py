"""The judge of views: it says no when members that stay differ."""

from __future__ import annotations

from beforehand.ordering import Message
from beforehand.sim.agreement import agreement
from beforehand.sim.record import Record


def record(**views: list[tuple[int, tuple[str, ...], int]]) -> Record:
    made = Record(views=views)
    for number, to in ((1, ("a", "b", "c")), (2, ("a", "c"))):
        message = Message(sender="c", number=number, to=to)
        made.sent[message.id] = (message, 0)
    return made


BOTH = ("a", "b")


def test_members_that_deliver_the_same_before_the_view_agree() -> None:
    run = record(a=[(1, BOTH, 2)], b=[(1, BOTH, 1)])
    run.delivered = {"a": ["c.1", "c.2"], "b": ["c.1"]}  # c.2 was not sent to b.
    assert agreement(run) == []


def test_a_message_on_one_side_of_the_view_here_and_on_the_other_there_is_told() -> None:
    run = record(a=[(1, BOTH, 1)], b=[(1, BOTH, 0)])
    run.delivered = {"a": ["c.1"], "b": ["c.1"]}
    assert agreement(run) == ["c.1 was delivered before view 1 at one of a and b only"]


def test_different_views_are_told() -> None:
    run = record(a=[(1, BOTH, 0)], b=[(1, ("a", "b", "c"), 0)])
    assert agreement(run) == [
        "a installed view 1 of ('a', 'b'), b view 1 of ('a', 'b', 'c')",
    ]


def test_who_left_is_out_of_it() -> None:
    run = record(a=[(1, BOTH, 1)], c=[(1, BOTH, 0)])
    run.delivered = {"a": ["c.1"]}
    run.departed = {"c": 7}
    assert agreement(run) == []
