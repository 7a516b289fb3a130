"""SchiperCausal on random wires, against CausalUnicast, and its edges by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from beforehand.clocks import OrderingStamp, VectorStamp, View
from beforehand.errors import (
    BufferFullError,
    FutureStampError,
    ImpossibleStampError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering import Deliver, Level, Message, Missing, Owed, Refused, ReliableLink
from beforehand.ordering.causal_unicast import CausalUnicast
from beforehand.ordering.schiper_causal import SchiperCausal, SchiperPacket
from beforehand.ordering.unordered import UnorderedPacket
from ordering.mirrored import PlacedWires, mirrored
from ordering.wires import Wires, anyone, one_other

VIEW = View("abc")


def members() -> tuple[SchiperCausal, SchiperCausal, SchiperCausal]:
    return SchiperCausal("a", VIEW), SchiperCausal("b", VIEW), SchiperCausal("c", VIEW)


def sent(member: SchiperCausal, payload: bytes, *to: str) -> SchiperPacket:
    return member.send(payload, to, now=0)[-1].packet


def delivered(member: SchiperCausal, packet: SchiperPacket) -> list[bytes]:
    effects = member.receive(packet.message.sender, packet, now=0)
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


@pytest.mark.parametrize("destinations", [anyone, one_other])
@pytest.mark.parametrize("seed", range(40))
def test_causal_order_is_kept_on_wires_that_reorder_and_repeat(seed: int, destinations) -> None:
    wires = PlacedWires(mirrored(SchiperCausal), "abcd", seed=seed, repeat=0.2)
    wires.babble(40, destinations=destinations)
    wires.check_complete()
    wires.check_places()
    assert not wires.refused
    counts = wires.check().counts
    assert (counts["causal"], counts["fifo"]) == (0, 0)


@pytest.mark.parametrize("seed", range(10))
def test_it_delivers_exactly_when_the_matrix_does(seed: int) -> None:
    schiper, matrix = (Wires(protocol, "abcd", seed=seed) for protocol in (SchiperCausal, CausalUnicast))
    for wires in (schiper, matrix):
        wires.babble(40, destinations=anyone)
    # Neither holds a message up without need, so at every arrival they set free the same messages.
    assert [(e.process, e.time, e.sends) for e in schiper.events] == [
        (e.process, e.time, e.sends) for e in matrix.events
    ]
    assert {(e.process, e.time, e.receives) for e in schiper.events} == {
        (e.process, e.time, e.receives) for e in matrix.events
    }


@pytest.mark.parametrize("seed", range(10))
def test_a_room_for_one_message_on_a_lossy_link_does_not_stall(seed: int) -> None:
    def make(name, view):
        return ReliableLink(SchiperCausal(name, view, pending_max=1), resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, repeat=0.2, lose=0.3)
    wires.babble(20, destinations=anyone)
    wires.check_complete()
    assert wires.check().counts["causal"] == 0


def test_a_message_waits_and_says_for_what() -> None:
    a, _, c = members()
    sent(a, b"elsewhere", "b")
    first, second, third = (sent(a, payload, "c") for payload in (b"1", b"2", b"3"))
    assert delivered(c, third) == []
    assert [p.waits_for for p in c.pending()] == [Missing(process="a", what=Owed.MESSAGE, number=3)]
    assert c.missing() == [Missing(process="a", what=Owed.MESSAGE, number=3)]
    assert delivered(c, second) == []
    assert c.missing() == [Missing(process="a", what=Owed.MESSAGE, number=2)]
    assert delivered(c, first) == [b"1", b"2", b"3"]
    assert (c.pending(), c.missing(), c.report().held) == ([], [], ())


def test_a_repetition_is_nothing_whether_it_waits_or_was_delivered() -> None:
    a, b, _ = members()
    first, second = sent(a, b"1", "b"), sent(a, b"2", "b")
    delivered(b, second)
    before = b.snapshot()
    assert b.receive("a", second, now=0) == []
    assert b.snapshot() == before
    assert delivered(b, first) == [b"1", b"2"]
    before = b.snapshot()
    assert b.receive("a", first, now=0) == []
    assert b.snapshot() == before


def test_a_message_to_oneself_stands_outside_the_clock_and_behind_all_that_was_delivered() -> None:
    a, b, _ = members()
    (place,) = [e.place for e in a.receive("b", sent(b, b"1", "a"), now=0) if isinstance(e, Deliver)]
    before = a.snapshot()
    _, deliver, _ = a.send(b"note", ["a"], now=0)
    assert a.snapshot() == replace(before, number=1)
    assert place < deliver.place


def test_the_room_has_a_limit_per_sender_and_what_can_be_delivered_needs_none() -> None:
    a, _, _ = members()
    c = SchiperCausal("c", VIEW, pending_max=1)
    first, second, third = (sent(a, payload, "c") for payload in (b"1", b"2", b"3"))
    delivered(c, second)
    before = c.snapshot()
    with pytest.raises(BufferFullError):
        c.receive("a", third, now=0)
    assert c.snapshot() == before
    assert delivered(c, first) == [b"1", b"2"]
    assert delivered(c, third) == [b"3"]


def test_what_is_held_is_reported_with_the_place_it_will_have() -> None:
    a, _, c = members()
    first, second = sent(a, b"1", "c"), sent(a, b"2", "c")
    delivered(c, second)
    (held,) = c.report().held
    effects = c.receive("a", first, now=0)
    assert [held.place] == [e.place for e in effects if isinstance(e, Deliver) and e.message == held.message]


def test_only_destinations_that_were_talked_to_have_rows() -> None:
    view = View(f"p{i}" for i in range(50))
    one, two = SchiperCausal("p1", view), SchiperCausal("p2", view)
    delivered(two, sent(one, b"", "p2"))
    answer = sent(two, b"", "p1")
    assert (len(answer.stamp.table), len(answer.stamp.time)) == (0, 2)
    delivered(one, answer)
    assert dict(sent(one, b"", "p2").stamp.table) == {"p2": VectorStamp({"p1": 1})}


MESSAGE = Message(sender="a", number=3, to=("b",), level=Level.CAUSAL)


def stamp(
    time: dict[str, int], table: dict[str, dict[str, int]] | None = None, *, number: int = 1, sender: str = "a"
):
    rows = {p: VectorStamp(row) for p, row in (table or {}).items()}
    return OrderingStamp(sender, {"b": number}, VectorStamp(time), rows)


HONEST = SchiperPacket(message=MESSAGE, stamp=stamp({"a": 1}))


@pytest.mark.parametrize(
    ("sender", "forged", "error"),
    [
        ("a", "hello", RemoteProtocolError),
        ("a", UnorderedPacket(message=MESSAGE, numbers=(1,)), RemoteProtocolError),
        ("c", HONEST, RemoteProtocolError),
        ("z", HONEST, RemoteProtocolError),
        ("a", replace(HONEST, message=replace(MESSAGE, level=Level.FIFO)), RemoteProtocolError),
        ("a", replace(HONEST, stamp=stamp({"a": 1, "z": 1})), RemoteProtocolError),
        ("a", replace(HONEST, stamp=stamp({"a": 2}, {"z": {"a": 1}})), RemoteProtocolError),
        ("a", replace(HONEST, stamp=stamp({"a": 1, "b": 1})), ImpossibleStampError),
        ("a", replace(HONEST, stamp=stamp({"a": 1, "c": 2**41})), FutureStampError),
        ("a", replace(HONEST, stamp=stamp({"a": 2}, number=2)), RemoteProtocolError),
    ],
)
def test_what_a_peer_may_not_send_is_refused_and_changes_nothing(sender: str, forged: object, error: type) -> None:
    b = SchiperCausal("b", VIEW)
    before = b.snapshot()
    with pytest.raises(error):
        b.receive(sender, forged, now=0)
    assert b.snapshot() == before


def test_a_message_that_waits_for_others_but_not_for_the_one_before_it_is_told_and_dropped() -> None:
    _, b, c = members()
    b.receive("a", replace(HONEST, stamp=stamp({"a": 2, "c": 1}, {"b": {"c": 1}}, number=2)), now=0)
    effects = b.receive("c", sent(c, b"fine", "b"), now=0)
    assert [e.message.payload for e in effects if isinstance(e, Deliver)] == [b"fine"]
    assert [e.process for e in effects if isinstance(e, Refused)] == ["a"]
    assert b.pending() == []
    b.check_invariants()


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        stamp({"c": 1}, sender="c"),
        OrderingStamp("a", {"b": 1, "c": 1}, VectorStamp({"a": 1}), {}),
        stamp({"a": 1}, number=4),
        OrderingStamp("a", {"b": True}, VectorStamp({"a": 1}), {}),
        OrderingStamp("a", {"b": 1}, {"a": 1}, {}),
        OrderingStamp("a", {"b": 1}, VectorStamp({"a": 1}), {"b": (1,)}),
        stamp({"a": 1}, {"b": {"c": 1}}),
        stamp({"a": 1}, {"b": {"a": 1}}),
    ],
)
def test_a_malformed_packet_cannot_exist(wrong: object) -> None:
    with pytest.raises(ValueError, match="stamp"):
        SchiperPacket(message=MESSAGE, stamp=wrong)
    with pytest.raises(ValueError, match="message"):
        SchiperPacket(message=None, stamp=HONEST.stamp)


def test_what_the_caller_may_not_do_is_refused_and_changes_nothing() -> None:
    a, _, _ = members()
    before = a.snapshot()
    for wrong in ({"to": []}, {"to": ["b", "b"]}, {"to": ["z"]}, {"level": Level.TOTAL}):
        with pytest.raises(LocalProtocolError):
            a.send(b"", now=0, **wrong)
    with pytest.raises(LocalProtocolError):
        a.restore(None)
    assert a.snapshot() == before
