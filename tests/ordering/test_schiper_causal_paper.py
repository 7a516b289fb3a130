"""Berry 1995, section 4.3, on members that send and deliver."""

from __future__ import annotations

from beforehand.clocks import VectorStamp, View
from beforehand.ordering import Deliver
from beforehand.ordering.schiper_causal import SchiperCausal

VIEW = View(["P1", "P2", "P3"])


def members() -> tuple[SchiperCausal, SchiperCausal, SchiperCausal]:
    return SchiperCausal("P1", VIEW), SchiperCausal("P2", VIEW), SchiperCausal("P3", VIEW)


def sent(member: SchiperCausal, payload: bytes, *to: str):
    return member.send(payload, to, now=0)[-1].packet


def delivered(member: SchiperCausal, packet) -> list[bytes]:
    effects = member.receive(packet.message.sender, packet, now=0)
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


def test_section_4_3_2_a_message_is_delayed_until_what_was_sent_to_its_receiver_before_it_is_delivered() -> None:
    p1, p2, p3 = members()
    direct = sent(p1, b"P1 to P3", "P3")
    delivered(p2, sent(p1, b"P1 to P2", "P2"))
    roundabout = sent(p2, b"P2 to P3", "P3")

    assert delivered(p3, roundabout) == []
    assert delivered(p3, direct) == [b"P1 to P3", b"P2 to P3"]


def test_section_4_3_1_the_whole_table_travels_so_that_third_parties_are_not_forgotten() -> None:
    view = View("abcd")
    a, b, c, d = (SchiperCausal(name, view) for name in view.processes)
    first = sent(a, b"a to d", "d")
    delivered(b, sent(a, b"a to b", "b"))
    delivered(c, sent(b, b"b to c", "c"))  # b and c have never sent to d: only a's row tells of it.
    last = sent(c, b"c to d", "d")

    assert last.stamp.table["d"] == VectorStamp({"a": 1})
    assert delivered(d, last) == []
    assert delivered(d, first) == [b"a to d", b"c to d"]


def test_section_4_3_1_a_multicast_enters_the_other_destinations_into_the_table_of_each() -> None:
    p1, p2, p3 = members()
    query = sent(p1, b"query", "P2", "P3")
    delivered(p2, query)
    reply = sent(p2, b"reply", "P3")
    assert delivered(p3, reply) == []
    assert delivered(p3, query) == [b"query", b"reply"]


def test_section_4_3_2_the_first_message_of_a_clock_that_starts_at_zero_holds_the_second_up() -> None:
    # Copying before the increment, as the paper has it, would leave the first entry empty.
    p1, p2, _ = members()
    first, second = sent(p1, b"1", "P2"), sent(p1, b"2", "P2")
    assert delivered(p2, second) == []
    assert delivered(p2, first) == [b"1", b"2"]
