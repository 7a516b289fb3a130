"""GroupLeaders on random wires with groups of all shapes, and its edges by hand."""

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
from beforehand.ordering import Deliver, Level, Message, Missing, Owed, Persist, ReliableLink, Sent, Transmit
from beforehand.ordering.group_leaders import GroupLeaders, GroupLeadersPacket
from ordering.mirrored import PlacedWires, mirrored
from ordering.wires import Wires, anyone, one_other

SHAPES = [
    None,
    ["abcdef"],
    ["ba", "dc", "fe"],
    ["abcd", "e", "f"],
    list("abcdef"),
    ["fab", "cde"],
]
VIEW = View("abcd")  # Groups ab and cd; a and c lead.


def transmits(effects) -> list[Transmit]:
    return [effect for effect in effects if isinstance(effect, Transmit)]


def delivered(effects) -> list[bytes]:
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


@pytest.mark.parametrize("destinations", [anyone, one_other])
@pytest.mark.parametrize("groups", SHAPES)
@pytest.mark.parametrize("seed", range(12))
def test_causal_order_is_kept_over_all_groups(seed: int, groups, destinations) -> None:
    wires = PlacedWires(mirrored(GroupLeaders, groups=groups), "abcdef", seed=seed, repeat=0.2)
    wires.babble(40, destinations=destinations)
    wires.check_complete()
    wires.check_places()
    counts = wires.check().counts
    assert (counts["causal"], counts["fifo"]) == (0, 0)
    assert all(not m.within.pending() and not m.within.missing() for m in wires.members.values())


@pytest.mark.parametrize("seed", range(10))
def test_a_room_for_one_message_on_a_lossy_link_does_not_stall(seed: int) -> None:
    def make(name, view):
        return ReliableLink(GroupLeaders(name, view, pending_max=1), resend_after=50, resend_max=400)

    wires = Wires(make, "abcd", seed=seed, repeat=0.2, lose=0.2)
    wires.babble(20, destinations=anyone)
    wires.check_complete()
    assert wires.check().counts["causal"] == 0


def test_a_message_to_another_group_takes_three_hops_and_the_leaders_do_not_deliver_it() -> None:
    a, b, c, d = (GroupLeaders(name, VIEW) for name in "abcd")
    message = Message(sender="b", number=1, to=("d",), payload=b"x", level=Level.CAUSAL)

    sent, persist, first = b.send(b"x", ["d"], now=0)
    assert (sent, persist, first.to) == (Sent(message=message, place=(1, "b", 1)), Persist(), ("a",))
    assert first.packet.stamp == MatrixStamp(View("ab"), "b", (0, 0, 1, 0))
    persist, second = a.receive("b", first.packet, now=0)
    assert (persist, second.to) == (Persist(), ("c",))
    assert second.packet.stamp == MatrixStamp(View("ac"), "a", (0, 1, 0, 0))
    persist, third = c.receive("a", second.packet, now=0)
    assert (persist, third.to) == (Persist(), ("d",))
    assert third.packet.stamp == MatrixStamp(View("cd"), "c", (0, 1, 0, 0))
    assert d.receive("c", third.packet, now=0) == [Deliver(message=message, place=(1, "b", 1)), Persist()]


def test_a_leader_delivers_what_it_passes_on_if_it_is_a_destination() -> None:
    a, b = GroupLeaders("a", VIEW), GroupLeaders("b", VIEW)
    (hop,) = transmits(b.send(b"x", ["a", "b", "c"], now=0))
    assert hop.to == ("a",)
    effects = a.receive("b", hop.packet, now=0)
    assert delivered(effects) == [b"x"]
    assert [t.to for t in transmits(effects)] == [("c",)]


def test_a_message_inside_a_group_does_not_go_to_its_leader() -> None:
    wires = Wires(lambda name, view: GroupLeaders(name, view, groups=["abc", "d"]), "abcd")
    wires.send("b", b"", ["c"])
    assert [link[:2] for link in wires.flying] == [("b", "c")]
    wires.send("a", b"", ["b", "d"])
    assert [link[:2] for link in wires.flying[1:]] == [("a", "b"), ("a", "d")]


def test_a_leader_passes_on_in_the_order_in_which_it_got_not_in_which_it_came() -> None:
    a, b = GroupLeaders("a", VIEW), GroupLeaders("b", VIEW)
    (first,), (second,) = (transmits(b.send(payload, ["d"], now=0)) for payload in (b"1", b"2"))
    assert a.receive("b", second.packet, now=0) == [Persist()]
    assert [p.message.payload for p in a.pending()] == [b"2"]
    assert a.missing() == [Missing(process="b", what=Owed.MESSAGE, number=1)]
    assert [held.place for held in a.report().held] == [(2, "b", 2)]
    hops = transmits(a.receive("b", first.packet, now=0))
    assert [(h.packet.message.payload, h.packet.stamp.counts[1]) for h in hops] == [(b"1", 1), (b"2", 2)]


def test_a_repetition_is_nothing_on_every_hop() -> None:
    a, b, c, d = (GroupLeaders(name, VIEW) for name in "abcd")
    (packet,) = (t.packet for t in transmits(b.send(b"x", ["d"], now=0)))
    for carrier, member in (("b", a), ("a", c), ("c", d)):
        onward = transmits(member.receive(carrier, packet, now=0))
        before = member.snapshot()
        assert member.receive(carrier, packet, now=0) == []
        assert member.snapshot() == before
        packet = onward[0].packet if onward else packet


def test_the_room_has_a_limit_per_neighbour_and_what_can_be_handled_needs_none() -> None:
    a, b = GroupLeaders("a", VIEW, pending_max=1), GroupLeaders("b", VIEW)
    first, second, third = (transmits(b.send(payload, ["a"], now=0))[0].packet for payload in (b"1", b"2", b"3"))
    a.receive("b", second, now=0)
    before = a.snapshot()
    with pytest.raises(BufferFullError):
        a.receive("b", third, now=0)
    assert a.snapshot() == before
    assert delivered(a.receive("b", first, now=0)) == [b"1", b"2"]


def test_groups_that_do_not_divide_the_view_are_refused() -> None:
    for groups in ([], ["ab"], ["ab", "bcd"], ["ab", "cd", ""], ["ab", "cdz"], ["ab", "cd", "e"]):
        with pytest.raises(LocalProtocolError, match="divide"):
            GroupLeaders("a", VIEW, groups=groups)


def test_by_default_the_groups_are_the_halves_of_the_view() -> None:
    assert GroupLeaders("a", View("abcde")).groups == (("a", "b", "c"), ("d", "e"))
    assert GroupLeaders("a", View("a")).groups == (("a",),)


def message(sender: str, *to: str) -> Message:
    return Message(sender=sender, number=1, to=to, level=Level.CAUSAL)


def packet(carried: Message, view: str, sender: str, *counts: int, time: int = 1) -> GroupLeadersPacket:
    return GroupLeadersPacket(message=carried, time=time, stamp=MatrixStamp(View(view), sender, counts))


FROM_B = packet(message("b", "d"), "ab", "b", 0, 0, 1, 0)
FROM_C = packet(message("d", "a"), "ac", "c", 0, 0, 1, 0)


@pytest.mark.parametrize(
    ("sender", "forged", "error"),
    [
        ("b", "hello", RemoteProtocolError),
        ("z", FROM_B, RemoteProtocolError),
        ("a", FROM_B, RemoteProtocolError),
        ("c", FROM_B, RemoteProtocolError),  # Not a member of our group.
        ("b", replace(FROM_B, message=message("d", "a")), RemoteProtocolError),  # b passes nothing on.
        ("b", replace(FROM_B, message=message("a", "d")), RemoteProtocolError),  # Our own.
        ("b", replace(FROM_B, message=message("b", "z")), RemoteProtocolError),
        ("b", replace(FROM_B, message=message("z", "a")), RemoteProtocolError),
        ("b", replace(FROM_B, message=replace(FROM_B.message, level=Level.FIFO)), RemoteProtocolError),
        ("b", packet(message("b", "d"), "ab", "a", 0, 1, 0, 0), RemoteProtocolError),
        ("b", packet(message("b", "d"), "ab", "b", 0, 0, 0, 0), RemoteProtocolError),
        ("b", packet(message("b", "d"), "ab", "b", 0, 1, 1, 0), ImpossibleStampError),
        ("b", packet(message("b", "d"), "ab", "b", 0, 0, 2**41, 0), FutureStampError),
        ("b", replace(FROM_B, time=2**41), FutureStampError),
        ("b", packet(message("b", "d"), "abcd", "b", *([0] * 4), 1, *([0] * 11)), ViewMismatchError),
        ("c", replace(FROM_C, message=message("b", "a")), RemoteProtocolError),  # Of our own group.
        ("c", replace(FROM_C, message=message("d", "c")), RemoteProtocolError),  # Not on the route to us.
        ("d", packet(message("d", "a"), "cd", "d", 0, 0, 1, 0), ViewMismatchError),
    ],
)
def test_what_a_peer_may_not_send_is_refused_and_changes_nothing(sender: str, forged: object, error: type) -> None:
    a = GroupLeaders("a", VIEW)
    before = a.snapshot()
    with pytest.raises(error):
        a.receive(sender, forged, now=0)
    assert a.snapshot() == before


def test_what_is_forged_above_is_otherwise_taken() -> None:
    a = GroupLeaders("a", VIEW)
    assert [t.to for t in transmits(a.receive("b", FROM_B, now=0))] == [("c",)]
    assert len(a.receive("c", FROM_C, now=0)) == 2


@pytest.mark.parametrize("wrong", [{"message": None}, {"time": 0}, {"time": 2**63}, {"time": "1"}, {"stamp": None}])
def test_a_malformed_packet_cannot_exist(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"message|time|matrix"):
        replace(FROM_B, **wrong)


def test_what_the_caller_may_not_do_is_refused_and_changes_nothing() -> None:
    a = GroupLeaders("a", VIEW)
    before = a.snapshot()
    for wrong in ({"to": []}, {"to": ["b", "b"]}, {"to": ["z"]}, {"level": Level.TOTAL}):
        with pytest.raises(LocalProtocolError):
            a.send(b"", now=0, **wrong)
    for snapshot in (None, GroupLeaders("b", VIEW).snapshot()):
        with pytest.raises(LocalProtocolError):
            a.restore(snapshot)
    assert a.snapshot() == before
