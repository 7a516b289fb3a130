"""Deterministic merge as Aguilera and Strom do it, beside merging by time, in a simulated run.

Their merger knows at what rate each publisher sends, and gives the j-th message of a publisher the virtual time
j / rate. It delivers by virtual time, so it must have heard from every publisher up to there. Whoever has nothing to
send at its turn sends a dummy message; whoever has more than its rate waits for its turns. Source: Aguilera and
Strom, "Efficient atomic broadcast using deterministic merge", 2000; the variant with fixed rates and dummies, as
paper 000 names it.

Merging by time (`MergeBuffer`) waits until r + c + δ + ε and needs neither rates nor dummies. What takes longer than
δ is set aside; here nothing does, for delays are cut at δ, the same for both.

Delay is from when the application hands the message over to its delivery. Clocks are apart by up to ε.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.report import Figure, Row, Section, Table

__all__ = ["Outcome", "aguilera_strom", "by_time", "sections"]

SECONDS = 60.0
EPSILON_S = 0.010
DELTA_S = 0.050
DELAY_MEAN_S = 0.005
PUBLISHERS = 10

Handed = Sequence[Sequence[float]]  # By publisher: when the application handed over each message.


@dataclass(frozen=True, slots=True)
class Outcome:
    delays_ms: Sequence[float]  # Sorted, of real messages.
    dummies: int

    def share(self, part: float) -> float:
        return self.delays_ms[min(int(len(self.delays_ms) * part), len(self.delays_ms) - 1)]


def aguilera_strom(handed: Handed, rates: Sequence[float], *, seed: int) -> Outcome:
    """`rates` in turns per second, known to everybody."""
    chance = random.Random(seed)
    turns: list[tuple[float, int, float, float | None]] = []  # Virtual time, publisher, arrival, handed over.
    end = SECONDS + 5 / min(rates)
    dummies = 0
    for publisher, (times, rate) in enumerate(zip(handed, rates, strict=True)):
        offset = chance.uniform(0, EPSILON_S)
        waiting, arrival, turn = 0, 0.0, 0
        while turn / rate < end or waiting < len(times):
            now = turn / rate + offset
            arrival = max(arrival, now + _delay(chance))  # Channels keep their order.
            has = waiting < len(times) and times[waiting] <= now
            turns.append((turn / rate, publisher, arrival, times[waiting] if has else None))
            waiting += has
            dummies += not has
            turn += 1
    turns.sort(key=lambda each: each[:2])
    delays, latest = [], 0.0
    for _, _, arrival, when in turns:
        latest = max(latest, arrival)  # It waits for all before it in virtual time.
        if when is not None:
            delays.append((latest - when) * 1e3)
    return Outcome(sorted(delays), dummies)


def by_time(handed: Handed, *, seed: int) -> Outcome:
    """Due at r + δ + ε on the merger's clock; c is 0, for these publishers do not hear of each other."""
    chance = random.Random(seed)
    delays = []
    for times in handed:
        ahead = chance.uniform(0, EPSILON_S)  # Of this publisher's clock.
        delays += [(ahead + DELTA_S + EPSILON_S) * 1e3 for _ in times]
    return Outcome(sorted(delays), 0)


def _even(chance: random.Random) -> tuple[Handed, Sequence[float]]:
    """Everybody sends 20 a second, in even steps; rates are exactly right."""
    handed = [
        [number / 20 + chance.uniform(0, 0.002) for number in range(int(SECONDS * 20))] for _ in range(PUBLISHERS)
    ]
    return handed, [20.0] * PUBLISHERS


def _random(chance: random.Random) -> tuple[Handed, Sequence[float]]:
    """At random, 20 a second on average; turns are a half more, or queues would grow for ever."""
    return [_poisson(chance, 20) for _ in range(PUBLISHERS)], [30.0] * PUBLISHERS


def _uneven(chance: random.Random) -> tuple[Handed, Sequence[float]]:
    """One sends 180 a second and nine send 2 each, at random; rates fit each of them."""
    means = [180.0] + [2.0] * (PUBLISHERS - 1)
    return [_poisson(chance, mean) for mean in means], [1.5 * mean for mean in means]


def _idle(chance: random.Random) -> tuple[Handed, Sequence[float]]:
    """One sends, nine are silent; turns as in `random`, for one of them might speak."""
    return [_poisson(chance, 20)] + [[] for _ in range(PUBLISHERS - 1)], [30.0] * PUBLISHERS


def _bursts(chance: random.Random) -> tuple[Handed, Sequence[float]]:
    """50 messages at once, every 2.5 s; on average 20 a second."""
    handed = [
        [start + chance.uniform(0, 0.01) for start in _steps(chance.uniform(0, 2.5)) for _ in range(50)]
        for _ in range(PUBLISHERS)
    ]
    return [sorted(times) for times in handed], [30.0] * PUBLISHERS


_LOADS = {"even": _even, "random": _random, "uneven": _uneven, "idle": _idle, "bursts": _bursts}


def sections() -> list[Section]:
    rows = []
    for name, load in _LOADS.items():
        handed, rates = load(random.Random(1))
        theirs = aguilera_strom(handed, rates, seed=2)
        ours = by_time(handed, seed=2)
        each = theirs.dummies / len(theirs.delays_ms)
        shares = [Figure.of([one.share(part)]) for one in (theirs, ours) for part in (0.5, 0.99)]
        rows.append(Row((name,), (*shares[:2], Figure.of([each], digits=2), *shares[2:], Figure(ours.dummies))))
    columns = (
        "load",
        "by known rates, median",
        "99 %",
        "dummies per message",
        "by time, median",
        "99 % by time",
        "dummies by time",
    )
    return [
        Section(
            "Beside merging by known rates (simulated)",
            f"{PUBLISHERS} publishers, {SECONDS:.0f} s, delays of {DELAY_MEAN_S * 1e3:.0f} ms on average and at most "
            f"δ = {DELTA_S * 1e3:.0f} ms, clocks apart by up to ε = {EPSILON_S * 1e3:.0f} ms. Delay from handing "
            "over to delivery, in ms.",
            Table("rates", columns, tuple(rows), "One seed, so always the same."),
            "\n".join(f"- *{name}*: {(load.__doc__ or '').strip()}" for name, load in _LOADS.items()),
        )
    ]


def _delay(chance: random.Random) -> float:
    return min(chance.expovariate(1 / DELAY_MEAN_S), DELTA_S)


def _poisson(chance: random.Random, rate: float) -> list[float]:
    times, now = [], chance.expovariate(rate)
    while now < SECONDS:
        times.append(now)
        now += chance.expovariate(rate)
    return times


def _steps(start: float) -> list[float]:
    return [start + 2.5 * number for number in range(int(SECONDS / 2.5))]
