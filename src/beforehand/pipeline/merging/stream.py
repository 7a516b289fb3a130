"""The merge as a stream: a lane for each key of Spark's stateful operator.

The state of a lane is one value, read and written once per micro-batch, for every question to the state store is a
round trip to the JVM. Lanes and not channels are keys, for in every micro-batch each key must be told the time: a
channel to which nothing comes any more releases what waits in it all the same.

Times come from the source with its rows, and so from the offsets that Spark logs before it runs a micro-batch: a
micro-batch that is run again after a crash is told the same times and gives the same output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from beforehand.ordering.merging import WAITING_MAX, MergeSettings
from beforehand.pipeline.merging.lane import BYTES_MAX, CHANNELS_MAX, Lane, table_from_bytes, table_to_bytes
from beforehand.pipeline.merging.schemas import LANE, LANE_OUTPUT, LANE_STATE, SORTABLE, STATE
from beforehand.pipeline.schemas import spark_type

__all__ = ["STREAM_CONF", "LaneBounds", "merged_by_lane"]

STREAM_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.stateSchemaCheck": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A lane that changed is written whole: each version that is kept takes as much as waits.
    "spark.sql.streaming.minBatchesToRetain": "10",
}
"""What a session needs in which the merger runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBounds:
    waiting_max: int = WAITING_MAX
    bytes_max: int = BYTES_MAX
    channels_max: int = CHANNELS_MAX


def merged_by_lane(lane_input: DataFrame, *, settings: MergeSettings, bounds: LaneBounds | None = None) -> DataFrame:
    """LANE_OUTPUT from LANE_INPUT: a row per lane and micro-batch. Stateful; shuffles by lane."""
    processor = _LaneProcessor(settings, bounds or LaneBounds())
    output = lane_input.groupBy(LANE).transformWithState(processor, spark_type(LANE_OUTPUT), "Append", "None")
    return output.select(*LANE_OUTPUT.names)


class _LaneProcessor(StatefulProcessor):
    def __init__(self, settings: MergeSettings, bounds: LaneBounds) -> None:
        self._settings = settings
        self._bounds = bounds

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state: Any = handle.getValueState(STATE, spark_type(LANE_STATE))

    # Spark names the method and calls it with these names.
    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        blocks, time = [], None
        for row in rows:
            if row.block is not None:
                blocks.append(table_from_bytes(bytes(row.block)))
            if row.time is not None:
                time = row.time if time is None else max(time, row.time)
        bounds = self._bounds
        lane = Lane(
            self._settings,
            waiting_max=bounds.waiting_max,
            bytes_max=bounds.bytes_max,
            channels_max=bounds.channels_max,
        )
        stored = self._state.get() if self._state.exists() else None
        if stored is not None:
            lane.restore(bytes(stored[0]))
        aside_before = lane.aside_count
        arrived = pa.concat_tables(blocks) if blocks else SORTABLE.empty_table()
        merged, aside = lane.advance(arrived, time_ns=time)
        self._state.update((lane.to_bytes(),))
        yield Row(
            lane=key[0],
            merged=table_to_bytes(merged) if merged.num_rows else None,
            aside=table_to_bytes(aside) if aside.num_rows else None,
            aside_before=aside_before,
            waiting=lane.waiting.num_rows,
            waiting_bytes=lane.waiting_bytes,
            channels=lane.channels.num_rows,
            time=time,
        )

    def close(self) -> None:
        pass
