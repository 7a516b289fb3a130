"""LamportTotal on random wires, with acknowledgements and with null messages, at its limits and against liars."""

from __future__ import annotations

import random

import pytest

from beforehand.clocks import View
from beforehand.errors import (
    BufferFullError,
    ClockExhaustedError,
    FutureStampError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.ordering import Deliver, Level, Message, Missing, Owed, ReliableLink, SetTimer, Transmit
from beforehand.ordering.lamport_total import LamportMessage, LamportTime, LamportTotal
from beforehand.ordering.message import NUMBER_MAX
from ordering import mixed_levels
from ordering.wires import Wires, anyone

ABC = View("abc")
BOTH = pytest.mark.parametrize("acknowledge", [True, False])


def member(name: str = "a", **options: object) -> LamportTotal:
    return LamportTotal(name, ABC, **options)


def packet(sender: str, number: int, time: int, *, level: Level = Level.CAUSAL_TOTAL, to="abc") -> LamportMessage:
    return LamportMessage(message=Message(sender=sender, number=number, to=tuple(to), level=level), time=time)


def delivered(effects: list) -> list[str]:
    return [effect.message.id for effect in effects if isinstance(effect, Deliver)]


def transmitted(effects: list) -> list[object]:
    return [effect.packet for effect in effects if isinstance(effect, Transmit)]


def timers(effects: list) -> list[int | None]:
    return [effect.at for effect in effects if isinstance(effect, SetTimer)]


# On random wires.


@pytest.mark.parametrize("seed", range(40))
@BOTH
def test_all_is_delivered_in_one_causal_order(acknowledge: bool, seed: int) -> None:
    wires = Wires(
        lambda name, view: LamportTotal(name, view, acknowledge=acknowledge, null_interval=7),
        "abcd"[: 2 + seed % 3],
        seed=seed,
    )
    wires.babble(30, destinations=anyone)
    wires.check_complete()
    counts = wires.check().counts
    assert counts["causal"] == counts["total"] == counts["fifo"] == 0
    assert not any(m.missing() or m.pending() or m.report().held for m in wires.members.values())


@pytest.mark.parametrize("seed", range(40))
@BOTH
def test_levels_may_be_mixed_and_timers_go_off_at_any_time(acknowledge: bool, seed: int) -> None:
    starts = {"a": 7, "b": 0, "c": 3, "d": 100}
    wires = Wires(
        lambda name, view: LamportTotal(name, view, acknowledge=acknowledge, null_interval=3, start=starts[name]),
        starts,
        seed=seed,
    )
    for _ in range(10):
        mixed_levels_part(wires)
    wires.run()
    wires.check_complete()
    mixed_levels.check(wires)


def mixed_levels_part(wires: Wires) -> None:
    for _ in range(3):
        name = wires.random.choice(wires.view.processes)
        level = wires.random.choice(LamportTotal.traits.levels)
        wires.send(name, to=anyone(wires.random, name, wires.view), level=level)
        for _ in range(wires.random.randrange(4)):
            wires.step()
    for name in wires.view.processes:
        wires.perform(name, wires.members[name].tick(now=wires.now))


@pytest.mark.parametrize("seed", range(15))
@BOTH
def test_full_buffers_do_not_block(acknowledge: bool, seed: int) -> None:
    def make(name, view):
        within = LamportTotal(name, view, acknowledge=acknowledge, null_interval=20, pending_max=2)
        return ReliableLink(within, resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, lose=0.1)
    sends = 0
    for _ in range(2_000):
        if sends == 30:
            break
        name = wires.random.choice("abc")
        try:
            to = anyone(wires.random, name, wires.view)
            wires.send(name, to=to, level=wires.random.choice(LamportTotal.traits.levels))
            sends += 1
        except BufferFullError:
            assert wires.step()
    assert sends == 30
    wires.run()
    wires.check_complete()
    mixed_levels.check(wires)


@pytest.mark.parametrize("seed", range(10))
@BOTH
def test_a_snapshot_is_the_whole_state(acknowledge: bool, seed: int) -> None:
    def make(name, view):
        return LamportTotal(name, view, acknowledge=acknowledge, null_interval=9)

    wires = Wires(make, "abcd", seed=seed)
    rng = random.Random(seed)
    for _ in range(40):
        name = rng.choice("abcd")
        wires.send(name, to=anyone(rng, name, wires.view), level=rng.choice(LamportTotal.traits.levels))
        for _ in range(rng.randrange(5)):
            wires.step()
        name = rng.choice("abcd")
        twin = make(name, wires.view)
        twin.restore(wires.members[name].snapshot())
        assert twin.snapshot() == wires.members[name].snapshot()
        assert twin.missing() == wires.members[name].missing()
        wires.members[name] = twin
        wires.perform(name, twin.tick(now=wires.now))
    wires.run()
    wires.check_complete()
    mixed_levels.check(wires)


# One at a time.


def test_a_lone_member_delivers_at_once() -> None:
    assert delivered(LamportTotal("a", View("a")).send(b"", now=0)) == ["a.1"]


def test_the_smallest_is_delivered_when_all_others_were_heard_after_it() -> None:
    a = member("a")
    a.send(b"", now=0)  # At (1, a).
    assert delivered(a.receive("b", packet("b", 1, 1), now=0)) == []
    assert a.missing() == [Missing(process="c", what=Owed.ACKNOWLEDGEMENT, number=1)]
    assert delivered(a.receive("c", LamportTime(time=1), now=0)) == ["a.1", "b.1"]


def test_an_equal_time_of_a_member_in_front_is_not_later() -> None:
    b = member("b")
    b.send(b"", now=0)  # At (1, b): a's message at time 1 may still come.
    b.receive("c", LamportTime(time=5), now=0)
    assert delivered(b.receive("a", LamportTime(time=1), now=0)) == []
    assert b.pending()[0].waits_for == Missing(process="a", what=Owed.ACKNOWLEDGEMENT, number=1)
    assert delivered(b.receive("a", LamportTime(time=2), now=0)) == ["b.1"]


def test_whoever_is_no_destination_acknowledges_and_keeps_nothing() -> None:
    a = member("a")
    effects = a.receive("b", packet("b", 1, 4, to="c"), now=0)
    assert transmitted(effects) == [LamportTime(time=5)]
    assert a.pending() == []
    assert a.report().held == ()


def test_a_message_to_oneself_waits_for_its_place() -> None:
    a = member("a")
    effects = a.send(b"", ["a"], now=0)
    assert delivered(effects) == []
    assert [effect.to for effect in effects if isinstance(effect, Transmit)] == [("b", "c")]
    a.receive("b", LamportTime(time=2), now=0)
    assert delivered(a.receive("c", LamportTime(time=2), now=0)) == ["a.1"]


def test_a_fifo_message_is_delivered_on_arrival_and_not_acknowledged() -> None:
    a = member("a")
    effects = a.receive("c", packet("c", 1, 5, level=Level.FIFO), now=0)
    assert delivered(effects) == ["c.1"]
    assert transmitted(effects) == []
    assert a.report().time == 6


# Null messages.


def test_silence_is_ended_by_one_null_message_for_all_that_came() -> None:
    a = member("a", acknowledge=False, null_interval=10)
    first = a.receive("b", packet("b", 1, 1), now=100)
    second = a.receive("b", packet("b", 2, 2), now=105)
    assert timers(first) == [110]
    assert timers(second) == []
    assert transmitted(first) == transmitted(second) == transmitted(a.tick(now=109)) == []
    assert transmitted(a.tick(now=110)) == [LamportTime(time=3)]
    assert a.tick(now=120) == []


def test_a_message_of_our_own_makes_the_null_message_needless() -> None:
    a = member("a", acknowledge=False, null_interval=10)
    a.receive("b", packet("b", 1, 1), now=100)
    assert timers(a.send(b"", now=105)) == [None]
    assert a.tick(now=110) == []


def test_what_we_said_later_already_needs_no_null_message() -> None:
    b = member("b", acknowledge=False, null_interval=10)
    b.send(b"", now=0)
    b.send(b"", now=0)
    assert timers(b.receive("c", packet("c", 1, 1), now=0)) == []
    assert timers(b.receive("c", packet("c", 2, 2), now=0)) == [10]  # c comes after b: (2, b) is not later.


def test_a_null_message_is_not_answered() -> None:
    a = member("a", acknowledge=False, null_interval=10)
    assert timers(a.receive("b", LamportTime(time=9), now=0)) == []
    assert a.tick(now=100) == []


def test_whoever_is_no_destination_is_waited_for_all_the_same() -> None:
    wires = Wires(lambda name, view: LamportTotal(name, view, acknowledge=False, null_interval=10), "abc")
    wires.send("b", to=["b"])
    wires.run()
    wires.check_complete()
    assert wires.packets == {"LamportMessage": 2, "LamportTime": 4}


def test_after_a_restart_the_null_message_is_due_at_the_first_tick() -> None:
    a, again = member("a", acknowledge=False, null_interval=10), member("a", acknowledge=False, null_interval=10)
    a.receive("b", packet("b", 1, 1), now=10**9)
    again.restore(a.snapshot())
    assert transmitted(again.tick(now=3)) == [LamportTime(time=2)]


# Limits and lies.


def test_a_member_with_too_much_waiting_refuses_and_stays_as_it_was() -> None:
    c = member("c", pending_max=1)
    c.send(b"", now=0)
    c.receive("b", packet("b", 1, 4), now=0)
    before = c.snapshot()
    with pytest.raises(BufferFullError):
        c.send(b"", now=0)
    with pytest.raises(BufferFullError):
        c.receive("b", packet("b", 2, 5), now=0)
    assert c.snapshot() == before
    c.receive("b", packet("b", 2, 5, to="a"), now=0)  # What is not for us needs no room.


def test_a_clock_at_its_end_refuses_to_send() -> None:
    with pytest.raises(ClockExhaustedError):
        member("a", start=NUMBER_MAX).send(b"", now=0)


@pytest.mark.parametrize("options", [{"start": -1}, {"start": NUMBER_MAX + 1}, {"null_interval": -1}])
def test_options_out_of_range_are_refused(options) -> None:
    with pytest.raises(LocalProtocolError):
        member("a", **options)


FORGED = [
    ("x", packet("x", 1, 1, to="abcx")),
    ("a", packet("a", 1, 1)),
    ("b", packet("c", 9, 9)),
    ("b", packet("c", 9, 9, to="c")),
    ("b", packet("b", 9, 9, to="cx")),
    ("b", packet("b", 9, 9, to="ax")),
    ("b", packet("b", 9, 9, to="c", level=Level.CAUSAL)),
    ("b", packet("b", 9, 9, level=Level.CAUSAL)),
    ("b", packet("b", 9, 3)),
    ("b", LamportTime(time=2)),
    ("b", LamportTime(time=2**41)),
    ("b", LamportTime(time=NUMBER_MAX)),
    ("x", LamportTime(time=5)),
    ("b", None),
]


@pytest.mark.parametrize("at", range(len(FORGED)))
def test_a_forged_packet_is_refused_and_changes_nothing(at: int) -> None:
    a = member("a")
    a.receive("b", packet("b", 1, 3), now=0)
    before = a.snapshot()
    with pytest.raises(RemoteProtocolError):
        a.receive(*FORGED[at], now=0)
    assert a.snapshot() == before


def test_the_last_time_that_there_is_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        member("a", start=NUMBER_MAX - 2).receive("b", LamportTime(time=NUMBER_MAX), now=0)


def test_a_message_far_ahead_is_refused() -> None:
    with pytest.raises(FutureStampError):
        member("a").receive("b", packet("b", 1, 2**40 + 1), now=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LamportMessage(message=None, time=1),
        lambda: packet("a", 1, 0),
        lambda: packet("a", 1, NUMBER_MAX + 1),
        lambda: LamportTime(time=True),
        lambda: LamportTime(time=-1),
    ],
)
def test_an_impossible_packet_cannot_exist(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_a_foreign_snapshot_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        member("a").restore(None)


# Whom messages are for: why the explorer needs to try messages to all only.


class InStep:
    """Two groups of three that do the same in the same order; only whom their messages are for differs."""

    def __init__(self, **options: object) -> None:
        self.groups = [{name: member(name, **options) for name in "abc"} for _ in range(2)]
        self.links: dict[tuple[str, str], list[tuple[object, object]]] = {}  # FIFO, of pairs of packets.
        self.delivered: list[list[tuple[str, str]]] = [[], []]  # Of each group: who, what.

    def do(self, name: str, *calls: object) -> None:
        """The same call at the same member of both groups."""
        effects = [call(group[name]) for call, group in zip(calls, self.groups, strict=True)]
        for seen, each in zip(self.delivered, effects, strict=True):
            seen += [(name, message) for message in delivered(each)]
        sent = [[e for e in each if isinstance(e, Transmit)] for each in effects]
        assert timers(effects[0]) == timers(effects[1])
        for one, other in zip(*sent, strict=True):
            assert one.to == other.to
            assert type(one.packet) is type(other.packet)
            assert one.packet.time == other.packet.time
            for to in one.to:
                self.links.setdefault((name, to), []).append((one.packet, other.packet))

    def enabled(self) -> list[tuple[str, str]]:
        return sorted(link for link, packets in self.links.items() if packets)

    def take(self, sender: str, to: str) -> None:
        first, second = self.links[sender, to].pop(0)
        self.do(to, lambda m: m.receive(sender, first, now=0), lambda m: m.receive(sender, second, now=0))


@pytest.mark.parametrize("seed", range(60))
@BOTH
def test_whom_a_message_is_for_changes_nothing_but_who_delivers_it(acknowledge: bool, seed: int) -> None:
    rng = random.Random(seed)
    world = InStep(acknowledge=acknowledge, null_interval=0)
    meant: dict[str, tuple[str, ...]] = {}
    left = dict.fromkeys("abc", 3)
    while any(left.values()) or world.enabled():
        choices = [*world.enabled(), *(("", name) for name in sorted(left) if left[name])]
        sender, name = rng.choice(choices)
        if sender:
            world.take(sender, name)
            continue
        left[name] -= 1
        some = tuple(rng.sample("abc", rng.randint(1, 3)))
        meant[f"{name}.{3 - left[name]}"] = some
        world.do(name, lambda m, to=some: m.send(b"", to, now=0), lambda m: m.send(b"", tuple("abc"), now=0))
        if not world.enabled() or rng.random() < 0.1:
            world.do(name, lambda m: m.tick(now=0), lambda m: m.tick(now=0))
    while any(group[name].snapshot().owing for group in world.groups for name in "abc"):
        for name in "abc":
            world.do(name, lambda m: m.tick(now=0), lambda m: m.tick(now=0))
        while world.enabled():
            world.take(*rng.choice(world.enabled()))

    some_deliver, all_deliver = world.delivered
    assert len(all_deliver) == 27
    assert some_deliver == [(who, what) for who, what in all_deliver if who in meant[what]]
