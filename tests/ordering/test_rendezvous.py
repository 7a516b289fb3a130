"""Rendezvous on random wires, judged by an oracle that knows only the events, and its edges by hand."""

from __future__ import annotations

from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import pytest

from beforehand.clocks import View
from beforehand.errors import (
    BufferFullError,
    DestinationError,
    FutureStampError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering import Deliver, Held, Level, Message, Missing, Owed, Persist, ReliableLink, Sent, Transmit
from beforehand.ordering.causal_unicast import CausalUnicast
from beforehand.ordering.rendezvous import (
    Rendezvous,
    RendezvousAcknowledgement,
    RendezvousMessage,
    RendezvousPermission,
    RendezvousRequest,
)
from ordering.mirrored import PlacedWires, mirrored
from ordering.wires import Wires, one_other

VIEW = View("abc")


def messages_by_process(events) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for event in events:
        lines.setdefault(event.process, []).extend((*event.sends, *event.receives))
    return lines


def is_synchronous(events) -> bool:
    """The messages can be numbered so that numbers grow along every process: their successions have no cycle."""
    before: dict[str, set[str]] = {}
    for line in messages_by_process(events).values():
        for first, second in pairwise(line):
            before.setdefault(second, set()).add(first)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True


def message(sender: str, number: int, to: str, payload: bytes = b"") -> Message:
    return Message(sender=sender, number=number, to=(to,), payload=payload, level=Level.CAUSAL_TOTAL)


def check_all(wires: PlacedWires, *, calls: int) -> None:
    assert len(wires.sent) == calls
    wires.check_complete()
    assert is_synchronous(wires.events)
    counts = wires.check().counts
    assert (counts["fifo"], counts["causal"], counts["total"]) == (0, 0, 0)
    for line in messages_by_process(wires.events).values():
        places = [wires.places[m] for m in line]
        assert places == sorted(places)
    assert all(not m.within.pending() and not m.within.missing() for m in wires.members.values())


@pytest.mark.parametrize("seed", range(60))
def test_messages_are_vertical_on_wires_that_reorder_and_repeat(seed: int) -> None:
    wires = PlacedWires(mirrored(Rendezvous), "abcd", seed=seed, repeat=0.2)
    wires.babble(40, destinations=one_other)
    check_all(wires, calls=40)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_everything_is_delivered_when_all_send_to_all_at_once(seed: int, fifo: bool) -> None:
    wires = PlacedWires(mirrored(Rendezvous), "abcde", seed=seed, repeat=0.1, fifo=fifo)
    for _ in range(2):
        for name in "abcde":
            for other in "abcde".replace(name, ""):
                wires.send(name, b"", [other])
    wires.run()
    check_all(wires, calls=40)


@pytest.mark.parametrize("seed", range(10))
def test_it_works_over_a_link_that_loses(seed: int) -> None:
    def make(name, view):
        return ReliableLink(Rendezvous(name, view), resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, repeat=0.2, lose=0.3)
    wires.babble(20, destinations=one_other)
    assert len(wires.sent) == 20
    wires.check_complete()
    assert is_synchronous(wires.events)
    assert not wires.refused


def test_the_oracle_can_say_no() -> None:
    wires = Wires(CausalUnicast, "ab")
    wires.send("a", b"", ["b"])
    wires.send("b", b"", ["a"])
    wires.run()
    assert not is_synchronous(wires.events)


def test_a_message_to_a_smaller_process_leaves_at_once_and_makes_its_sender_passive_until_acknowledged() -> None:
    a, b = Rendezvous("a", VIEW), Rendezvous("b", VIEW)
    first = message("b", 1, "a", b"1")
    packet = RendezvousMessage(message=first, sequence=1, time=0)
    assert b.send(b"1", ["a"], now=0) == [Sent(message=first), Persist(), Transmit(to=("a",), packet=packet)]
    assert b.send(b"2", ["a"], now=0) == [Persist()]
    assert b.missing() == [Missing(process="a", what=Owed.ACKNOWLEDGEMENT, number=1)]
    assert [p.message.payload for p in b.pending()] == [b"2"]

    answer = RendezvousAcknowledgement(sequence=1, time=1)
    assert a.receive("b", packet, now=0) == [
        Deliver(message=first, place=(1, "b", 1)),
        Persist(),
        Transmit(to=("b",), packet=answer),
    ]
    assert b.receive("a", answer, now=0)[0] == Sent(message=message("b", 2, "a", b"2"))


def test_a_larger_process_is_asked_and_is_passive_from_its_permission_until_the_message_comes() -> None:
    a, b = Rendezvous("a", VIEW), Rendezvous("b", VIEW)
    request = RendezvousRequest(sequence=1)
    assert a.send(b"1", ["b"], now=0) == [Persist(), Transmit(to=("b",), packet=request)]
    assert a.missing() == [Missing(process="b", what=Owed.PERMISSION, number=1)]
    permission = RendezvousPermission(sequence=1, time=0)
    assert b.receive("a", request, now=0) == [Persist(), Transmit(to=("a",), packet=permission)]
    assert b.missing() == [Missing(process="a", what=Owed.MESSAGE, number=1)]
    assert b.send(b"x", ["a"], now=0) == [Persist()]  # Passive: it waits.

    first = message("a", 1, "b", b"1")
    packet = RendezvousMessage(message=first, sequence=1, time=1)
    assert a.receive("b", permission, now=0) == [
        Sent(message=first, place=(1, "a", 1)),  # Its instant is this event.
        Persist(),
        Transmit(to=("b",), packet=packet),
    ]
    effects = b.receive("a", packet, now=0)
    assert effects[:2] == [Deliver(message=first, place=(1, "a", 1)), Sent(message=message("b", 1, "a", b"x"))]


def test_a_passive_process_neither_delivers_nor_uses_a_permission() -> None:
    b = Rendezvous("b", VIEW)
    b.send(b"up", ["c"], now=0)
    b.send(b"down", ["a"], now=0)
    up = RendezvousMessage(message=message("c", 1, "b"), sequence=1, time=4)
    assert b.receive("c", up, now=0) == [Persist()]
    assert b.receive("c", up, now=0) == []
    assert b.receive("c", RendezvousPermission(sequence=1, time=5), now=0) == [Persist()]
    assert b.receive("c", RendezvousPermission(sequence=1, time=5), now=0) == []
    assert b.report().held == (
        Held(message=up.message, place=(5, "c", 1), final=False),
        Held(message=message("b", 2, "a", b"down"), place=(1, "b", 2), final=False),  # Under way, not acknowledged.
    )
    assert b.report().unsent == ((b"up", ("c",), Level.CAUSAL_TOTAL),)
    effects = b.receive("a", RendezvousAcknowledgement(sequence=1, time=1), now=0)
    assert [type(e) for e in effects] == [Deliver, Sent, Persist, Transmit, Transmit]
    assert b.snapshot().time == 6


def test_turns_are_taken_in_the_order_in_which_they_came_so_that_a_busy_sender_permits_too() -> None:
    c = Rendezvous("c", VIEW)
    for payload in (b"1", b"2", b"3"):
        c.send(payload, ["a"], now=0)
    c.receive("b", RendezvousRequest(sequence=1), now=0)
    second = c.receive("a", RendezvousAcknowledgement(sequence=1, time=1), now=0)
    assert isinstance(second[0], Sent)
    permission = c.receive("a", RendezvousAcknowledgement(sequence=2, time=2), now=0)
    assert permission[-1] == Transmit(to=("b",), packet=RendezvousPermission(sequence=1, time=2))


def test_whoever_waits_for_us_comes_before_our_own_turns() -> None:
    b = Rendezvous("b", VIEW)
    b.send(b"1", ["a"], now=0)
    b.send(b"2", ["a"], now=0)
    b.receive("c", RendezvousMessage(message=message("c", 1, "b"), sequence=1, time=0), now=0)
    effects = b.receive("a", RendezvousAcknowledgement(sequence=1, time=1), now=0)
    assert [type(e) for e in effects] == [Deliver, Sent, Persist, Transmit, Transmit]


def test_a_repeated_request_is_nothing() -> None:
    c = Rendezvous("c", VIEW)
    c.send(b"", ["a"], now=0)
    request = RendezvousRequest(sequence=1)
    assert c.receive("b", request, now=0) == [Persist()]
    assert c.receive("b", request, now=0) == []
    c.receive("a", RendezvousAcknowledgement(sequence=1, time=1), now=0)
    assert c.receive("b", request, now=0) == []  # Permitted already.


def test_a_request_that_overtakes_the_message_before_it_is_kept() -> None:
    b = Rendezvous("b", VIEW)
    b.receive("a", RendezvousRequest(sequence=1), now=0)
    assert b.receive("a", RendezvousRequest(sequence=2), now=0) == [Persist()]
    effects = b.receive("a", RendezvousMessage(message=message("a", 1, "b"), sequence=1, time=1), now=0)
    assert effects[-1] == Transmit(to=("a",), packet=RendezvousPermission(sequence=2, time=1))


def test_what_waits_to_leave_has_a_limit_and_what_leaves_at_once_needs_no_room() -> None:
    b = Rendezvous("b", VIEW, queue_max=1)
    b.send(b"up", ["c"], now=0)
    before = b.snapshot()
    with pytest.raises(BufferFullError):
        b.send(b"up", ["c"], now=0)
    assert b.snapshot() == before
    assert isinstance(b.send(b"down", ["a"], now=0)[0], Sent)
    with pytest.raises(BufferFullError):
        b.send(b"down", ["a"], now=0)


def passive_for_acknowledgement() -> Rendezvous:
    b = Rendezvous("b", VIEW)
    b.send(b"", ["a"], now=0)
    return b


def passive_for_message() -> Rendezvous:
    b = Rendezvous("b", VIEW, start=7)
    b.receive("a", RendezvousRequest(sequence=1), now=0)
    return b


FROM_A = RendezvousMessage(message=message("a", 1, "b"), sequence=1, time=8)
FROM_C = RendezvousMessage(message=message("c", 1, "b"), sequence=1, time=0)


@pytest.mark.parametrize(
    ("make", "sender", "forged"),
    [
        (passive_for_message, "a", "hello"),
        (passive_for_message, "z", FROM_A),
        (passive_for_message, "c", FROM_A),
        (passive_for_message, "a", replace(FROM_A, message=message("a", 1, "c"))),
        (passive_for_message, "a", replace(FROM_A, message=replace(FROM_A.message, to=("b", "c")))),
        (passive_for_message, "a", replace(FROM_A, message=replace(FROM_A.message, level=Level.TOTAL))),
        (passive_for_message, "a", replace(FROM_A, sequence=2)),
        (passive_for_message, "a", replace(FROM_A, time=7)),
        (passive_for_message, "a", RendezvousRequest(sequence=3)),
        (passive_for_message, "c", RendezvousRequest(sequence=1)),
        (passive_for_message, "c", RendezvousPermission(sequence=1, time=1)),
        (passive_for_message, "a", RendezvousPermission(sequence=1, time=1)),
        (passive_for_message, "a", RendezvousAcknowledgement(sequence=1, time=8)),
        (passive_for_message, "c", replace(FROM_C, sequence=2)),
        (passive_for_acknowledgement, "a", FROM_A),
        (passive_for_acknowledgement, "a", RendezvousRequest(sequence=2)),
        (passive_for_acknowledgement, "a", RendezvousAcknowledgement(sequence=2, time=1)),
        (passive_for_acknowledgement, "a", RendezvousAcknowledgement(sequence=1, time=0)),
        (passive_for_acknowledgement, "c", RendezvousAcknowledgement(sequence=1, time=1)),
    ],
)
def test_what_a_peer_may_not_send_is_refused_and_changes_nothing(make, sender: str, forged: object) -> None:
    b = make()
    before = b.snapshot()
    with pytest.raises(RemoteProtocolError):
        b.receive(sender, forged, now=0)
    assert b.snapshot() == before


@pytest.mark.parametrize(
    ("make", "sender", "forged"),
    [
        (passive_for_message, "a", replace(FROM_A, time=2**41)),
        (passive_for_message, "c", replace(FROM_C, time=2**41)),
        (passive_for_acknowledgement, "a", RendezvousAcknowledgement(sequence=1, time=2**41)),
    ],
)
def test_a_time_far_ahead_is_refused_and_changes_nothing(make, sender: str, forged: object) -> None:
    b = make()
    before = b.snapshot()
    with pytest.raises(FutureStampError):
        b.receive(sender, forged, now=0)
    assert b.snapshot() == before


def test_at_the_end_of_its_range_the_clock_stops_and_the_protocol_does_not() -> None:
    end = 2**63 - 1
    a, b = Rendezvous("a", VIEW, start=end), Rendezvous("b", VIEW, start=end)
    packet = b.send(b"", ["a"], now=0)[-1].packet
    deliver, _, acknowledgement = a.receive("b", packet, now=0)
    assert deliver.place == (end, "b", 1)
    b.receive("a", acknowledgement.packet, now=0)
    assert b.missing() == []


@pytest.mark.parametrize(
    "wrong", [{"sequence": 0}, {"sequence": "1"}, {"sequence": 2**63}, {"time": -1}, {"time": 1.0}]
)
def test_a_malformed_packet_cannot_exist(wrong: dict) -> None:
    fields = {"sequence": 1, "time": 0, **wrong}
    for kind in (RendezvousPermission, RendezvousAcknowledgement):
        with pytest.raises(ValueError, match="out of range"):
            kind(**fields)
    with pytest.raises(ValueError, match="out of range"):
        RendezvousMessage(message=message("a", 1, "b"), **fields)
    with pytest.raises(ValueError, match="message"):
        RendezvousMessage(message=None, sequence=1, time=0)
    with pytest.raises(ValueError, match="out of range"):
        RendezvousRequest(sequence=0)


def test_what_the_caller_may_not_do_is_refused_and_changes_nothing() -> None:
    b = Rendezvous("b", VIEW)
    before = b.snapshot()
    for wrong in (None, [], ["b"], ["a", "c"]):
        with pytest.raises(DestinationError):
            b.send(b"", wrong, now=0)
    with pytest.raises(LocalProtocolError):
        b.send(b"", ["a"], now=0, level=Level.CAUSAL)
    with pytest.raises(LocalProtocolError):
        b.restore(None)
    assert b.snapshot() == before
