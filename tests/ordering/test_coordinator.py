"""Coordinator on random wires, at its limits and against peers that lie."""

from __future__ import annotations

import random

import pytest

from beforehand.clocks import View
from beforehand.errors import BufferFullError, LocalProtocolError, NotInViewError, RemoteProtocolError
from beforehand.ordering import Deliver, Held, Level, Message, Missing, Owed, ReliableLink, Sent, Transmit
from beforehand.ordering.coordinator import Coordinator, CoordinatorOrder, CoordinatorReceipt, CoordinatorRequest
from beforehand.ordering.message import NUMBER_MAX
from ordering.wires import Wires, anyone

ABC = View("abc")


def member(name: str, **options: object) -> Coordinator:
    return Coordinator(name, ABC, **options)


def message(sender: str, number: int, to: str = "abc", *, level: Level = Level.CAUSAL_TOTAL) -> Message:
    return Message(sender=sender, number=number, to=tuple(to), level=level)


def order(of: Message, *, place: int, number: int) -> CoordinatorOrder:
    return CoordinatorOrder(message=of, place=place, number=number)


def delivered(effects: list) -> list[tuple[str, tuple]]:
    return [(effect.message.id, effect.place) for effect in effects if isinstance(effect, Deliver)]


def transmitted(effects: list) -> list[tuple[tuple[str, ...], object]]:
    return [(effect.to, effect.packet) for effect in effects if isinstance(effect, Transmit)]


@pytest.mark.parametrize("seed", range(60))
def test_all_is_delivered_in_one_causal_order(seed: int) -> None:
    names = "abcd"[: 1 + seed % 4]
    chosen = None if seed % 2 else names[-1]
    wires = Wires(lambda name, view: Coordinator(name, view, coordinator=chosen), names, seed=seed)
    wires.babble(40, destinations=anyone)
    wires.check_complete()
    counts = wires.check().counts
    assert counts["causal"] == counts["total"] == counts["fifo"] == 0
    assert not any(m.missing() or m.pending() or m.report().held for m in wires.members.values())


@pytest.mark.parametrize("seed", range(15))
def test_a_reliable_link_makes_up_for_loss(seed: int) -> None:
    def make(name, view):
        return ReliableLink(Coordinator(name, view), resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, fifo=False, repeat=0.2, lose=0.3)
    wires.babble(20, destinations=anyone)
    wires.check_complete()
    assert not wires.refused
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_is_the_whole_state(seed: int) -> None:
    wires = Wires(Coordinator, "abcd", seed=seed)
    rng = random.Random(seed)
    for _ in range(40):
        name = rng.choice("abcd")
        wires.send(name, to=anyone(rng, name, wires.view))
        for _ in range(rng.randrange(4)):
            wires.step()
        name = rng.choice("abcd")
        twin = Coordinator(name, wires.view)
        twin.restore(wires.members[name].snapshot())
        assert twin.snapshot() == wires.members[name].snapshot()
        wires.members[name] = twin
    wires.run()
    wires.check_complete()
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


def test_a_message_counts_as_sent_at_once_and_waits_for_its_place() -> None:
    b = member("b")
    effects = b.send(b"x", now=0)
    sent = Message(sender="b", number=1, to=("a", "b", "c"), payload=b"x", level=Level.CAUSAL_TOTAL)
    assert effects[0] == Sent(message=sent)
    assert transmitted(effects) == [(("a",), CoordinatorRequest(message=sent))]
    assert b.report().held == (Held(message=sent, place=None),)
    assert [p.waits_for for p in b.pending()] == b.missing() == [Missing(process="a", what=Owed.FINAL, number=1)]
    assert delivered(b.receive("a", order(sent, place=1, number=1), now=0)) == [("b.1", (1,))]
    assert b.report().held == ()


def test_the_coordinator_numbers_per_destination_and_over_all() -> None:
    a = member("a")
    first, second = message("b", 1, "c"), message("b", 2, "abc")
    assert transmitted(a.receive("b", CoordinatorRequest(message=first), now=0)) == [
        (("c",), order(first, place=1, number=1)),
        (("b",), CoordinatorReceipt(number=1)),
    ]
    effects = a.receive("b", CoordinatorRequest(message=second), now=0)
    assert delivered(effects) == [("b.2", (2,))]
    assert transmitted(effects) == [
        (("b",), order(second, place=2, number=1)),
        (("c",), order(second, place=2, number=2)),
    ]


def test_the_coordinators_own_messages_need_no_request() -> None:
    a = member("a")
    assert delivered(a.send(b"", ["a"], now=0)) == [("a.1", (1,))]
    assert transmitted(a.send(b"", ["a", "c"], now=0)) == [
        (("c",), order(message("a", 2, "ac"), place=2, number=1)),
    ]


def test_a_sender_that_is_no_destination_gets_a_receipt() -> None:
    c = member("c")
    c.send(b"", ["a"], now=0)
    assert c.pending() == []
    assert c.missing() == [Missing(process="a", what=Owed.FINAL, number=1)]
    assert c.report().held == (Held(message=message("c", 1, "a"), place=None),)
    c.receive("a", CoordinatorReceipt(number=1), now=0)
    assert c.missing() == []
    assert c.report().held == ()


def test_requests_without_an_answer_have_a_limit() -> None:
    b = member("b", pending_max=1)
    b.send(b"", now=0)
    before = b.snapshot()
    with pytest.raises(BufferFullError):
        b.send(b"", now=0)
    assert b.snapshot() == before


def test_the_coordinator_must_be_a_member() -> None:
    with pytest.raises(NotInViewError):
        member("a", coordinator="x")


TO_B = [
    ("x", CoordinatorReceipt(number=3)),  # Not a member.
    ("c", order(message("c", 1), place=3, number=2)),  # Not the coordinator.
    ("c", CoordinatorReceipt(number=3)),
    ("a", order(message("x", 1), place=3, number=2)),
    ("a", order(message("c", 1, "ac"), place=3, number=2)),  # Not for us.
    ("a", order(message("c", 1, "abx"), place=3, number=2)),
    ("a", order(message("c", 1, level=Level.FIFO), place=3, number=2)),
    ("a", order(message("c", 1), place=3, number=1)),  # Repeated.
    ("a", order(message("c", 1), place=3, number=3)),  # A gap.
    ("a", order(message("c", 1), place=2, number=2)),  # Out of order.
    ("a", order(message("c", 1), place=2**41, number=2)),
    ("a", order(message("b", 9), place=3, number=2)),  # Never sent.
    ("a", order(message("b", 2), place=3, number=2)),  # Number 1 comes first.
    ("a", CoordinatorReceipt(number=2)),
    ("a", CoordinatorReceipt(number=1)),  # It goes to ourselves.
    ("a", CoordinatorRequest(message=message("a", 1))),  # We are not the coordinator.
    ("a", 7),
]


@pytest.mark.parametrize("at", range(len(TO_B)))
def test_a_forged_packet_to_a_member_is_refused_and_changes_nothing(at: int) -> None:
    b = member("b")
    b.send(b"", now=0)
    b.send(b"", now=0)
    b.receive("a", order(message("c", 7), place=2, number=1), now=0)
    before = b.snapshot()
    with pytest.raises(RemoteProtocolError):
        b.receive(*TO_B[at], now=0)
    assert b.snapshot() == before


TO_A = [
    ("b", CoordinatorRequest(message=message("c", 5))),
    ("b", CoordinatorRequest(message=message("b", 4))),  # Asked before.
    ("b", CoordinatorRequest(message=message("b", 5, "x"))),
    ("b", CoordinatorRequest(message=message("b", 5, level=Level.FIFO))),
    ("b", order(message("b", 5), place=2, number=1)),
    ("b", CoordinatorReceipt(number=1)),
]


@pytest.mark.parametrize("at", range(len(TO_A)))
def test_a_forged_packet_to_the_coordinator_is_refused_and_changes_nothing(at: int) -> None:
    a = member("a")
    a.receive("b", CoordinatorRequest(message=message("b", 4)), now=0)
    before = a.snapshot()
    with pytest.raises(RemoteProtocolError):
        a.receive(*TO_A[at], now=0)
    assert a.snapshot() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: CoordinatorRequest(message=b""),
        lambda: order(b"", place=1, number=1),
        lambda: order(message("a", 1), place=0, number=0),
        lambda: order(message("a", 1), place=1, number=2),
        lambda: order(message("a", 1), place=NUMBER_MAX + 1, number=1),
        lambda: CoordinatorReceipt(number=True),
        lambda: CoordinatorReceipt(number=0),
    ],
)
def test_an_impossible_packet_cannot_exist(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_a_foreign_snapshot_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        member("a").restore(1)
    assert member("a").stable() == {}
    assert member("a").tick(now=1) == []
