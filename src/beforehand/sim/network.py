"""The network between simulated processes: when, how often and whether a packet arrives.

Each link draws from its own random numbers, so that leaving one message out of a scenario changes little else.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from beforehand.sim.scenario import Delay, DelayKind, Scenario

__all__ = ["Network"]


class Network:
    """Answers one question: at what times does a packet sent now arrive?"""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario: Final = scenario
        self._links: Final[dict[tuple[str, str], random.Random]] = {}
        self._last: Final[dict[tuple[str, str], int]] = {}  # When the last packet of a link arrives, if FIFO.
        self.lost: Final[Counter[str]] = Counter()  # Packets lost, by cause.
        self.repeated = 0

    def arrivals(self, sender: str, to: str, now: int) -> list[int]:
        """The times at which a packet sent `now` arrives: none if it is lost, several if it is repeated."""
        scenario, link = self._scenario, (sender, to)
        rng = self._links.get(link)
        if rng is None:
            rng = self._links[link] = random.Random(f"{scenario.seed}/{sender}/{to}")
        draws = (rng.random(), rng.random(), rng.random(), rng.random())  # Always as many, whatever becomes of it.
        faulty = now < scenario.heal_at
        if faulty and any(
            _cut(p.side, sender, to, p.symmetric) for p in scenario.partitions if p.at <= now < p.until
        ):
            self.lost["partition"] += 1
            return []
        if faulty and draws[0] < scenario.loss:
            self.lost["loss"] += 1
            return []
        arrivals = [self._after_clogs(sender, to, now + _delay(scenario.delay, draws[1]))]
        if scenario.fifo:
            arrivals[0] = self._last[link] = max(arrivals[0], self._last.get(link, 0))
        elif faulty and draws[2] < scenario.repeat:
            self.repeated += 1
            arrivals.append(self._after_clogs(sender, to, now + 3 * _delay(scenario.delay, draws[3])))
        return arrivals

    def _after_clogs(self, sender: str, to: str, at: int) -> int:
        for clog in self._scenario.clogs:
            if clog.sender == sender and clog.to == to and clog.at <= at < clog.until:
                at = clog.until + (at - clog.at) // 16  # They come out close together, in the order they came in.
        return at


def _cut(side: tuple[str, ...], sender: str, to: str, symmetric: bool) -> bool:
    out, back = sender in side and to not in side, to in side and sender not in side
    return out or (symmetric and back)


def _delay(delay: Delay, draw: float) -> int:
    spread = delay.longest - delay.shortest
    match delay.kind:
        case DelayKind.CONSTANT:
            return delay.longest
        case DelayKind.UNIFORM:
            return delay.shortest + int(draw * spread)
        case DelayKind.EXPONENTIAL:
            # The fifth power bends the uniform draw: half of all delays lie in the lowest thirtieth of the spread.
            return delay.shortest + int(draw**5 * spread)
