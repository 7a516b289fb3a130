"""A table full of members and wires, for tests of single protocols: any order, repetitions, timers, a history.

The simulator of `sim/` does far more. This one is small enough to see through, and shares no code with it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from beforehand.clocks import View
from beforehand.events import Event
from beforehand.history import CheckReport, History
from beforehand.ordering import Channels, Deliver, Discard, Message, Refused, Sent, SetTimer, Transmit


class Wires:
    def __init__(
        self,
        make: Callable[[str, View], Any],
        names: Iterable[str],
        *,
        seed: int = 0,
        fifo: bool | None = None,
        repeat: float = 0.0,
        lose: float = 0.0,
    ) -> None:
        self.view = View(names)
        self.members: dict[str, Any] = {name: make(name, self.view) for name in self.view.processes}
        needs = next(iter(self.members.values())).traits.channels
        self.fifo = needs is Channels.FIFO if fifo is None else fifo
        self.random = random.Random(seed)
        self.repeat, self.lose = repeat, lose
        self.now = 0
        self.flying: list[tuple[str, str, Any]] = []
        self.timers: dict[str, int] = {}
        self.events: list[Event] = []
        self.delivered: dict[str, list[Message]] = {name: [] for name in self.view.processes}
        self.sent: list[Message] = []
        self.discarded: list[Discard] = []
        self.refused: list[Refused] = []
        self.packets: Counter[str] = Counter()
        self._index: Counter[str] = Counter()

    def send(self, name: str, payload: bytes = b"", to: Iterable[str] | None = None, **options: Any) -> None:
        self.perform(name, self.members[name].send(payload, to, now=self.now, **options))

    def perform(self, name: str, effects: Iterable[object]) -> None:
        for effect in effects:
            match effect:
                case Sent():
                    self.sent.append(effect.message)
                    self._record(name, sends=(effect.message.id,))
                case Deliver():
                    self.delivered[name].append(effect.message)
                    self._record(name, receives=(effect.message.id,))
                case Discard():
                    self.discarded.append(effect)
                case Refused():
                    self.refused.append(effect)
                case Transmit():
                    self.packets[type(effect.packet).__name__] += len(effect.to)
                    self.flying += [(name, to, effect.packet) for to in effect.to]
                case SetTimer():
                    if effect.at is None:
                        self.timers.pop(name, None)
                    else:
                        self.timers[name] = effect.at
        self.members[name].check_invariants()

    def step(self) -> bool:
        """One packet arrives, or else the next timer goes off; False if there is neither."""
        if self.flying:
            at = self.random.randrange(len(self.flying))
            if self.fifo:
                link = self.flying[at][:2]
                at = next(i for i, packet in enumerate(self.flying) if packet[:2] == link)
            sender, to, packet = self.flying.pop(at)
            if self.random.random() < self.lose:
                return True
            if self.random.random() < self.repeat:
                self.flying.append((sender, to, packet))
            self.now += 1
            self.perform(to, self.members[to].receive(sender, packet, now=self.now))
            return True
        if self.timers:
            name = min(self.timers, key=lambda name: (self.timers[name], name))
            self.now = max(self.now, self.timers.pop(name))
            self.perform(name, self.members[name].tick(now=self.now))
            return True
        return False

    def run(self, steps_max: int = 100_000) -> None:
        for _ in range(steps_max):
            if not self.step():
                return
        raise AssertionError(f"still busy after {steps_max} steps")

    def babble(self, messages: int, *, destinations: Callable[[random.Random, str, View], list[str] | None]) -> None:
        """Random members send to random destinations while packets arrive in between; then all arrives."""
        for number in range(messages):
            name = self.random.choice(self.view.processes)
            self.send(name, str(number).encode(), destinations(self.random, name, self.view))
            for _ in range(self.random.randrange(4)):
                self.step()
        self.run()

    def check(self) -> CheckReport:
        return History(self.events).check()

    def check_complete(self) -> None:
        """Everything sent was delivered, once, to exactly its destinations."""
        for name in self.view.processes:
            expected = Counter(message.id for message in self.sent if name in message.to)
            assert Counter(message.id for message in self.delivered[name]) == expected

    def _record(self, name: str, **what: tuple[str, ...]) -> None:
        self._index[name] += 1
        self.events.append(Event(process=name, index=self._index[name], time=self.now, **what))


def anyone(rng: random.Random, _: str, view: View) -> list[str]:
    """Any set of members, with the sender or without."""
    return rng.sample(view.processes, rng.randrange(1, len(view.processes) + 1))


def one_other(rng: random.Random, sender: str, view: View) -> list[str]:
    return [rng.choice([p for p in view.processes if p != sender])]


def everyone(rng: random.Random, sender: str, view: View) -> list[str]:
    """All, or all but the sender."""
    return [p for p in view.processes if p != sender or rng.random() < 0.5]
