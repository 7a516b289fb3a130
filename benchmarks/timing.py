"""Timing on a noisy machine: alternate the rivals, repeat, take the median and show the spread."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.report import Figure

__all__ = ["REPEATS", "Timing", "compare", "repeated", "seconds"]

REPEATS = 7


@dataclass(frozen=True, slots=True)
class Timing:
    """Nanoseconds per call, one for each repeat."""

    times_ns: tuple[float, ...]

    @property
    def median_ns(self) -> float:
        return statistics.median(self.times_ns)

    def over(self, other: Timing) -> float:
        """The median of the ratios: repeats with the same number were taken one after the other."""
        return statistics.median(a / b for a, b in zip(self.times_ns, other.times_ns, strict=True))

    def figure(self, *, per: float = 1, digits: int = 0, ratio: float | None = None) -> Figure:
        """In units of `per` nanoseconds."""
        return Figure.of((taken / per for taken in self.times_ns), digits=digits, ratio=ratio)


def compare(
    rivals: Mapping[str, Callable[[], object]], *, repeats: int = REPEATS, seconds: float = 0.02
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
    return {name: Timing(tuple(times)) for name, times in taken.items()}


def seconds(function: Callable[[], object]) -> float:
    """Of one call that is long by itself."""
    return _time(function, 1) / 1e9


def repeated(function: Callable[[], object], *, repeats: int = 3) -> list[float]:
    """Seconds of each of a few calls that are long by themselves."""
    return [seconds(function) for _ in range(repeats)]


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
