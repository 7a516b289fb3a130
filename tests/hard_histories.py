"""Histories that are hard on a pipeline: wrong clocks, broken structure, reported clocks, gaps, inferred messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from beforehand.events import INDEX_MAX, Event
from beforehand.history import History
from random_histories import as_events, random_steps

__all__ = ["hard_history", "with_broken_structure", "with_reported_clocks"]


_EXTREMES = (INDEX_MAX, -INDEX_MAX, 2**62, -(2**62), 0)


def hard_history(seed: int, *, execution: str, steps: int = 150) -> list[Event]:
    """Multicast, self-delivery, several receives in one event, lost messages; by seed also skew larger than any
    delay, a clock that steps back or forth, one far in the future, times at the ends of 64 bits, events without a
    time, gaps, inferred ids.
    """
    random = Random(seed)
    processes = random.choice([2, 3, 5, 9, 17, 40])
    events = as_events(
        random_steps(
            random,
            processes=processes,
            steps=random.choice([3, steps, steps]),
            loss=random.choice([0, 0.1, 0.5]),
            skew_ns=random.choice([0, 100, 50_000]),
            untimed=random.choice([0, 0, 0.3, 1.0]),
            receive=random.choice([0.2, 0.5, 0.8]),
        )
    )
    events = [replace(event, execution=execution) for event in events]
    names = sorted({event.process for event in events})
    if random.random() < 0.4:
        events = _stepped(events, random.choice(names), random)
    if random.random() < 0.3:
        ahead = random.choice(names)
        events = [_later(event, 10**18) if event.process == ahead else event for event in events]
    if random.random() < 0.2:
        events = [
            replace(event, time=random.choice(_EXTREMES)) if random.random() < 0.1 else event for event in events
        ]
    if random.random() < 0.3:
        events = [replace(event, index=event.index * 3 + 4) for event in events]
    if random.random() < 0.2:
        events = [_renamed(event) for event in events]
    if random.random() < 0.5:
        random.shuffle(events)
    return events


def _later(event: Event, by: int) -> Event:
    return event if event.time is None else replace(event, time=event.time + by)


def _stepped(events: list[Event], process: str, random: Random) -> list[Event]:
    """The clock of a process is set in the middle."""
    step = random.choice([-200_000, -3_000, 3_000, 200_000])
    half = max((event.index for event in events if event.process == process), default=0) // 2
    return [_later(event, step) if event.process == process and event.index > half else event for event in events]


def _renamed(event: Event) -> Event:
    """Every other message is an inferred one."""

    def name(message: str) -> str:
        return f"~{message}" if message[-1] in "02468" else message

    return replace(event, sends=tuple(map(name, event.sends)), receives=tuple(map(name, event.receives)))


def with_reported_clocks(events: list[Event], random: Random, *, wrong: float) -> list[Event]:
    """Every event reports its vector clock, some of them a wrong one."""
    history = History(events)
    result = []
    for event in events:
        clock = history.stamp(event)
        if random.random() < wrong:
            process = random.choice(sorted(clock))
            clock = {**clock, process: clock[process] + random.choice([-1, 1, 5]), "nobody": random.choice([0, 1])}
        result.append(replace(event, clock={p: max(n, 0) for p, n in clock.items()}))
    return result


def with_broken_structure(events: Iterable[Event], random: Random) -> list[Event]:
    """Duplicate events, sends and receives, receives that nobody sent, and messages that go back in time."""
    result = list(events)
    for _ in range(random.randint(1, 4)):
        event = random.choice(result)
        result.insert(random.randrange(len(result) + 1), replace(event, name="again", sends=("x",), receives=()))
    sends = [message for event in result for message in event.sends]
    for _ in range(random.randint(0, 4)):
        at = random.randrange(len(result))
        event = result[at]
        what = random.choice(["send", "receive", "unsent"])
        message = random.choice(sends) if sends and what != "unsent" else f"never-{at}"
        if what == "send" and message not in event.sends:
            result[at] = replace(event, sends=(*event.sends, message))
        elif what != "send" and message not in event.receives:
            result[at] = replace(event, receives=(*event.receives, message))
    return result
