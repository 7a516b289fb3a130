"""Watching protocols from outside: a layer around each process that notes times and lets everything through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from beforehand.clocks import View
from beforehand.ordering import (
    Deliver,
    DeliveryProtocol,
    Effect,
    Level,
    Message,
    Missing,
    Pending,
    Report,
    Sent,
    Traits,
    Transmit,
)
from beforehand.sim.local_clock import EPOCH
from beforehand.sim.scenario import Scenario
from beforehand.sim.stack import stack_of
from beforehand.sim.world import Application, World

__all__ = ["Notes", "watch"]


@dataclass(slots=True)
class Notes:
    """What was seen of one run. Times are true times in nanoseconds: the clocks of watched runs are right."""

    sent: dict[str, int] = field(default_factory=dict)  # When `send` was called, by message.
    arrived: dict[tuple[str, str], int] = field(default_factory=dict)  # By (process, message): the first packet.
    delivered: dict[tuple[str, str], int] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)  # Per process its deliveries, in order.
    packets: list[int] = field(default_factory=list)  # To how many each transmission went.
    received: int = 0  # Packets that came in.
    waits: list[int] = field(default_factory=list)  # How long each message waited that had to.
    waiting_max: int = 0  # At one process at once.
    end: int = 0


def watch(scenario: Scenario, *, application: Application | None = None, waits: bool = False) -> Notes:
    """Run a scenario with right clocks and say what was seen. `waits`: note who waits and how long, which costs time.

    AssertionError if it did not come to rest or something was not delivered: then the figures would mean nothing.
    """
    assert not scenario.clocks, "the figures of watched runs are in true time"
    notes = Notes()
    make = stack_of(scenario)
    world = World(scenario, lambda name, view: _Watched(make(name, view), notes, waits=waits), application)
    record = world.run()
    notes.end = record.end
    assert world.quiet, "the run did not come to rest"
    for message, _ in record.sent.values():
        assert all((process, message.id) in notes.delivered for process in message.to), f"{message.id} was lost"
    return notes


class _Watched:
    """A protocol and the notes on it. It gives away nothing of what waits unless that is asked for: it costs time."""

    def __init__(self, within: DeliveryProtocol, notes: Notes, *, waits: bool) -> None:
        self.traits: Final[Traits] = within.traits
        self.process: Final = within.process
        self.view: Final[View] = within.view
        self._within: Final = within
        self._notes: Final = notes
        self._waits: Final = waits
        self._since: dict[str, int] = {}  # When each message that waits here began to.

    def send(
        self, payload: bytes, to: Iterable[str] | None = None, *, now: int, level: Level | None = None
    ) -> list[Effect]:
        effects = self._within.send(payload, to, now=now, level=level)
        for effect in effects:
            if isinstance(effect, Sent):
                self._notes.sent[effect.message.id] = now - EPOCH
        return self._note(effects, now)

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        message = getattr(packet, "message", None)
        if isinstance(message, Message):
            self._notes.arrived.setdefault((self.process, message.id), now - EPOCH)
        self._notes.received += 1
        return self._note(self._within.receive(sender, packet, now=now), now)

    def tick(self, *, now: int) -> list[Effect]:
        return self._note(self._within.tick(now=now), now)

    def pending(self) -> list[Pending]:
        return self._within.pending() if self._waits else []

    def missing(self) -> list[Missing]:
        return self._within.missing()

    def stable(self) -> Mapping[str, int]:
        return self._within.stable()

    def report(self) -> Report:
        return self._within.report()

    def snapshot(self) -> Any:
        return self._within.snapshot()

    def restore(self, snapshot: Any) -> None:
        self._within.restore(snapshot)

    def check_invariants(self) -> None:
        """Nothing: that is for tests and campaigns, and would take most of the time."""

    def _note(self, effects: list[Effect], now: int) -> list[Effect]:
        notes, process, time = self._notes, self.process, now - EPOCH
        for effect in effects:
            if isinstance(effect, Deliver):
                notes.delivered[process, effect.message.id] = time
                notes.order.setdefault(process, []).append(effect.message.id)
            elif isinstance(effect, Transmit):
                notes.packets.append(len(effect.to))
        if self._waits:
            self._note_waits(time)
        return effects

    def _note_waits(self, time: int) -> None:
        notes = self._notes
        here = [pending.message.id for pending in self._within.pending()]
        notes.waiting_max = max(notes.waiting_max, len(here))
        notes.waits += [time - since for message_id, since in self._since.items() if message_id not in here]
        self._since = {message_id: self._since.get(message_id, time) for message_id in here}
