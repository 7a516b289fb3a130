"""How each fault strikes: what it does to a stamp, to a publisher's clock, to a merger's buffer.

Memory keeps its types and sizes, as in the paper: a number becomes another number, an entry another entry.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from beforehand.clocks import BoundedClock, BoundedStamp, Bounds
from beforehand.ordering import MergeBuffer, MergeRules, Published

__all__ = ["any_stamp", "corrupt_clock", "corrupt_merger", "corrupt_stamp"]


def any_stamp(rng: random.Random, bounds: Bounds, now: int) -> BoundedStamp:
    """Garbage. Most of it keeps the lemmas and is in time, with counts near their bound: that does the most harm."""
    width, most = bounds.width, bounds.count_max
    c = rng.choice((0, width - 1, rng.randrange(width))) if width else 0
    kn = [rng.choice((0, 1, max(0, most - 1), most)) for _ in range(2 * width)]
    if width and rng.random() < 0.8:
        kn[c + width] = max(1, kn[c + width])
        kn[c + width + 1 :] = [0] * (width - c - 1)
    r = now + rng.choice((0, bounds.epsilon, rng.randint(-bounds.delta, bounds.epsilon)))
    return BoundedStamp(r, c, tuple(kn), bounds.modulus)


def corrupt_stamp(rng: random.Random, bounds: Bounds, stamp: BoundedStamp) -> BoundedStamp:
    """One field of the stamp is another; or all are."""
    match rng.randrange(4):
        case 0:
            by = rng.choice((-1, 1, bounds.epsilon, -bounds.delta, rng.randint(-99, 99)))
            return replace(stamp, r=stamp.r + by)
        case 1:
            return replace(stamp, c=rng.choice((0, 1, max(0, bounds.width - 1), bounds.width, 10**6)))
        case 2 if stamp.kn:
            kn = list(stamp.kn)
            kn[rng.randrange(len(kn))] = rng.choice((0, 1, bounds.count_max, bounds.count_max + 1, 10**6))
            return replace(stamp, kn=tuple(kn))
        case _:
            return any_stamp(rng, bounds, stamp.r)


def corrupt_clock(rng: random.Random, clock: BoundedClock, now: int) -> None:
    """Anything in its memory. `Any`: these are nobody's names but the clock's own."""
    memory: Any = clock
    bounds = clock.bounds
    if rng.random() < 0.5:  # A state that keeps the lemmas: only time will show that it is wrong.
        stamp = any_stamp(rng, bounds, now)
        memory._r, memory._c, memory._kn = stamp.r, stamp.c, list(stamp.kn)
        return
    if rng.random() < 0.6:
        memory._r = now + rng.choice((0, 1, -1, bounds.epsilon, rng.randint(-50, 50), 10**9, -(10**9)))
    if rng.random() < 0.6:
        memory._c = rng.choice((0, 1, bounds.width, -1, 10**9))
    if rng.random() < 0.8:
        most = bounds.count_max
        memory._kn = [rng.choice((0, 0, 1, most, most + 1, -1)) for _ in memory._kn]
    if rng.random() < 0.5:
        memory._tick, memory._in_tick = now + rng.randint(-1, 3), rng.choice((0, 1, 10**9, -5))


def corrupt_merger(rng: random.Random, buffer: MergeBuffer[Any], now: int, ghosts: list[str]) -> None:
    """Entries that nobody offered, lost entries, other keys, a heap that is none, a key that was never passed."""
    memory: Any = buffer
    rules = buffer.rules
    if rng.random() < 0.7:
        wide = rng.choice((3, rules.span, 4 * rules.span, 10**6))
        for ghost in ghosts:
            memory._waiting[_any_key(rng, rules, now, wide, ghost)] = ghost
            if rng.random() < 0.5:
                memory._heap.append(_any_key(rng, rules, now, wide, ghost))
    if memory._waiting and rng.random() < 0.5:  # Entries are lost, or change their keys.
        for key in rng.sample(list(memory._waiting), rng.randint(1, len(memory._waiting))):
            item = memory._waiting.pop(key)
            if rng.random() < 0.5:
                memory._waiting[_any_key(rng, rules, now, rules.span, "moved")] = item
    if rng.random() < 0.5:
        rng.shuffle(memory._heap)
        del memory._heap[: rng.randrange(len(memory._heap) + 1)]
    if rng.random() < 0.5:
        memory._passed = rng.choice((b"", b"\xff" * 9, _any_key(rng, rules, now, 2 * rules.span, "passed")))
    if rng.random() < 0.3:
        memory._made = rng.choice((None, now + rules.span, now + 10**6, now - 10**6))


def _any_key(rng: random.Random, rules: MergeRules, now: int, wide: int, name: str) -> bytes:
    if rng.random() < 0.1:
        return rng.randbytes(rng.randint(0, 12))
    stamp = replace(any_stamp(rng, rules.bounds, now), c=0)
    r = now + rng.randint(-wide, wide)
    return rules.key(Published(publisher=name, sequence=rng.randint(1, 99), stamp=replace(stamp, r=r)))
