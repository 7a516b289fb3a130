"""What a δ costs, against a count that looks at every pair of messages; the paper's bounds; what r + c is."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beforehand.clocks import Bounds
from beforehand.history.tuning import (
    DELAY_END,
    EPSILON_END,
    Cost,
    Traffic,
    cost,
    delta_candidates,
    late_count,
    rounded_up,
    smallest_delta,
)
from bounded_world import World


@dataclass(frozen=True)
class Message:
    sent: int  # r
    ahead: int  # c
    arrival: int
    receiver: int = 0

    @property
    def delay(self) -> int:
        return self.arrival - self.sent


def naive_cost(messages: list[Message], delta: int, epsilon: int) -> Cost:
    """By the definitions, every message with every instant at which one arrives."""
    late = [m for m in messages if m.arrival > m.sent + delta]
    in_time = [m for m in messages if m.arrival <= m.sent + delta and m.sent <= m.arrival + epsilon]
    due = {m: m.sent + m.ahead + delta + epsilon for m in in_time}
    waits = [due[m] - m.arrival for m in in_time]

    def most(chosen: list[Message]) -> int:
        return max((sum(m.arrival <= now < due[m] for m in chosen) for now in {m.arrival for m in chosen}), default=0)

    return Cost(
        delta_ns=delta,
        late=len(late) / len(messages),
        late_messages=len(late),
        latency_mean_ns=round(sum(waits) / len(waits)) if waits else None,
        latency_max_ns=max(waits, default=None),
        latency_bound_ns=delta + 3 * epsilon,
        buffered_max=most(in_time),
        buffered_process_max=max((most([m for m in in_time if m.receiver == p]) for p in range(9)), default=0),
    )


def fast_cost(messages: list[Message], delta: int, epsilon: int) -> Cost:
    ordered = np.sort(np.array([m.delay for m in messages], np.int64))
    kept = [m for m in messages if m.sent <= m.arrival + epsilon]
    columns = [
        np.array(values, np.int64)
        for values in ([m.arrival for m in kept], [m.sent + m.ahead for m in kept], [m.delay for m in kept])
    ]
    traffic = Traffic.of(*columns, np.array([m.receiver for m in kept], np.int32))
    return cost(traffic, ordered, delta, epsilon)


def test_one_message_waits_until_its_time_has_come() -> None:
    found = fast_cost([Message(sent=100, ahead=3, arrival=107)], delta=20, epsilon=5)

    # Due at 100 + 3 + 20 + 5.
    assert found == Cost(20, 0.0, 0, 21, 21, 35, 1, 1)


def test_a_message_that_leaves_when_another_arrives_does_not_wait_with_it() -> None:
    first, second = Message(sent=0, ahead=0, arrival=1), Message(sent=10, ahead=0, arrival=11)

    assert fast_cost([first, second], delta=11, epsilon=0).buffered_max == 1
    assert fast_cost([first, second], delta=12, epsilon=0).buffered_max == 2


def test_messages_that_need_not_wait_are_never_in_the_buffer() -> None:
    at_once = [Message(sent=0, ahead=0, arrival=5) for _ in range(3)]
    waits = Message(sent=1, ahead=0, arrival=5)

    assert fast_cost([*at_once], delta=5, epsilon=0).buffered_max <= 1
    assert fast_cost([waits, *at_once], delta=5, epsilon=0) == naive_cost([waits, *at_once], 5, 0)


def test_receivers_buffer_for_themselves() -> None:
    messages = [Message(sent=at, ahead=0, arrival=at + 1, receiver=at % 2) for at in range(10)]

    found = fast_cost(messages, delta=100, epsilon=0)

    assert (found.buffered_max, found.buffered_process_max) == (10, 5)


def test_with_all_late_nothing_waits() -> None:
    found = fast_cost([Message(0, 0, 10), Message(0, 0, 11)], delta=9, epsilon=1)

    assert found == Cost(9, 1.0, 2, None, None, 12, 0, 0)


def test_without_an_epsilon_only_lateness_is_known() -> None:
    ordered = np.array([1, 2, 30], np.int64)

    assert cost(None, ordered, 2, None) == Cost(2, 1 / 3, 1, None, None, None, None, None)


EPSILONS = st.integers(0, 12)
MESSAGES = st.lists(
    st.builds(
        lambda sent, ahead, delay, receiver: Message(sent, ahead, sent + delay, receiver),
        st.integers(0, 40),
        st.integers(0, 12),
        st.integers(-15, 30),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=40,
)


@given(MESSAGES, st.integers(0, 35), EPSILONS)
@example([Message(0, 0, 5), Message(1, 0, 5), Message(0, 0, 5)], 5, 0)
def test_every_figure_is_that_of_the_definitions(messages: list[Message], delta: int, epsilon: int) -> None:
    assert fast_cost(messages, delta, epsilon) == naive_cost(messages, delta, epsilon)


@given(MESSAGES, st.integers(0, 35), EPSILONS)
def test_no_wait_is_longer_than_lemma_4_2_says(messages: list[Message], delta: int, epsilon: int) -> None:
    """Kulkarni and Ravikant, lemma 4.2: with c ≤ ε nothing is buffered longer than δ + 3ε."""
    kept = [Message(m.sent, min(m.ahead, epsilon), m.arrival) for m in messages]

    longest = fast_cost(kept, delta, epsilon).latency_max_ns

    assert longest is None or longest <= delta + 3 * epsilon


@given(MESSAGES, st.integers(0, 20), st.integers(1, 7))
def test_what_is_in_time_is_in_time_for_a_clock_that_counts_ticks(
    messages: list[Message], delta: int, tick: int
) -> None:
    rounded = rounded_up(delta, tick)
    for m in messages:
        if m.arrival <= m.sent + delta:
            assert m.arrival // tick <= m.sent // tick + rounded // tick


def test_sums_and_times_at_the_limits_do_not_overflow() -> None:
    latest, earliest = 2**62 - 1, -(2**62) + 1
    epsilon = EPSILON_END - 1
    messages = [
        Message(sent=latest - epsilon, ahead=epsilon, arrival=latest - 2 * epsilon),
        Message(sent=earliest, ahead=epsilon, arrival=earliest + DELAY_END - 1),
        Message(sent=latest - DELAY_END + 1, ahead=0, arrival=latest),
        *(Message(sent=0, ahead=0, arrival=at) for at in range(60)),
    ]

    assert fast_cost(messages, DELAY_END + 10**15, epsilon) == naive_cost(messages, DELAY_END + 10**15, epsilon)


@given(st.lists(st.integers(-50, 100), min_size=1, max_size=200), st.floats(0, 1), st.integers(1, 9))
def test_the_smallest_delta_keeps_the_share_and_a_tick_less_does_not(
    delays: list[int], late: float, tick: int
) -> None:
    ordered = np.sort(np.array(delays, np.int64))

    found = smallest_delta(ordered, late, tick)

    assert found % tick == 0
    assert sum(delay > found for delay in delays) / len(delays) <= late
    assert found == 0 or sum(delay > found - tick for delay in delays) / len(delays) > late


@pytest.mark.parametrize(
    ("allowed", "count"), [(0, 7), (1, 7), (3, 7), (7, 7), (1, 1000), (29, 100)]
)  # As floats, 0.29 · 100 is below 29.
def test_a_share_that_is_met_exactly_is_met(allowed: int, count: int) -> None:
    ordered = np.arange(1, count + 1, dtype=np.int64)

    assert late_count(ordered, smallest_delta(ordered, allowed / count)) == allowed


def test_candidates_are_quantiles_and_round_numbers_in_ticks() -> None:
    delays = np.sort(np.array([3] * 50 + [40] * 40 + [777] * 10, np.int64))

    assert delta_candidates(delays, tick=1) == [3, 5, 10, 20, 40, 50, 100, 200, 500, 777]
    assert delta_candidates(delays, tick=10) == [10, 20, 40, 50, 100, 200, 500, 780]
    assert delta_candidates(delays, tick=1000, more=[5000]) == [1000, 5000]
    assert delta_candidates(-delays[::-1], tick=1) == [0]
    assert delta_candidates(np.array([3, 30], np.int64), tick=1) == [3, 5, 10, 20, 30]


@pytest.mark.parametrize("seed", range(20))
def test_r_plus_c_is_the_latest_reading_in_the_past(seed: int) -> None:
    """Why a history knows c: figure 1 of the paper, run by the real clocks in a world that keeps G1 and G2."""
    bounds = Bounds(epsilon=4, delta=9, processes=4)
    world = World(bounds, Random(seed))
    world.run(100)

    checked = 0
    for number, event in enumerate(world.events):
        past = [one.stamp.r for at, one in enumerate(world.events) if event.past >> at & 1 or at == number]
        assert event.stamp.r + event.stamp.c == max(past)
        checked += event.stamp.c > 0
    assert checked
