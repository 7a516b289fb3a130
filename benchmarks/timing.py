"""Timing on a noisy machine: alternate the rivals, repeat, take the best and show the spread."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Timing", "compare", "once"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Nanoseconds per call: the best of all repeats, and how much slower the median one was."""

    best_ns: float
    spread: float

    def __str__(self) -> str:
        return f"{self.best_ns:,.0f}"


def compare(
    rivals: Mapping[str, Callable[[], object]], *, repeats: int = 7, seconds: float = 0.02
) -> dict[str, Timing]:
    """Time all rivals in turns, so that a busy moment of the machine hits each of them alike."""
    calls = {name: _calls_for(function, seconds) for name, function in rivals.items()}
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, function in rivals.items():
                taken[name].append(_time(function, calls[name]) / calls[name])
    finally:
        gc.enable()
    return {name: Timing(min(times), sorted(times)[len(times) // 2] / min(times)) for name, times in taken.items()}


def once(function: Callable[[], object], *, repeats: int = 3) -> float:
    """Seconds for one call that is long by itself: the best of a few."""
    return min(_time(function, 1) for _ in range(repeats)) / 1e9


def _calls_for(function: Callable[[], object], seconds: float) -> int:
    calls = 1
    while _time(function, calls) < seconds * 1e9:
        calls *= 2
    return calls


def _time(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        function()
    return float(time.perf_counter_ns() - start)
