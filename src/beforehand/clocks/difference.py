"""Differential coding of vector stamps (Singhal and Kshemkalyani 1992): only what changed since the last one.

For a pair of processes that exchange many messages. The sender keeps an encoder per peer, the receiver a
decoder per peer. Each stamp has a number and names the number of the stamp it builds on. The coding needs
every stamp in the order in which they were made; a stamp whose base is not the last one decoded is refused
with UnknownBaseError, never guessed at. The sender then calls `restart()`, or the next full stamp, one in
every `full_every`, mends it. The original assumes channels that never lose, repeat or reorder, and
carries no number: one lost message would corrupt every stamp after it without a sign.

Cost: the encoder remembers one stamp per peer. Bytes: 4 to 20, plus the changed entries.
"""

from __future__ import annotations

from typing import Final

from beforehand.clocks.vector import ENTRIES_MAX, VectorStamp, _news, read_entries, write_entries
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, StampKind, Writer
from beforehand.errors import BufferFullError, LocalProtocolError, StampDecodeError, UnknownBaseError

__all__ = ["DifferenceDecoder", "DifferenceEncoder"]

FULL_EVERY: Final = 64


class DifferenceEncoder:
    """The sender's side for one peer. Not thread-safe: stamps to one peer have an order, so has their coding."""

    def __init__(self, *, epoch: int, full_every: int = FULL_EVERY) -> None:
        """`epoch` must grow each time the sender starts anew: an incarnation number, or the time of the start."""
        if not 0 <= epoch <= VALUE_MAX or full_every < 1:
            raise LocalProtocolError("epoch must be from 0 and full_every from 1")
        self._epoch = epoch
        self._full_every = full_every
        self._number = 0  # Of the last stamp made.
        self._last: VectorStamp | None = None  # None: the next one is full.

    def encode(self, stamp: VectorStamp, *, limit: int = LIMIT_DEFAULT) -> bytes:
        number = self._number + 1
        full = self._last is None or number % self._full_every == 0
        writer = Writer(StampKind.VECTOR_DIFFERENCE)
        writer.varint(self._epoch)
        writer.varint(number)
        writer.varint(0 if full else 1)
        if self._last is None or full:
            write_entries(writer, stamp._all())
        else:
            if not self._last <= stamp:
                raise LocalProtocolError("the stamps of one sender only grow: this one lies below the last")
            write_entries(writer, _news(self._last._all(), stamp._all()))
        data = writer.finish(limit=limit)
        self._number, self._last = number, stamp
        return data

    def restart(self) -> None:
        """The next stamp will be a full one: the peer lost track."""
        self._last = None


class DifferenceDecoder:
    """The receiver's side for one peer. A refused stamp leaves it as it was."""

    def __init__(self, *, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._epoch: int | None = None
        self._number: int | None = None
        self._last = VectorStamp()

    def decode(self, data: bytes, *, limit: int = LIMIT_DEFAULT) -> VectorStamp:
        reader = Reader(data, StampKind.VECTOR_DIFFERENCE, limit=limit)
        epoch, number, builds = reader.varint(), reader.varint(), reader.varint()
        if number == 0 or builds > 1:
            raise StampDecodeError("its number or its form is not one that an encoder makes")
        entries = read_entries(reader)
        reader.end()
        if not builds:
            stamp = VectorStamp._of(entries)
        else:
            base = number - 1
            if epoch != self._epoch or base != self._number:
                raise UnknownBaseError(base=base, have=self._number if epoch == self._epoch else None)
            stamp = self._last.merged(VectorStamp._of(entries))
        if len(stamp) > self._entries_max:
            raise BufferFullError(what="processes in the stamps of one peer", limit=self._entries_max)
        # A full one that is repeated, or from before a restart of the sender, changes nothing.
        if self._epoch is None or self._number is None or (epoch, number) > (self._epoch, self._number):
            self._epoch, self._number, self._last = epoch, number, stamp
        return stamp
