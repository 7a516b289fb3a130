"""CausalUnicast on random wires, and its edges by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from beforehand.clocks import MatrixStamp, View
from beforehand.errors import (
    BufferFullError,
    FutureStampError,
    ImpossibleStampError,
    LocalProtocolError,
    RemoteProtocolError,
    ViewMismatchError,
)
from beforehand.ordering import Deliver, Level, Message, Missing, Owed, ReliableLink, Transmit
from beforehand.ordering.causal_unicast import CausalUnicast, CausalUnicastPacket
from beforehand.ordering.unordered import UnorderedPacket
from ordering.mirrored import PlacedWires, mirrored
from ordering.wires import Wires, anyone, one_other

VIEW = View("abc")


def members() -> tuple[CausalUnicast, CausalUnicast, CausalUnicast]:
    return CausalUnicast("a", VIEW), CausalUnicast("b", VIEW), CausalUnicast("c", VIEW)


def sent(member: CausalUnicast, payload: bytes, *to: str) -> CausalUnicastPacket:
    transmit = member.send(payload, to, now=0)[-1]
    assert isinstance(transmit, Transmit)
    return transmit.packet


def delivered(member: CausalUnicast, packet: CausalUnicastPacket) -> list[bytes]:
    effects = member.receive(packet.message.sender, packet, now=0)
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


@pytest.mark.parametrize("destinations", [anyone, one_other])
@pytest.mark.parametrize("seed", range(40))
def test_causal_order_is_kept_on_wires_that_reorder_and_repeat(seed: int, destinations) -> None:
    wires = PlacedWires(mirrored(CausalUnicast), "abcd", seed=seed, repeat=0.2)
    wires.babble(40, destinations=destinations)
    wires.check_complete()
    wires.check_places()
    counts = wires.check().counts
    assert (counts["causal"], counts["fifo"]) == (0, 0)


@pytest.mark.parametrize("seed", range(10))
def test_a_room_for_one_message_on_a_lossy_link_does_not_stall(seed: int) -> None:
    def make(name, view):
        return ReliableLink(CausalUnicast(name, view, pending_max=1), resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, repeat=0.2, lose=0.3)
    wires.babble(20, destinations=anyone)
    wires.check_complete()
    assert wires.check().counts["causal"] == 0


def test_a_message_waits_and_says_for_what() -> None:
    a, _, c = members()
    first, second, third = (sent(a, payload, "c") for payload in (b"1", b"2", b"3"))
    assert delivered(c, third) == []
    assert [p.waits_for for p in c.pending()] == [Missing(process="a", what=Owed.MESSAGE, number=2)]
    assert c.missing() == [Missing(process="a", what=Owed.MESSAGE, number=1)]
    assert delivered(c, second) == []
    assert c.missing() == [Missing(process="a", what=Owed.MESSAGE, number=1)]
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
    assert b.receive("a", second, now=0) == []
    assert b.snapshot() == before


def test_a_message_to_oneself_stands_outside_the_matrix_and_behind_all_that_was_delivered() -> None:
    a, b, _ = members()
    packet = sent(b, b"1", "a")
    (place,) = [e.place for e in a.receive("b", packet, now=0) if isinstance(e, Deliver)]
    before = a.snapshot().domain
    _, deliver, _ = a.send(b"note", ["a"], now=0)
    assert a.snapshot().domain == before
    assert place < deliver.place  # Although b stands behind a in the alphabet.
    assert deliver.place < (sum(sent(a, b"2", "b").stamp.counts), 0, "a", 2)


def test_the_room_has_a_limit_per_sender_and_what_can_be_delivered_needs_none() -> None:
    a, _, c = members()
    c = CausalUnicast("c", VIEW, pending_max=1)
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
    assert held.final


def test_numbers_go_on_where_they_were_before() -> None:
    assert sent(CausalUnicast("a", VIEW, number=41), b"", "b").message.number == 42


def stamp(*counts: int, sender: str = "a", view: View = VIEW) -> MatrixStamp:
    return MatrixStamp(view, sender, counts)


MESSAGE = Message(sender="a", number=1, to=("b",), level=Level.CAUSAL)
HONEST = CausalUnicastPacket(message=MESSAGE, stamp=stamp(0, 1, 0, 0, 0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("sender", "forged", "error"),
    [
        ("a", "hello", RemoteProtocolError),
        ("a", UnorderedPacket(message=MESSAGE, numbers=(1,)), RemoteProtocolError),
        ("c", HONEST, RemoteProtocolError),
        ("z", HONEST, RemoteProtocolError),
        ("a", replace(HONEST, message=replace(MESSAGE, to=("c",))), RemoteProtocolError),
        ("a", replace(HONEST, message=replace(MESSAGE, to=("b", "c"))), RemoteProtocolError),
        ("a", replace(HONEST, message=replace(MESSAGE, level=Level.FIFO)), RemoteProtocolError),
        ("a", replace(HONEST, stamp=stamp(0, 0, 0, 0, 0, 0, 0, 0, 0)), RemoteProtocolError),
        ("a", replace(HONEST, stamp=stamp(0, 1, 0, 0, 0, 1, 0, 0, 0)), ImpossibleStampError),
        ("a", replace(HONEST, stamp=stamp(0, 1, 0, 1, 0, 0, 0, 0, 0)), ImpossibleStampError),
        ("a", replace(HONEST, stamp=stamp(0, 1, 0, 0, 0, 0, 2**41, 0, 0)), FutureStampError),
        ("a", replace(HONEST, stamp=stamp(0, 1, 0, 0, 0, 0, 0, 0, 0, view=View("abc", number=1))), ViewMismatchError),
        ("a", replace(HONEST, stamp=stamp(0, 1, 0, 0, view=View("ab"))), ViewMismatchError),
    ],
)
def test_what_a_peer_may_not_send_is_refused_and_changes_nothing(sender: str, forged: object, error: type) -> None:
    b = CausalUnicast("b", VIEW)
    before = b.snapshot()
    with pytest.raises(error):
        b.receive(sender, forged, now=0)
    assert b.snapshot() == before


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        (0, 1, 0, 0, 0, 0, 0, 0, 0),
        stamp(0, 1, 0, 0, 0, 0, 0, 0, -1),
        stamp(0, 2**63, 0, 0, 0, 0, 0, 0, 0),
        stamp(0, 1, 0, 0, 0, 0, 0, 0, "x"),
        stamp(0, 1, 0, 0, 1, 0, 0, 0, 0),
        stamp(0, 1, 0, 0, 0, 0, 0, 0, 0, sender="c"),
    ],
)
def test_a_malformed_packet_cannot_exist(wrong: object) -> None:
    with pytest.raises(ValueError, match="matrix"):
        CausalUnicastPacket(message=MESSAGE, stamp=wrong)
    with pytest.raises(ValueError, match="message"):
        CausalUnicastPacket(message=None, stamp=HONEST.stamp)


def test_what_the_caller_may_not_do_is_refused_and_changes_nothing() -> None:
    a, _, _ = members()
    before = a.snapshot()
    for wrong in ({"to": []}, {"to": ["b", "b"]}, {"to": ["z"]}, {"level": Level.TOTAL}):
        with pytest.raises(LocalProtocolError):
            a.send(b"", now=0, **wrong)
    with pytest.raises(LocalProtocolError):
        a.restore(before.domain)
    assert a.snapshot() == before
