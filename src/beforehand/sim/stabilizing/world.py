"""The paper's system: publishers with bounded clocks, mergers with buffers, channels between them, and its faults.

A publisher stamps what it does: it sends to another publisher, receives from one (through the clock, which may hold a
message back), or publishes to some of the mergers. A merger offers what arrives to its buffer and releases what is
due, by its own clock. While G1 holds, the clock of each process shows between t and t + ε at time t, and never goes
back; while G2 holds, what is not received when the receiver's clock shows the sender's plus δ is lost.

All that happened is written down as native events; the judge sees nothing else. Attributes: `at`, the true time;
`to`, the mergers of a message; `message`, of an arrival and of what was set aside; `was`, of a delivery, what the
merger's clock showed one tick before.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from beforehand.clocks import BoundedClock, BoundedStamp, Held, Received
from beforehand.errors import TooManyEventsError
from beforehand.events import Event
from beforehand.ordering import MergeBuffer, Published
from beforehand.sim.stabilizing.faults import any_stamp, corrupt_clock, corrupt_merger, corrupt_stamp
from beforehand.sim.stabilizing.setting import START, Fault, Setting

__all__ = ["World", "run_setting"]

WIRE_MAX: Final = 2**16


@dataclass(slots=True)
class InFlight:
    """A message on its way to one process."""

    id: str
    publisher: str
    sequence: int
    stamp: BoundedStamp
    sent_at: int  # The sender's reading, truly.
    slow: int = 0  # G2 does not hold: ticks beyond δ.


@dataclass(slots=True)
class Clock:
    """A physical clock: what it shows at t is t + `ahead`; `wrong` is what a fault adds."""

    ahead: int
    wrong: int = 0


def run_setting(setting: Setting) -> list[Event]:
    """All events of the run."""
    world = World(setting)
    world.run()
    return world.events


class World:
    def __init__(self, setting: Setting) -> None:
        self.setting: Final = setting
        self.random: Final = random.Random(f"world/{setting.fault}/{setting.seed}")
        self.events: Final[list[Event]] = []
        self.time = START
        bounds = setting.bounds
        self._names: Final = [f"p{i}" for i in range(setting.publishers)]
        self._merging: Final = [f"m{i}" for i in range(setting.mergers)]
        extremes = (0, bounds.epsilon, self.random.randint(0, bounds.epsilon))
        self._clocks: Final = {name: Clock(self.random.choice(extremes)) for name in (*self._names, *self._merging)}
        self._stamping: Final = {name: BoundedClock(name, bounds, now=self.reading(name)) for name in self._names}
        self._buffers: Final[dict[str, MergeBuffer[str]]] = {
            name: MergeBuffer(setting.rules, ahead_max=0) for name in self._merging
        }
        self._channels: Final[dict[str, list[InFlight]]] = {name: [] for name in self._clocks}
        self._sent: Final = Counter[str]()  # Messages per publisher.
        self._was: Final = {name: self.reading(name) - 1 for name in self._merging}
        self._ghosts = 0
        self._indexes: Final = Counter[str]()

    def reading(self, name: str) -> int:
        clock = self._clocks[name]
        return self.time + clock.ahead + clock.wrong

    def run(self) -> None:
        while self.time < self.setting.end:
            if self.setting.fault_from <= self.time < self.setting.fault_until:
                self._strike()
            elif self.time == self.setting.fault_until:
                self._heal()
            order = list(self._names)
            self.random.shuffle(order)
            for _ in range(self.setting.bounds.events_per_tick):
                for name in order:
                    if self.random.random() < self.setting.activity:
                        self._act(name)
            for name in self._merging:
                self._merge(name)
            self._tick()

    def _tick(self) -> None:
        self.time += 1
        rng, epsilon = self.random, self.setting.bounds.epsilon
        for clock in self._clocks.values():
            if epsilon and rng.random() < 0.3:
                # Time went on by 1, so a clock may fall back by 1 against it: it never decreases.
                low = max(0, clock.ahead - 1)
                clock.ahead = rng.choice((low, rng.randint(low, epsilon)))

    # Publishers.

    def _act(self, name: str) -> None:
        rng = self.random
        if self._channels[name] and rng.random() < 0.6:
            self._receive(name, rng.choice(self._channels[name]))
            return
        try:
            stamp = self._stamping[name].tick(self.reading(name))
        except TooManyEventsError:
            self._write(name, "blocked")
            return
        self._sent[name] += 1
        message = InFlight(f"{name}.{self._sent[name]}", name, self._sent[name], stamp, self.reading(name))
        if rng.random() < self.setting.talk:
            to = [rng.choice([other for other in self._names if other != name])]
        else:
            to = rng.sample(self._merging, rng.randint(1, len(self._merging)))
        self._write(name, "send", sends=(message.id,), to=" ".join(sorted(to)))
        for destination in to:
            self._transmit(destination, message)

    def _transmit(self, to: str, message: InFlight) -> None:
        rng, setting = self.random, self.setting
        faulty = setting.fault_from <= self.time < setting.fault_until
        if faulty and setting.strikes(Fault.LOSS) and rng.random() < setting.rate:
            return
        copy = replace(message)
        self._channels[to].append(copy)
        if faulty and setting.strikes(Fault.DUPLICATION) and rng.random() < setting.rate:
            # A copy may come after δ, but not so late that r modulo B means another time.
            slow = rng.choice((0, 0, rng.randint(0, 4 * setting.bounds.epsilon)))
            self._channels[to].append(replace(message, slow=slow))
        if faulty and setting.strikes(Fault.DELAYS) and rng.random() < setting.rate:
            copy.slow = rng.choice((1, 2, rng.randint(1, 3 * setting.rules.span)))

    def _receive(self, name: str, message: InFlight) -> None:
        """A message from another publisher, at its door; gone if its time is over."""
        channel, now = self._channels[name], self.reading(name)
        if now > message.sent_at + self.setting.bounds.delta + message.slow:
            channel.remove(message)
            return
        result = self._stamping[name].receive(self._carried(message, now), now)
        if isinstance(result, Held):
            return
        channel.remove(message)
        if isinstance(result, Received):
            self._write(name, "receive", receives=(message.id,))

    def _carried(self, message: InFlight, now: int) -> BoundedStamp:
        """The stamp as it comes out of the wire."""
        if not self.setting.wire:
            return message.stamp
        data = message.stamp.encode(limit=WIRE_MAX)
        return BoundedStamp.decode(data, limit=WIRE_MAX, near=now, ahead=self.setting.bounds.epsilon)

    # Mergers.

    def _merge(self, name: str) -> None:
        buffer, now = self._buffers[name], self.reading(name)
        was = str(self._was[name])
        self._was[name] = now
        for released in buffer.advance(now):
            if released.reason is None:
                self._write(name, "deliver", receives=(released.item,), was=was)
            else:
                self._write(name, f"aside {released.reason}", message=released.item)
        for message in self._arriving(name, now):
            stamp = self._carried(message, now)
            published = Published(publisher=message.publisher, sequence=message.sequence, stamp=stamp)
            self._write(name, "arrive", message=message.id)
            reason = buffer.offer(published, message.id, arrival=now)
            if reason is not None:
                self._write(name, f"aside {reason}", message=message.id)

    def _arriving(self, name: str, now: int) -> list[InFlight]:
        """What arrives now: some of it at once, the rest as late as G2 allows."""
        rng, arriving, staying = self.random, [], []
        for message in self._channels[name]:
            last = message.sent_at + self.setting.bounds.delta + message.slow
            if now > last:
                continue  # Lost.
            if now == last or (not message.slow and rng.random() < self.setting.haste):
                arriving.append(message)
            else:
                staying.append(message)
        rng.shuffle(arriving)
        self._channels[name] = staying
        return arriving

    # Faults.

    def _strike(self) -> None:
        setting = self.setting
        initial = setting.strikes(Fault.INITIAL) and self.time == setting.fault_from
        # The last blow is the hardest: what it leaves has the longest time to be seen.
        rate = 1.0 if initial or self.time == setting.fault_until - 1 else setting.rate
        if setting.strikes(Fault.STAMPS):
            self._strike_stamps(rate)
        if setting.strikes(Fault.CLOCKS):
            self._strike_clocks(rate)
        if initial or setting.strikes(Fault.PUBLISHERS):
            for name in self._names:
                if self.random.random() < rate:
                    corrupt_clock(self.random, self._stamping[name], self.reading(name))
        if initial or setting.strikes(Fault.MERGERS):
            for name in self._merging:
                if self.random.random() < rate:
                    ghosts = [self._ghost() for _ in range(self.random.randint(0, 6))]
                    corrupt_merger(self.random, self._buffers[name], self.reading(name), ghosts)
        if initial or setting.strikes(Fault.GARBAGE):
            for name, channel in self._channels.items():
                if self.random.random() < rate:
                    channel.extend(self._garbage(name) for _ in range(self.random.randint(0, 5)))

    def _strike_stamps(self, rate: float) -> None:
        for channel in self._channels.values():
            for message in channel:
                if self.random.random() < rate:
                    message.stamp = corrupt_stamp(self.random, self.setting.bounds, message.stamp)

    def _strike_clocks(self, rate: float) -> None:
        span = self.setting.rules.span
        for clock in self._clocks.values():
            if self.random.random() < rate:
                wide = self.random.choice((1, span, 10 * span))
                clock.wrong = self.random.choice((0, self.random.randint(-wide, wide)))

    def _garbage(self, name: str) -> InFlight:
        """A message that nobody sent; it may have the number of one that somebody will send."""
        rng, now = self.random, self.reading(name)
        stamp = any_stamp(rng, self.setting.bounds, now)
        sender = rng.choice(self._names)
        number = self._sent[sender] + rng.randint(-3, 20)
        return InFlight(self._ghost(), sender, max(1, number), stamp, now - rng.randint(0, self.setting.bounds.delta))

    def _ghost(self) -> str:
        self._ghosts += 1
        return f"ghost.{self._ghosts}"

    def _heal(self) -> None:
        """The last fault is over: clocks are within ε again, and what is in the channels comes within δ or never."""
        for clock in self._clocks.values():
            clock.wrong = 0
        for name, channel in self._channels.items():
            now = self.reading(name)
            for message in channel:
                if message.sent_at > now + self.setting.bounds.epsilon:
                    message.sent_at = now  # Sent by a clock that was wrong.
                message.slow = min(message.slow, max(0, now - message.sent_at))

    def _write(
        self, process: str, name: str, sends: tuple[str, ...] = (), receives: tuple[str, ...] = (), **more: str
    ) -> None:
        self._indexes[process] += 1
        self.events.append(
            Event(
                process=process,
                index=self._indexes[process],
                time=self.reading(process),
                name=name,
                sends=sends,
                receives=receives,
                attributes={"at": str(self.time), **more},
            )
        )
