"""Hybrid clocks: physical time and a counter in one 64-bit number that never runs backwards.

Guarantees:
  P1  e → f implies stamp(e) < stamp(f). The converse does not hold.
  P2  Stamps of one clock strictly increase, whatever the machine's clock does, and across restarts when an
      upper bound is persisted.
  P3  What a peer says moves this clock at most `refuse_ahead_ms` ahead of the machine's clock.
  P4  The order of the eight bytes, and of the integers, is the order of the stamps.

Assumes nothing for P1 and P2; clocks that roughly agree for stamps to be useful as times.

Source: a descendant of figure 3 of Kulkarni and Ravikant: Kulkarni, Demirbas, Madappa, Avva and Leone, "Logical
Physical Clocks" (2014). The upper 48 bits are milliseconds since 1970, the lower 16 the counter. Written as one
number the rules collapse to `max(last + 1, seen + 1, now)`; a counter that overflows carries into the milliseconds,
so that more than 65,536 ticks in a millisecond are no error.

Hazards, and what is done:
  * A peer far in the *future* would drag everybody along for ever: refused above `refuse_ahead_ms`, counted as
    `warnings` above `warn_ahead_ms`. Stamps from the *past* are harmless and never refused.
  * The machine's clock steps back: time stands still, the counter ticks; counted in `steps_back`.
  * It steps ahead, by more than passed on the steady clock: counted in `steps_ahead` above `warn_ahead_ms`;
    refused above `refuse_step_ms` where that is given.
  * A restart while the machine's clock is behind: pass `persist`, and `restored`, the last number persisted.

Cost: O(1). Bytes: 9 (as text 12).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import total_ordering
from threading import Lock
from typing import ClassVar, Final, Self

from beforehand.clocks.relation import Relation
from beforehand.clocks.wire import LIMIT_DEFAULT, Reader, Stamp, StampKind, Writer
from beforehand.errors import ClockExhaustedError, ClockStepError, FutureStampError, LocalProtocolError

__all__ = ["HybridClock", "HybridStamp"]

COUNTER_BITS: Final = 16
MILLISECOND: Final = 1_000_000
HYBRID_MAX: Final = 2**64 - 1


@total_ordering
class HybridStamp(Stamp):
    """One unsigned 64-bit number; as an integer, as bytes and as a stamp in the same order."""

    # Written out instead of a frozen dataclass: that makes a tick half as fast again (benchmarks/clocks.py).
    __slots__ = ("_value",)

    exact: ClassVar[bool] = False

    _value: int

    def __init__(self, value: int) -> None:
        if not 0 <= value <= HYBRID_MAX:
            raise LocalProtocolError(f"{value} is not a 64-bit number")
        self._value = value

    @property
    def value(self) -> int:
        return self._value

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, HybridStamp) else NotImplemented

    def __lt__(self, other: HybridStamp) -> bool:
        return self._value < other._value if isinstance(other, HybridStamp) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"HybridStamp({self._value})"

    @property
    def milliseconds(self) -> int:
        """Since 1970. Close to the time of the event, never exact."""
        return self.value >> COUNTER_BITS

    @property
    def counter(self) -> int:
        return self.value & (1 << COUNTER_BITS) - 1

    def compare(self, other: HybridStamp) -> Relation:
        return Relation.of(below=self.value <= other.value, above=self.value >= other.value)

    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        writer = Writer(StampKind.HYBRID)
        writer.raw(self.value.to_bytes(8, "big"))
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT) -> Self:
        reader = Reader(data, StampKind.HYBRID, limit=limit)
        value = int.from_bytes(reader.raw(8), "big")
        reader.end()
        return cls(value)


class HybridClock:
    """The hybrid clock of one process. Thread-safe."""

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.monotonic_ns,
        refuse_ahead_ms: int = 60_000,
        warn_ahead_ms: int = 500,
        refuse_step_ms: int | None = None,
        persist: Callable[[int], None] | None = None,
        reserve_ms: int = 5_000,
        restored: int = 0,
    ) -> None:
        """`persist(n)` must have n on disk when it returns; it is called about once per `reserve_ms`, under the
        clock's lock, and must not use the clock. No stamp above the last n is ever issued, so a clock that starts
        with that n as `restored` repeats none.
        """
        if refuse_ahead_ms < warn_ahead_ms or warn_ahead_ms < 0 or reserve_ms < 1:
            raise LocalProtocolError("0 ≤ warn_ahead_ms ≤ refuse_ahead_ms and reserve_ms ≥ 1 must hold")
        HybridStamp(restored)  # Validates it.
        self._wall: Final = wall_ns
        self._steady: Final = steady_ns
        self._refuse_ahead_ms: Final = refuse_ahead_ms
        self._warn_ahead_ms: Final = warn_ahead_ms
        self._refuse_step_ms: Final = refuse_step_ms
        self._persist: Final = persist
        self._reserve: Final = reserve_ms << COUNTER_BITS
        self._lock: Final = Lock()
        self._last = restored  # The last number issued.
        self._bound = restored if persist is not None else HYBRID_MAX  # No number above it is issued.
        self._wall_seen = wall_ns() // MILLISECOND
        # Both clocks as they stood together. No step above this size stays unnoticed between two such looks.
        self._look_ms: Final = warn_ahead_ms if refuse_step_ms is None else min(warn_ahead_ms, refuse_step_ms)
        self._anchor = (self._wall_seen, steady_ns() // MILLISECOND)
        self.warnings = 0  # Stamps received from further ahead than warn_ahead_ms.
        self.steps_back = 0
        self.steps_ahead = 0

    def tick(self) -> HybridStamp:
        """A local event or a send: its stamp."""
        with self._lock:
            return self._advance(self._last, self._now())

    def receive(self, stamp: HybridStamp) -> HybridStamp:
        """A message arrives with `stamp`: the receive event's stamp, greater than it."""
        with self._lock:
            now = self._now()
            ahead = (stamp.value + 1 >> COUNTER_BITS) - now  # Of what would be issued: the counter may carry.
            if ahead > self._refuse_ahead_ms:
                raise FutureStampError(ahead=ahead, limit=self._refuse_ahead_ms, unit="ms")
            received = self._advance(max(self._last, stamp.value), now)
            self.warnings += ahead > self._warn_ahead_ms
            return received

    def stamp(self) -> HybridStamp:
        """The last stamp issued, without making one."""
        with self._lock:
            return HybridStamp(self._last)

    def accept_step(self) -> None:
        """Take the machine's clock as right again, after ClockStepError."""
        with self._lock:
            self._anchor = (self._wall() // MILLISECOND, self._steady() // MILLISECOND)

    def _now(self) -> int:
        """The machine's clock, its steps noticed."""
        wall = self._wall() // MILLISECOND
        if wall - self._anchor[0] > self._look_ms:
            self._look(wall)
        elif wall < self._wall_seen:
            self.steps_back += 1
            self._anchor = (wall, self._steady() // MILLISECOND)
        self._wall_seen = wall
        return wall

    def _look(self, wall: int) -> None:
        """Did the clock move on by more than time passed?"""
        steady = self._steady() // MILLISECOND
        step = (wall - self._anchor[0]) - (steady - self._anchor[1])
        if self._refuse_step_ms is not None and step > self._refuse_step_ms:
            raise ClockStepError(step_ms=step, limit_ms=self._refuse_step_ms)
        self.steps_ahead += step > self._warn_ahead_ms
        self._anchor = (wall, steady)

    def _advance(self, latest: int, now: int) -> HybridStamp:
        value = max(latest + 1, now << COUNTER_BITS)
        if value > self._bound:
            if value > HYBRID_MAX:
                raise ClockExhaustedError(limit=HYBRID_MAX)
            assert self._persist is not None
            bound = min(value + self._reserve, HYBRID_MAX)
            self._persist(bound)  # If it raises, nothing was issued.
            self._bound = bound
        self._last = value
        stamp = HybridStamp.__new__(HybridStamp)  # Within the range by the line above.
        stamp._value = value
        return stamp
