"""Lamport's scalar clock: a total order that agrees with happened-before.

Guarantees:
  P1  e → f implies time(e) < time(f). The converse does not hold: a smaller time proves only that the
      later event did not cause the earlier.
  P2  (time, process) orders all events totally, the same for everybody.

Assumes unique process names. Source: Lamport 1978; Garg, chapter 12; the lecture on order, "Logic Clocks".
Deviation: a stamp more than `ahead_max` ahead is refused, so that one forged message cannot use up the range
of the counter; no honest system comes near the default.

Cost: O(1). Bytes: 3 to 12 and the process name.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, Final, Self

from beforehand.clocks.relation import Relation
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, Stamp, StampKind, Writer
from beforehand.errors import ClockExhaustedError, FutureStampError, LocalProtocolError, StampDecodeError

__all__ = ["LamportClock", "LamportStamp"]

AHEAD_MAX: Final = 2**40


@dataclass(frozen=True, slots=True, order=True)
class LamportStamp(Stamp):
    """Ordered by time, then by process name: a total order. `compare` says what of it could be causal."""

    time: int
    process: str

    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.time <= VALUE_MAX:
            raise LocalProtocolError(f"time {self.time} is not between 0 and {VALUE_MAX}")
        if not self.process:
            raise LocalProtocolError("a process needs a name")

    def compare(self, other: LamportStamp) -> Relation:
        """Equal times of different processes are CONCURRENT for certain."""
        if self.time == other.time:
            return Relation.EQUAL if self.process == other.process else Relation.CONCURRENT
        return Relation.BEFORE if self.time < other.time else Relation.AFTER

    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        writer = Writer(StampKind.LAMPORT)
        writer.varint(self.time)
        writer.name(self.process)
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT) -> Self:
        reader = Reader(data, StampKind.LAMPORT, limit=limit)
        time, process = reader.varint(), reader.name()
        reader.end()
        if not process:
            raise StampDecodeError("a name is empty")
        return cls(time, process)


class LamportClock:
    """The scalar clock of one process. Thread-safe."""

    def __init__(self, process: str, *, start: int = 0, ahead_max: int = AHEAD_MAX) -> None:
        """`start` is the last time that this process issued before a restart."""
        LamportStamp(start, process)  # Validates both.
        self.process: Final = process
        self._ahead_max: Final = ahead_max
        self._lock: Final = Lock()
        self._time = start  # Of the last event; at most VALUE_MAX.

    def tick(self) -> LamportStamp:
        """A local event or a send: its stamp."""
        with self._lock:
            return self._advance(self._time)

    def receive(self, stamp: LamportStamp) -> LamportStamp:
        """A message arrives with `stamp`: the receive event's stamp, later than both."""
        with self._lock:
            if stamp.time - self._time > self._ahead_max:
                raise FutureStampError(ahead=stamp.time - self._time, limit=self._ahead_max, unit="events")
            return self._advance(max(self._time, stamp.time))

    def stamp(self) -> LamportStamp:
        """The stamp of the last event, without making one."""
        with self._lock:
            return LamportStamp(self._time, self.process)

    def _advance(self, latest: int) -> LamportStamp:
        if latest >= VALUE_MAX:
            raise ClockExhaustedError(limit=VALUE_MAX)
        self._time = latest + 1
        return LamportStamp(self._time, self.process)
