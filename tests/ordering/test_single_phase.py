"""SinglePhase on random wires, at its limits, and against peers that lie."""

from __future__ import annotations

import random

import pytest

from beforehand.clocks import View
from beforehand.errors import (
    BufferFullError,
    ClockExhaustedError,
    DestinationError,
    FutureStampError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering import Deliver, Held, Level, Message, Missing, Owed, ReliableLink, Transmit
from beforehand.ordering.confirmations import SinglePhaseConfirmation
from beforehand.ordering.message import NUMBER_MAX
from beforehand.ordering.single_phase import (
    Acknowledge,
    Identifiers,
    SinglePhase,
    SinglePhaseAcknowledgement,
    SinglePhaseOperation,
)
from ordering import mixed_levels
from ordering.wires import Wires, everyone

MODES = [(a, i) for a in Acknowledge for i in Identifiers]
ABC = View("abc")


def member(name: str = "a", view: View = ABC, **options: object) -> SinglePhase:
    return SinglePhase(name, view, **options)


def operation(sender: str, number: int, time: int, *, level: Level = Level.CAUSAL_TOTAL, to="abc"):
    message = Message(sender=sender, number=number, to=tuple(to), level=level)
    return SinglePhaseOperation(message=message, time=time)


def delivered(effects: list) -> list[str]:
    return [effect.message.id for effect in effects if isinstance(effect, Deliver)]


def transmitted(effects: list) -> list[tuple[tuple[str, ...], object]]:
    return [(effect.to, effect.packet) for effect in effects if isinstance(effect, Transmit)]


# On random wires.


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(("acknowledge", "identifiers"), MODES)
def test_all_is_delivered_in_one_causal_order(acknowledge, identifiers, seed: int) -> None:
    wires = Wires(
        lambda name, view: SinglePhase(name, view, acknowledge=acknowledge, identifiers=identifiers),
        "abcd"[: 2 + seed % 3],
        seed=seed,
    )
    wires.babble(30, destinations=everyone)
    wires.check_complete()
    assert wires.check().counts["causal"] == wires.check().counts["total"] == wires.check().counts["fifo"] == 0
    assert not any(m.missing() or m.pending() or m.report().held for m in wires.members.values())


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(("acknowledge", "identifiers"), MODES)
def test_levels_may_be_mixed(acknowledge, identifiers, seed: int) -> None:
    wires = Wires(
        lambda name, view: SinglePhase(name, view, acknowledge=acknowledge, identifiers=identifiers),
        "abcd",
        seed=seed,
    )
    mixed_levels.babble(wires, 30, destinations=everyone, levels=SinglePhase.traits.levels)
    wires.check_complete()
    mixed_levels.check(wires)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("acknowledge", "identifiers"), MODES)
def test_clocks_may_start_apart(acknowledge, identifiers, seed: int) -> None:
    starts = {"a": 7, "b": 0, "c": 3, "d": 100}
    wires = Wires(
        lambda name, view: SinglePhase(
            name, view, acknowledge=acknowledge, identifiers=identifiers, start=starts[name]
        ),
        starts,
        seed=seed,
    )
    wires.babble(20, destinations=everyone)
    wires.check_complete()
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("acknowledge", "identifiers"), MODES)
def test_full_buffers_do_not_block(acknowledge, identifiers, seed: int) -> None:
    def make(name, view):
        within = SinglePhase(name, view, acknowledge=acknowledge, identifiers=identifiers, pending_max=2)
        return ReliableLink(within, resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, lose=0.1)
    sends = 0
    for _ in range(2_000):
        if sends == 30:
            break
        name = wires.random.choice("abc")
        try:
            to = everyone(wires.random, name, wires.view)
            wires.send(name, to=to, level=wires.random.choice(SinglePhase.traits.levels))
            sends += 1
        except BufferFullError:
            assert wires.step()
        if wires.random.random() < 0.3:
            wires.step()
    assert sends == 30
    wires.run()
    wires.check_complete()
    mixed_levels.check(wires)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("acknowledge", "identifiers"), MODES)
def test_a_snapshot_is_the_whole_state(acknowledge, identifiers, seed: int) -> None:
    def make(name, view):
        return SinglePhase(name, view, acknowledge=acknowledge, identifiers=identifiers)

    wires = Wires(make, "abcd", seed=seed)
    rng = random.Random(seed)
    for _ in range(40):
        wires.send(rng.choice("abcd"), level=rng.choice(SinglePhase.traits.levels))
        for _ in range(rng.randrange(5)):
            wires.step()
        name = rng.choice("abcd")
        twin = make(name, wires.view)
        twin.restore(wires.members[name].snapshot())
        assert twin.snapshot() == wires.members[name].snapshot()
        assert sorted(twin.report().held, key=repr) == sorted(wires.members[name].report().held, key=repr)
        assert twin.missing() == wires.members[name].missing()
        wires.members[name] = twin
    wires.run()
    wires.check_complete()
    mixed_levels.check(wires)


# One at a time.


def test_a_lone_member_delivers_at_once() -> None:
    alone = member("a", View("a"))
    assert delivered(alone.send(b"", now=0)) == ["a.1"]


def test_the_place_is_the_time_and_the_rank() -> None:
    static, rotating = member("b"), member("b", identifiers=Identifiers.ROTATING)
    for one in (static, rotating):
        one.send(b"", now=0)
        one.send(b"", now=0)
    assert [held.place for held in static.report().held] == [(1, 1), (2, 1)]
    assert [held.place for held in rotating.report().held] == [(1, 2), (2, 0)]


def test_a_sender_that_is_no_destination_holds_nothing() -> None:
    c = member("c")
    c.send(b"", ["a", "b"], now=0)
    assert c.pending() == []
    assert c.report().held == ()
    assert c.report().time == 1


def test_pending_names_the_member_that_holds_it_up() -> None:
    c = member("c")
    c.send(b"", now=0)
    (only,) = c.pending()
    assert only.waits_for == Missing(process="a", what=Owed.ACKNOWLEDGEMENT, number=1)
    assert c.missing() == [
        Missing(process="a", what=Owed.ACKNOWLEDGEMENT, number=1),
        Missing(process="b", what=Owed.ACKNOWLEDGEMENT, number=1),
    ]
    c.receive("a", SinglePhaseAcknowledgement(time=1), now=0)
    assert c.missing() == [Missing(process="b", what=Owed.ACKNOWLEDGEMENT, number=1)]
    assert delivered(c.receive("b", SinglePhaseAcknowledgement(time=1), now=0)) == ["c.1"]
    assert c.missing() == []


def test_a_fifo_message_is_delivered_on_arrival_and_not_acknowledged() -> None:
    a = member("a")
    effects = a.receive("c", operation("c", 1, 5, level=Level.FIFO), now=0)
    assert delivered(effects) == ["c.1"]
    assert transmitted(effects) == []
    assert a.report().time == 5


def test_a_fifo_message_waits_behind_its_sender_only() -> None:
    b = member("b")
    assert delivered(b.receive("c", operation("c", 1, 1), now=0)) == []
    assert delivered(b.receive("c", operation("c", 2, 2, level=Level.FIFO), now=0)) == []
    assert delivered(b.receive("a", operation("a", 1, 1, level=Level.FIFO), now=0)) == ["a.1", "c.1", "c.2"]
    assert b.pending() == []


def test_a_waiting_fifo_message_tells_what_its_predecessor_waits_for() -> None:
    b = member("b")
    b.receive("c", operation("c", 1, 1), now=0)
    b.receive("c", operation("c", 2, 2, level=Level.FIFO), now=0)
    expected = Missing(process="a", what=Owed.ACKNOWLEDGEMENT, number=1)
    assert [p.waits_for for p in b.pending()] == [expected, expected]


def test_a_confirmation_is_used_only_when_the_operations_it_counts_are_here() -> None:
    # 1. b has multicast its operation 1 at time 1, then acknowledged c's, at time 2, to c only.
    # 2. c confirms: b is at time 2 after 1 operation. At a this overtakes b's operation.
    # 3. a must not deliver c's operation before b's.
    a = member("a", acknowledge=Acknowledge.POINT_TO_POINT)
    assert delivered(a.receive("c", operation("c", 1, 2), now=0)) == []
    assert delivered(a.receive("c", SinglePhaseConfirmation(claims=((2, 0), (2, 1), (2, 1))), now=0)) == []
    assert delivered(a.receive("b", operation("b", 1, 1), now=0)) == ["b.1", "c.1"]


def test_a_point_to_point_operation_costs_an_acknowledgement_and_a_confirmation_per_member() -> None:
    wires = Wires(lambda name, view: SinglePhase(name, view, acknowledge=Acknowledge.POINT_TO_POINT), "abcde")
    wires.send("e")
    wires.run()
    assert wires.packets == {
        "SinglePhaseOperation": 4,
        "SinglePhaseAcknowledgement": 4,
        "SinglePhaseConfirmation": 4,
    }


def test_two_members_need_no_confirmation() -> None:
    wires = Wires(lambda name, view: SinglePhase(name, view, acknowledge=Acknowledge.POINT_TO_POINT), "ab")
    wires.send("b")
    wires.run()
    wires.check_complete()
    assert wires.packets == {"SinglePhaseOperation": 1, "SinglePhaseAcknowledgement": 1}


def test_what_operations_told_all_is_not_confirmed() -> None:
    wires = Wires(lambda name, view: SinglePhase(name, view, acknowledge=Acknowledge.POINT_TO_POINT), "abc")
    for name in "abc":
        wires.send(name)
    wires.run()
    wires.check_complete()
    assert wires.packets == {"SinglePhaseOperation": 6}


@pytest.mark.parametrize("seed", range(20))
def test_point_to_point_keeps_its_bound_of_packets(seed: int) -> None:
    wires = Wires(
        lambda name, view: SinglePhase(name, view, acknowledge=Acknowledge.POINT_TO_POINT), "abcde", seed=seed
    )
    wires.babble(20, destinations=everyone)
    assert wires.packets["SinglePhaseAcknowledgement"] + wires.packets["SinglePhaseConfirmation"] <= 2 * 4 * 20


def test_a_late_head_is_found_again_after_a_smaller_one_went_first() -> None:
    c = member("c")
    assert delivered(c.receive("b", operation("b", 1, 3), now=0)) == []
    assert delivered(c.receive("a", operation("a", 1, 1), now=0)) == ["a.1"]
    assert delivered(c.receive("a", SinglePhaseAcknowledgement(time=2), now=0)) == []
    assert delivered(c.receive("a", SinglePhaseAcknowledgement(time=3), now=0)) == ["b.1"]


# Limits and lies.


def test_subsets_are_refused() -> None:
    with pytest.raises(DestinationError):
        member("a").send(b"", ["b"], now=0)


def test_other_levels_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        member("a").send(b"", now=0, level=Level.CAUSAL)


@pytest.mark.parametrize(("start", "floor"), [(-1, -1), (0, 1), (NUMBER_MAX + 1, 0)])
def test_a_clock_must_start_in_its_range(start: int, floor: int) -> None:
    with pytest.raises(LocalProtocolError):
        member("a", start=start, floor=floor)


def test_a_member_with_too_much_waiting_refuses_and_stays_as_it_was() -> None:
    c = member("c", pending_max=1)
    c.send(b"", now=0)
    c.receive("b", operation("b", 1, 4), now=0)
    before = c.snapshot()
    with pytest.raises(BufferFullError):
        c.send(b"", now=0)
    with pytest.raises(BufferFullError):
        c.receive("b", operation("b", 2, 5), now=0)
    assert c.snapshot() == before


def test_unconfirmed_operations_have_a_limit_whatever_their_level() -> None:
    c = member("c", pending_max=2, acknowledge=Acknowledge.POINT_TO_POINT)
    c.send(b"", ["a", "b"], now=0)
    c.send(b"", ["a", "b"], now=0, level=Level.FIFO)
    with pytest.raises(BufferFullError):
        c.send(b"", ["a", "b"], now=0, level=Level.FIFO)


def test_a_clock_at_its_end_refuses_to_send() -> None:
    with pytest.raises(ClockExhaustedError):
        member("a", start=NUMBER_MAX).send(b"", now=0)


FORGED = [
    ("x", operation("x", 1, 1, to="abcx")),  # Not a member.
    ("a", operation("a", 1, 1)),  # From ourselves.
    ("b", operation("c", 9, 9)),  # Of somebody else.
    ("b", operation("b", 9, 9, to="ab")),  # A subset.
    ("b", operation("b", 9, 9, level=Level.CAUSAL)),
    ("b", operation("b", 9, 3)),  # Its clock was there before.
    ("b", operation("b", 9, 2)),
    ("b", "hello"),
    ("b", SinglePhaseAcknowledgement(time=2**41)),
    ("x", SinglePhaseAcknowledgement(time=1)),
    ("x", SinglePhaseConfirmation(claims=((0, 0), (3, 1), (0, 0)))),
    ("b", SinglePhaseConfirmation(claims=((0, 0), (3, 1)))),  # Of another group.
    ("b", SinglePhaseConfirmation(claims=((9, 0), (3, 1), (0, 0)))),  # Our clock is not there.
    ("b", SinglePhaseConfirmation(claims=((0, 1), (3, 1), (0, 0)))),  # We have sent nothing.
    ("b", SinglePhaseConfirmation(claims=((0, 0), (3, 2), (0, 0)))),  # An operation of b is missing.
    ("b", SinglePhaseConfirmation(claims=((0, 0), (3, 1), (2**41, 0)))),
]


@pytest.mark.parametrize("at", range(len(FORGED)))
def test_a_forged_packet_is_refused_and_changes_nothing(at: int) -> None:
    a = member("a", acknowledge=Acknowledge.POINT_TO_POINT)
    a.receive("b", operation("b", 1, 3), now=0)
    before = a.snapshot()
    with pytest.raises(RemoteProtocolError):
        a.receive(*FORGED[at], now=0)
    assert a.snapshot() == before


def test_an_operation_far_ahead_is_refused() -> None:
    with pytest.raises(FutureStampError):
        member("a").receive("b", operation("b", 1, 2**40 + 1), now=0)


def test_a_group_that_acknowledges_to_all_refuses_confirmations() -> None:
    with pytest.raises(RemoteProtocolError):
        member("a").receive("b", SinglePhaseConfirmation(claims=((0, 0), (0, 0), (0, 0))), now=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SinglePhaseOperation(message="m", time=1),
        lambda: operation("a", 1, 0),
        lambda: operation("a", 1, NUMBER_MAX + 1),
        lambda: operation("a", 1, True),
        lambda: SinglePhaseAcknowledgement(time=0),
        lambda: SinglePhaseAcknowledgement(time="1"),
        lambda: SinglePhaseConfirmation(claims=[(1, 1)]),
        lambda: SinglePhaseConfirmation(claims=((1, 1, 1),)),
        lambda: SinglePhaseConfirmation(claims=((1, -1),)),
        lambda: SinglePhaseConfirmation(claims=((1, None),)),
    ],
)
def test_an_impossible_packet_cannot_exist(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_a_foreign_snapshot_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        member("a").restore("snapshot")
    with pytest.raises(LocalProtocolError):
        member("a").restore(member("a", acknowledge=Acknowledge.POINT_TO_POINT).snapshot())


def test_a_report_gives_final_places() -> None:
    c = member("c")
    c.send(b"x", now=0)
    message = Message(sender="c", number=1, to=("a", "b", "c"), payload=b"x", level=Level.CAUSAL_TOTAL)
    assert c.report().held == (Held(message=message, place=(1, 2), final=True),)
    assert c.stable() == {}
    assert c.tick(now=5) == []
