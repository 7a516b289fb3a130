"""CausalMerge with good and bad clocks and channels, at its limits, after corruption and against peers that lie."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from beforehand.clocks import BoundedStamp, OffsetStamp, Received, Refusal, Refused, View
from beforehand.clocks import Held as HeldBack
from beforehand.errors import (
    BufferFullError,
    InvariantError,
    LocalProtocolError,
    NotInViewError,
    RemoteProtocolError,
    TooManyEventsError,
)
from beforehand.ordering import (
    CausalMerge,
    Deliver,
    Discard,
    Level,
    Message,
    Missing,
    Owed,
    Reason,
    Sent,
    SetAside,
    SetTimer,
    Transmit,
)
from beforehand.ordering import Refused as RefusedEffect
from beforehand.ordering.causal_merge import MergeMessage
from ordering.timed_world import TimedWorld
from ordering.wires import Wires, anyone

ABC = View("abc")


def member(name: str = "c", *, epsilon: int = 2, delta: int = 10, **options) -> CausalMerge:
    return CausalMerge(name, ABC, epsilon=epsilon, delta=delta, **options)


def packets(effects: list) -> list[MergeMessage]:
    return [effect.packet for effect in effects if isinstance(effect, Transmit)]


def packet(sender: str, now: int, *, payload: bytes = b"", to="abc", **options) -> MergeMessage:
    """What a fresh member sends at `now`."""
    return packets(member(sender, **options).send(payload, list(to), now=now))[0]


def delivered(effects: list) -> list[str]:
    return [effect.message.id for effect in effects if isinstance(effect, Deliver)]


def discarded(effects: list) -> list[tuple[str, str]]:
    return [(effect.message.id, effect.reason.value) for effect in effects if isinstance(effect, Discard)]


def timers(effects: list) -> list[int | None]:
    return [effect.at for effect in effects if isinstance(effect, SetTimer)]


class MergedWorld(TimedWorld):
    """The same members on wires with clocks, but of CausalMerge."""

    def __init__(self, **options) -> None:
        super().__init__(protocol=CausalMerge, **options)


VARIANTS = {
    "bounded": {"epsilon": 4, "delta": 14},
    "bounded, K = 1": {"epsilon": 4, "delta": 14, "events_per_tick": 1},
    "coarse ticks": {"epsilon": 4, "delta": 14, "tick": 3},
    "epsilon 0": {"epsilon": 0, "delta": 10},
    "offset": {"epsilon": 4, "delta": 14, "c_max": 8},
    "offset, quiet": {"epsilon": 4, "delta": 14, "c_max": 8, "quiet_period": 30},
}


# In a world with time.


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(15))
def test_p6_within_g1_and_g2_nothing_is_set_aside(variant: str, seed: int) -> None:
    # Clocks are at most ε apart, delays at most δ - ε, often exactly, and ties are decided at random.
    options = VARIANTS[variant]
    apart = options["epsilon"]
    world = MergedWorld(
        seed=seed,
        delay=lambda rng: rng.choice([0, 3, 9, 10, 10]),
        offsets={"a": 0, "b": apart, "c": apart // 2},
        **options,
    )
    world.run_all(40, within=120)
    world.check_complete()
    assert not world.discarded
    counts = world.check().counts
    assert counts["causal"] == counts["total"] == counts["fifo"] == 0
    assert not any(m.pending() or m.missing() for m in world.members.values())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(10))
def test_p1_p2_order_is_kept_where_neither_g1_nor_g2_holds(variant: str, seed: int) -> None:
    world = MergedWorld(
        seed=seed,
        delay=lambda rng: rng.choice([0, 5, 12, 20, 60]),
        offsets={"a": 0, "b": 13, "c": 2},
        **VARIANTS[variant],
    )
    world.run_all(40, within=120)
    counts = world.check().counts
    assert counts["causal"] == counts["total"] == counts["fifo"] == 0
    got = [message.id for messages in world.delivered.values() for message in messages]
    got += [discard.message.id for discard in world.discarded]
    assert sorted(got) == sorted(message.id for message in world.sent for _ in message.to)
    assert {discard.reason for discard in world.discarded} <= {Reason.LATE, Reason.FUTURE}
    assert world.discarded


@pytest.mark.parametrize("seed", range(15))
def test_p3_on_wires_that_reorder_and_repeat_all_comes_once(seed: int) -> None:
    wires = Wires(lambda name, view: CausalMerge(name, view, epsilon=0, delta=10_000), "abcd", seed=seed, repeat=0.3)
    wires.babble(40, destinations=anyone)
    wires.check_complete()
    assert {discard.reason for discard in wires.discarded} <= {Reason.REPEATED}
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


@pytest.mark.parametrize("variant", ["bounded", "bounded, K = 1", "offset"])
@pytest.mark.parametrize("seed", range(8))
def test_a_snapshot_is_the_whole_state(variant: str, seed: int) -> None:
    def make(name, view):
        return CausalMerge(name, view, **VARIANTS[variant])

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
        assert hash(twin.snapshot()) == hash(wires.members[name].snapshot())
        assert twin.missing() == wires.members[name].missing()
        assert twin.report() == twin.report()
        wires.members[name] = twin
        wires.perform(name, twin.tick(now=wires.now))
    wires.run()
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0
    assert all(not m.report().unsent for m in wires.members.values())


# One at a time.


def test_a_message_waits_until_r_plus_c_plus_delta_plus_epsilon() -> None:
    c = member("c", tick=10, epsilon=20, delta=100)
    effects = c.receive("a", packet("a", 1_005, tick=10, epsilon=20, delta=100), now=1_040)
    assert timers(effects) == [1_120]  # r = 100, in ticks.
    assert c.missing() == [Missing(process="c", what=Owed.TIME, number=1_120)]
    assert delivered(c.tick(now=1_119)) == []
    assert delivered(c.tick(now=1_120)) == ["a.1"]
    assert c.missing() == []


def test_timers_are_right_around_zero() -> None:
    c = member("c")
    assert timers(c.receive("a", packet("a", -12), now=-10)) == [0]
    assert timers(member("b", events_per_tick=1).send(b"", "a", now=0)) == []


def test_our_own_message_waits_for_its_place_too() -> None:
    c = member("c")
    effects = c.send(b"", now=100)
    assert delivered(effects) == []
    assert timers(effects) == [112]
    c.receive("a", packet("a", 99), now=105)
    assert delivered(c.tick(now=112)) == ["a.1", "c.1"]
    assert timers(c.tick(now=113)) == []


def test_the_place_is_known_when_it_is_sent_and_the_same_everywhere() -> None:
    a, c = member("a"), member("c")
    sent = a.send(b"", now=100)
    (place,) = [effect.place for effect in sent if isinstance(effect, Sent)]
    c.receive("a", packets(sent)[0], now=100)
    places = [e.place for m in (a, c) for e in m.tick(now=112) if isinstance(e, Deliver)]
    assert places == [place, place]
    assert place[0] == 100


def test_p5_what_comes_late_or_twice_or_from_the_future_is_said_to_be_set_aside() -> None:
    c = member("c")
    m = packet("a", 100)
    assert discarded(c.receive("a", m, now=111)) == [("a.1", "late")]
    assert discarded(c.receive("a", m, now=97)) == [("a.1", "late")]  # The clock stands still at 111.
    c = member("c")
    assert discarded(c.receive("a", m, now=97)) == [("a.1", "future")]
    assert discarded(c.receive("a", m, now=98)) == []
    assert discarded(c.receive("a", m, now=105)) == [("a.1", "repeated")]
    assert delivered(c.tick(now=112)) == ["a.1"]


def test_p4_a_corrupted_stamp_is_set_aside_and_delays_nobody() -> None:
    c = member("c")
    good, bad = packet("a", 100), packet("b", 100)
    broken = replace(bad, stamp=replace(bad.stamp, c=10**9))
    assert discarded(c.receive("b", broken, now=101)) == [("b.1", "corrupted")]
    other = replace(bad, stamp=OffsetStamp(100, 0))
    assert discarded(c.receive("b", other, now=101)) == [("b.1", "other bounds")]
    c.receive("a", good, now=101)
    assert delivered(c.tick(now=112)) == ["a.1"]


def test_offset_stamps_above_c_max_are_set_aside() -> None:
    c = member("c", c_max=3)
    m = packet("a", 100, c_max=3)
    assert discarded(c.receive("a", replace(m, stamp=OffsetStamp(100, 4)), now=100)) == [("a.1", "ahead")]
    c.receive("a", replace(m, stamp=OffsetStamp(100, 3)), now=100)
    assert delivered(c.tick(now=114)) == []
    assert delivered(c.tick(now=115)) == ["a.1"]


def test_more_than_k_messages_wait_for_the_next_tick() -> None:
    a = member("a", events_per_tick=2, tick=10)
    effects = [e for n in range(5) for e in a.send(b"%d" % n, now=1_003)]
    assert [e.message.number for e in effects if isinstance(e, Sent)] == [1, 2]
    assert timers(effects)[-1] == 1_010
    assert a.report().unsent == tuple((b"%d" % n, ("a", "b", "c"), Level.CAUSAL_TOTAL) for n in (2, 3, 4))
    effects = a.tick(now=1_010)
    assert [e.message.number for e in effects if isinstance(e, Sent)] == [3, 4]
    assert [p.stamp.r for p in packets(effects)] == [101, 101]
    assert timers(effects) == [1_013 // 10 * 10 + 10]  # The fifth, before anything is due.


def test_offset_stamps_count_on_within_a_tick_up_to_c_max() -> None:
    a = member("a", c_max=2)
    effects = [e for _ in range(5) for e in a.send(b"", now=100)]
    assert [p.stamp.c for p in packets(effects)] == [0, 1, 2]
    assert [p.stamp for p in packets(a.tick(now=101))] == [OffsetStamp(101, 1), OffsetStamp(101, 2)]
    assert [p.stamp for p in packets(a.send(b"", now=110))] == [OffsetStamp(110, 0)]


def test_sends_wait_for_the_end_of_a_quiet_window() -> None:
    # ε = 2: from a multiple of 20 to 4 after it there are no events.
    a = member("a", c_max=5, quiet_period=20)
    effects = a.send(b"", now=100)
    assert packets(effects) == []
    assert timers(effects) == [105]
    assert packets(a.tick(now=104)) == []
    assert [p.stamp for p in packets(a.tick(now=105))] == [OffsetStamp(105, 0)]
    assert a.observe(OffsetStamp(121, 0), now=122) == HeldBack(until=125)
    with pytest.raises(TooManyEventsError):
        a.stamp(now=123)


def test_a_clock_that_goes_back_a_little_stands_still_and_far_is_believed() -> None:
    a = member("a")  # span = 2 + 1 + 12 = 15.
    a.send(b"", now=100)
    assert packets(a.send(b"", now=85))[0].stamp.r == 100
    assert packets(a.send(b"", now=84))[0].stamp.r == 84


def test_p2_a_direct_message_is_observed_before_what_is_sent_after_it() -> None:
    a, b = member("a"), member("b")
    a.send(b"", now=101)  # An event more in this tick than b has.
    published = packets(a.send(b"", now=101))[0]
    direct = a.stamp(now=101)
    assert isinstance(b.observe(direct, now=100), Received)
    answer = packets(b.send(b"", now=100))[0]
    assert published.stamp.less(answer.stamp)
    assert not published.stamp.less(packet("b", 100).stamp)  # Without observing it.


def test_a_direct_message_from_ahead_is_held_and_one_beyond_the_bounds_refused() -> None:
    a, b = member("a", tick=10, epsilon=20, delta=100), member("b", tick=10, epsilon=20, delta=100)
    direct = a.stamp(now=1_020)
    held = b.observe(direct, now=1_005)
    assert held == HeldBack(until=1_010)
    assert isinstance(b.observe(direct, now=1_010), Received)
    assert b.observe(replace(direct, r=200), now=1_010) == Refused(Refusal.FUTURE)
    assert b.observe(direct, now=1_130) == Refused(Refusal.LATE)
    assert b.observe(OffsetStamp(1, 1), now=1_130) == Refused(Refusal.OTHER_BOUNDS)


def test_direct_messages_with_offset_stamps_are_observed_too() -> None:
    b = member("b", c_max=3)
    assert b.observe(OffsetStamp(102, 0), now=100) == Received(OffsetStamp(100, 3))
    assert b.observe(OffsetStamp(103, 0), now=100) == Refused(Refusal.FUTURE)
    assert b.observe(OffsetStamp(100, 3), now=100) == Refused(Refusal.FUTURE)  # It would take us above c_max.
    assert b.observe(OffsetStamp(99, 0), now=100) == HeldBack(until=101)  # We are at c_max in this tick.
    assert b.observe(packet("a", 100).stamp, now=100) == Refused(Refusal.OTHER_BOUNDS)


def test_a_report_gives_what_waits_with_its_place() -> None:
    c = member("c")
    effects = c.send(b"x", "c", now=100)
    (held,) = c.report().held
    assert held.place == effects[0].place
    assert [p.waits_for.number for p in c.pending()] == [112]
    assert c.stable() == {}


# After a fault.


def spoiled(rng: random.Random, time: int) -> CausalMerge:
    """A member with anything in its memory."""
    c = member("c", events_per_tick=3)
    ghost = Message(sender="a", number=99, to=("c",), level=Level.CAUSAL_TOTAL)
    stamp = packet("a", time).stamp
    rules = c.settings.rules
    for n in range(rng.randrange(6)):
        wide = rng.choice([3, 40, 10**6])
        key = rng.choice([rng.randbytes(30), (time + rng.randint(-wide, wide) + 2**63).to_bytes(8) + bytes([n])])
        c._buffer._waiting[key] = rng.choice([ghost, "no message"])
    c._buffer._heap = [rng.randbytes(20) for _ in range(rng.randrange(4))]
    c._buffer._made = rng.choice([None, time + 3, 10**9])
    c._buffer._passed = rng.choice([b"", b"\xff" * 9])
    c._reading = rng.choice([None, time + 5, time + 10**6, -(10**6)])
    clock = c._clock
    clock._r, clock._c = rng.choice([time, time + 2, 10**9, -(10**9)]), rng.choice([0, 1, 7, 10**9])
    clock._kn = [rng.choice([0, 1, 9, -5, 10**9]) for _ in stamp.kn]
    clock._tick, clock._in_tick = rng.choice([time, 0]), rng.choice([0, 10**9])
    assert rules.span == 15
    return c


@pytest.mark.parametrize("seed", range(60))
def test_p7_from_any_memory_a_member_is_right_again(seed: int) -> None:
    rng = random.Random(seed)
    c, a = spoiled(rng, 1_000), member("a", events_per_tick=3)
    right_from = 1_000 + 3 * 15 + 2  # Timers go off once per span; then two spans as for the buffer.
    sent: list[str] = []
    got: list[tuple[str, tuple]] = []
    alarm = 1_000
    for time in range(1_000, 1_200):
        effects = c.tick(now=time) if time >= alarm else []
        if rng.random() < 0.5:
            (m,) = packets(a.send(b"", now=time))
            effects += c.receive("a", m, now=time)
            sent += [m.message.id] if right_from <= time < 1_180 else []
        if rng.random() < 0.2:
            mine = c.send(b"", "c", now=time)
            effects += mine
            sent += [e.message.id for e in mine if isinstance(e, Sent) and right_from <= time < 1_180]
        assert time < right_from or not any(isinstance(e, Discard | RefusedEffect) for e in effects)
        got += [(e.message.id, e.place) for e in effects if isinstance(e, Deliver)]
        alarm = next((at or 10**9 for at in reversed(timers(effects))), alarm)
    right = [(message_id, place) for message_id, place in got if message_id in sent]
    assert len(right) == len(sent) == len(set(sent)) > 50
    assert right == sorted(right, key=lambda one: one[1])


def test_p7_an_idle_member_wakes_up_by_itself_after_a_fault() -> None:
    c = member("c")
    c.receive("a", packet("a", 100), now=101)
    c._buffer._heap.clear()  # The message waits and nothing knows of it.
    (alarm,) = timers(c.tick(now=102))
    assert alarm <= 102 + 15
    c._buffer._made = 0
    assert delivered(c.tick(now=alarm)) == ["a.1"]


def test_p7_what_a_fault_left_as_passed_is_forgotten_before_the_first_arrival_is_judged() -> None:
    c = member("c")
    c._buffer._passed = b"\xff" * 9
    assert discarded(c.receive("a", packet("a", 100), now=101)) == []
    assert delivered(c.tick(now=112)) == ["a.1"]


# Limits and lies.


def test_a_full_buffer_sets_aside_what_arrives_and_our_own_waits() -> None:
    c = member("c", pending_max=1)
    c.receive("a", packet("a", 100), now=100)
    assert discarded(c.receive("b", packet("b", 100), now=100)) == [("b.1", "full")]
    effects = c.send(b"", now=100)
    assert packets(effects) == []
    assert timers(effects) == []  # Set already: what is due next makes room.
    effects = c.tick(now=112)
    assert delivered(effects) == ["a.1"]
    assert len(packets(effects)) == 1


def test_messages_that_wait_to_be_stamped_have_a_limit() -> None:
    c = member("c", events_per_tick=1, unsent_max=1)
    c.send(b"", now=100)
    c.send(b"", now=100)
    before = c.snapshot()
    with pytest.raises(BufferFullError):
        c.send(b"", now=100)
    assert c.snapshot() == before


FORGED = [
    ("x", packet("a", 100)),
    ("c", packet("c", 100)),
    ("a", packet("b", 100)),
    ("a", packet("a", 100, to="ab")),
    ("a", replace(packet("a", 100), message=Message(sender="a", number=1, to=("c", "x"), level=Level.CAUSAL_TOTAL))),
    ("a", replace(packet("a", 100), message=Message(sender="a", number=1, to=("c",), level=Level.TOTAL))),
    ("a", 1.5),
]


@pytest.mark.parametrize("at", range(len(FORGED)))
def test_a_forged_packet_is_refused_and_changes_nothing(at: int) -> None:
    c = member("c")
    c.receive("a", packet("a", 100), now=100)
    before = c.snapshot()
    with pytest.raises(RemoteProtocolError):
        c.receive(*FORGED[at], now=101)
    assert c.snapshot() == before


MESSAGE = Message(sender="a", number=1, to=("b", "c"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: MergeMessage(message=1, stamp=OffsetStamp(1, 1)),
        lambda: MergeMessage(message=MESSAGE, stamp=1),
        lambda: MergeMessage(message=MESSAGE, stamp=OffsetStamp(1.5, 1)),
        lambda: MergeMessage(message=MESSAGE, stamp=BoundedStamp(2**63, 0, (), 9)),
        lambda: MergeMessage(message=MESSAGE, stamp=BoundedStamp(1, 0, (1.5, 0), 9)),
    ],
)
def test_an_impossible_packet_cannot_exist(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": -1},
        {"delta": -1},
        {"tick": 0},
        {"events_per_tick": 0},
        {"c_max": -1},
        {"quiet_period": 30},
        {"c_max": 5, "quiet_period": 4},
        {"pending_max": 0},
        {"unsent_max": 0},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(LocalProtocolError):
        member("a", **options)


def test_strangers_and_impossible_readings_are_refused() -> None:
    with pytest.raises(NotInViewError):
        member("x")
    for name in ("a\0b", "é" * 128):
        with pytest.raises(LocalProtocolError):
            CausalMerge("a", View(["a", name]), epsilon=1, delta=1)
    for options, now in (({}, 2**63), ({"c_max": 3}, -1)):
        c = member("c", **options)
        before = c.snapshot()
        with pytest.raises(LocalProtocolError):
            c.send(b"", now=now)
        assert c.snapshot() == before


def test_a_foreign_snapshot_is_refused() -> None:
    for foreign in (1, member("a", c_max=3).snapshot(), member("a", epsilon=5).snapshot()):
        with pytest.raises(LocalProtocolError):
            member("a").restore(foreign)
    with pytest.raises(LocalProtocolError):
        member("a", c_max=3).restore(member("a").snapshot())


def test_invariants_name_what_is_broken() -> None:
    c = member("c")
    c.send(b"", now=100)
    c.check_invariants()
    c._buffer._passed = b"\x80" + bytes(6) + b"\x60"  # r + c = 96, due at 108.
    c.check_invariants()
    c._reading = 108 - 16
    with pytest.raises(InvariantError):
        c.check_invariants()


def test_reasons_of_the_protocol_cover_those_of_the_buffer() -> None:
    of_records = {SetAside.MALFORMED, SetAside.OVERSIZE}  # A packet is neither.
    assert {reason.value for reason in SetAside if reason not in of_records} == {reason.value for reason in Reason}
