"""Settling what members report into one order."""

from __future__ import annotations

from beforehand.ordering import Held, Message
from beforehand.ordering.flush import Ballot, Reported, settle

BALLOT = Ballot(0, 1, "a")


def message(sender: str, number: int, *to: str) -> Message:
    return Message(sender=sender, number=number, to=to or ("a", "b"))


def report(*held: Held, time: int = 0, **options) -> Reported:
    return Reported(ballot=BALLOT, held=held, time=time, stable=(), **options)


def order(**reports: Reported) -> list[str]:
    return [placed.id for placed, _ in settle(reports)]


def test_what_is_final_anywhere_has_that_place() -> None:
    one, two = message("a", 1), message("b", 1)
    a = report(Held(message=one, place=(7, "a", 1)), Held(message=two, place=(3, "b", 1), final=False))
    b = report(Held(message=two, place=(9, "b", 1)))
    assert order(a=a, b=b) == ["a.1", "b.1"]


def test_a_proposal_counts_the_clock_of_a_destination_that_has_not_got_it() -> None:
    undecided, delivered = message("c", 1), message("d", 1)
    a = report(Held(message=undecided, place=(7, "c", 1), final=False))
    b = report(Held(message=delivered, place=(8, "d", 1)), time=8)  # b has delivered beyond 7 without it.
    assert order(a=a, b=b) == ["d.1", "c.1"]


def test_what_has_no_place_goes_behind_what_its_destinations_have_delivered_and_no_further() -> None:
    unplaced, later = message("b", 1), message("c", 1)
    a = report(Held(message=later, place=(5, "c", 1)), reached=(2, "x", 1))
    b = report(Held(message=unplaced, place=None, after=(1, "x", 1)))
    assert order(a=a, b=b) == ["b.1", "c.1"]


def test_many_without_a_place_keep_their_order_and_short_places() -> None:
    held = [Held(message=message("b", number), place=None) for number in range(1, 101)]
    settled = settle({"b": report(*held)})
    assert [placed.number for placed, _ in settled] == list(range(1, 101))
    assert {len(place) for _, place in settled} == {3}


def test_what_anybody_knows_to_be_stable_is_left_out() -> None:
    old, new = message("a", 1), message("a", 2)
    a = report(Held(message=old, place=(1,)), Held(message=new, place=(2,)))
    b = Reported(ballot=BALLOT, held=(), time=0, stable=(("a", 1),))
    assert order(a=a, b=b) == ["a.2"]
