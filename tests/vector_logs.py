"""What the tests of vector-clock logs share: clocks from an independent oracle."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from beforehand.events import Event, Rejection
from beforehand.history import History
from random_histories import Step, pasts, random_steps


def split(items: Iterable[Event | Rejection]) -> tuple[list[Event], list[Rejection]]:
    """Events and rejections apart. Everything said of them can be written as UTF-8, on one line."""
    events, rejections = [], []
    for item in items:
        if isinstance(item, Event):
            events.append(item)
            item.name.encode()
        else:
            rejections.append(item)
            item.text.encode()
            item.detail.encode()
            assert "\n" not in item.detail
    return events, rejections


def clocks(steps: list[Step]) -> list[dict[str, int]]:
    """The vector stamp of each step, counted from the sets of steps that happened before it."""
    result = []
    for at, past in enumerate(pasts(steps)):
        clock: dict[str, int] = {}
        for other, step in enumerate(steps):
            if other == at or past >> other & 1:
                clock[step.process] = max(clock.get(step.process, 0), step.index)
        result.append(clock)
    return result


def random_history(seed: int) -> tuple[Random, list[Step]]:
    random = Random(seed)
    steps = random_steps(
        random,
        processes=random.randint(1, 7),
        steps=random.randint(1, 50),
        send=random.choice([0.2, 0.5, 0.8]),
        receive=random.choice([0.2, 0.5, 0.9]),
        loss=random.choice([0.0, 0.3]),
        spawn=random.choice([0.0, 0.2]),
    )
    return random, steps


def check_order(events: list[Event], steps: list[Step], here: Iterable[int] | None = None) -> History:
    """Of the steps that are in the log, exactly those happened before each other that really did."""
    history = History(events)
    assert not history.rejections
    past = pasts(steps)
    kept = list(range(len(steps)) if here is None else here)
    assert len(history) == len(kept)
    for a in kept:
        for b in kept:
            first, second = (f"{steps[at].process}:{steps[at].index}" for at in (a, b))
            before = history.happened_before(first, second)
            assert before == bool(past[b] >> a & 1), (steps[a], steps[b])
    return history
