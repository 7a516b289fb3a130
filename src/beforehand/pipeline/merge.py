"""The merge as transformations: as a batch, which is a sort, and as the input of the lanes of a stream.

The batch form gives what the stream gives once all time has passed: what is set aside is decided from (stamp,
arrival) alone, a repetition is what has the key of an earlier arrival, and the rest is sorted. PASSED and FULL do not
occur in a batch; a stream has them only where its source broke its promise about times, or a bound was reached.

Rows that tell a time are left out: a batch needs none.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from beforehand.formats.published import RecordLimits
from beforehand.ordering.merging import MergeSettings, SetAside
from beforehand.pipeline.merging.deciding import Decider
from beforehand.pipeline.merging.lane import table_to_bytes
from beforehand.pipeline.merging.schemas import (
    ARRIVAL,
    ARRIVED,
    ASIDE,
    CHANNEL,
    DETAIL,
    KEY,
    LANE_INPUT,
    MERGED,
    OFFSET,
    PAYLOAD,
    PAYLOAD_BYTES,
    POSITION,
    REASON,
    SORTABLE,
    SOURCE,
    TIME,
)
from beforehand.pipeline.schemas import spark_type

__all__ = ["decided", "in_lanes", "lane_of", "merged", "set_aside"]

Batches = Iterator[pa.RecordBatch]

_TIMES = "times"  # How often a message has arrived before, less one.


def decided(arrived: DataFrame, *, settings: MergeSettings, limits: RecordLimits | None = None) -> DataFrame:
    """SORTABLE from ARRIVED: each row with its place in the order, or the reason that sets it aside. No shuffle."""
    return arrived.mapInArrow(_deciding(Decider(settings, limits=limits)), spark_type(SORTABLE)).select(
        *SORTABLE.names
    )


def merged(sortable: DataFrame) -> DataFrame:
    """MERGED from SORTABLE, key (CHANNEL, POSITION). Shuffles twice; a channel is sorted by one task."""
    in_order = Window.partitionBy(CHANNEL).orderBy(KEY)
    firsts = _numbered(sortable).where(F.col(_TIMES) == 1)
    positions = F.row_number().over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return firsts.withColumn(POSITION, positions.cast("long")).select(*MERGED.names)


def set_aside(sortable: DataFrame, *, limits: RecordLimits | None = None) -> DataFrame:
    """ASIDE from SORTABLE, key (SOURCE, OFFSET). Shuffles once."""
    bytes_max = (limits or RecordLimits()).aside_bytes_max
    repeated = (
        _numbered(sortable)
        .where(F.col(_TIMES) > 1)
        .withColumn(REASON, F.lit(SetAside.REPEATED.value))
        .withColumn(DETAIL, F.lit("the same message arrived before"))
    )
    refused = sortable.where(F.col(REASON).isNotNull())
    rows = refused.select(*ASIDE.names).unionByName(repeated.select(*ASIDE.names))
    length = F.coalesce(F.col(PAYLOAD_BYTES), F.octet_length(PAYLOAD).cast("long"), F.lit(0).cast("long"))
    cut = F.substring(PAYLOAD, 1, bytes_max)
    return rows.withColumn(PAYLOAD_BYTES, length).withColumn(PAYLOAD, cut).select(*ASIDE.names)


def in_lanes(
    arrived: DataFrame, *, lanes: int, settings: MergeSettings, limits: RecordLimits | None = None
) -> DataFrame:
    """LANE_INPUT from ARRIVED: decided rows in a block per lane and batch of Arrow; times to every lane. No shuffle.

    As blocks, because Spark then carries one row where there were thousands: nothing of its own is done per message.
    """
    decider = Decider(settings, limits=limits)
    return arrived.mapInArrow(_packing(decider, lanes), spark_type(LANE_INPUT)).select(*LANE_INPUT.names)


def lane_of(channel: str | None, lanes: int) -> int:
    """The lane of a channel; what could not be read goes to lane 0."""
    return 0 if channel is None else zlib.crc32(channel.encode()) % lanes


def _numbered(sortable: DataFrame) -> DataFrame:
    arrivals = Window.partitionBy(CHANNEL, KEY).orderBy(ARRIVAL, SOURCE, OFFSET)
    passing = sortable.where(F.col(REASON).isNull())
    return passing.withColumn(
        _TIMES, F.row_number().over(arrivals.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )


def _deciding(decider: Decider) -> Callable[[Batches], Batches]:
    def decide(batches: Batches) -> Batches:
        for batch in batches:
            yield from decider.table(_messages(batch)).to_batches()

    return decide


def _packing(decider: Decider, lanes: int) -> Callable[[Batches], Batches]:
    def pack(batches: Batches) -> Batches:
        for batch in batches:
            blocks = _by_lane(batch, decider, lanes)
            rows: list[tuple[int, bytes | None, int | None]] = []
            rows += [(lane, table_to_bytes(table), None) for lane, table in blocks]
            times = batch.column(batch.schema.get_field_index(TIME)).drop_null()
            rows += [(lane, None, time) for time in times.to_pylist() for lane in range(lanes)]
            columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, LANE_INPUT, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=LANE_INPUT)

    return pack


def _messages(batch: pa.RecordBatch) -> pa.Table:
    """The rows that are no times."""
    table = pa.Table.from_batches([batch]).select(ARRIVED.names)
    return table.filter(pc.is_null(table.column(TIME)))


def _by_lane(batch: pa.RecordBatch, decider: Decider, lanes: int) -> Iterator[tuple[int, Any]]:
    table = decider.table(_messages(batch))
    if table.num_rows == 0:
        return
    names = table.column(CHANNEL).combine_chunks().dictionary_encode()
    lane_of_name = np.array([lane_of(name, lanes) for name in names.dictionary.to_pylist()] or [0])
    codes = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False)
    lane = np.where(codes < 0, 0, lane_of_name[codes])
    order = np.argsort(lane, kind="stable")
    ends = np.searchsorted(lane[order], np.arange(lanes + 1))
    table = table.take(pa.array(order))
    for number in range(lanes):
        if ends[number] < ends[number + 1]:
            yield number, table.slice(ends[number], ends[number + 1] - ends[number])
