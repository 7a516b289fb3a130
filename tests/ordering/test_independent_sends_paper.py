"""Garg, problem 12.6: causal order when the sends of one process are not totally ordered."""

from __future__ import annotations

from beforehand.clocks import View
from beforehand.ordering import Deliver
from beforehand.ordering.causal_unicast import CausalUnicast
from beforehand.ordering.independent_sends import IndependentSends

VIEW = View(["P1", "P2", "P3"])


def delivered(member, packet) -> list[bytes]:
    effects = member.receive(packet.message.sender, packet, now=0)
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


def test_problem_12_6_independent_sends_may_overtake_each_other_where_process_order_forbids_it() -> None:
    for protocol, expected in ((CausalUnicast, []), (IndependentSends, [b"second"])):
        p1, p2 = protocol("P1", VIEW), protocol("P2", VIEW)
        p1.send(b"first", ["P2"], now=0)
        assert delivered(p2, p1.send(b"second", ["P2"], now=0)[-1].packet) == expected


def test_problem_12_6_figure_12_1_is_forbidden_only_along_dependencies() -> None:
    p1, p2, p3 = (IndependentSends(name, VIEW) for name in VIEW.processes)
    direct = p1.send(b"direct", ["P3"], now=0)[-1].packet
    free = p1.send(b"free leg", ["P2"], now=0)[-1].packet
    bound = p1.send(b"bound leg", ["P2"], now=0, after=[direct.message.key])[-1].packet
    assert delivered(p2, bound) == [b"bound leg"]
    assert delivered(p2, free) == [b"free leg"]
    after_free = p2.send(b"after free", ["P3"], now=0, after=[free.message.key])[-1].packet
    after_bound = p2.send(b"after bound", ["P3"], now=0, after=[bound.message.key])[-1].packet

    assert delivered(p3, after_bound) == []
    assert delivered(p3, after_free) == [b"after free"]
    assert delivered(p3, direct) == [b"direct", b"after bound"]


def test_problem_12_6_if_every_send_comes_after_all_before_it_the_order_is_that_of_the_chapter() -> None:
    p1, p2, _ = (IndependentSends(name, VIEW) for name in VIEW.processes)
    first = p1.send(b"1", ["P2"], now=0)[-1].packet
    second = p1.send(b"2", ["P2"], now=0, after=[first.message.key])[-1].packet
    third = p1.send(b"3", ["P2"], now=0, after=[first.message.key, second.message.key])[-1].packet
    assert third.barrier == (("P2", "P1", 2),)  # One predecessor, as a counter would have it.
    assert delivered(p2, third) == []
    assert delivered(p2, second) == []
    assert delivered(p2, first) == [b"1", b"2", b"3"]
