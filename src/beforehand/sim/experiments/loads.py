"""Who sends when, over what network, in the experiments: independent senders, like customers at a counter."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from beforehand.ordering import PROTOCOLS, Channels
from beforehand.sim.scenario import MILLISECOND, Delay, DelayKind, Operation, Scenario

__all__ = ["MEAN", "arrivals", "delay_of", "scenario_of"]

MEAN: Final = MILLISECOND
"""The mean of delays, whatever their variance."""

# Of the simulator's bent distribution, a uniform number to the fifth: its mean is 1/6 and its deviation this.
_BENT_DEVIATION: Final = (1 / 11 - 1 / 36) ** 0.5


def arrivals(rng: random.Random, *, count: int, per_delay: float, delay: int) -> list[int]:
    """The times of `count` operations, on average `per_delay` in each `delay`, at random (a Poisson process)."""
    now = 0.0
    times = []
    for _ in range(count):
        now += rng.expovariate(per_delay / delay)
        times.append(int(now))
    return times


def delay_of(deviation: float) -> Delay:
    """Delays of mean `MEAN`, most short and a few long; their standard deviation is this part of it, up to 1.5."""
    if not deviation:
        return Delay(kind=DelayKind.CONSTANT, shortest=MEAN, longest=MEAN)
    spread = deviation / _BENT_DEVIATION
    shortest = max(0, int(MEAN * (1 - spread / 6)))
    return Delay(kind=DelayKind.EXPONENTIAL, shortest=shortest, longest=shortest + int(MEAN * spread))


def scenario_of(
    protocol: str,
    processes: tuple[str, ...],
    operations: Sequence[Operation],
    *,
    seed: int,
    delay: Delay,
    options: tuple[tuple[str, int | str | bool], ...] = (),
    fifo: bool | None = None,
    until: int = 0,
) -> Scenario:
    """A scenario without faults; the network keeps the order of its links where the protocol asks for it (`fifo`)."""
    kept = PROTOCOLS[protocol].traits.channels is Channels.FIFO if fifo is None else fifo
    last = max([until, *(operation.at for operation in operations)])
    return Scenario(
        protocol=protocol,
        processes=processes,
        operations=tuple(operations),
        seed=seed,
        options=options,
        delay=delay,
        fifo=kept,
        heal_at=last + 100 * delay.longest,
        settle=10_000 * delay.longest,
    )
