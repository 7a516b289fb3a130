"""Members of a timed protocol with clocks of their own, on wires with random delays. One seed decides."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from beforehand.ordering import Deliver, SetTimer, Transmit
from beforehand.ordering.timed_delivery import TimedDelivery
from ordering.wires import Wires, anyone


class TimedWorld(Wires):
    """Real time in `now`; the clock of a member is that plus its offset."""

    def __init__(
        self,
        *,
        seed: int,
        delay: Callable[[random.Random], int],
        offsets: dict[str, int],
        protocol: Any = TimedDelivery,
        **options: Any,
    ):
        super().__init__(lambda name, view: protocol(name, view, **options), offsets, seed=seed)
        self.delay, self.offsets = delay, offsets
        self.agenda: list[tuple[int, float, Callable[[], None]]] = []
        self.alarms: dict[str, int | None] = {}
        self.latencies: list[int] = []  # On the clock of who delivers, from the time of the message.

    def at(self, time: int, act: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (time, self.random.random(), act))  # Ties at random.

    def clock(self, name: str) -> int:
        return self.now + self.offsets[name]

    def speak(self, name: str) -> None:
        to = anyone(self.random, name, self.view)
        self.act(name, self.members[name].send(b"", to, now=self.clock(name)))

    def act(self, name: str, effects: list[Any]) -> None:
        self.latencies += [self.clock(name) - effect.place[0] for effect in effects if isinstance(effect, Deliver)]
        self.perform(name, [effect for effect in effects if not isinstance(effect, Transmit | SetTimer)])
        for effect in effects:
            if isinstance(effect, Transmit):
                for to in effect.to:
                    arrival = self.now + self.delay(self.random)
                    self.at(arrival, lambda to=to, p=effect.packet: self.arrive(name, to, p))
            elif isinstance(effect, SetTimer):
                self.alarms[name] = effect.at
                if effect.at is not None:
                    real = max(self.now, effect.at - self.offsets[name])
                    self.at(real, lambda at=effect.at: self.ring(name, at))

    def arrive(self, sender: str, to: str, packet: Any) -> None:
        self.act(to, self.members[to].receive(sender, packet, now=self.clock(to)))

    def ring(self, name: str, at: int) -> None:
        if self.alarms[name] == at:
            self.act(name, self.members[name].tick(now=self.clock(name)))

    def run_all(self, messages: int, *, within: int) -> None:
        for _ in range(messages):
            name = self.random.choice(self.view.processes)
            self.at(self.random.randrange(within), lambda name=name: self.speak(name))
        while self.agenda:
            self.now, _, act = heapq.heappop(self.agenda)
            act()
