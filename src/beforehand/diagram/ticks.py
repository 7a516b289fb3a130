"""Where the lines of an axis are: at round numbers."""

from __future__ import annotations

import math

__all__ = ["decades", "round_ticks"]


def round_ticks(most: int | float, *, whole: bool = True) -> tuple[float, list[int | float]]:
    """The top of an axis that begins at zero, and where its lines are: three to six of them, at round numbers.

    `most` must be above 0; `whole`: the lines are at whole numbers.
    """
    rough = most / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step: int | float = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    step = max(1, math.ceil(step)) if whole else step
    lines = math.ceil(most / step - 1e-9)
    return float(step * lines), [step * line for line in range(lines + 1)]


def decades(low: float, high: float) -> list[float]:
    """The lines of a logarithmic axis from `low` to `high`, both above 0: at the powers of ten, the outer two outside
    or at the ends; with 2 and 5 between where there are at most two decades.
    """
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    return [factor * 10.0**power for power in range(first, last) for factor in factors] + [10.0**last]
