"""What goes to one peer of a reliable link: frames kept until they are acknowledged, and when they are sent again.

Guarantees:
  L1  A frame is kept until the peer has acknowledged it. The oldest is sent again after a while without progress,
      ever more seldom, up to every `most`, for as long as it takes.
  L2  What was lost at one stroke (a connection that broke, a queue that was full) comes again as fast as the peer
      takes it: when a whole burst of repeated frames is acknowledged, the next one goes out at once, not after the
      next while. If frames beyond the burst are acknowledged that were not repeated, they were only slow: nothing
      more is repeated then.
  L3  A peer that is slow is not taken for one that hears nothing: the while is at least twice the last time from
      sending a frame to its acknowledgement. Frames that were sent twice do not count for that, since nobody knows
      which of the two was answered.

Cost: O(1) for each frame sent or acknowledged, however many are kept. Without that, and without L2 and L3, a member
that fell behind fell ever further behind: repetitions took its time, and so did each acknowledgement.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any, Final

__all__ = ["Outgoing"]


class Outgoing:
    """Frames to one peer."""

    __slots__ = (
        "_after",
        "_burst",
        "_following",
        "_most",
        "_timed",
        "_until",
        "_while",
        "kept",
        "last",
        "resend_at",
        "tries",
        "wait",
    )

    def __init__(self, after: int, most: int, burst: int) -> None:
        self._after: Final = after
        self._most: Final = most
        self._burst: Final = burst  # Frames that are repeated at a time.
        self.last = 0  # The number of the last frame.
        self.kept: dict[int, Any] = {}  # Packets by number that are not acknowledged, oldest first; about window_max.
        self.wait = after  # How long until the next resending; grows without progress.
        self.tries = 0  # How often it was sent to again since it last acknowledged something.
        self.resend_at: int | None = None  # None: at the next tick, if anything is kept.
        self._while = after  # What `wait` falls back to. L3; at most `most`.
        self._timed: tuple[int, int] | None = None  # A frame that was sent once, and when: to measure L3.
        self._until = 0  # The last frame when something was repeated: what came later is not lost yet.
        self._following: int | None = (
            None  # The first frame after the burst that was repeated, if it may be lost, too.
        )

    def add(self, packet: Any, now: int) -> int:
        """A new frame; its number."""
        self.last += 1
        self.kept[self.last] = packet
        if self._timed is None:
            self._timed = (self.last, now)
        if self.resend_at is None or len(self.kept) == 1:
            self.resend_at = now + self.wait
        return self.last

    def due(self, now: int) -> bool:
        """Whether something is to be sent again."""
        return bool(self.kept) and (self.resend_at is None or now >= self.resend_at)

    def again(self, now: int) -> list[int]:
        """The numbers to send again, after a while without progress: the oldest."""
        self._until = self.last
        self.resend_at = now + self.wait
        self.wait = min(2 * self.wait, self._most)
        self.tries += 1
        return self._repeat()

    def acknowledge(self, mark: int, above: tuple[int, ...], now: int) -> tuple[bool, list[int]]:
        """All up to `mark` and those `above` have arrived: whether that is new, and what to send again now (L2)."""
        oldest = next(iter(self.kept), 0)
        done = [*takewhile(lambda number: number <= mark, self.kept), *(n for n in above if n in self.kept)]
        if not done:
            return False, []
        self.tries = 0
        if self._timed is not None and (self._timed[0] <= mark or self._timed[0] in above):
            self._while = min(self._most, max(self._after, 2 * (now - self._timed[1])))
            self._timed = None
        for number in done:
            del self.kept[number]
        if oldest in self.kept:
            return True, []
        # Only progress of the oldest puts its resending off: later ones may come through for ever without it.
        self.wait = self._while
        self.resend_at = now + self.wait
        oldest = next(iter(self.kept), self.last + 1)
        if self._following is None or oldest < self._following:
            return True, []
        if oldest == self._following:
            return True, self._repeat()
        self._following = None
        return True, []

    def give_up(self) -> None:
        """Keep nothing."""
        self.kept.clear()
        self._following = None

    def restore(self, last: int, kept: dict[int, Any]) -> None:
        self.last, self.kept = last, kept

    def _repeat(self) -> list[int]:
        oldest = list(islice(self.kept, self._burst + 1))
        numbers, rest = oldest[: self._burst], oldest[self._burst :]
        self._following = rest[0] if rest and rest[0] <= self._until else None
        if self._timed is not None and self._timed[0] in numbers:
            self._timed = None
        return numbers
