"""Merging: what a merger does with what arrives, for whoever runs one (a protocol, a live merger, a Spark query).

Publishers stamp their messages; mergers receive them, each by itself and without a word to another, and release them
in one order. Three things here: `MergeSettings` says what is known of clocks and delays, `MergeRules` decides about
one message by itself, `MergeBuffer` holds messages until their time has come.

Guarantees of a buffer:
  P1  Total order: what it releases is in the order of `MergeRules.key`. The key of a message is the same everywhere,
      so any two mergers release the messages that both release in the same order (theorem 4.4).
  P2  No duplication: a message is released once, however often it arrives.
  P3  Time alone releases: a message leaves when `advance` is given its due time, r + c + δ + ε, whether or not
      anything else arrives, and whatever was lost. Nothing waits longer than `span` (lemma 4.2).
  P4  Nothing is lost silently: what is not released is given back with the reason.
  P5  Stabilization, for a buffer with `ahead_max=0`: from any contents of its memory, P1 to P4 hold again for all
      messages offered later than 2·`span` + 1 after the fault, and by then nothing is left of what was not offered,
      if time does not go back and `advance` is called in every tick in which something waits (theorem 4.6).
Given G1 and G2 (`BoundedClock`), where arrival is a reading of a clock that G1 covers:
  P6  Causal order: if send(m) → send(m'), m is not released after m' (theorem 4.5).
  P7  Nothing that arrives within δ is set aside.

Source: Kulkarni and Ravikant, "Stabilizing Causal Deterministic Merge", section 4.2; section 5 for `<r, c>` stamps.

How it works. A message that arrived later than r + δ, or that claims to come from further than ε in the future, is
set aside, by its stamp and its arrival alone: so whoever sees the same arrivals sets aside the same messages, now or
in a replay. All others wait until time has reached r + c + δ + ε and then leave, smallest key first.

Why it holds. P1, P3: due time grows with r + c, the first part of the key, and what is offered with a key that was
passed is set aside. P2: a repetition has the same stamp. If it arrives in time, at most at r + δ, the first one is
still here, for it stays until r + c + δ + ε; if later, it is late. So no memory of what was released is needed. P6:
send(m) → send(m') gives m the smaller key, and r + c of m is at most that of m'. m arrives by r + δ, before m' is
due. P7: let m arrive at a ≤ r + δ. What was released by then has r' + c' + δ + ε ≤ a ≤ r + δ, hence a smaller key
than m, if ε > 0.
  With δ on the receiver's clock, as G2 has it, δ + 1 would do in place of δ + ε. The ε is for mergers whose time is
  not the clock that arrival was read from.
  Why ε = 0 waits one tick more: (1) m' with r' = t is released at t + δ. (2) m with r = t arrives at t + δ, in time,
  and may have the smaller key. So with ε = 0 a message leaves as the tick r + δ ends, not as it begins.
P5: an entry is due within `span` of its arrival, and time is not behind arrivals. Once per `span` all entries are
looked at: what is due later than that was not offered and is set aside, and the front is found anew. So what a fault
put here is due, and gone, within 2·`span` + 1. What is offered later than that is due later still: it meets nothing
of the fault, neither an equal key, nor a key that was passed, nor a buffer that is full of it.
  Why all entries and not the front alone: (1) a fault leaves an entry due in an hour. (2) Messages keep coming, so it
  is never at the front. (3) It takes up room for an hour, and is then released as if it were a message.
  Why not always: where a channel's time is the least of several partitions, arrivals run ahead of it as far as one
  partition is read ahead of another, and what is due far ahead is no sign of a fault. `ahead_max` says how far that
  can be; None, the default: any distance, and then P5 is not promised.

Deviations: a stamp that breaks the lemmas is set aside rather than delivered somewhere; messages of one publisher
with equal stamps go by their sequence number; repetitions are told from the messages that wait.

At the bound (`waiting_max` messages) what arrives is set aside as FULL.

Cost: O(log n) per message; one more pass over all that waits per `span`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeAlias, TypeVar

from beforehand.clocks.bounded import BoundedStamp, Bounds
from beforehand.clocks.offset import OffsetStamp
from beforehand.clocks.wire import VALUE_MAX
from beforehand.errors import InvariantError, LocalProtocolError

__all__ = [
    "WAITING_MAX",
    "MergeBuffer",
    "MergeRules",
    "MergeSettings",
    "MergeStamp",
    "Published",
    "Released",
    "SetAside",
]

WAITING_MAX: Final = 1_000_000
NAME_BYTES_MAX: Final = 255
MODULUS_DEFAULT: Final = 2**32
"""Ticks after which bounded stamps repeat: 49 days of milliseconds. The paper's least, 6ε + δ + 1, would take a
message that is late by so much for a new one."""

BIAS: Final = 2**63
"""Added to readings in keys, so that they compare as bytes below zero as well."""

MergeStamp: TypeAlias = BoundedStamp | OffsetStamp
Item = TypeVar("Item")


class SetAside(StrEnum):
    """Why a message was not released in the order."""

    LATE = "late"  # It arrived after r + δ: G2 did not hold for it, or the stamp is garbage.
    FUTURE = "future"  # Its r lies further than ε ahead of its arrival: G1 did not hold, or the stamp is garbage.
    AHEAD = "ahead"  # Its c is above what was agreed for `<r, c>` stamps.
    CORRUPTED = "corrupted"  # The stamp breaks the lemmas, or the entry cannot have been offered.
    OTHER_BOUNDS = "other bounds"  # The publisher was configured with another ε, modulus or kind of stamp.
    REPEATED = "repeated"  # The same message waits here already.
    PASSED = "passed"  # Later ones were released: time was advanced beyond its arrival before it was offered.
    FULL = "full"  # The buffer is at its bound.
    MALFORMED = "malformed"  # Not a record, or not a stamp.
    OVERSIZE = "oversize"  # Above the limit for a record.


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The `sequence`-th message of a publisher, and its stamp. It validates itself."""

    publisher: str
    sequence: int  # From 1. With an equal stamp, the smaller comes first.
    stamp: MergeStamp
    payload: bytes = b""

    def __post_init__(self) -> None:
        if type(self.publisher) is not str or not self.publisher or "\0" in self.publisher:
            raise ValueError("the publisher is empty or not a text, or contains NUL")
        try:
            long = len(self.publisher.encode()) > NAME_BYTES_MAX
        except UnicodeEncodeError:
            raise ValueError("the publisher's name is not valid text") from None
        if long:
            raise ValueError(f"the publisher's name is longer than {NAME_BYTES_MAX} bytes")
        if type(self.sequence) is not int or not 1 <= self.sequence <= VALUE_MAX:
            raise ValueError(f"the sequence number is not between 1 and {VALUE_MAX}")
        if type(self.stamp) is not BoundedStamp and type(self.stamp) is not OffsetStamp:
            raise ValueError("the stamp is neither bounded nor an offset stamp")
        if type(self.payload) is not bytes:
            raise ValueError("the payload is not bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """What publishers and mergers of a channel agree on, in nanoseconds."""

    epsilon_ns: int  # G1: how far two clocks can lie apart, the broker's among them.
    delta_ns: int  # G2: how long a message may take from its publisher to its arrival.
    tick_ns: int = 1_000_000  # Clocks are read in ticks of this length. Longer ticks make stamps shorter.
    publishers: int = 1_000  # n: at most so many publish and exchange stamps.
    events_per_tick: int = 1_000  # K: at most so many events per publisher and tick.
    c_max_ns: int | None = None  # Not None: `<r, c>` stamps (section 5), with c at most this.

    def __post_init__(self) -> None:
        if self.epsilon_ns < 0 or self.delta_ns < 0 or self.tick_ns < 1 or (self.c_max_ns or 0) < 0:
            raise LocalProtocolError("epsilon, delta and c_max must be from 0, and a tick longer than nothing")
        self.rules  # noqa: B018 (raises if the bounds cannot be)

    @property
    def bounds(self) -> Bounds:
        """The same in ticks. Rounded up, so that readings in ticks keep what the clocks keep."""
        epsilon, delta = -(-self.epsilon_ns // self.tick_ns), -(-self.delta_ns // self.tick_ns)
        return Bounds(
            epsilon=epsilon,
            delta=delta,
            processes=self.publishers,
            events_per_tick=self.events_per_tick,
            modulus=max(MODULUS_DEFAULT, 6 * epsilon + delta + 1),
        )

    @property
    def rules(self) -> MergeRules:
        c_max = None if self.c_max_ns is None else -(-self.c_max_ns // self.tick_ns)
        return MergeRules(bounds=self.bounds, c_max=c_max)

    def reading(self, time_ns: int) -> int:
        """The tick that a clock shows at `time_ns`."""
        return time_ns // self.tick_ns

    def next_level(self, *, delta_ns: int) -> MergeSettings:
        """For mergers that take what mergers with these settings release, at most `delta_ns` after its release.

        The publishers' stamps stay. For whoever takes it from a merger, a message has taken up to δ + 3ε (theorem
        4.3): due at most at r + c + δ + ε on the merger's clock, which may be ε behind its own.
        """
        taken = self.rules.span * self.tick_ns
        return MergeSettings(
            epsilon_ns=self.epsilon_ns,
            delta_ns=taken + delta_ns,
            tick_ns=self.tick_ns,
            publishers=self.publishers,
            events_per_tick=self.events_per_tick,
            c_max_ns=self.c_max_ns,
        )

    def check_follows(self, below: MergeSettings, *, delta_ns: int) -> None:
        """Raise if mergers with these settings cannot take what those of `below` release within `delta_ns`."""
        needed = below.next_level(delta_ns=delta_ns)
        mine, theirs = self.bounds, below.bounds
        if (self.tick_ns, self.c_max_ns, mine.epsilon, mine.count_max, mine.modulus) != (
            below.tick_ns,
            below.c_max_ns,
            theirs.epsilon,
            theirs.count_max,
            theirs.modulus,
        ):
            raise LocalProtocolError(
                "the levels of a hierarchy must agree on the tick, epsilon, c_max, publishers and events per tick"
            )
        if self.delta_ns < needed.delta_ns:
            raise LocalProtocolError(
                f"delta is {self.delta_ns} ns, but what the mergers below release has taken up to "
                f"{needed.delta_ns} ns: raise delta to that"
            )


@dataclass(frozen=True)
class MergeRules:
    """What decides about one message, in ticks. All mergers of a channel must have the same."""

    bounds: Bounds
    c_max: int | None = None  # None: bounded stamps. Otherwise `<r, c>` stamps with c at most this.

    @cached_property
    def wait(self) -> int:
        """δ + ε, and at least δ + 1: how long after r + c a message is due."""
        return self.bounds.delta + max(self.bounds.epsilon, 1)

    @cached_property
    def span(self) -> int:
        """The longest that a message can wait, and the furthest ahead of time that anything can be due."""
        c_most = max(self.bounds.width - 1, 0) if self.c_max is None else self.c_max
        return self.bounds.epsilon + c_most + self.wait

    @cached_property
    def count_bytes(self) -> int:
        """Bytes that each count of a bounded stamp takes in a key."""
        return (self.bounds.count_max.bit_length() + 7) // 8

    def judge(self, stamp: MergeStamp, *, arrival: int) -> SetAside | None:
        """Why a message that arrived at `arrival` is set aside, or None. It depends on nothing else."""
        if isinstance(stamp, OffsetStamp):
            if self.c_max is None:
                return SetAside.OTHER_BOUNDS
            if stamp.c > self.c_max:
                return SetAside.AHEAD
        else:
            bounds = self.bounds
            if self.c_max is not None or stamp.modulus != bounds.modulus or len(stamp.kn) != 2 * bounds.width:
                return SetAside.OTHER_BOUNDS
            if bounds.broken(stamp.c, stamp.kn):
                return SetAside.CORRUPTED
        if arrival > stamp.r + self.bounds.delta:
            return SetAside.LATE
        if stamp.r > arrival + self.bounds.epsilon:
            return SetAside.FUTURE
        return None

    def due(self, stamp: MergeStamp) -> int:
        """The time at which the message may be released."""
        return stamp.r + stamp.c + self.wait

    def key(self, message: Published) -> bytes:
        """The place of a message that `judge` lets pass, as bytes that compare as the parts do.

        r + c; for bounded stamps kn[c], kn[c-1], …, for `<r, c>` stamps r; the publisher; the sequence number.
        """
        stamp = message.stamp
        first, *rest = stamp.key
        if self.c_max is None:
            size = self.count_bytes
            middle = b"".join([count.to_bytes(size) for count in rest])
        else:
            middle = (stamp.r + BIAS).to_bytes(8)
        return b"".join(
            ((first + BIAS).to_bytes(8), middle, message.publisher.encode(), b"\0", message.sequence.to_bytes(8))
        )

    def due_of(self, key: bytes) -> int:
        """The due time of the message with this key. It grows with the key, whatever bytes that are (P5)."""
        return int.from_bytes(key[:8].ljust(8, b"\0")) - BIAS + self.wait


@dataclass(frozen=True, slots=True)
class Released(Generic[Item]):
    """What `advance` lets go: in its place in the order, or set aside because the entry cannot have been offered."""

    item: Item
    key: bytes
    reason: SetAside | None = None


class MergeBuffer(Generic[Item]):
    """The messages of one channel that wait for their time. `time` and `arrival` are in ticks."""

    def __init__(self, rules: MergeRules, *, waiting_max: int = WAITING_MAX, ahead_max: int | None = None) -> None:
        """`ahead_max`: how far arrivals that are offered may lie ahead of `time`; None: any distance, and no P5."""
        if waiting_max < 1 or (ahead_max or 0) < 0:
            raise LocalProtocolError("a buffer has room for at least one message, and ahead_max is not negative")
        self.rules: Final = rules
        self._waiting_max: Final = waiting_max
        self._ahead_max: Final = ahead_max
        self._waiting: dict[bytes, Item] = {}  # By key; at most `waiting_max`.
        self._heap: list[bytes] = []  # The same keys; made anew once per span.
        self._made: int | None = None  # The time at which the heap was made.
        self._passed = b""  # The key of the last message released; smaller than all before the first.

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, message: Published, item: Item, *, arrival: int) -> SetAside | None:
        """Take in `message`, as `item`; or say why it is set aside."""
        reason = self.rules.judge(message.stamp, arrival=arrival)
        if reason is not None:
            return reason
        key = self.rules.key(message)
        if key in self._waiting:
            return SetAside.REPEATED
        if key <= self._passed:
            return SetAside.PASSED
        if len(self._waiting) >= self._waiting_max:
            return SetAside.FULL
        self._waiting[key] = item
        heappush(self._heap, key)
        return None

    def advance(self, time: int) -> list[Released[Item]]:
        """Time has come to `time`: what is due, in order."""
        released = [] if self._ahead_max is None else self._mend(time, time + self.rules.span + self._ahead_max)
        while self._heap and self.rules.due_of(self._heap[0]) <= time:
            key = heappop(self._heap)
            if key in self._waiting:  # P5: after a fault it may not be.
                released.append(Released(self._waiting.pop(key), key))
                self._passed = key
        return released

    def next_due(self) -> int | None:
        """When `advance` will next have something to release, if nothing else is offered and no fault happens.

        Whoever waits for it, and wants P5, calls `advance` once per `span` all the same.
        """
        return self.rules.due_of(self._heap[0]) if self._heap else None

    @property
    def passed(self) -> bytes:
        """The key of the last message released; empty before the first."""
        return self._passed

    def waiting(self) -> Iterator[tuple[bytes, Item]]:
        """The messages that wait, each with its key, in the order in which they came (by key, if restored)."""
        return iter(self._waiting.items())

    def snapshot(self) -> tuple[bytes, tuple[tuple[bytes, Item], ...]]:
        """The key of the last message released, and all that waits, in order."""
        return (self._passed, tuple(sorted(self._waiting.items(), key=lambda entry: entry[0])))

    def restore(self, snapshot: tuple[bytes, tuple[tuple[bytes, Item], ...]]) -> None:
        self._passed, waiting = snapshot
        self._waiting = dict(waiting)
        self._heap = list(self._waiting)
        heapify(self._heap)
        self._made = None

    def _mend(self, time: int, latest: int) -> list[Released[Item]]:
        """P5: set aside what is due after `latest`, and find the front anew; once per span."""
        if self._passed and self.rules.due_of(self._passed) > latest:
            self._passed = b""  # Nothing due so far ahead can have been released.
        if self._made is not None and self._made <= time <= self._made + self.rules.span:
            return []
        wrong = [key for key in self._waiting if self.rules.due_of(key) > latest]
        aside = [Released(self._waiting.pop(key), key, SetAside.CORRUPTED) for key in wrong]
        self._heap = list(self._waiting)
        heapify(self._heap)
        self._made = time
        return aside

    def check_invariants(self) -> None:
        if sorted(self._heap) != sorted(self._waiting):
            raise InvariantError("P3: a message waits and will not be released")
        if any(key <= self._passed for key in self._waiting):
            raise InvariantError("P1: a message waits whose place was passed")
        if len(self._waiting) > self._waiting_max:
            raise InvariantError("the buffer is above its bound")
