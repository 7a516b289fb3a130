"""Bounded clocks: stamps `<r, c, kn>` that stay small for ever and mend themselves after any fault.

Where physical clocks agree within ε and messages take at most δ, a stamp needs no entry per process: the
reading of the clock, r; how far ahead of it the latest reading known here lies, c; and how many known events
there were at each of the 2ε readings around it, kn.

Guarantees, while G1 and G2 hold:
  P1  e → f implies less(e, f) (theorem 3.6). The converse does not hold.
  P2  `less` is a strict order of the sort key (observation 3.5), the same everywhere.
  P3  Bounds: 0 ≤ c < ε, kn[c] > 0, kn[t] = 0 for t > c, kn[t] ≤ n·K (lemmas 3.1, 3.2, 3.4).
  P4  Stabilization: from any state of the processes and any stamps in flight, P1 holds again for all events
      later than δ + 4ε after the last fault (theorem 3.7). Nothing a stamp says raises: what violates P3 is reset
      and counted in `resets`.

Assumes G1: readings never decrease and differ by at most ε between processes at any instant. G2: a message sent
at reading st is received at a reading of at most st + δ, or is lost. At most K events per process and tick. `now`
is the reading, an integer in ticks; any other measure of progress that keeps G1 and G2 will do, such as an
incarnation number with K events each (section 6).

Source: Kulkarni and Ravikant, "Stabilizing Causal Deterministic Merge", figure 1 and section 3.3.
Deviations, each needed for the theorems or for real use:
  * Hold. The paper says that a message sent at reading x + ε can be received only after the receiver's clock has
    moved on from x. Nothing makes that so: with readings exactly ε apart and a fast message, c would reach ε,
    lemma 3.2 would fail and with it theorem 3.6. While r.m + c.m ≥ now + ε it is held; that is part of δ.
  * K events per tick: kn is bounded by n·K, and the first reset test of 3.3 compares with that.
  * With a minimum delay δ_min (remark after lemma 3.4), w = ε - δ_min takes the place of ε in the width of kn, in
    the lemmas and in the hold. With K > 1 it is at least 1, so that events of one tick are told apart.
  * Lemma 3.2 bounds c below ε and section 4.2 by ε; we take the lemma.
  * A stamp carries r modulo B, B ≥ 6ε + δ + 1. In memory r is kept unwrapped, as is the clock that it is read from;
    decoding takes the reading that it is unwrapped against.

Cost: O(ε) per event. Bytes: O(ε log n + log δ) (theorem 3.8), constant over time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import ClassVar, Final, Generic, Self, TypeVar

from beforehand.clocks.relation import Relation
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, Stamp, StampKind, Writer
from beforehand.errors import LocalProtocolError, StampDecodeError, TooManyEventsError

__all__ = ["BoundedClock", "BoundedStamp", "Bounds", "Held", "Received", "Refusal", "Refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the system guarantees, in ticks of the physical clocks. All processes must be given the same."""

    epsilon: int  # G1: how far two readings can lie apart.
    delta: int  # G2: how long a message may take.
    processes: int  # n
    events_per_tick: int = 1  # K
    delta_min: int = 0  # The least time that a message takes.
    modulus: int = 0  # B; 0 stands for the smallest that stabilizes.

    def __post_init__(self) -> None:
        if self.epsilon < 0 or self.delta < 0 or not 0 <= self.delta_min <= self.delta:
            raise LocalProtocolError("epsilon and delta must be from 0, and delta_min between 0 and delta")
        if self.processes < 1 or self.events_per_tick < 1:
            raise LocalProtocolError("there must be at least one process and one event per tick")
        least = 6 * self.epsilon + self.delta + 1
        if self.modulus == 0:
            object.__setattr__(self, "modulus", least)
        if not least <= self.modulus <= VALUE_MAX:
            raise LocalProtocolError(f"the modulus must be from 6ε + δ + 1 = {least}")

    @property
    def width(self) -> int:
        """w: kn covers the readings from r - w to r + w - 1."""
        return max(self.epsilon - self.delta_min, 0 if self.events_per_tick == 1 else 1)

    @property
    def count_max(self) -> int:
        """n·K: the most events that can have the same reading (lemma 3.4)."""
        return self.processes * self.events_per_tick

    def broken(self, c: int, kn: Sequence[int]) -> bool:
        """Whether lemma 3.1, 3.2 or 3.4 is violated (the second step of section 3.3). `kn` has 2w entries."""
        width = self.width
        if width == 0:
            return c != 0  # No array: all of the lemmas that remains.
        if c >= width or kn[c + width] == 0 or any(kn[c + width + 1 :]):
            return True
        return max(kn) > self.count_max or min(kn) < 0


@dataclass(frozen=True, slots=True)
class BoundedStamp(Stamp):
    """`<r, c, kn>`, with r unwrapped. It may break the lemmas: whoever receives it checks and mends that."""

    r: int
    c: int
    kn: tuple[int, ...]  # kn[t] of the paper is kn[t + w] here; 2w entries.
    modulus: int

    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len(self.kn) % 2 or self.c < 0 or min(self.kn, default=0) < 0 or self.modulus < 1:
            raise LocalProtocolError("a bounded stamp has an even number of counts, and none is negative")

    def known(self, t: int) -> int:
        """The paper's kn[t]; 0 outside the array."""
        at = t + len(self.kn) // 2
        return self.kn[at] if 0 <= at < len(self.kn) else 0

    @property
    def key(self) -> tuple[int, ...]:
        """What `less` compares: r + c, then kn[c], kn[c-1], … w entries."""
        width = len(self.kn) // 2
        top = self.c + width
        if top < len(self.kn):  # Always so in stamps that keep the lemmas.
            return (self.r + self.c, *self.kn[top : top - width : -1])
        return (self.r + self.c, *(self.known(self.c - i) for i in range(width)))

    def sort_key(self, process: str, sequence: int) -> tuple[tuple[int, ...], str, int]:
        """Orders messages totally, the same for everybody: ties go by publisher, then by its own count."""
        return (self.key, process, sequence)

    def less(self, other: BoundedStamp) -> bool:
        """The paper's relation: true whenever this happened before `other`."""
        return self.key < other.key

    def compare(self, other: BoundedStamp) -> Relation:
        """By `less`; stamps that it does not separate are CONCURRENT, or EQUAL if they are the same."""
        if self == other:
            return Relation.EQUAL
        if self.less(other):
            return Relation.BEFORE
        return Relation.AFTER if other.less(self) else Relation.CONCURRENT

    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        writer = Writer(StampKind.BOUNDED)
        writer.varint(self.modulus)
        writer.varint(self.r % self.modulus)
        writer.varint(self.c)
        writer.varint(len(self.kn) // 2)
        writer.integers(self.kn)
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT, near: int | None = None, ahead: int = 0) -> Self:
        """r is taken to be the latest with its remainder that is at most `near + ahead`: give a reading and ε."""
        if near is None:
            raise LocalProtocolError("a bounded stamp carries its time modulo B: pass near=, a reading of the clock")
        reader = Reader(data, StampKind.BOUNDED, limit=limit)
        varint = reader.varint
        modulus, residue, c, width = varint(), varint(), varint(), varint()
        if residue >= modulus:
            raise StampDecodeError("its time is not below its modulus")
        kn = reader.integers(2 * width)
        reader.end()
        latest = near + ahead
        return cls(latest - (latest - residue) % modulus, c, tuple(kn), modulus)


class Refusal(Enum):
    """Why a stamp was refused: it is beyond the guarantees."""

    LATE = "late"  # now > r + δ: G2 was broken, or the stamp is garbage.
    FUTURE = "future"  # r > now + ε: G1 was broken, or the stamp is garbage.
    OTHER_BOUNDS = "other bounds"  # The sender was configured with another ε, δ or modulus.


S = TypeVar("S", bound=Stamp, covariant=True)


@dataclass(frozen=True, slots=True)
class Received(Generic[S]):
    """The message was received; this is the stamp of the receive event."""

    stamp: S
    mended: bool = False  # The message's stamp broke the lemmas and was reset before it was used.


@dataclass(frozen=True, slots=True)
class Held:
    """The message came before this clock may know of it, or K events fill this tick: receive it again at `until`."""

    until: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The stamp is beyond the guarantees. Nothing has changed: the message counts as lost."""

    reason: Refusal


class BoundedClock:
    """The bounded clock of one process. Thread-safe. `now` is always the process's own reading, rt.j."""

    def __init__(self, process: str, bounds: Bounds, *, now: int = 0) -> None:
        """The process starts at reading `now`; its start is an event, as in figure 1."""
        if not process:
            raise LocalProtocolError("a process needs a name")
        self.process: Final = process
        self.bounds: Final = bounds
        self._width: Final = bounds.width
        self._lock: Final = Lock()
        self._resets = 0
        self._tick = now  # The tick that `_in_tick` counts for.
        self._in_tick = 1  # Events in it; at most K.
        # The stamp of the last event.
        self._r = now
        self._c = 0
        self._kn = self._fresh()

    def tick(self, now: int) -> BoundedStamp:
        """A local event or a send at reading `now`: its stamp."""
        with self._lock:
            if self._room(now) == 0:
                raise TooManyEventsError(tick=now, events_max=self.bounds.events_per_tick)
            self._count_event(now)
            self._c = max(0, self._r + self._c - now)
            self._kn = self._shifted(self._kn, now - self._r)
            return self._settle(now)

    def receive(self, stamp: BoundedStamp, now: int) -> Received[BoundedStamp] | Held | Refused:
        """A message arrives with `stamp` at reading `now`. Never raises over what the stamp says."""
        if stamp.modulus != self.bounds.modulus or len(stamp.kn) != 2 * self._width:
            return Refused(Refusal.OTHER_BOUNDS)
        if now > stamp.r + self.bounds.delta:
            return Refused(Refusal.LATE)
        if stamp.r > now + self.bounds.epsilon:
            return Refused(Refusal.FUTURE)
        with self._lock:
            c, kn = stamp.c, list(stamp.kn)
            mended = self.bounds.broken(c, kn)
            if mended:
                c, kn = 0, self._fresh()
            if stamp.r + c >= now + self._width:
                return Held(until=stamp.r + c - self._width + 1)
            if self._room(now) == 0:
                return Held(until=now + 1)
            self._count_event(now)
            self._resets += mended
            self._c = max(0, self._r + self._c - now, stamp.r + c - now)
            mine = self._shifted(self._kn, now - self._r)
            theirs = self._shifted(kn, now - stamp.r)
            self._kn = list(map(max, mine, theirs))
            return Received(self._settle(now), mended)

    def decode(self, data: bytes, now: int, *, limit: int = LIMIT_DEFAULT) -> BoundedStamp:
        """A stamp from the wire, unwrapped against reading `now`."""
        return BoundedStamp.decode(data, limit=limit, near=now, ahead=self.bounds.epsilon)

    def stamp(self) -> BoundedStamp:
        """The stamp of the last event, without making one."""
        with self._lock:
            return self._stamp()

    def snapshot(self) -> tuple[BoundedStamp, int, int]:
        """What must survive a restart: the stamp of the last event, the tick that was counted last, the count."""
        with self._lock:
            return (self._stamp(), self._tick, self._in_tick)

    def restore(self, snapshot: tuple[BoundedStamp, int, int]) -> None:
        """Go on from a snapshot of this process: after a restart."""
        stamp, tick, in_tick = snapshot
        if stamp.modulus != self.bounds.modulus or len(stamp.kn) != 2 * self._width:
            raise LocalProtocolError("this is a snapshot of a clock with other bounds")
        with self._lock:
            self._r, self._c, self._kn = stamp.r, stamp.c, list(stamp.kn)
            self._tick, self._in_tick = tick, in_tick

    @property
    def resets(self) -> int:
        """How often a state or a stamp that broke the lemmas was reset: signs of faults."""
        return self._resets

    def _room(self, now: int) -> int:
        """How many more events this tick has room for."""
        taken = self._in_tick if now == self._tick else 0
        return max(0, self.bounds.events_per_tick - taken)

    def _count_event(self, now: int) -> None:
        self._in_tick = self._in_tick + 1 if now == self._tick else 1
        self._tick = now

    def _settle(self, now: int) -> BoundedStamp:
        """The end of every event: count it, check the lemmas on our own state, and stamp it."""
        if self._kn:
            self._kn[self._width] += 1
        self._r = now
        if self.bounds.broken(self._c, self._kn):
            self._resets += 1
            self._c, self._kn = 0, self._fresh()
        return self._stamp()

    def _stamp(self) -> BoundedStamp:
        return BoundedStamp(self._r, self._c, tuple(self._kn), self.bounds.modulus)

    def _fresh(self) -> list[int]:
        kn = [0] * (2 * self._width)
        if kn:
            kn[self._width] = 1
        return kn

    def _shifted(self, kn: list[int], by: int) -> list[int]:
        """kn[t] := kn[t + by], with zeros from outside."""
        size = len(kn)
        if by == 0:
            return list(kn)
        if abs(by) >= size:
            return [0] * size
        return kn[by:] + [0] * by if by > 0 else [0] * -by + kn[:by]
