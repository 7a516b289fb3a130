"""Events and messages brought to their blocks: which block an event lies in, and the one shuffle by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from beforehand.pipeline.census import Large
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    BLOCK,
    BLOCK_ROW,
    CLOCK,
    DUPLICATE_RECEIVE,
    EXECUTION,
    FILE,
    INDEX,
    MEMBER,
    NAME,
    NUMBER,
    OFFSET,
    OUTCOME,
    POSITION,
    PROCESS,
    RECEIVE_INDEX,
    RECEIVED,
    RECEIVER,
    RECEIVES,
    SEND_INDEX,
    SENDER,
    SENDS,
    TIME,
)

__all__ = ["Cells", "block_rows", "cells", "is_packable", "keyed", "member_table"]

Integers = npt.NDArray[np.int64]

CELLS_MAX: Final = 200_000
"""Rows of the broadcast table that tells an event's block."""

_CELL: Final = "cell"
_BASE: Final = "base"
_BOUNDS: Final = "bounds"


def member_table(larges: Sequence[Large]) -> pa.Table:
    """number, member, execution, process: small, for it has a row per process."""
    rows = [
        (large.number, member, large.execution, process)
        for large in larges
        for member, process in enumerate(large.processes)
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    types = (pa.int32(), pa.int32(), pa.string(), pa.string())
    names = [NUMBER, MEMBER, EXECUTION, PROCESS]
    return pa.table([pa.array(list(c), t) for c, t in zip(columns, types, strict=True)], names=names)


def keyed(events: DataFrame, members: DataFrame) -> DataFrame:
    """The events of large executions, with number and member in place of names. `members` is broadcast."""
    return events.join(F.broadcast(members), on=[EXECUTION, PROCESS], how="inner").drop(EXECUTION, PROCESS)


class Cells:
    """Per stretch of indexes of a process, in which block it begins and where in it later blocks begin.

    Looking a block up is then one broadcast join and a comparison or two, all inside the JVM.
    """

    def __init__(self, table: pa.Table, shifts: list[int]) -> None:
        self.table = table
        self.shifts = shifts  # Per number: a stretch has two to the power of this many indexes.

    def block(self, frame: DataFrame, lookup: DataFrame, *, member: str, index: str) -> DataFrame:
        """`frame` with the column block added, counted over all large executions; needs number. Does not shuffle."""
        shift = F.element_at(F.array(*[F.lit(s) for s in self.shifts]), F.col(NUMBER) + 1)
        cell = F.call_function("shiftright", F.col(index), shift)
        held = frame.select("*", cell.alias(_CELL), F.col(member).alias("_member"))
        return (
            held.join(
                F.broadcast(lookup.withColumnRenamed(MEMBER, "_member")), on=[NUMBER, "_member", _CELL], how="inner"
            )
            .select("*", (F.col(_BASE) + _below(F.col(_BOUNDS), F.col(index))).cast("int").alias(BLOCK))
            .drop(_CELL, "_member", _BASE, _BOUNDS)
        )


def _below(bounds: Column, index: Column) -> Column:
    """How many of the few cuts in a stretch lie before an index. Most stretches have none."""
    return F.when(F.size(bounds) == 0, 0).otherwise(F.size(F.filter(bounds, lambda cut: cut < index)))


def cells(larges: Sequence[Large], cuts: Sequence[Integers], bases: Sequence[int]) -> Cells:
    """`cuts` are cuts × processes per large execution, `bases` the number of its first block over all of them."""
    rows: list[tuple[int, int, int, int, list[int]]] = []
    shifts = []
    room = max(CELLS_MAX // max(len(larges), 1), 1)
    for large, of, base in zip(larges, cuts, bases, strict=True):
        enough = min(room, 8 * (of.shape[0] + 1) * large.width)
        shift = 0
        while int(((large.last_index >> shift) + 1).sum()) > max(enough, large.width):
            shift += 1
        shifts.append(shift)
        for member in range(large.width):
            bounds = of[:, member]
            last = int(large.last_index[member]) >> shift
            starts = np.arange(last + 1, dtype=np.int64) << shift
            # An index lies in block number (cuts below it): the first index of a stretch decides the base.
            low = np.searchsorted(bounds, starts, side="left")
            high = np.searchsorted(bounds, starts + (1 << shift) - 1, side="left")
            for cell in range(last + 1):
                inside = bounds[low[cell] : high[cell]].tolist()
                rows.append((large.number, member, cell, base + int(low[cell]), inside))
    columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    types = (pa.int32(), pa.int32(), pa.int64(), pa.int32(), pa.list_(pa.int64()))
    names = [NUMBER, MEMBER, _CELL, _BASE, _BOUNDS]
    table = pa.table([pa.array(list(c), t) for c, t in zip(columns, types, strict=True)], names=names)
    return Cells(table, shifts)


def block_rows(
    events: DataFrame,
    messages: DataFrame,
    found: Cells,
    lookup: DataFrame,
    *,
    blocks: int,
    partitions: int,
    packable: bool,
) -> DataFrame:
    """All that a block needs, together and sorted: BLOCK_ROW. `events` are keyed.

    One shuffle of everything; a partition has whole blocks, in order. `packable`: see `is_packable`.
    """
    alone = partitions == blocks
    placed = found.block(events, lookup, member=MEMBER, index=INDEX).select(
        BLOCK,
        MEMBER,
        INDEX,
        F.lit(0).cast("byte").alias("rank"),
        FILE,
        OFFSET,
        F.lit(None).cast("int").alias(SENDER),
        TIME,
        SENDS,
        RECEIVES,
        NAME,
        ATTRIBUTES,
        CLOCK,
    )
    is_left_out = F.col(OUTCOME) == DUPLICATE_RECEIVE
    ends = messages.where((F.col(OUTCOME) == RECEIVED) | is_left_out)
    sources = found.block(ends, lookup, member=RECEIVER, index=RECEIVE_INDEX).select(
        BLOCK,
        F.col(RECEIVER).alias(MEMBER),
        F.col(RECEIVE_INDEX).alias(INDEX),
        F.lit(1).cast("byte").alias("rank"),
        F.col(POSITION).alias(FILE),
        F.when(is_left_out, F.lit(0)).otherwise(F.col(SEND_INDEX)).cast("long").alias(OFFSET),
        F.when(is_left_out, F.lit(-2)).otherwise(F.col(SENDER)).cast("int").alias(SENDER),
        *[F.lit(None).cast(placed.schema[name].dataType).alias(name) for name in (TIME, SENDS, RECEIVES, NAME)],
        *[F.lit(None).cast(placed.schema[name].dataType).alias(name) for name in (ATTRIBUTES, CLOCK)],
    )
    return (
        placed.unionByName(sources)
        .repartitionById(partitions, F.floor(F.col(BLOCK) * partitions / blocks).cast("int"))
        # One column of a kind that Spark sorts by its bits, where it can hold all that matters.
        .sortWithinPartitions(*([_packed()] if alone and packable else [BLOCK, MEMBER, INDEX, "rank"]))
        .select(*BLOCK_ROW.names)
    )


_INDEX_BITS: Final = 40
_MEMBER_BITS: Final = 22


def is_packable(larges: Sequence[Large]) -> bool:
    """Whether a process, an index and a rank fit into 64 bits for every event."""
    return all(int(large.last_index.max()) < 1 << _INDEX_BITS and large.width < 1 << _MEMBER_BITS for large in larges)


def _packed() -> Column:
    """Sorts like member, index, rank."""
    return (
        F.shiftleft(F.col(MEMBER).cast("long"), _INDEX_BITS + 1) + F.shiftleft(F.col(INDEX), 1) + F.col("rank")
    ).cast("long")
