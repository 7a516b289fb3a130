"""What a reporter knows about its own work: counters, drops by reason, and which drops were not told yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["CLOSED", "QUEUE_FULL", "TOO_LARGE", "UNSENT", "WAIT_OVER", "Drops", "Note", "Status"]

QUEUE_FULL: Final = "queue-full"  # By the policies `newest` and `oldest`.
WAIT_OVER: Final = "wait-over"  # By the policy `wait`, at its deadline.
TOO_LARGE: Final = "too-large"  # One event, even without its attributes; or the target said so.
CLOSED: Final = "closed"  # Reported after `close`.
UNSENT: Final = "unsent"  # Still queued or being sent at the deadline of `close`; the last batch may have arrived.

_REASONS_MAX: Final = 100  # A target names reasons too, and shall not fill our memory with them.
_OTHER: Final = "other"
_RANGES_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A reporter at one moment."""

    queued: int  # Events that wait, with those being sent.
    queued_bytes: int
    sent: int  # Events that the target has dealt with and not rejected; `repeated` and `conflicts` are among them.
    repeated: int
    conflicts: int
    dropped: Mapping[str, int]  # By reason.
    cut: int  # Events whose name, values or attributes were cut to their limits.
    stamps_refused: int  # Stamps of messages that could not be read, merged or written.
    last_error: str | None
    retrying_since: float | None  # Seconds since 1970; None: the last batch went through.
    closed: bool


class Note(NamedTuple):
    """Drops that are to be told: how many by reason, and which indexes."""

    reasons: Counter[str]
    ranges: list[tuple[int, int]]  # First and last index; at most `_RANGES_MAX`, in the order they were dropped.
    more: int  # Dropped, but in none of the ranges.

    def total(self) -> int:
        return self.reasons.total()

    def attributes(self) -> dict[str, str]:
        texts = [str(first) if first == last else f"{first}-{last}" for first, last in self.ranges]
        found = {"level": "warn", "reporter.dropped": str(self.total())}
        found["reporter.dropped.indexes"] = ",".join([*texts, f"and {self.more} more"] if self.more else texts)
        found["reporter.dropped.reasons"] = ",".join(f"{why}={count}" for why, count in sorted(self.reasons.items()))
        return found


class Drops:
    """Counts drops. Its owner holds the lock."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # At most `_REASONS_MAX` reasons, then `other`.
        self._untold = Note(Counter(), [], 0)

    def add(self, reason: str, index: int) -> None:
        """A drop that the target cannot know of."""
        self.count(reason)
        reasons, ranges, more = self._untold
        reasons[reason] += 1
        if ranges and ranges[-1][1] + 1 == index:
            ranges[-1] = (ranges[-1][0], index)
        elif len(ranges) < _RANGES_MAX:
            ranges.append((index, index))
        else:
            self._untold = Note(reasons, ranges, more + 1)

    def count(self, reason: str, events: int = 1) -> None:
        """Drops that the target knows of, or never will."""
        known = reason in self.counts or len(self.counts) < _REASONS_MAX
        self.counts[reason if known else _OTHER] += events

    @property
    def untold(self) -> bool:
        return bool(self._untold.reasons)

    def take_untold(self) -> Note:
        note, self._untold = self._untold, Note(Counter(), [], 0)
        return note

    def restore(self, note: Note) -> None:
        """A note was dropped itself: what it told is to be told again."""
        reasons, ranges, more = self._untold
        together = note.ranges + ranges
        extra = sum(last - first + 1 for first, last in together[_RANGES_MAX:])
        self._untold = Note(note.reasons + reasons, together[:_RANGES_MAX], note.more + more + extra)
