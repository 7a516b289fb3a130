"""What goes to one peer of a link: what is repeated when, and what that costs. Each test names its guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beforehand.clocks import View
from beforehand.ordering import Fifo, Frame, ReliableLink, Transmit
from beforehand.ordering.link_sending import Outgoing

AFTER, MOST, BURST = 100, 1_600, 2


def outgoing(count: int, *, now: int = 0) -> Outgoing:
    out = Outgoing(AFTER, MOST, BURST)
    for number in range(count):
        out.add(f"packet {number + 1}", now)
    return out


def test_the_oldest_are_sent_again_ever_more_seldom_until_they_are_acknowledged() -> None:  # L1
    out = outgoing(3)
    assert not out.due(99)
    assert out.due(100)
    assert out.again(100) == [1, 2]
    assert (out.resend_at, out.wait) == (200, 200)
    assert out.again(200) == [1, 2]
    assert (out.resend_at, out.wait) == (400, 400)
    assert out.acknowledge(3, (), 410) == (True, [])
    assert not out.due(10_000)


def test_what_was_lost_at_one_stroke_is_repeated_as_fast_as_it_is_taken() -> None:  # L2
    out = outgoing(5)
    assert out.again(100) == [1, 2]
    assert out.acknowledge(1, (), 101) == (True, [])
    assert out.acknowledge(2, (), 102) == (True, [3, 4])
    assert out.acknowledge(4, (), 104) == (True, [5])
    assert out.acknowledge(5, (), 105) == (True, [])


def test_what_was_sent_after_the_loss_is_not_repeated_with_it() -> None:  # L2
    out = outgoing(3)
    assert out.again(100) == [1, 2]
    out.add("packet 4", 101)
    out.add("packet 5", 101)
    assert out.acknowledge(2, (), 102) == (True, [3, 4])
    assert out.acknowledge(4, (), 103) == (True, [])


def test_what_arrives_without_being_repeated_was_only_slow() -> None:  # L2
    out = outgoing(6)
    assert out.again(100) == [1, 2]
    assert out.acknowledge(3, (), 150) == (True, [])
    assert out.acknowledge(4, (), 151) == (True, [])


def test_a_burst_that_is_lost_again_waits_for_its_time() -> None:  # L2
    out = outgoing(6)
    out.again(100)
    assert out.acknowledge(2, (), 110) == (True, [3, 4])
    assert out.acknowledge(2, (), 120) == (False, [])
    assert not out.due(209)
    assert out.again(210) == [3, 4]


def test_a_slow_peer_is_given_twice_the_time_that_it_took() -> None:  # L3
    out = outgoing(1)
    out.acknowledge(1, (), 90)
    out.add("packet 2", 1_000)
    assert out.resend_at == 1_180
    out.acknowledge(2, (), 1_005)
    out.add("packet 3", 2_000)
    assert out.resend_at == 2_100
    out.add("packet 4", 2_000)
    out.acknowledge(3, (), 9_000)
    assert out.resend_at == 9_000 + MOST


def test_what_was_sent_twice_does_not_tell_how_slow_a_peer_is() -> None:  # L3
    out = outgoing(1)
    out.again(100)
    out.acknowledge(1, (), 700)
    out.add("packet 2", 1_000)
    assert out.resend_at == 1_100


def test_numbers_above_the_mark_are_acknowledged_and_do_not_put_the_oldest_off() -> None:
    out = outgoing(4)
    assert out.acknowledge(0, (2, 4), 50) == (True, [])
    assert list(out.kept) == [1, 3]
    assert out.due(100)


class Watched(dict[int, Any]):
    """Counts what is looked at one by one."""

    looked_at = 0

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.looked_at += 1
            yield key


def test_an_acknowledgement_costs_as_much_as_it_brings_however_much_is_kept() -> None:
    out = outgoing(0)
    out.kept = watched = Watched(dict.fromkeys(range(1, 10_001), b""))
    out.last = 10_000
    out.acknowledge(1, (5_000,), 10)
    assert watched.looked_at < 10
    assert len(watched) == 9_998


def test_a_backlog_behind_a_broken_connection_comes_through_in_the_time_of_one_resending() -> None:
    """1,000 packets that were lost: at 64 each 200 ms it took more than three seconds."""
    view = View("ab")
    a, b = (ReliableLink(Fifo(name, view), resend_after=200) for name in "ab")
    for number in range(1_000):
        a.send(b"%d" % number, ["b"], now=0)
    under_way: list[tuple[ReliableLink, str, Frame]] = []

    def perform(sender: str, effects: list[Any]) -> None:
        to = b if sender == "a" else a
        under_way.extend((to, sender, effect.packet) for effect in effects if isinstance(effect, Transmit))

    perform("a", a.tick(now=200))
    while under_way:
        link, sender, frame = under_way.pop(0)
        perform(link.process, link.receive(sender, frame, now=201))

    assert a.missing() == []
    assert b.report().held == ()
    b.check_invariants()
