"""Kulkarni and Ravikant, "Stabilizing Causal Deterministic Merge", section 5."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from beforehand.clocks import OffsetClock, OffsetStamp, QuietWindows
from beforehand.errors import ClockExhaustedError, FutureStampError, LocalProtocolError, TooManyEventsError


def test_figure_4_c_grows_without_bound_in_the_program_of_figure_3() -> None:
    # j is ε ahead of k and l; messages go round j → k → l → j, each received a tick after it was sent by clock.
    epsilon = 6
    j, k, m = (OffsetClock(name, epsilon=epsilon, reset=True) for name in "jkl")
    largest: list[int] = []
    for turn in range(1, 100):
        sent = j.tick(epsilon + 2 * turn)
        at_k = k.receive(sent, 2 * turn)
        at_l = m.receive(k.tick(2 * turn + 1), 2 * turn)
        at_j = j.receive(m.tick(2 * turn + 1), epsilon + 2 * turn + 1)
        largest.append(max(stamp.c for stamp in (at_k, at_l, at_j)))
    # Each round takes two ticks and adds three hops.
    assert largest[0] == epsilon + 2
    assert largest[-1] == largest[0] + 98


def test_section_5_1_the_first_round_has_the_stamps_of_the_text() -> None:
    # Begins with rt.j = ε, rt.k = rt.l = 0.
    epsilon = 5
    j, k, m = (OffsetClock(name, epsilon=epsilon, reset=True) for name in "jkl")
    sent = j.tick(epsilon)
    at_k = k.receive(sent, 1)
    onward = k.tick(2)
    at_l = m.receive(onward, 1)
    back = m.tick(2)
    at_j = j.receive(back, epsilon + 1)
    again = j.tick(epsilon + 2)
    assert [(s.r, s.c) for s in (sent, at_k, onward, at_l, back, at_j, again)] == [
        (epsilon, 0),
        (1, epsilon),
        (2, epsilon - 1),
        (1, epsilon + 1),
        (2, epsilon),
        (epsilon + 1, 2),
        (epsilon + 2, 1),
    ]


def test_section_5_2_quiet_windows_bound_c_and_make_the_reset_right() -> None:
    # No events while a clock reads between αx and αx + 2ε. The same traffic as in figure 4 otherwise.
    epsilon, period = 3, 60
    j, k, m = (OffsetClock(name, epsilon=epsilon, reset=True) for name in "jkl")
    chain: list[OffsetStamp] = []

    def quiet(*readings: int) -> bool:
        return any(reading % period <= 2 * epsilon for reading in readings)

    for base in range(2, 3000, 2):
        if quiet(base, base + 1, base + epsilon, base + epsilon + 1):
            continue
        chain.append(j.tick(epsilon + base))
        chain.append(k.receive(chain[-1], base))
        chain.append(k.tick(base + 1))
        chain.append(m.receive(chain[-1], base))
        chain.append(m.tick(base + 1))
        chain.append(j.receive(chain[-1], epsilon + base + 1))

    assert max(stamp.c for stamp in chain) <= period
    # Every event of this chain happened before all later ones.
    for at, stamp in enumerate(chain):
        assert all(stamp.less_within(later, epsilon) for later in chain[at + 1 : at + 400])


def test_figure_3_as_printed_orders_an_event_before_its_own_past() -> None:
    """The reset forgets c; with c > ε the relation of 5.1 does not make up for that. Three processes, ε = 2."""
    epsilon = 2
    k, j, m = (OffsetClock(name, epsilon=epsilon, reset=True) for name in "kjl")
    # Earlier traffic, as in figure 4, has driven k's c to 20 (a stamp that program issues: see the first test).
    k.receive(OffsetStamp(10, 21), 11)
    e = k.tick(12)
    p = j.receive(e, 10)  # j is ε behind k.
    g = j.tick(15)  # More than 2ε of quiet at j: reset. By now j's clock runs ahead ...
    f = m.receive(g, 13)  # ... and l is ε behind j.

    assert p.c > epsilon
    assert g.c == 0
    assert not e.less_within(f, epsilon), "e → p → g → f, yet figure 3's relation does not put e before f"
    assert f.less_within(e, epsilon), "it even puts f before e"


def test_without_reset_order_is_right_in_random_executions() -> None:
    for seed in range(60):
        random = Random(seed)
        clocks = [OffsetClock(f"p{i}", epsilon=3) for i in range(4)]
        readings = [0] * 4
        last: dict[int, int] = {}
        events: list[tuple[OffsetStamp, int]] = []
        network: list[tuple[OffsetStamp, int]] = []
        for _ in range(150):
            i = random.randrange(4)
            readings[i] = max(0, readings[i] + random.randint(-3, 5))  # No bound on the skew, and steps back.
            causes = [last[i]] if i in last else []
            if network and random.random() < 0.5:
                stamp, cause = network.pop(random.randrange(len(network)))
                stamp = clocks[i].receive(stamp, readings[i])
                causes.append(cause)
            else:
                stamp = clocks[i].tick(readings[i])
                network.append((stamp, len(events)))
            past = 0
            for cause in causes:
                past |= events[cause][1] | 1 << cause
            last[i] = len(events)
            events.append((stamp, past))
        for f, (stamp, past) in enumerate(events):
            for e in range(f):
                if past >> e & 1:
                    assert events[e][0].less(stamp)


def test_events_at_one_reading_or_after_a_step_back_are_told_apart() -> None:
    clock = OffsetClock("p", epsilon=3)
    stamps = [clock.tick(5), clock.tick(5), clock.receive(OffsetStamp(4, 0), 5), clock.tick(2), clock.tick(6)]
    assert [(s.r, s.c) for s in stamps] == [(5, 0), (5, 1), (5, 2), (2, 6), (6, 2)]
    assert all(a.less(b) for a, b in pairwise(stamps))


@pytest.mark.parametrize(("now", "c"), [(10 + 2 * 3, 20 - 6), (10 + 2 * 3 + 1, 0)])
def test_figure_3_the_reset_comes_after_more_than_two_epsilon(now: int, c: int) -> None:
    clock = OffsetClock("p", epsilon=3, reset=True)
    clock.receive(OffsetStamp(10, 19), 10)
    assert clock.tick(now).c == c


def test_a_stamp_too_far_ahead_is_refused_where_asked() -> None:
    clock = OffsetClock("p", epsilon=3, ahead_max=5)
    clock.receive(OffsetStamp(10, 4), 9)
    with pytest.raises(FutureStampError) as caught:
        clock.receive(OffsetStamp(10, 6), 10)
    assert (caught.value.ahead, caught.value.limit) == (6, 5)
    assert clock.stamp() == OffsetStamp(9, 6)


def test_one_forged_stamp_cannot_end_the_clock_and_a_refused_reading_changes_nothing() -> None:
    clock = OffsetClock("p", epsilon=3)
    with pytest.raises(FutureStampError):
        clock.receive(OffsetStamp(2**63 - 1, 2**63 - 1), 5)
    with pytest.raises(LocalProtocolError):
        clock.tick(-5)
    assert clock.tick(7) == OffsetStamp(7, 0)
    last = OffsetClock("p", epsilon=3, now=2**63 - 1)
    with pytest.raises(ClockExhaustedError):
        last.tick(2**63 - 1)


# Section 5.2's windows, and stabilization as in 3.3, for merging.


@pytest.mark.parametrize(
    ("now", "first"), [(0, 5), (4, 5), (5, 5), (19, 19), (20, 25), (24, 25), (25, 25), (-1, -1), (-20, -15)]
)
def test_quiet_windows_say_when_events_may_happen(now: int, first: int) -> None:
    assert QuietWindows(period=20, epsilon=2).next(now) == first


def test_a_period_must_leave_room_for_events() -> None:
    assert QuietWindows(period=6, epsilon=2).next(0) == 5
    with pytest.raises(LocalProtocolError):
        QuietWindows(period=5, epsilon=2)


@pytest.mark.parametrize(("r", "c"), [(100, 6), (100, 10**9), (104, 5), (107, 0), (10**9, 0), (100, -1)])
def test_section_5_1_a_corrupted_state_above_c_max_is_reset_and_counted(r: int, c: int) -> None:
    clock = OffsetClock("p", epsilon=2, c_max=5)
    clock._r, clock._c = r, c
    assert clock.tick(101) == OffsetStamp(101, 0)
    assert clock.resets == 1
    assert clock.tick(101) == OffsetStamp(101, 1)
    assert clock.resets == 1


@pytest.mark.parametrize(("r", "c"), [(100, 5), (106, 0), (0, 0)])
def test_a_state_that_can_be_is_not_reset(r: int, c: int) -> None:
    clock = OffsetClock("p", epsilon=2, c_max=6)
    clock._r, clock._c = r, c
    assert clock.tick(101).key >= (r + c, r)
    assert clock.resets == 0


@pytest.mark.parametrize("stamp", [OffsetStamp(100, 6), OffsetStamp(10, 6), OffsetStamp(105, 0), OffsetStamp(102, 3)])
def test_a_stamp_that_would_take_c_above_c_max_is_refused_and_counted(stamp: OffsetStamp) -> None:
    clock = OffsetClock("p", epsilon=2, now=99, c_max=5)
    with pytest.raises(FutureStampError):
        clock.receive(stamp, now=100)
    assert clock.refused == 1
    assert clock.stamp() == OffsetStamp(99, 0)
    assert clock.receive(OffsetStamp(102, 2), now=100) == OffsetStamp(100, 5)


def test_a_tick_that_is_full_is_no_fault() -> None:
    clock = OffsetClock("p", epsilon=2, now=99, c_max=1)
    assert [clock.tick(100), clock.tick(100)] == [OffsetStamp(100, 0), OffsetStamp(100, 1)]
    for _ in range(2):
        with pytest.raises(TooManyEventsError):
            clock.tick(100)
    with pytest.raises(TooManyEventsError):
        clock.receive(OffsetStamp(98, 0), now=100)
    assert clock.resets == 0
    assert clock.tick(101) == OffsetStamp(101, 0)


def test_without_c_max_nothing_is_reset() -> None:
    clock = OffsetClock("p", epsilon=2)
    clock._r, clock._c = 100, 10**9
    assert clock.tick(101).c == 10**9 - 1
    assert clock.resets == 0
    with pytest.raises(LocalProtocolError):
        OffsetClock("p", epsilon=2, c_max=-1)


def test_a_restored_clock_goes_on() -> None:
    clock = OffsetClock("p", epsilon=2, now=99)
    last = clock.receive(OffsetStamp(102, 3), now=100)
    again = OffsetClock("p", epsilon=2)
    again.restore(last)
    assert last.less(again.tick(100))
