"""The clocks of simulated processes: off, drifting, stepped."""

from __future__ import annotations

from typing import Final

from beforehand.sim.scenario import ClockFault

__all__ = ["EPOCH", "LocalClock"]

EPOCH: Final = 1_700_000_000_000_000_000
"""What a right clock shows at the start of a run, in nanoseconds since 1970: a date, so that logs look like logs."""

_MILLION: Final = 1_000_000


class LocalClock:
    """What one process reads when the true time is t."""

    def __init__(self, fault: ClockFault | None = None) -> None:
        self._offset: Final = EPOCH + (fault.offset if fault else 0)
        self._drift: Final = fault.drift_ppm if fault else 0
        self._steps: Final = sorted(fault.steps) if fault else []

    def read(self, time: int) -> int:
        return self._smooth(time) + sum(by for at, by in self._steps if at <= time)

    def time_of(self, reading: int, now: int) -> int:
        """The first true time, not before `now`, at which the clock shows `reading` or more."""
        start = now
        for change in [*(at for at, _ in self._steps if at > now), None]:
            stepped = sum(by for at, by in self._steps if at <= start)
            at = self._reached(reading - stepped, start)
            if change is None or at < change:
                return at
            start = change
        raise AssertionError("the last stretch has no end")

    def _smooth(self, time: int) -> int:
        """The reading without the steps."""
        return self._offset + time + time * self._drift // _MILLION

    def _reached(self, reading: int, start: int) -> int:
        """When the clock without steps shows `reading`, not before `start`."""
        lacks = reading - self._smooth(start)
        if lacks <= 0:
            return start
        at = start + lacks * _MILLION // (_MILLION + self._drift)
        while self._smooth(at) < reading:
            at += 1  # At most a few: what the divisions cut off.
        return at
