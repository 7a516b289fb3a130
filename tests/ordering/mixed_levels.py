"""Random traffic with service levels mixed, and what must hold of it. Reads the recorded events only."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from beforehand.ordering import Level
from ordering.wires import Wires


def babble(wires: Wires, messages: int, *, destinations: Callable[..., Any], levels: tuple[Level, ...]) -> None:
    for number in range(messages):
        name = wires.random.choice(wires.view.processes)
        to = destinations(wires.random, name, wires.view)
        wires.send(name, str(number).encode(), to, level=wires.random.choice(levels))
        for _ in range(wires.random.randrange(4)):
            wires.step()
    wires.run()


def check(wires: Wires) -> None:
    """FIFO for all, causal order for what waits for its past, one order for what is totally ordered."""
    messages = {message.id: message for message in wires.sent}
    past: dict[str, set[str]] = {}
    known: dict[str, set[str]] = {name: set() for name in wires.view.processes}
    delivered: dict[str, list[str]] = {name: [] for name in wires.view.processes}
    for event in wires.events:
        q = event.process
        for m in event.sends:
            past[m] = set(known[q])
            known[q].add(m)
        for m in event.receives:
            message = messages[m]
            waits_for_past = message.level in (Level.CAUSAL, Level.CAUSAL_TOTAL)
            for earlier in past[m]:
                same = messages[earlier].sender == message.sender
                if q in messages[earlier].to and (same or waits_for_past):
                    assert earlier in delivered[q], f"{q} delivers {m} before {earlier}"
            known[q] |= past[m] | {m}
            delivered[q].append(m)
    total = [[m for m in delivered[q] if messages[m].level is Level.CAUSAL_TOTAL] for q in wires.view.processes]
    for one, other in combinations(total, 2):
        assert [m for m in one if m in set(other)] == [m for m in other if m in set(one)]
