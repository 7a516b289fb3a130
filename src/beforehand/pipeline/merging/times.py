"""Times of channels, as sources tell them: how far is surely read, in nanoseconds of the arrivals' clock.

A source may read from several partitions (streams). A channel's time is the smallest of its partitions' times. That
of a partition is the last arrival read, or, where it is drained, the wall clock less a grace: how far the clocks may
differ and how long a stored message may take until a reader sees it. Times are part of the offset, which Spark logs
before it runs a micro-batch, so whoever runs it again is told the same.

An idle query does nothing: no time goes beyond the last arrival plus `span_ns`, by when all is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from beforehand.errors import InputError

__all__ = ["TimeRules", "arrival_after", "number_option"]

GRACE_NS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRules:
    span_ns: int  # `MergeRules.span`: how long a message can wait after its arrival.
    grace_ns: int
    flush: bool = False  # A drained partition has no more to come: its time is the end of all waiting.

    def times(
        self,
        before: Mapping[str, Mapping[str, int]],
        arrivals: Mapping[str, int],
        drained: Mapping[str, bool],
        *,
        now_ns: int,
    ) -> dict[str, int]:
        """The time of each partition, from `arrival` and `time` of each before and the last arrivals now.

        A partition's time goes back only where its arrivals did.
        """
        latest = max(arrivals.values(), default=0)
        end = latest + self.span_ns
        result = {}
        for name, arrival in arrivals.items():
            time = arrival
            if arrival >= before[name]["arrival"]:  # Otherwise the broker's clock was ahead, and is right again.
                time = max(time, before[name]["time"])
            if drained[name] and latest > 0:
                time = max(time, end if self.flush else min(now_ns - self.grace_ns, end))
            result[name] = time
        return result

    @classmethod
    def read(cls, given: Mapping[str, str]) -> TimeRules | None:
        """From the options `span_ns`, `grace_ns` and `flush` of a source. None, without the first: no times."""
        span_ns, grace_ns = number_option(given, "span_ns", -1), number_option(given, "grace_ns", GRACE_NS)
        return cls(span_ns=span_ns, grace_ns=grace_ns, flush=given.get("flush") == "true") if span_ns >= 0 else None


def number_option(given: Mapping[str, str], name: str, default: int) -> int:
    """A whole number among the options of a source. Raises InputError."""
    try:
        return int(given.get(name, default))
    except ValueError:
        raise InputError(f"the option {name} is no whole number: {given[name][:50]!r}") from None


def arrival_after(before: int, stored: int, *, span_ns: int) -> int:
    """The arrival of a message stored at `stored`, where the last arrival was `before`.

    Arrivals never go back, as if a clock that stepped back had waited. After a step back by more than any message
    waits, they follow the clock: else a clock that was far ahead for a moment would make all messages late for long.
    """
    return stored if stored < before - span_ns else max(before, stored)
