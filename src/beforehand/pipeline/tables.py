"""Arrow tables and the arrays that kernels take; files that appear whole or not at all. No Spark here."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beforehand.events import INFERRED as INFERRED_MARK
from beforehand.formats.failing import FAILURE_KEYS, FAILURE_VALUES
from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.block import Block, Clocks, no_clocks
from beforehand.pipeline.room import Room
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    CLOCK,
    INDEX,
    MEMBER,
    RECEIVES,
    SEND_INDEX,
    SENDER,
    SENDS,
    SOURCES,
    STORED,
    TIME,
)

__all__ = [
    "block_in",
    "block_of",
    "clocks_of",
    "failures_in",
    "flat",
    "integers",
    "kinds",
    "map_parts",
    "offsets",
    "real_messages",
    "row_groups",
    "sources_array",
    "times_array",
    "write_parquet",
    "write_parquet_pieces",
]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

ROW_GROUP_ROWS: Final = 25_000

_FAILURE_KEYS: Final = pa.array(FAILURE_KEYS)
_FAILURE_VALUES: Final = pa.array(sorted(FAILURE_VALUES))


def write_parquet(table: pa.Table, path: Path, *, dictionary: list[str] | bool = True) -> None:
    """Written beside its name and renamed: a task that is tried again, or twice at once, leaves one whole file.

    `dictionary` names the columns whose values repeat; trying it on others takes time and gains nothing.
    """
    write_parquet_pieces([table], table.schema, path, dictionary=dictionary)


def write_parquet_pieces(
    tables: Iterable[pa.Table], schema: pa.Schema, path: Path, *, dictionary: list[str] | bool = True
) -> None:
    """The same of tables that come one by one: one of them is held at a time."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with pq.ParquetWriter(
            part, schema, compression="zstd", compression_level=1, use_dictionary=dictionary
        ) as writer:
            for table in tables:
                writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def row_groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, as many to a table as a row group has."""
    held: list[pa.Table] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += len(piece)
        while rows >= ROW_GROUP_ROWS:
            table = pa.concat_tables(held)
            yield table.slice(0, ROW_GROUP_ROWS).combine_chunks()
            held, rows = [table.slice(ROW_GROUP_ROWS)], rows - ROW_GROUP_ROWS
    if rows:
        yield pa.concat_tables(held).combine_chunks()


def integers(column: pa.ChunkedArray | pa.Array, fill: int = 0) -> Integers:
    """A column of integers as 64 bits, with nulls filled."""
    filled = column.fill_null(fill) if column.null_count else column
    result: Integers = filled.to_numpy().astype(np.int64, copy=False)
    return result


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A list or map column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def offsets(column: pa.Array) -> Integers:
    """Where the elements of each row of a list column begin, counted from 0; nulls have none."""
    return _starts(integers(pc.list_value_length(column)))


def map_parts(column: pa.ChunkedArray | pa.Array) -> tuple[Integers, pa.Array, pa.Array]:
    """Of a map column: where the entries of each row begin, the keys and the values."""
    maps = flat(column)
    ends = maps.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(ends)
    if maps.null_count and bool(np.any(lengths[~_flags(maps.is_valid())])):
        return map_parts(pa.array(maps.to_pylist(), maps.type))  # Nulls that hide entries: rare, and allowed.
    first, last = int(ends[0]), int(ends[-1])  # A slice shows all the keys of what it was cut from.
    return _starts(lengths), maps.keys[first:last], maps.items[first:last]


def _starts(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _flags(column: pa.Array) -> Flags:
    result: Flags = column.to_numpy(zero_copy_only=False).astype(np.bool_)
    return result


def kinds(table: pa.Table) -> pa.Array:
    """`receive`, `send` or `local`, per row."""
    receives = pc.greater(pc.list_value_length(table[RECEIVES]), 0)
    sends = pc.greater(pc.list_value_length(table[SENDS]), 0)
    return pc.if_else(receives, "receive", pc.if_else(sends, "send", "local"))


def times_array(times: Integers) -> pa.Array:
    """Times with NO_TIME as null."""
    return pa.array(times, mask=times == NO_TIME)


def sources_array(receive_start: Integers, sender: Numbers, send: Integers) -> pa.Array:
    """The column `sources`."""
    entries = pa.StructArray.from_arrays(
        [pa.array(sender.astype(np.int32)), pa.array(send, mask=sender < 0)],
        fields=list(STORED.field(SOURCES).type.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(receive_start.astype(np.int32)), entries).cast(
        STORED.field(SOURCES).type
    )


def block_of(table: pa.Table, member: Numbers, cut: Integers, *, small: bool) -> Block:
    """The kernels' view of rows of `events/`, sorted by member and index."""
    receives = flat(table[RECEIVES])
    sources = flat(table[SOURCES]).flatten()
    sender = integers(sources.field(SENDER)).astype(np.int32)
    assert sender.size == len(receives.flatten())
    return Block(
        cut=cut,
        process=member.astype(np.int32),
        index=integers(table[INDEX]),
        time=integers(table[TIME], NO_TIME),
        receive_start=offsets(receives),
        sender=sender,
        send=integers(sources.field(SEND_INDEX)),
        real=real_messages(receives),
        small=small,
    )


def block_in(
    room: Room, pieces: Iterable[pa.Table], cut: Integers, *, small: bool, processes: pa.Array | None = None
) -> tuple[Block, Clocks | None]:
    """The same of rows that come piece by piece, with `member`; one piece is held at a time. With the names of the
    processes, the reported clocks too.
    """
    kinds_ = (np.int32, np.int64, np.int64, np.int64, np.int32, np.int64, np.bool_)
    process, index, time, receive_start, sender, send, real = (room.column(kind) for kind in kinds_)
    given, clock_start, clock_process, clock_count = (
        room.column(kind) for kind in (np.bool_, np.int64, np.int32, np.int64)
    )
    receive_start.add(np.zeros(1, np.int64))
    if processes is not None:
        clock_start.add(np.zeros(1, np.int64))
    for piece in pieces:
        block = block_of(piece, integers(piece[MEMBER]).astype(np.int32), cut, small=small)
        receive_start.add(block.receive_start[1:] + sender.size)
        process.add(block.process)
        index.add(block.index)
        time.add(block.time)
        sender.add(block.sender)
        send.add(block.send)
        real.add(block.real)
        if processes is not None:
            clocks = clocks_of(piece, processes) or no_clocks(block.rows)
            clock_start.add(clocks.start[1:] + clock_count.size)
            given.add(clocks.given)
            clock_process.add(clocks.process)
            clock_count.add(clocks.count)
    block = Block(
        cut=cut,
        process=process.array(),
        index=index.array(),
        time=time.array(),
        receive_start=receive_start.array(),
        sender=sender.array(),
        send=send.array(),
        real=real.array(),
        small=small,
    )
    if processes is None:
        return block, None
    return block, Clocks(given.array(), clock_start.array(), clock_process.array(), clock_count.array())


def real_messages(receives: pa.Array) -> Flags:
    """Per receive, whether a source named its message."""
    return ~_flags(pc.starts_with(receives.flatten(), INFERRED_MARK))


def clocks_of(table: pa.Table, processes: pa.Array) -> Clocks | None:
    """The reported clocks, or None if no event has one."""
    column = flat(table[CLOCK])
    if column.null_count == len(column):
        return None
    starts, keys, counts = map_parts(column)
    count = integers(counts)
    member = integers(pc.index_in(keys, processes), -1).astype(np.int32)
    kept = count != 0
    before = _starts(kept.astype(np.int64))
    return Clocks(given=_flags(column.is_valid()), start=before[starts], process=member[kept], count=count[kept])


def failures_in(table: pa.Table) -> Integers:
    """The rows whose attributes say that something failed. A span that failed did so at its end, not at its start."""
    starts, keys, values = map_parts(table[ATTRIBUTES])

    def rows(said: pa.Array) -> Integers:
        found: Integers = np.unique(np.searchsorted(starts, np.flatnonzero(_flags(said)), side="right") - 1)
        return found

    failing = pc.is_in(pc.utf8_lower(pc.fill_null(values, "")), _FAILURE_VALUES)
    beginnings = rows(pc.and_(pc.equal(keys, "phase"), pc.equal(values, "start")))
    failures: Integers = np.setdiff1d(rows(pc.and_(pc.is_in(keys, _FAILURE_KEYS), failing)), beginnings)
    return failures
