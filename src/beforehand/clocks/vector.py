"""Vector stamps and the clock that issues them: happened-before, exactly.

Guarantees, for processes that stamp every event of interest and carry the stamp on every message:
  P1  e → f iff stamp(e) < stamp(f); e ‖ f iff the stamps are CONCURRENT.
  P2  Each event of a process has a stamp of its own: no tick is lost or issued twice, whatever the threads.
  P3  A stamp is a snapshot: nothing that the clock does later changes it.

Assumes that process names are unique and never reused, that a restarted process continues with the
stamp it had (or takes a new name), and that no message bypasses the clock (see `peers`).

Source: Berry 1995, sections 2.1, 4.2 and 5.2; Fidge 1988. The library of the paper has vt_inc, vt_merge,
vt_ts, vt_lock and vt_before; here `tick`, `merge`, `stamp`, `locked` and `<`. As its section 5.2 proposes, every
operation locks by itself and returns the stamp, and `receive` is merge, increment and copy in one step.

Cost: tick and stamp O(1), for stamps share the entries of other processes with the clock until the next
merge; merge and compare O(entries). Bytes: per entry its count and what its name does not share with the one
before it; in an agreed view (`view`) 1 to 4 bytes, without names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from operator import index
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Final, Self

from beforehand.clocks.peers import PeerPolicy, UnrecordedPeers
from beforehand.clocks.relation import Relation
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, Stamp, StampKind, Writer, name_bytes
from beforehand.errors import (
    BufferFullError,
    ClockExhaustedError,
    ImpossibleStampError,
    LocalProtocolError,
    StampDecodeError,
)

if TYPE_CHECKING:
    from beforehand.clocks.view import View

__all__ = ["ENTRIES_MAX", "VectorClock", "VectorStamp"]

ENTRIES_MAX: Final = 10_000
"""Processes that a clock will know of unless told otherwise, so that no peer can fill its memory with names."""


class VectorStamp(Stamp):
    """How many events of each process are known. Sparse: a process without an entry has 0."""

    __slots__ = ("_entries", "_origin")

    exact: ClassVar[bool] = True

    # Either `_entries` holds everything, or it is None and the stamp is `_origin`: a process, its count, and the
    # entries of all others, which are shared with the clock that issued the stamp and never changed again.
    _entries: dict[str, int] | None
    _origin: tuple[str, int, dict[str, int]]

    def __init__(self, entries: Mapping[str, int] | None = None) -> None:
        try:
            own = {process: index(count) for process, count in entries.items()} if entries else {}
        except TypeError:
            raise LocalProtocolError("the entries of a stamp are integers") from None
        for process, count in own.items():
            if not isinstance(process, str) or not process:
                raise LocalProtocolError("a process needs a name")
            if not 0 <= count <= VALUE_MAX:
                raise LocalProtocolError(f"entry {process!r}: {count} is not between 0 and {VALUE_MAX}")
        if 0 in own.values():
            own = {process: count for process, count in own.items() if count}
        self._entries = own

    @classmethod
    def _of(cls, entries: dict[str, int]) -> Self:
        """A stamp that owns `entries`, which are valid and have no zeros."""
        stamp = cls.__new__(cls)
        stamp._entries = entries
        return stamp

    def _all(self) -> dict[str, int]:
        entries = self._entries
        if entries is None:
            process, count, others = self._origin
            entries = dict(others)
            if count:
                entries[process] = count
            self._entries = entries
        return entries

    def __getitem__(self, process: str) -> int:
        if self._entries is not None:
            return self._entries.get(process, 0)
        owner, count, others = self._origin
        return count if process == owner else others.get(process, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        if self._entries is not None:
            return bool(self._entries)
        return bool(self._origin[1] or self._origin[2])

    def __contains__(self, process: object) -> bool:
        return process in self._all()

    def to_dict(self) -> dict[str, int]:
        """The entries that are not zero, sorted by process."""
        return dict(sorted(self._all().items()))

    def compare(self, other: VectorStamp) -> Relation:
        """BEFORE: this happened before `other`. AFTER, EQUAL, CONCURRENT likewise."""
        mine, theirs = self._all(), other._all()
        if mine is theirs:
            return Relation.EQUAL
        return Relation.of(below=_covered(mine, theirs), above=_covered(theirs, mine))

    def __lt__(self, other: VectorStamp) -> bool:
        mine, theirs = self._all(), other._all()
        return _covered(mine, theirs) and mine != theirs

    def __le__(self, other: VectorStamp) -> bool:
        return _covered(self._all(), other._all())

    def __gt__(self, other: VectorStamp) -> bool:
        return other < self

    def __ge__(self, other: VectorStamp) -> bool:
        return other <= self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VectorStamp):
            return NotImplemented
        return self._all() == other._all()

    def __hash__(self) -> int:
        return hash(frozenset(self._all().items()))

    def __reduce__(self) -> tuple[type[VectorStamp], tuple[dict[str, int]]]:
        return (VectorStamp, (self._all(),))

    def __repr__(self) -> str:
        return f"VectorStamp({self.to_dict()})"

    def concurrent(self, other: VectorStamp) -> bool:
        return self.compare(other) is Relation.CONCURRENT

    def merged(self, *others: VectorStamp) -> VectorStamp:
        """The least stamp that covers this one and all others."""
        entries = own = self._all()
        for other in others:
            if news := _news(entries, other._all()):
                entries = entries | news
        return self if entries is own else VectorStamp._of(entries)

    def encode(self, *, limit: int = LIMIT_DEFAULT, view: View | None = None) -> bytes:
        """With names; or, in a view that both sides have, by position."""
        if view is not None:
            return view.encode(self, limit=limit)
        writer = Writer(StampKind.VECTOR)
        write_entries(writer, self._all())
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT, view: View | None = None) -> Self:
        if view is not None:
            return cls._of(view.decode(data, limit=limit)._all())
        reader = Reader(data, StampKind.VECTOR, limit=limit)
        entries = read_entries(reader)
        reader.end()
        return cls._of(entries)


class VectorClock:
    """The vector clock of one process. Every method is atomic; `locked` makes several of them one step."""

    def __init__(
        self,
        process: str,
        *,
        start: VectorStamp | None = None,
        entries_max: int = ENTRIES_MAX,
        peer_policy: PeerPolicy = PeerPolicy.REFUSE,
    ) -> None:
        """`start` is the last stamp of this process before a restart, or what it inherits at birth."""
        if not process:
            raise LocalProtocolError("a process needs a name")
        self.process: Final = process
        self._entries_max: Final = entries_max
        self._lock: Final = RLock()
        entries = dict(start._all()) if start is not None else {}
        self._count = entries.pop(process, 0)  # Own events so far.
        self._others = entries  # What is known of other processes; at most `entries_max`.
        self._shared = False  # Whether a stamp refers to `_others`, which must then be copied before a change.
        # Per process, the own event before which its entry changed last; in the order of changes, so that the last
        # ones are found without a search. None until somebody asks; at most entries_max.
        self._changed: dict[str, int] | None = None
        self._children: set[str] = set()  # Names given to spawned processes; at most entries_max.
        self._unrecorded = UnrecordedPeers(peer_policy)
        if len(entries) > entries_max:
            raise BufferFullError(what=f"processes known to clock {process!r}", limit=entries_max)

    def tick(self) -> VectorStamp:
        """One event happens: its stamp. To send a message, tick and let the message carry the stamp."""
        with self._lock:
            return self._advance()

    @property
    def count(self) -> int:
        """How many events there were so far."""
        return self._count

    def stamp(self) -> VectorStamp:
        """The stamp of the last event, without making one."""
        with self._lock:
            return self._issue()

    def tick_since(self, count: int) -> tuple[VectorStamp, dict[str, int]]:
        """As `tick`; and the entries of others that changed after our event `count`, as they are in the stamp.

        Whoever knows our event `count` knows the rest of the stamp. Asked for the first time, all have changed.
        """
        with self._lock:
            stamp = self._advance()
            return stamp, self._since(count)

    def since(self, count: int) -> dict[str, int]:
        """The entries of others that changed after our event `count`, as they are now."""
        with self._lock:
            return self._since(count)

    def merge(self, stamp: VectorStamp) -> VectorStamp:
        """Take over what `stamp` knows, without an event of our own; returns the clock's stamp."""
        with self._lock:
            self._absorb(stamp)
            return self.stamp()

    def receive(self, stamp: VectorStamp) -> VectorStamp:
        """A message arrives with `stamp`: merge, tick and stamp as one step. Returns the receive event's stamp."""
        with self._lock:
            if self._count >= VALUE_MAX:
                raise ClockExhaustedError(limit=VALUE_MAX)
            self._absorb(stamp)
            return self._advance()

    def advance(self) -> int:
        """As `tick`, without a stamp: how many events there are now."""
        with self._lock:
            if self._count >= VALUE_MAX:
                raise ClockExhaustedError(limit=VALUE_MAX)
            self._count += 1
            return self._count

    def receive_entries(self, entries: dict[str, int]) -> int:
        """As `receive`, of the entries of a stamp, which are valid and have no zeros; and as `advance`."""
        with self._lock:
            if self._count >= VALUE_MAX:
                raise ClockExhaustedError(limit=VALUE_MAX)
            if (claimed := entries.get(self.process, 0)) > self._count:
                raise ImpossibleStampError(process=self.process, claimed=claimed, made=self._count)
            self._learn(entries)
            self._count += 1
            return self._count

    def receive_unstamped(self, peer: str, *, carries_result: bool = True) -> VectorStamp:
        """A message without a stamp arrives from `peer`; see `peers` for what the policies do.

        With `carries_result=False` it is a reply that says nothing about the peer: no event, no mark.
        """
        with self._lock:
            if not carries_result:
                return self.stamp()
            if self._count >= VALUE_MAX:
                raise ClockExhaustedError(limit=VALUE_MAX)
            self._unrecorded.admit(peer)
            return self._advance()

    @property
    def unrecorded(self) -> dict[str, int]:
        """Messages taken without a stamp, per peer: causes may have come unseen through these."""
        with self._lock:
            return self._unrecorded.counts()

    def locked(self) -> AbstractContextManager[object]:
        """`with clock.locked():` groups operations; no other thread's come between. Nests freely."""
        return self._lock

    def spawn(self, child: str) -> VectorClock:
        """The clock of a new process `child`, which inherits all that this one knows (2.1, rule v)."""
        with self._lock:
            if child == self.process or child in self._others or child in self._children:
                raise LocalProtocolError(f"process {child!r} existed before: a name must never be used again")
            if len(self._children) >= self._entries_max:
                raise BufferFullError(what=f"children of clock {self.process!r}", limit=self._entries_max)
            clock = VectorClock(
                child, start=self.stamp(), entries_max=self._entries_max, peer_policy=self._unrecorded.policy
            )
            self._children.add(child)
            return clock

    def synchronize(self, *others: VectorClock) -> VectorStamp:
        """A synchronous communication with the processes of `others` (2.1, rule iii): one common event.

        Every clock counts it and all end with the same stamp, which is returned. Between machines the same is
        done by hand: each side ticks, they exchange stamps, each merges what it got. Do not call it inside
        `locked()`: two threads that each hold one of the clocks would wait for each other.
        """
        clocks = sorted({self, *others}, key=lambda clock: clock.process)
        if len({clock.process for clock in clocks}) < len(clocks):
            raise LocalProtocolError("two clocks of one process cannot meet")
        with ExitStack() as stack:
            for clock in clocks:  # Always in the order of names, so that two meetings cannot deadlock.
                stack.enter_context(clock.locked())
            now = VectorStamp().merged(*(clock.stamp() for clock in clocks))
            for clock in clocks:  # Nothing changes unless all can take part.
                clock._refuse(now)
                if clock._count >= VALUE_MAX:
                    raise ClockExhaustedError(limit=VALUE_MAX)
            common = now.merged(*(VectorStamp({clock.process: clock._count + 1}) for clock in clocks))
            for clock in clocks:
                clock._refuse_names(common._all())
            for clock in clocks:
                clock._advance()
                clock._absorb(common)
            return common

    def _advance(self) -> VectorStamp:
        count = self._count
        if count >= VALUE_MAX:
            raise ClockExhaustedError(limit=VALUE_MAX)
        self._count = count + 1
        return self._issue()

    def _since(self, count: int) -> dict[str, int]:
        others = self._others
        if self._changed is None:
            self._changed = dict.fromkeys(others, self._count)
        if not count:
            return dict(others)
        found: dict[str, int] = {}
        for process, at in reversed(self._changed.items()):
            if at <= count:
                break
            found[process] = others[process]
        return found

    def _issue(self) -> VectorStamp:
        self._shared = True
        stamp = VectorStamp.__new__(VectorStamp)
        stamp._entries = None
        stamp._origin = (self.process, self._count, self._others)
        return stamp

    def _refuse(self, stamp: VectorStamp) -> None:
        if stamp[self.process] > self._count:
            raise ImpossibleStampError(process=self.process, claimed=stamp[self.process], made=self._count)

    def _refuse_names(self, news: dict[str, int]) -> None:
        limit, others = self._entries_max, self._others
        if len((others.keys() | news.keys()) - {self.process}) > limit:
            raise BufferFullError(what=f"processes known to clock {self.process!r}", limit=limit)

    def _absorb(self, stamp: VectorStamp) -> None:
        self._refuse(stamp)
        self._learn(stamp._all())

    def _learn(self, entries: dict[str, int]) -> None:
        others = self._others
        known = others.get
        news = {process: count for process, count in entries.items() if count > known(process, 0)}
        news.pop(self.process, None)
        if not news:
            return
        if len(others) + len(news) > self._entries_max:
            self._refuse_names(news)
        if self._changed is not None:
            next_event = self._count + 1
            for process in news:
                self._changed.pop(process, None)  # So that it moves to the end.
                self._changed[process] = next_event
        if self._shared:
            self._others = others | news
            self._shared = False
        else:
            others.update(news)


def write_entries(writer: Writer, entries: Mapping[str, int]) -> None:
    names = sorted(entries)
    writer.names([name_bytes(name) for name in names])
    writer.integers([entries[name] for name in names])


def read_entries(reader: Reader) -> dict[str, int]:
    names = reader.names()
    counts = reader.integers(len(names))
    if 0 in counts:
        raise StampDecodeError("an entry is zero, which is not in canonical form")
    return dict(zip(names, counts, strict=True))


# Plain loops: on the interpreters we support they beat chains of map, compress and set operations at every size.


def _covered(mine: dict[str, int], theirs: dict[str, int]) -> bool:
    """mine ≤ theirs."""
    try:
        for process, count in mine.items():
            if theirs[process] < count:
                return False
    except KeyError:
        return False
    return True


def _news(mine: dict[str, int], theirs: dict[str, int]) -> dict[str, int]:
    """The entries of `theirs` that are greater than mine."""
    known = mine.get
    return {process: count for process, count in theirs.items() if count > known(process, 0)}
