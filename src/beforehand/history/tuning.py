"""What a δ costs: how many messages would be late, how long the others wait, and how many wait at once.

A merger (Kulkarni and Ravikant, section 4.2) gets a message that was sent at reading r with the stamp `<r, c>`, at
reading a of its own clock. It is late iff a > r + δ, and refused iff r > a + ε; any other is in time: it waits from a
until the merger's clock reads r + c + δ + ε, and is delivered at that instant.

  1. All figures are exact for the readings given. Nothing is sampled.
  2. r + c is the latest reading in the causal past of the send (figure 1 of the paper: c grows by what is learned and
     shrinks as the clock moves on), so it is known from a history. c < ε (lemma 3.2), so more than ε counts as ε.
  3. If no reading breaks G1, no wait is longer than δ + 3ε (lemma 4.2).
  4. A figure in nanoseconds holds for a merger that counts in ticks, if ε and δ are rounded up to ticks: what
     is in time here is in time there. Waits differ by less than a tick.

Readings must lie within ±2⁶², delays within ±2⁶¹ and ε below 2⁵⁹, so that no sum leaves 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import kernel

__all__ = [
    "DELAY_END",
    "EPSILON_END",
    "Cost",
    "Traffic",
    "cost",
    "delta_candidates",
    "late_count",
    "rounded_up",
    "smallest_delta",
]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

DELAY_END: Final = 2**61
"""Delays are less than this, in nanoseconds: 73 years."""

EPSILON_END: Final = 2**59
QUANTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0)
_ROUND: Final = (1, 2, 5)
_HALF: Final = 32


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one δ. What depends on ε is None if ε is not known; waits are None too if no message is in time."""

    delta_ns: int
    late: float  # The share of all messages.
    late_messages: int
    latency_mean_ns: int | None  # How long messages in time wait.
    latency_max_ns: int | None
    latency_bound_ns: int | None  # δ + 3ε: no wait is longer while the guarantees hold.
    buffered_max: int | None  # The most that wait at once at one merger that gets all messages.
    buffered_process_max: int | None  # The most at any one receiver, if each merges what it receives.


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Messages at a merger, none of them refused; the same twice, in the order of arrival and in that of r + c.

    The arrays may be mapped files: they are read from front to back only.
    """

    arrival: Integers  # a; ascending.
    arrival_ready: Integers  # r + c
    arrival_delay: Integers  # a − r
    arrival_receiver: Numbers  # From 0.
    ready: Integers  # r + c; ascending.
    ready_delay: Integers
    ready_receiver: Numbers
    receivers: int

    @classmethod
    def of(cls, arrival: Integers, ready: Integers, delay: Integers, receiver: Numbers) -> Traffic:
        """From arrays in any order, an entry per message."""
        first, second = np.argsort(arrival, kind="stable"), np.argsort(ready, kind="stable")
        return cls(
            arrival[first],
            ready[first],
            delay[first],
            receiver[first],
            ready[second],
            delay[second],
            receiver[second],
            int(receiver.max(initial=-1)) + 1,
        )


def rounded_up(value: int, tick: int) -> int:
    """To a whole number of ticks."""
    return -(-value // tick) * tick


def smallest_delta(ordered: Integers, late: float, tick: int = 1) -> int:
    """The smallest δ in ticks with at most this share of the messages late. `ordered` has the delays, ascending."""
    count = ordered.size
    allowed = min(count, int(late * count) + 1)
    while allowed and allowed / count > late:
        allowed -= 1
    return rounded_up(max(0, int(ordered[count - 1 - allowed])), tick) if allowed < count else 0


def late_count(ordered: Integers, delta: int) -> int:
    """How many delays are greater."""
    return int(ordered.size - np.searchsorted(ordered, delta, side="right"))


def delta_candidates(ordered: Integers, tick: int, more: Iterable[int] = ()) -> list[int]:
    """Values of δ worth a look, ascending: quantiles of the delays, round numbers of ticks between, and `more`."""
    ranks = [max(0, int(np.ceil(share * ordered.size)) - 1) for share in QUANTILES]
    quantiles = {rounded_up(max(0, int(ordered[rank])), tick) for rank in ranks}
    rounds, power = set(), tick
    while power < max(quantiles):
        rounds |= {power * factor for factor in _ROUND}
        power *= 10
    between = {value for value in rounds if min(quantiles) < value < max(quantiles)}
    return sorted(quantiles | between | set(more))


def cost(traffic: Traffic | None, ordered: Integers, delta: int, epsilon: int | None) -> Cost:
    """Of one δ, for all messages, whose delays are `ordered`; `traffic` has those that are not refused."""
    late = late_count(ordered, delta)
    share = late / ordered.size
    if traffic is None or epsilon is None:
        return Cost(delta, share, late, None, None, None, None, None)
    count, high, low, longest, most, most_at_one = _sweep(
        traffic.arrival,
        traffic.arrival_ready,
        traffic.arrival_delay,
        traffic.arrival_receiver,
        traffic.ready,
        traffic.ready_delay,
        traffic.ready_receiver,
        np.zeros(traffic.receivers, np.int64),
        delta,
        delta + epsilon,
    )
    mean = round(((int(high) << _HALF) + int(low)) / int(count)) if count else None
    longest_wait = int(longest) if count else None
    return Cost(delta, share, late, mean, longest_wait, delta + 3 * epsilon, int(most), int(most_at_one))


@kernel
def _sweep(
    arrival: Integers,
    arrival_ready: Integers,
    arrival_delay: Integers,
    arrival_receiver: Numbers,
    ready: Integers,
    ready_delay: Integers,
    ready_receiver: Numbers,
    waiting: Integers,
    delta: int,
    wait: int,
) -> tuple[int, int, int, int, int, int]:
    """Arrivals and departures as two streams, each in the order of time, whatever δ is: one pass, no sorting.

    At one instant departures come first. A message that need not wait at all may so depart before it arrives: counts
    are too small until it does, at the same instant, and the last arrival of an instant sees the right ones.
    The sum of the waits is kept in two halves, for it may not fit 64 bits.
    """
    count, high, low, longest = 0, 0, 0, 0
    all_waiting, most, most_at_one = 0, 0, 0
    gone = 0
    for at in range(arrival.size):
        if arrival_delay[at] > delta:
            continue
        now = arrival[at]
        while gone < ready.size and ready[gone] + wait <= now:
            if ready_delay[gone] <= delta:
                all_waiting -= 1
                waiting[ready_receiver[gone]] -= 1
            gone += 1
        own = arrival_ready[at] + wait - now
        count += 1
        high += own >> _HALF
        low += own & 0xFFFFFFFF
        longest = max(longest, own)
        all_waiting += 1
        most = max(most, all_waiting)
        receiver = arrival_receiver[at]
        waiting[receiver] += 1
        most_at_one = max(most_at_one, waiting[receiver])
    return count, high, low, longest, most, most_at_one
