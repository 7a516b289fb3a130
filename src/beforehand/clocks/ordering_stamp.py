"""What a causally ordered message carries: its send's stamp, its number, and the table (see `ordering`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from beforehand.clocks.relation import Relation
from beforehand.clocks.vector import VectorStamp
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, Reader, Stamp, StampKind, Writer, name_bytes
from beforehand.errors import LocalProtocolError, StampDecodeError

__all__ = ["OrderingStamp"]


@dataclass(frozen=True, slots=True)
class OrderingStamp(Stamp):
    """What a message carries. `compare` is that of `time`, the stamp of its send event."""

    sender: str
    to: Mapping[str, int]  # Per destination, the message's number among those from this sender to it, from 1.
    time: VectorStamp
    table: Mapping[str, VectorStamp]  # Per destination, the last message known to go there before this one.

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.sender or not self.to or "" in self.to or self.sender in self.to:
            raise LocalProtocolError("a message needs a sender and destinations, and none of them is the sender")
        if not all(1 <= number <= VALUE_MAX for number in self.to.values()):
            raise LocalProtocolError("messages are numbered from 1")
        if not self.time[self.sender]:
            raise LocalProtocolError("the stamp does not count its own send event")
        if "" in self.table or not all(self.table.values()):
            raise LocalProtocolError("the table has an empty entry")

    def compare(self, other: OrderingStamp) -> Relation:
        return self.time.compare(other.time)

    def __lt__(self, other: OrderingStamp) -> bool:
        """The send of this message happened before that of `other`."""
        return self.time < other.time

    def __hash__(self) -> int:
        return hash((self.sender, self.time))

    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        names = sorted({self.sender, *self.to, *self.time, *self.table, *(p for s in self.table.values() for p in s)})
        position = {name: at for at, name in enumerate(names)}
        writer = Writer(StampKind.ORDERING)
        writer.names([name_bytes(name) for name in names])
        writer.varint(position[self.sender])
        _write_sparse(writer, position, self.to)
        _write_sparse(writer, position, self.time._all())
        rows = sorted(self.table)
        _write_positions(writer, [position[name] for name in rows])
        for name in rows:
            _write_sparse(writer, position, self.table[name]._all())
        return writer.finish(limit=limit)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT) -> Self:
        reader = Reader(data, StampKind.ORDERING, limit=limit)
        names = reader.names()
        sender_at = reader.varint()
        if sender_at >= len(names):
            raise StampDecodeError("it names a process that it does not list")
        to = _read_sparse(reader, names)
        time = VectorStamp._of(_read_sparse(reader, names))
        table = {
            name: VectorStamp._of(_read_sparse(reader, names))
            for name in [names[at] for at in _read_positions(reader, len(names))]
        }
        reader.end()
        used = {names[sender_at], *to, *time._all(), *table, *(p for s in table.values() for p in s._all())}
        if len(used) != len(names):
            raise StampDecodeError("it lists a process that it does not use")
        try:
            return cls(names[sender_at], to, time, table)
        except LocalProtocolError as error:
            raise StampDecodeError(str(error)) from None


def _write_positions(writer: Writer, positions: list[int]) -> None:
    """Increasing positions, as steps: each is at least 1 from the one before (the first from -1)."""
    writer.varint(len(positions))
    before = -1
    for at in positions:
        writer.varint(at - before - 1)
        before = at


def _read_positions(reader: Reader, size: int) -> list[int]:
    positions: list[int] = []
    at = -1
    for _ in range(reader.count()):
        at += reader.varint() + 1
        if at >= size:
            raise StampDecodeError("it names a process that it does not list")
        positions.append(at)
    return positions


def _write_sparse(writer: Writer, position: Mapping[str, int], entries: Mapping[str, int]) -> None:
    names = sorted(entries)
    _write_positions(writer, [position[name] for name in names])
    writer.integers([entries[name] for name in names])


def _read_sparse(reader: Reader, names: list[str]) -> dict[str, int]:
    positions = _read_positions(reader, len(names))
    counts = reader.integers(len(positions))
    if 0 in counts:
        raise StampDecodeError("an entry is zero, which is not in canonical form")
    return {names[at]: count for at, count in zip(positions, counts, strict=True)}
