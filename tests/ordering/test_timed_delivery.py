"""TimedDelivery with good and bad clocks and channels, at its limits and against peers that lie."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from beforehand.clocks import View
from beforehand.errors import BufferFullError, FutureStampError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering import (
    Deliver,
    Discard,
    Held,
    Level,
    Message,
    Missing,
    Owed,
    Reason,
    SetTimer,
    Transmit,
    timed_delivery,
)
from beforehand.ordering.timed_delivery import TimedDelivery, TimedMessage
from ordering.timed_world import TimedWorld
from ordering.wires import Wires, anyone

ABC = View("abc")


def member(name: str = "c", *, delay_max: int = 10, **options: object) -> TimedDelivery:
    return TimedDelivery(name, ABC, delay_max=delay_max, **options)


def packet(sender: str, number: int, time: int, *, sequence: int | None = None, to="abc", level=Level.CAUSAL_TOTAL):
    message = Message(sender=sender, number=number, to=tuple(to), level=level)
    sequences = (number if sequence is None else sequence,) * len(message.others)
    return TimedMessage(message=message, time=time, sequences=sequences)


def delivered(effects: list) -> list[str]:
    return [effect.message.id for effect in effects if isinstance(effect, Deliver)]


def timers(effects: list) -> list[int | None]:
    return [effect.at for effect in effects if isinstance(effect, SetTimer)]


# In a world with time.


@pytest.mark.parametrize("seed", range(40))
def test_within_its_assumptions_nothing_is_set_aside(seed: int) -> None:
    # Clocks are at most 4 apart, delays at most 10, often exactly, and ties are decided at random.
    world = TimedWorld(
        seed=seed,
        delay=lambda rng: rng.choice([0, 3, 9, 10, 10]),
        offsets={"a": 0, "b": 4, "c": 2} if seed % 2 else {"a": 0, "b": 0, "c": 0},
        delay_max=10,
        uncertainty=4 if seed % 2 else 0,
    )
    world.run_all(40, within=120)
    world.check_complete()
    assert not world.discarded
    counts = world.check().counts
    assert counts["causal"] == counts["total"] == counts["fifo"] == 0
    assert set(world.latencies) == {15 if seed % 2 else 11}
    assert not any(m.pending() or m.missing() for m in world.members.values())


@pytest.mark.parametrize("seed", range(40))
def test_slow_messages_are_set_aside_and_never_break_the_order(seed: int) -> None:
    world = TimedWorld(
        seed=seed,
        delay=lambda rng: rng.choice([1, 5, 20, 60]),
        offsets={"a": 0, "b": 0, "c": 0},
        delay_max=10,
    )
    world.run_all(40, within=120)
    counts = world.check().counts
    assert counts["causal"] == counts["total"] == counts["fifo"] == 0
    got = Counter(message.id for messages in world.delivered.values() for message in messages)
    got.update(discard.message.id for discard in world.discarded)
    assert got == Counter({message.id: len(message.to) for message in world.sent})
    assert {discard.reason for discard in world.discarded} == {Reason.LATE}


@pytest.mark.parametrize("seed", range(20))
def test_on_wires_that_reorder_and_repeat_all_comes_once(seed: int) -> None:
    wires = Wires(lambda name, view: TimedDelivery(name, view, delay_max=10_000), "abcd", seed=seed, repeat=0.3)
    wires.babble(40, destinations=anyone)
    wires.check_complete()
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_is_the_whole_state(seed: int) -> None:
    def make(name, view):
        return TimedDelivery(name, view, delay_max=30)

    wires = Wires(make, "abc", seed=seed, repeat=0.1)
    rng = random.Random(seed)
    for _ in range(40):
        name = rng.choice("abc")
        wires.send(name, to=anyone(rng, name, wires.view))
        for _ in range(rng.randrange(4)):
            wires.step()
        name = rng.choice("abc")
        twin = make(name, wires.view)
        twin.restore(wires.members[name].snapshot())
        assert twin.snapshot() == wires.members[name].snapshot()
        assert twin.missing() == wires.members[name].missing()
        wires.members[name] = twin
        wires.perform(name, twin.tick(now=wires.now))
    wires.run()
    assert sum(map(len, wires.delivered.values())) + len(wires.discarded) == sum(len(m.to) for m in wires.sent)
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


# One at a time.


def test_a_message_waits_until_the_clock_is_past_its_bound() -> None:
    c = member("c", uncertainty=3)
    assert timers(c.receive("a", packet("a", 1, 100), now=105)) == [114]
    assert c.missing() == [Missing(process="c", what=Owed.TIME, number=114)]
    assert delivered(c.tick(now=113)) == []
    effects = c.tick(now=114)
    assert effects[0] == Deliver(message=packet("a", 1, 100).message, place=(100, 0, 1))
    assert timers(effects) == []


def test_a_tick_too_early_sets_the_timer_again() -> None:
    c = member("c")
    c.receive("a", packet("a", 1, 100), now=105)
    assert timers(c.tick(now=106)) == [111]


def test_equal_times_go_by_sender_and_number() -> None:
    c = member("c")
    for sender, number in (("b", 1), ("a", 2), ("a", 1)):
        c.receive(sender, packet(sender, number, 100), now=110)
    assert delivered(c.tick(now=111)) == ["a.1", "a.2", "b.1"]


def test_our_own_message_waits_for_its_place_too() -> None:
    c = member("c")
    effects = c.send(b"", now=100)
    assert delivered(effects) == []
    assert timers(effects) == [111]
    c.receive("a", packet("a", 1, 100), now=110)
    assert delivered(c.tick(now=111)) == ["a.1", "c.1"]


def test_what_is_late_but_in_order_is_delivered_at_once() -> None:
    c = member("c")
    assert delivered(c.receive("a", packet("a", 1, 100), now=200)) == ["a.1"]


def test_what_is_late_and_passed_is_set_aside() -> None:
    c = member("c")
    c.receive("a", packet("a", 1, 100), now=200)
    effects = c.receive("b", packet("b", 1, 99), now=200)
    assert [e for e in effects if isinstance(e, Discard)] == [
        Discard(message=packet("b", 1, 99).message, reason=Reason.LATE)
    ]
    assert c.receive("b", packet("b", 1, 99), now=200) == []  # Said once.


def test_a_clock_that_steps_back_does_not_break_causal_order() -> None:
    c = member("c")
    assert delivered(c.receive("a", packet("a", 1, 100), now=200)) == ["a.1"]
    (sent,) = [effect.packet for effect in c.send(b"", now=50) if isinstance(effect, Transmit)]
    assert sent.time == 200


def test_times_of_a_burst_do_not_run_ahead_of_the_clock() -> None:
    a, c = member("a"), member("c")
    packets = [e.packet for _ in range(2) for e in a.send(b"", now=100) if isinstance(e, Transmit)]
    assert [p.time for p in packets] == [100, 100]
    for sent in reversed(packets):
        c.receive("a", sent, now=100)
    assert delivered(c.tick(now=111)) == ["a.1", "a.2"]


def test_a_report_gives_final_places() -> None:
    c = member("c")
    c.receive("a", packet("a", 7, 100), now=105)
    assert c.report().held == (Held(message=packet("a", 7, 100).message, place=(100, 0, 7)),)
    assert [p.waits_for for p in c.pending()] == [Missing(process="c", what=Owed.TIME, number=111)]
    assert c.stable() == {}


def test_a_gap_is_given_up_after_many_others(monkeypatch) -> None:
    monkeypatch.setattr(timed_delivery, "GAPS_MAX", 2)
    c = member("c")
    for number in (2, 3, 4, 5):
        c.receive("a", packet("a", number, 100), now=100)
    assert c.snapshot().seen == (("a", 5, ()),)


# Limits and lies.


def test_waiting_messages_have_a_limit() -> None:
    c = member("c", pending_max=1)
    c.send(b"", now=100)
    c.receive("a", packet("a", 1, 100), now=100)
    before = c.snapshot()
    with pytest.raises(BufferFullError):
        c.send(b"", now=100)
    with pytest.raises(BufferFullError):
        c.receive("a", packet("a", 2, 100), now=100)
    assert c.snapshot() == before
    c.tick(now=111)
    assert c.receive("a", packet("a", 2, 111), now=111)


@pytest.mark.parametrize("options", [{"delay_max": -1}, {"uncertainty": -1}])
def test_negative_bounds_are_refused(options) -> None:
    with pytest.raises(LocalProtocolError):
        member("a", **options)


def test_a_stamp_from_the_future_is_refused_beyond_the_uncertainty() -> None:
    c = member("c", uncertainty=3)
    c.receive("a", packet("a", 1, 103), now=100)
    with pytest.raises(FutureStampError):
        c.receive("a", packet("a", 2, 104), now=100)


FORGED = [
    ("x", packet("x", 2, 100, to="abcx")),
    ("c", packet("c", 2, 100)),
    ("a", packet("b", 2, 100)),
    ("a", packet("a", 2, 100, to="ab")),
    ("a", packet("a", 2, 100, to="cx")),
    ("a", packet("a", 2, 100, level=Level.TOTAL)),
    ("a", packet("a", 2, 2**41)),
    ("a", 1.5),
]


@pytest.mark.parametrize("at", range(len(FORGED)))
def test_a_forged_packet_is_refused_and_changes_nothing(at: int) -> None:
    c = member("c")
    c.receive("a", packet("a", 1, 100), now=100)
    before = c.snapshot()
    with pytest.raises(RemoteProtocolError):
        c.receive(*FORGED[at], now=101)
    assert c.snapshot() == before


MESSAGE = Message(sender="a", number=1, to=("b", "c"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimedMessage(message=1, time=1, sequences=(1, 1)),
        lambda: TimedMessage(message=MESSAGE, time=1.0, sequences=(1, 1)),
        lambda: TimedMessage(message=MESSAGE, time=2**63, sequences=(1, 1)),
        lambda: TimedMessage(message=MESSAGE, time=1, sequences=(1,)),
        lambda: TimedMessage(message=MESSAGE, time=1, sequences=(1, 0)),
        lambda: TimedMessage(message=MESSAGE, time=1, sequences=[1, 1]),
    ],
)
def test_an_impossible_packet_cannot_exist(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_a_foreign_snapshot_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        member("a").restore(1)
