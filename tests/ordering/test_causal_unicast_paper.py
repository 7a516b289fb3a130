"""Garg, chapter 12.2 and 12.4, on members that send and deliver."""

from __future__ import annotations

from beforehand.clocks import View
from beforehand.ordering import Deliver
from beforehand.ordering.causal_unicast import CausalUnicast

VIEW = View(["P1", "P2", "P3"])


def members() -> tuple[CausalUnicast, CausalUnicast, CausalUnicast]:
    return CausalUnicast("P1", VIEW), CausalUnicast("P2", VIEW), CausalUnicast("P3", VIEW)


def sent(member: CausalUnicast, payload: bytes, *to: str):
    return member.send(payload, to, now=0)[-1].packet


def delivered(member: CausalUnicast, packet) -> list[bytes]:
    effects = member.receive(packet.message.sender, packet, now=0)
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


def test_figure_12_1_a_message_is_not_overtaken_by_a_sequence_of_messages() -> None:
    p1, p2, p3 = members()
    direct = sent(p1, b"direct", "P3")
    assert delivered(p2, sent(p1, b"first leg", "P2")) == [b"first leg"]
    roundabout = sent(p2, b"second leg", "P3")

    assert delivered(p3, roundabout) == []
    assert delivered(p3, direct) == [b"direct", b"second leg"]


def test_figure_12_1_not_even_if_the_sequence_ends_where_its_second_leg_started() -> None:
    # P1 sends to P3 and P2; P2 tells P3; P3 tells P2, who has heard of nothing that it lacks.
    p1, p2, p3 = members()
    early = sent(p1, b"early", "P2")
    delivered(p3, sent(p1, b"go", "P3"))
    answer = sent(p3, b"answer", "P2")
    assert delivered(p2, answer) == []
    assert delivered(p2, early) == [b"early", b"answer"]


def test_figure_12_2_a_message_known_for_another_process_holds_nothing_up() -> None:
    p1, p2, p3 = members()
    sent(p1, b"still under way", "P3")
    assert delivered(p2, sent(p1, b"free", "P2")) == [b"free"]
    assert delivered(p1, sent(p3, b"concurrent", "P1")) == [b"concurrent"]


def test_figure_12_4_a_multicast_carries_one_matrix_that_counts_it_for_each_destination() -> None:
    p1, _, _ = members()
    assert sent(p1, b"", "P2", "P3").stamp.counts == (0, 1, 1, 0, 0, 0, 0, 0, 0)


def test_section_12_4_1_in_the_chat_no_reply_is_shown_before_its_query() -> None:
    p1, p2, p3 = members()
    query = sent(p1, b"query", "P2", "P3")
    delivered(p2, query)
    reply = sent(p2, b"reply", "P1", "P3")
    assert delivered(p1, reply) == [b"reply"]
    assert delivered(p3, reply) == []
    assert delivered(p3, query) == [b"query", b"reply"]
