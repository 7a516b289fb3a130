"""Offset clocks: stamps `<r, c>`, the reading of the clock and how far the latest known one lies ahead of it.

Guarantees:
  P1  Without reset (the default): e → f implies less(e, f), whatever the clocks do. `less` compares (r + c, r) and
      is a strict order.
  P2  With reset, under G1 and with quiet windows: e → f implies less_within(e, f, ε), and c is bounded by the period.
      A quiet window is a time without events: while a process's clock reads between αx and αx + 2ε, for a
      period x and every natural α (section 5.2).
  P3  Otherwise c grows without bound in some executions (section 5.1, figure 4).
  P4  With `c_max`: c never exceeds it, and a corrupted state or stamp does not stay (section 3.3, as 5.1 asks for).
      Our own state above it is reset and counted in `resets`; a stamp that would take us above it is refused and
      counted in `refused`; an event that would is refused until the next tick. P1 holds but across a reset.

Assumes nothing for P1; for P2 G1: readings never decrease, and differ by at most ε at any instant.

Source: Kulkarni and Ravikant, "Stabilizing Causal Deterministic Merge", section 5, figure 3.
Deviations:
  * The paper has at most one event per reading. Where a reading has not moved on since the last event, or went back,
    c counts on, so that P1 holds all the same.
  * Figure 3 sets c to 0 whenever a process had no event for 2ε. Without quiet windows that is wrong once c exceeds ε:
    an event after such a reset can be ordered before one in its own past (a paper test shows it with three
    processes). So the reset is off unless asked for; and for merging it must be off, for there r + c may never fall.
  * On receiving, figure 3 resets only if the process and the message are both older than 2ε. A process whose first
    event after a quiet window receives a fresh message would then keep a c from before the window, and c would not be
    bounded. We forget each of the two by itself when it is that old.

Cost: O(1). Bytes: 3 to 19.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, Final, Self

from beforehand.clocks.relation import Relation
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, Stamp, StampKind, Writer
from beforehand.errors import ClockExhaustedError, FutureStampError, LocalProtocolError, TooManyEventsError

__all__ = ["OffsetClock", "OffsetStamp", "QuietWindows"]

AHEAD_MAX: Final = 2**50
"""Ticks that r + c of a stamp may lie ahead of our clock, so that one forged stamp cannot use up the range."""


@dataclass(frozen=True, slots=True)
class OffsetStamp(Stamp):
    r: int
    c: int

    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.r < 0 or self.c < 0:
            raise LocalProtocolError("readings and offsets are not negative")

    @property
    def key(self) -> tuple[int, int]:
        return (self.r + self.c, self.r)

    def less(self, other: OffsetStamp) -> bool:
        """True whenever this happened before `other`, among stamps of clocks without reset."""
        return self.key < other.key

    def less_within(self, other: OffsetStamp, epsilon: int) -> bool:
        """The relation of section 5.1, for stamps of clocks with reset. Not transitive."""
        if self.r + epsilon < other.r:
            return True
        return abs(self.r - other.r) <= epsilon and self.less(other)

    def compare(self, other: OffsetStamp) -> Relation:
        """By `less`: for stamps of clocks without reset."""
        if self == other:
            return Relation.EQUAL
        return Relation.BEFORE if self.less(other) else Relation.AFTER

    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        writer = Writer(StampKind.OFFSET)
        writer.varint(self.r)
        writer.varint(self.c)
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT) -> Self:
        reader = Reader(data, StampKind.OFFSET, limit=limit)
        stamp = cls(reader.varint(), reader.varint())
        reader.end()
        return stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWindows:
    """The windows of section 5.2: no events while the clock reads between αx and αx + 2ε, both included.

    With the reset of figure 3 they bound c by the period x. Without it, as merging needs it, each window takes 2ε
    and a tick off c: c stays bounded where a period adds no more than that.
    """

    period: int  # x
    epsilon: int

    def __post_init__(self) -> None:
        if self.epsilon < 0 or self.period < 2 * self.epsilon + 2:
            raise LocalProtocolError("a period of quiet windows is longer than 2 epsilon + 1")

    def next(self, now: int) -> int:
        """The first reading, from `now` on, at which events may happen."""
        into = now % self.period
        return now if into > 2 * self.epsilon else now - into + 2 * self.epsilon + 1


class OffsetClock:
    """The offset clock of one process. Thread-safe. `now` is always the process's own reading, rt.j."""

    def __init__(
        self,
        process: str,
        *,
        epsilon: int,
        now: int = 0,
        reset: bool = False,
        ahead_max: int = AHEAD_MAX,
        c_max: int | None = None,
    ) -> None:
        """`reset` as in figure 3. A stamp whose r + c lies more than `ahead_max` ahead of our clock is refused.

        With `c_max`, c is at most that: see P4.
        """
        if not process or epsilon < 0 or now < 0 or (c_max is not None and c_max < 0):
            raise LocalProtocolError("an offset clock needs a name, and epsilon, now and c_max from 0")
        self.process: Final = process
        self.epsilon: Final = epsilon
        self._reset: Final = reset
        self._ahead_max: Final = ahead_max
        self._c_max: Final = c_max
        self.resets = 0  # How often our own state was above `c_max`, or unusable: signs of faults.
        self.refused = 0  # How many stamps would have taken us above `c_max`: signs of faults.
        self._lock: Final = Lock()
        self._r = now
        self._c = 0

    def tick(self, now: int) -> OffsetStamp:
        """A local event or a send at reading `now`: its stamp."""
        with self._lock:
            return self._settle(now, self._own(now))

    def receive(self, stamp: OffsetStamp, now: int) -> OffsetStamp:
        """A message arrives with `stamp` at reading `now`: the receive event's stamp."""
        with self._lock:
            ahead = stamp.r + stamp.c - now
            if ahead > self._ahead_max:
                raise FutureStampError(ahead=ahead, limit=self._ahead_max, unit="ticks")
            theirs = self._ahead(stamp.r, stamp.c + 1, now)
            if self._c_max is not None and max(theirs, stamp.c) > self._c_max:
                self.refused += 1
                raise FutureStampError(ahead=max(theirs, stamp.c), limit=self._c_max, unit="ticks")
            return self._settle(now, max(self._own(now), theirs))

    def stamp(self) -> OffsetStamp:
        """The stamp of the last event, without making one."""
        with self._lock:
            return OffsetStamp(self._r, self._c)

    def restore(self, stamp: OffsetStamp) -> None:
        """Go on from `stamp`, the last that this process gave: after a restart."""
        with self._lock:
            self._r, self._c = stamp.r, stamp.c

    def _ahead(self, r: int, c: int, now: int) -> int:
        """How far r + c lies ahead of `now`; forgotten with reset if r is more than 2ε old."""
        return 0 if self._reset and r + 2 * self.epsilon < now else r + c - now

    def _own(self, now: int) -> int:
        """What our last event asks of c. If the reading has not moved on since, c must."""
        own = self._ahead(self._r, self._c + (now <= self._r), now)
        if self._c_max is None or (own <= self._c_max and 0 <= self._c <= self._c_max):
            return own
        if self._r == now and self._c == self._c_max:
            raise TooManyEventsError(tick=now, events_max=self._c_max)  # Not a fault: this tick is full.
        self.resets += 1
        self._r, self._c = now, 0  # P4.
        return 0

    def _settle(self, now: int, offset: int) -> OffsetStamp:
        stamp = OffsetStamp(now, max(0, offset))  # Raises before anything has changed.
        if now + stamp.c > VALUE_MAX:
            raise ClockExhaustedError(limit=VALUE_MAX)
        self._r, self._c = stamp.r, stamp.c
        return stamp
