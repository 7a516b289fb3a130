"""Matrix clocks: causal order for unicast and multicast in a fixed group.

Guarantees, in a group where every message is sent and delivered through matrix clocks:
  P1  Causal order: if send(m) → send(m') and both go to p, then p delivers m before m'.
  P2  No duplication: a repetition is recognised.
  P3  Liveness: when all messages sent have arrived, none waits.
  P4  On send events, happened-before is exact: send(m) → send(m') iff stamp(m) < stamp(m').

Assumes a fixed group (a `View`) and that no message is lost for ever. Messages to oneself stand outside: they
are received at once.

Source: Garg, chapter 12, figure 12.2 (Raynal, Schiper and Toueg 1991) and the multicast of figure 12.4. M[j,k] is the
number of messages from j to k that this process knows of. Deviation: figure 12.4 tests `W[j,i] > M[j,i] + 1`,
which lets a duplicate through; we test for equality, as figure 12.2 does.

Cost: O(n²) in time and bytes per message, n the size of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap
from operator import ge, le
from threading import Lock
from typing import ClassVar, Final, Self

from beforehand.clocks.relation import Relation
from beforehand.clocks.view import View
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, Stamp, StampKind, Writer
from beforehand.errors import (
    ClockExhaustedError,
    DuplicateMessageError,
    ImpossibleStampError,
    LocalProtocolError,
    RemoteProtocolError,
    StampDecodeError,
    ViewMismatchError,
)

__all__ = ["MatrixClock", "MatrixStamp"]


@dataclass(frozen=True, slots=True)
class MatrixStamp(Stamp):
    """What a message carries: who sent it and the matrix of its sender, the message itself counted."""

    view: View
    sender: str
    counts: tuple[int, ...]  # M row by row: counts[j·n + k] messages from the j-th to the k-th process.

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if type(self.view) is not View or type(self.counts) is not tuple:
            raise LocalProtocolError("a matrix is a tuple of counts in a view")
        self.view.position(self.sender)
        if len(self.counts) != len(self.view.processes) ** 2:
            raise LocalProtocolError("the matrix does not have the size of the view")

    def sent(self, sender: str, to: str) -> int:
        """How many messages from `sender` to `to` the stamp knows of."""
        return self.counts[self.view.position(sender) * len(self.view.processes) + self.view.position(to)]

    def compare(self, other: MatrixStamp) -> Relation:
        if self.view != other.view:
            raise LocalProtocolError("matrices of different views cannot be compared")
        pairs = list(zip(self.counts, other.counts, strict=True))
        return Relation.of(below=all(starmap(le, pairs)), above=all(starmap(ge, pairs)))

    def __lt__(self, other: MatrixStamp) -> bool:
        return self.compare(other) is Relation.BEFORE

    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        writer = Writer(StampKind.MATRIX)
        writer.raw(self.view.tag)
        writer.varint(self.view.position(self.sender))
        writer.integers(self.counts)
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT, view: View | None = None) -> Self:
        if view is None:
            raise LocalProtocolError("a matrix stamp is read in the view that it was written in: pass view=")
        reader = Reader(data, StampKind.MATRIX, limit=limit)
        view.refuse_other(reader.raw(len(view.tag)))
        sender = reader.varint()
        if sender >= len(view.processes):
            raise StampDecodeError("its sender is not in the view")
        counts = reader.integers(len(view.processes) ** 2)
        reader.end()
        return cls(view, view.processes[sender], tuple(counts))


class MatrixClock:
    """The matrix clock of one process. Thread-safe. Waiting is the caller's: see `missing`."""

    def __init__(self, process: str, view: View, *, start: MatrixStamp | None = None) -> None:
        """`start` is what `stamp` gave for this process before a restart."""
        self.process: Final = process
        self.view: Final = view
        self._me: Final = view.position(process)
        self._size: Final = len(view.processes)
        self._lock: Final = Lock()
        if start is not None and (start.view != view or start.sender != process):
            raise LocalProtocolError(f"the clock of {process!r} starts with a stamp of its own, in its own view")
        self._counts = [0] * self._size**2 if start is None else list(start.counts)  # M, row by row.

    def stamp(self) -> MatrixStamp:
        """The matrix as it stands, without sending: from it the clock can be made again (`start`)."""
        with self._lock:
            return MatrixStamp(self.view, self.process, tuple(self._counts))

    def send(self, *to: str) -> MatrixStamp:
        """One message goes to all of `to`: the stamp that it must carry, the same for every destination."""
        cells = [self._me * self._size + self.view.position(destination) for destination in to]
        if not cells or len(set(cells)) < len(cells) or self.process in to:
            raise LocalProtocolError("a message needs distinct destinations other than its sender")
        with self._lock:
            if any(self._counts[cell] >= VALUE_MAX for cell in cells):
                raise ClockExhaustedError(limit=VALUE_MAX)
            for cell in cells:
                self._counts[cell] += 1
            return MatrixStamp(self.view, self.process, tuple(self._counts))

    def missing(self, stamp: MatrixStamp) -> list[tuple[str, int]]:
        """What must be delivered here first: (sender, how many of its messages to us). Empty: deliver now."""
        with self._lock:
            return self._missing(stamp)

    def deliverable(self, stamp: MatrixStamp) -> bool:
        """Whether the message may be delivered now."""
        return not self.missing(stamp)

    def deliver(self, stamp: MatrixStamp) -> None:
        """Deliver the message. It must be deliverable; a repetition is refused with DuplicateMessageError."""
        with self._lock:
            if missing := self._missing(stamp):
                sender, count = missing[0]
                raise LocalProtocolError(f"not deliverable yet: {count} messages of {sender!r} must come first")
            self._counts = list(map(max, self._counts, stamp.counts))

    def _missing(self, stamp: MatrixStamp) -> list[tuple[str, int]]:
        if stamp.view != self.view:
            raise ViewMismatchError(expected=self.view.tag.hex(), got=stamp.view.tag.hex())
        sender = self.view.position(stamp.sender)
        if sender == self._me:
            raise RemoteProtocolError("a message of our own came back")
        row = slice(self._me * self._size, (self._me + 1) * self._size)
        for claimed, made in zip(stamp.counts[row], self._counts[row], strict=True):
            if claimed > made:
                raise ImpossibleStampError(process=self.process, claimed=claimed, made=made)
        column = slice(self._me, None, self._size)
        missing: list[tuple[str, int]] = []
        for at, (needs, has) in enumerate(zip(stamp.counts[column], self._counts[column], strict=True)):
            if at == sender:
                if needs <= has:
                    raise DuplicateMessageError(sender=stamp.sender, sequence=needs)
                needs -= 1  # The message itself.
            if needs > has:
                missing.append((self.view.processes[at], needs))
        return missing
