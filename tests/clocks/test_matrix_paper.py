"""Garg, chapter 12, section 12.2 and figures 12.2 and 12.4."""

from __future__ import annotations

import pytest

from beforehand.clocks import MatrixClock, MatrixStamp, View
from beforehand.errors import (
    DuplicateMessageError,
    ImpossibleStampError,
    LocalProtocolError,
    NotInViewError,
    RemoteProtocolError,
    ViewMismatchError,
)

VIEW = View(["P1", "P2", "P3"])


def clocks() -> tuple[MatrixClock, MatrixClock, MatrixClock]:
    return MatrixClock("P1", VIEW), MatrixClock("P2", VIEW), MatrixClock("P3", VIEW)


def test_figure_12_1_the_message_overtaken_by_a_sequence_of_messages_comes_first() -> None:
    p1, p2, p3 = clocks()
    direct = p1.send("P3")
    p2.deliver(p1.send("P2"))
    roundabout = p2.send("P3")

    assert p3.missing(roundabout) == [("P1", 1)]
    p3.deliver(direct)
    assert p3.deliverable(roundabout)
    p3.deliver(roundabout)


def test_figure_12_2_a_gap_in_the_senders_own_messages_holds_the_later_one_up() -> None:
    p1, p2, _ = clocks()
    first, second = p1.send("P2"), p1.send("P2")
    assert p2.missing(second) == [("P1", 1)]
    with pytest.raises(LocalProtocolError, match="not deliverable yet"):
        p2.deliver(second)
    p2.deliver(first)
    p2.deliver(second)


def test_figure_12_4_multicast_counts_every_destination_before_it_sends() -> None:
    p1, p2, p3 = clocks()
    query = p1.send("P2", "P3")
    assert (query.sent("P1", "P2"), query.sent("P1", "P3"), query.sent("P2", "P3")) == (1, 1, 0)
    p2.deliver(query)
    reply = p2.send("P1", "P3")
    # The chat of 12.4.1: the reply cannot be shown before the query.
    assert not p3.deliverable(reply)
    p3.deliver(query)
    p3.deliver(reply)
    p1.deliver(reply)


def test_figure_12_4_as_printed_lets_a_duplicate_through_and_this_clock_does_not() -> None:
    p1, p2, _ = clocks()
    message = p1.send("P2")
    p2.deliver(message)
    with pytest.raises(DuplicateMessageError):
        p2.deliver(message)


def test_what_cannot_be_is_refused() -> None:
    p1, p2, p3 = clocks()
    with pytest.raises(ImpossibleStampError):
        p2.deliver(MatrixStamp(VIEW, "P1", (0, 1, 0, 0, 0, 5, 0, 0, 0)))  # P2 has sent nothing to P3.
    with pytest.raises(RemoteProtocolError, match="our own"):
        p1.deliver(p1.send("P2"))
    with pytest.raises(ViewMismatchError):
        p3.deliver(MatrixStamp(View(["P1", "P2", "P3"], number=1), "P1", (0, 0, 1, 0, 0, 0, 0, 0, 0)))
    with pytest.raises(NotInViewError):
        p1.send("P9")
    for wrong in ((), ("P1",), ("P2", "P2")):
        with pytest.raises(LocalProtocolError):
            p1.send(*wrong)


def test_a_clock_made_again_from_its_stamp_goes_on_where_it_was() -> None:
    p1, p2, p3 = clocks()
    direct = p1.send("P3")
    p2.deliver(p1.send("P2"))
    again = MatrixClock("P2", VIEW, start=p2.stamp())
    assert again.send("P3") == p2.send("P3")

    p3.deliver(direct)
    restarted = MatrixClock("P3", VIEW, start=p3.stamp())
    with pytest.raises(DuplicateMessageError):
        restarted.deliver(direct)


def test_a_clock_does_not_start_from_the_stamp_of_another_process_or_view() -> None:
    p1, _, _ = clocks()
    for process, view in (("P2", VIEW), ("P1", View(["P1", "P2", "P3"], number=1))):
        with pytest.raises(LocalProtocolError, match="stamp of its own"):
            MatrixClock(process, view, start=p1.stamp())
