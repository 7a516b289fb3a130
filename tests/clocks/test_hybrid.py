"""Hybrid clocks: the table of cases, steps of the machine's clock, overflow, restarts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.clocks import HybridClock, HybridStamp, Relation
from beforehand.errors import ClockExhaustedError, ClockStepError, FutureStampError, LocalProtocolError


class Machine:
    """A machine whose clocks stand where the test puts them."""

    def __init__(self, wall: int = 1000) -> None:
        self.wall = wall
        self.steady = 0

    def passes(self, ms: int) -> None:
        self.wall += ms
        self.steady += ms

    def clock(self, **options: object) -> HybridClock:
        ms = 1_000_000
        return HybridClock(wall_ns=lambda: self.wall * ms, steady_ns=lambda: self.steady * ms, **options)  # type: ignore[arg-type]


def at(milliseconds: int, counter: int = 0) -> HybridStamp:
    return HybridStamp(milliseconds << 16 | counter)


@pytest.mark.parametrize(
    ("last", "wall", "seen", "expected"),
    [
        # The physical clock is ahead of both: its reading, counter 0.
        ((10, 5), 12, (11, 9), (12, 0)),
        ((10, 5), 12, (10, 9), (12, 0)),
        ((11, 5), 12, (10, 9), (12, 0)),
        # Ours is ahead: its counter goes on.
        ((12, 5), 10, (11, 9), (12, 6)),
        ((12, 5), 12, (11, 9), (12, 6)),
        # The peer's is ahead: its counter goes on, ours does not matter.
        ((10, 5), 11, (12, 9), (12, 10)),
        ((10, 5), 12, (12, 9), (12, 10)),
        # Ours and the peer's agree: the greater counter goes on.
        ((12, 5), 10, (12, 9), (12, 10)),
        ((12, 9), 12, (12, 5), (12, 10)),
    ],
)
def test_receive_in_all_nine_orders_of_the_three_clocks(
    last: tuple[int, int], wall: int, seen: tuple[int, int], expected: tuple[int, int]
) -> None:
    machine = Machine(wall)
    clock = machine.clock(restored=at(*last).value)
    assert clock.receive(at(*seen)) == at(*expected)


def test_tick_takes_the_reading_or_counts_on() -> None:
    machine = Machine(10)
    clock = machine.clock()
    assert [clock.tick(), clock.tick()] == [at(10), at(10, 1)]
    machine.passes(1)
    assert clock.tick() == at(11)


def test_a_step_backwards_holds_time_and_is_counted() -> None:
    machine = Machine(1000)
    clock = machine.clock()
    before = clock.tick()
    machine.wall = 400
    after = [clock.tick(), clock.tick()]
    assert after == [at(1000, 1), at(1000, 2)]
    assert before < after[0]
    assert clock.steps_back == 1


def test_a_clock_that_is_set_back_and_then_right_again_took_two_steps() -> None:
    machine = Machine(100_000)
    clock = machine.clock()
    clock.tick()
    machine.wall -= 10_000
    clock.tick()
    machine.wall += 10_000
    clock.tick()
    assert (clock.steps_back, clock.steps_ahead) == (1, 1)


def test_a_step_ahead_is_counted_and_refused_where_asked() -> None:
    machine = Machine(1000)
    clock = machine.clock(warn_ahead_ms=100, refuse_step_ms=5000)
    machine.wall += 200
    clock.tick()
    assert clock.steps_ahead == 1
    machine.wall += 10_000
    with pytest.raises(ClockStepError) as caught:
        clock.tick()
    assert caught.value.step_ms == 10_000
    assert clock.stamp() == at(1200)
    clock.accept_step()
    assert clock.tick() == at(11_200)


def test_a_long_pause_is_not_a_step() -> None:
    machine = Machine()
    clock = machine.clock(refuse_step_ms=10)
    machine.passes(86_400_000)
    clock.tick()
    assert clock.steps_ahead == 0


def test_only_the_future_is_refused_with_separate_bounds_for_warning_and_refusing() -> None:
    machine = Machine(100_000)
    clock = machine.clock(warn_ahead_ms=50, refuse_ahead_ms=1000)
    clock.receive(at(100_050))
    assert clock.warnings == 0
    clock.receive(at(100_051))
    assert clock.warnings == 1
    clock.receive(at(101_000))
    with pytest.raises(FutureStampError) as caught:
        clock.receive(at(101_001))
    assert (caught.value.ahead, caught.value.limit) == (1001, 1000)
    assert clock.stamp() == at(101_000, 1), "the refused stamp changed nothing"
    clock.receive(at(0))  # A peer that slept for years is welcome.


def test_a_stamp_whose_counter_would_carry_beyond_the_limit_is_refused() -> None:
    machine = Machine(1000)
    clock, peer = machine.clock(), machine.clock()
    with pytest.raises(FutureStampError):
        clock.receive(at(61_000, 0xFFFF))
    received = clock.receive(at(61_000, 0xFFFE))
    peer.receive(at(61_000, 0))
    assert received.milliseconds - machine.wall == 60_000


def test_the_counter_carries_into_the_milliseconds() -> None:
    machine = Machine(10)
    clock = machine.clock(restored=at(10, 65_534).value)
    assert [clock.tick(), clock.tick()] == [at(10, 65_535), at(11, 0)]


def test_the_end_of_the_range_is_an_error_not_a_wrap() -> None:
    clock = Machine(10).clock(restored=2**64 - 2)
    clock.tick()
    with pytest.raises(ClockExhaustedError):
        clock.tick()


def test_after_a_restart_with_a_clock_behind_no_stamp_is_repeated() -> None:
    disk: list[int] = []
    machine = Machine(100_000)
    clock = machine.clock(persist=disk.append, reserve_ms=50)
    issued = []
    for _ in range(200):
        machine.passes(1)
        issued.append(clock.tick())
    assert len(disk) <= 5, "about once per reserve_ms"
    assert all(stamp.value <= disk[-1] for stamp in issued)

    machine.wall = 5_000  # The machine comes back with its clock far behind.
    again = machine.clock(persist=disk.append, restored=disk[-1])
    assert again.tick() > max(issued)


def test_nothing_is_issued_when_the_bound_cannot_be_persisted() -> None:
    def broken(bound: int) -> None:
        raise OSError("disk full")

    clock = Machine(10).clock(persist=broken)
    with pytest.raises(OSError, match="disk full"):
        clock.tick()
    with pytest.raises(OSError, match="disk full"):
        clock.receive(at(1000))
    assert clock.stamp() == HybridStamp(0)
    assert clock.warnings == 0


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        HybridClock(warn_ahead_ms=10, refuse_ahead_ms=5)
    with pytest.raises(LocalProtocolError):
        HybridStamp(2**64)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=20))
def test_byte_order_is_stamp_order(values: list[int]) -> None:
    stamps = sorted(HybridStamp(value) for value in values)
    for a, b in pairwise(stamps):
        assert a.encode() <= b.encode()
        assert (a.encode() == b.encode()) == (a == b) == (a.compare(b) is Relation.EQUAL)


def test_stamps_increase_with_the_real_clock_of_this_machine() -> None:
    clock = HybridClock()
    stamps = [clock.tick() for _ in range(1000)]
    assert all(a < b for a, b in pairwise(stamps))
