"""Total order of large executions: do the delivery sequences of all processes fit into one order?

Only messages that several processes received can be part of a cycle: one that a single process received can be
passed over. Number the messages in any way; where the sequences grow in that numbering there is nothing to do, and
every cycle lies inside the intervals that the inversions span. Only the deliveries there go to the exact search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from beforehand.events import Event
from beforehand.history.checks import Violation, total_order
from beforehand.history.columns import from_events
from beforehand.pipeline.schemas import (
    INFERRED,
    MESSAGE,
    NUMBER,
    OUTCOME,
    RECEIVE_INDEX,
    RECEIVE_TIME,
    RECEIVED,
    RECEIVER,
    RECEIVERS,
    UNSENT,
    spark_type,
)
from beforehand.pipeline.tasks.staging import LargeInfo

__all__ = ["check_total_order"]

INVERSIONS_MAX: Final = 2_000_000
DELIVERIES_MAX: Final = 1_000_000
"""What the driver may receive: beyond, total order is not judged and a note says so."""

_PLACE: Final = "place"
_DELIVERY: Final = pa.schema(
    [(NUMBER, pa.int32()), (RECEIVER, pa.int32()), (RECEIVE_INDEX, pa.int64()), (MESSAGE, pa.string())]
)


def check_total_order(
    messages: DataFrame, larges: list[LargeInfo], *, limit: int
) -> tuple[int | None, list[tuple[str, Violation]], list[str]]:
    """How many groups of messages no one order satisfies (None: not judged), witnesses by execution, and notes."""
    real = messages.where(~F.col(INFERRED) & F.col(OUTCOME).isin(RECEIVED, UNSENT))
    if not messages.where(~F.col(INFERRED) & (F.col(RECEIVERS) > 1)).limit(1).count():
        return 0, [], []
    shared = (
        real.groupBy(NUMBER, MESSAGE)
        .agg(F.count("*").alias("count"), F.min(RECEIVE_TIME).alias("first"))
        .where(F.col("count") > 1)
        .select(
            NUMBER,
            MESSAGE,
            F.struct(F.coalesce("first", F.lit(0)).alias("t"), F.xxhash64(MESSAGE).alias("h")).alias(_PLACE),
        )
    )
    deliveries = real.select(NUMBER, MESSAGE, RECEIVER, RECEIVE_INDEX).join(shared, on=[NUMBER, MESSAGE], how="inner")
    deliveries = deliveries.persist()
    try:
        inversions = _inversions(deliveries).limit(INVERSIONS_MAX + 1).toArrow()
        if inversions.num_rows > INVERSIONS_MAX:
            return None, [], [f"total order: more than {INVERSIONS_MAX} inversions; not judged"]
        if not inversions.num_rows:
            return 0, [], []
        inside = deliveries.select(NUMBER, RECEIVER, RECEIVE_INDEX, MESSAGE, f"{_PLACE}.t", f"{_PLACE}.h").mapInArrow(
            _within(_merged(inversions)), spark_type(_DELIVERY)
        )
        found = inside.limit(DELIVERIES_MAX + 1).toArrow()
    finally:
        deliveries.unpersist()
    if found.num_rows > DELIVERIES_MAX:
        return None, [], [f"total order: more than {DELIVERIES_MAX} deliveries are out of order; not judged"]
    return _judge(found, larges, limit)


def _inversions(deliveries: DataFrame) -> DataFrame:
    """Per pair of successive events of a process that receive out of order: number, and the places they span."""
    events = deliveries.groupBy(NUMBER, RECEIVER, RECEIVE_INDEX).agg(
        F.min(_PLACE).alias("least"), F.max(_PLACE).alias("greatest")
    )
    process = Window.partitionBy(NUMBER, RECEIVER).orderBy(RECEIVE_INDEX)
    before = events.select(NUMBER, "least", F.lag("greatest").over(process).alias("before"))
    return before.where(F.col("before") > F.col("least")).select(
        NUMBER,
        F.col("least.t").alias("low_t"),
        F.col("least.h").alias("low_h"),
        F.col("before.t").alias("high_t"),
        F.col("before.h").alias("high_h"),
    )


Places = npt.NDArray[np.void]
_PAIR: Final = np.dtype([("t", np.int64), ("h", np.int64)])


def _merged(inversions: pa.Table) -> dict[int, tuple[Places, Places]]:
    """Per number, the intervals that the inversions span, joined where they overlap."""
    number, low_t, low_h, high_t, high_h = (column.to_numpy() for column in inversions.columns)
    result = {}
    for one in np.unique(number).tolist():
        own = number == one
        spans = sorted(zip(low_t[own], low_h[own], high_t[own], high_h[own], strict=True))
        merged: list[list[tuple[int, int]]] = []
        for lt, lh, ht, hh in spans:
            low, high = (int(lt), int(lh)), (int(ht), int(hh))
            if merged and low <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        result[one] = (
            np.array([span[0] for span in merged], _PAIR),
            np.array([span[1] for span in merged], _PAIR),
        )
    return result


def _within(
    intervals: dict[int, tuple[Places, Places]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            number = batch.column(NUMBER).to_numpy()
            place = np.empty(number.size, _PAIR)
            place["t"], place["h"] = batch.column("t").to_numpy(), batch.column("h").to_numpy()
            kept = np.zeros(number.size, np.bool_)
            for one, (low, high) in intervals.items():
                own = np.flatnonzero(number == one)
                # Structured arrays sort by their fields but do not search: compare ranks instead.
                at = _rank(low, place[own]) - 1
                kept[own] = (at >= 0) & ~_greater(place[own], high[np.maximum(at, 0)])
            rows = batch.filter(pa.array(kept))
            yield pa.RecordBatch.from_arrays(
                [rows.column(name).cast(_DELIVERY.field(name).type) for name in _DELIVERY.names], schema=_DELIVERY
            )

    return run


def _rank(low: Places, place: Places) -> npt.NDArray[np.int64]:
    """How many of the (sorted) lower ends are not above each place."""
    by_time = np.searchsorted(low["t"], place["t"], side="left")
    end = np.searchsorted(low["t"], place["t"], side="right")
    result = by_time.astype(np.int64)
    tied = np.flatnonzero(end > by_time)
    for i in tied:
        result[i] += int(np.searchsorted(low["h"][by_time[i] : end[i]], place["h"][i], side="right"))
    return result


def _greater(a: Places, b: Places) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = (a["t"] > b["t"]) | ((a["t"] == b["t"]) & (a["h"] > b["h"]))
    return result


def _judge(
    found: pa.Table, larges: list[LargeInfo], limit: int
) -> tuple[int, list[tuple[str, Violation]], list[str]]:
    by_execution: dict[int, dict[tuple[int, int], list[str]]] = {}
    for number, receiver, index, message in zip(*(column.to_pylist() for column in found.columns), strict=True):
        by_execution.setdefault(number, {}).setdefault((receiver, index), []).append(message)
    count = 0
    witnesses: list[tuple[str, Violation]] = []
    notes: list[str] = []
    for large in larges:
        events = [
            Event(
                execution=large.execution,
                process=large.processes[receiver],
                index=index,
                receives=tuple(sorted(received)),
            )
            for (receiver, index), received in sorted(by_execution.get(large.number, {}).items())
        ]
        report = total_order(from_events(events), limit=limit)
        count += report.counts["total"]
        witnesses += [(large.execution, violation) for violation in report.violations]
        notes += report.notes
    return count, witnesses, notes
