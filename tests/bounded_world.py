"""A world that keeps G1 and G2, and figure 1 of the paper written down literally.

`World` runs clocks of one kind in random executions: readings never decrease and differ by at most ε; messages
arrive at a reading of at most their sending plus δ, or never. Who happened before whom is plain bookkeeping.
`Figure1` is the program of the paper in its own terms (a dictionary for kn, no shifting of lists), to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from beforehand.clocks import BoundedClock, BoundedStamp, Bounds, Held, Received
from beforehand.errors import TooManyEventsError


@dataclass
class Happened:
    process: int
    stamp: BoundedStamp
    past: int  # Bits.


@dataclass
class InFlight:
    to: int
    stamp: BoundedStamp
    sent_by: int  # Index into `events`.
    sent_at: int  # The sender's reading.
    earliest: int  # Global time before which it does not arrive.
    wire: bytes = b""


@dataclass
class World:
    bounds: Bounds
    random: Random
    activity: float = 0.5
    start: int = 0
    time: int = 0
    offsets: list[int] = field(default_factory=list)
    clocks: list[BoundedClock] = field(default_factory=list)
    events: list[Happened] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    network: list[InFlight] = field(default_factory=list)
    holds: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        n, epsilon = self.bounds.processes, self.bounds.epsilon
        # Extreme skews are as likely as all others together: that is where the bounds bite.
        self.offsets = [self.random.choice([0, epsilon, self.random.randint(0, epsilon)]) for _ in range(n)]
        self.time = self.start
        self.clocks = [BoundedClock(f"p{i}", self.bounds, now=self.reading(i)) for i in range(n)]
        for i in range(n):  # The start of a process is an event (figure 1).
            self._happened(i, self.clocks[i].stamp())

    def reading(self, process: int) -> int:
        return self.time + self.offsets[process]

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.time += 1
            for i in range(self.bounds.processes):
                # Time went on by 1, so an offset may fall by 1 at most: readings never decrease.
                low = max(0, self.offsets[i] - 1)
                if self.random.random() < 0.3:
                    self.offsets[i] = self.random.choice([low, self.random.randint(low, self.bounds.epsilon)])
            order = list(range(self.bounds.processes))
            self.random.shuffle(order)
            for _ in range(self.bounds.events_per_tick):
                for i in order:
                    if self.random.random() < self.activity:
                        self._act(i)

    def _act(self, i: int) -> None:
        now = self.reading(i)
        arrived = [m for m in self.network if m.to == i and m.earliest <= self.time]
        if arrived and self.random.random() < 0.6:
            self._arrive(self.random.choice(arrived), now)
            return
        try:
            stamp = self.clocks[i].tick(now)
        except TooManyEventsError:
            return
        event = self._happened(i, stamp)
        if self.random.random() < 0.6 and self.bounds.processes > 1:
            to = self.random.choice([j for j in range(self.bounds.processes) if j != i])
            earliest = self.time + self.bounds.delta_min
            self.network.append(InFlight(to, stamp, event, now, earliest, stamp.encode(limit=100_000)))

    def _arrive(self, message: InFlight, now: int) -> None:
        if now > message.sent_at + self.bounds.delta:
            self.network.remove(message)  # G2: later than δ is lost.
            return
        clock = self.clocks[message.to]
        stamp = clock.decode(message.wire, now, limit=100_000)
        result = clock.receive(stamp, now)
        if isinstance(result, Held):
            assert result.until > now
            self.holds += 1
            return
        self.network.remove(message)
        if isinstance(result, Received):
            self._happened(message.to, result.stamp, message.sent_by)
        else:
            self.refused += 1

    def _happened(self, process: int, stamp: BoundedStamp, *causes: int) -> int:
        past = 0
        for cause in (*causes, *([self.last[process]] if process in self.last else [])):
            past |= self.events[cause].past | 1 << cause
        self.events.append(Happened(process, stamp, past))
        self.last[process] = len(self.events) - 1
        return self.last[process]

    def inversions(self, *, after: int = 0) -> tuple[int, list[tuple[int, int]]]:
        """(pairs e → f among events later than reading `after`, those of them with not less(e, f))."""
        chosen = [i for i, event in enumerate(self.events) if event.stamp.r > after or after == 0]
        keys = {i: self.events[i].stamp.key for i in chosen}
        pairs, wrong = 0, []
        for f in chosen:
            past = self.events[f].past
            for e in chosen:
                if e >= f:
                    break
                if past >> e & 1:
                    pairs += 1
                    if not keys[e] < keys[f]:
                        wrong.append((e, f))
        return pairs, wrong


class Figure1:
    """The program of figure 1, transcribed. No hold, no checks."""

    def __init__(self, epsilon: int, rt: int = 0) -> None:
        self.epsilon = epsilon
        self.r, self.c = rt, 0
        self.kn = {0: 1}

    def tick(self, rt: int) -> tuple[int, int, dict[int, int]]:
        self.c = max(0, self.r + self.c - rt)
        self.kn = {t: self.kn.get(t + rt - self.r, 0) for t in range(-self.epsilon, self.epsilon)}
        return self._end(rt)

    def receive(self, message: tuple[int, int, dict[int, int]], rt: int) -> tuple[int, int, dict[int, int]]:
        r, c, kn = message
        self.c = max(0, self.r + self.c - rt, r + c - rt)
        self.kn = {
            t: max(0, self.kn.get(t + rt - self.r, 0), kn.get(t + rt - r, 0))
            for t in range(-self.epsilon, self.epsilon)
        }
        return self._end(rt)

    def _end(self, rt: int) -> tuple[int, int, dict[int, int]]:
        self.kn[0] = self.kn.get(0, 0) + 1
        self.r = rt
        return (self.r, self.c, dict(self.kn))


def less_figure1(e: tuple[int, int, dict[int, int]], f: tuple[int, int, dict[int, int]], epsilon: int) -> bool:
    """`less` and `lexgraph`, transcribed."""
    (re, ce, kne), (rf, cf, knf) = e, f
    if re + ce != rf + cf:
        return re + ce < rf + cf
    for i in range(epsilon):
        if kne.get(ce - i, 0) != knf.get(cf - i, 0):
            return kne.get(ce - i, 0) < knf.get(cf - i, 0)
    return False
