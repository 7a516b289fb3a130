"""Indexes for events that came without: the order of lines per process, by (file, offset)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from beforehand.pipeline.schemas import (
    DETAIL,
    EVENTS,
    EXECUTION,
    FILE,
    INDEX,
    LINE,
    MESSAGE,
    NUMBER,
    OFFSET,
    ORDINAL,
    PROCESS,
    REASON,
    SOURCED,
    SPLIT,
    STAGED_REJECTED,
    TEXT,
)

__all__ = ["mixed_rejections", "numbered", "split_counts"]

INDEX_MIXED: Final = "index-mixed"

_BEFORE: Final = "before"
_COUNTS: Final = "counts_lines"


def split_counts(parsed: DataFrame) -> DataFrame:
    """A row per execution, process, file and split: how many events without an index stand before this split
    (`before`), and whether the process's indexes are counted (`counts_lines`: its first event has none).

    Shuffles counts. Key: execution, process, file, split.
    """
    lacks = F.col(INDEX).isNull()
    place = F.struct(FILE, OFFSET)
    per_split = parsed.groupBy(EXECUTION, PROCESS, FILE, SPLIT).agg(
        F.count(F.when(lacks, 1)).alias("lacking"),
        F.min(F.when(lacks, place)).alias("first_lacking"),
        F.min(F.when(~lacks, place)).alias("first_given"),
    )
    process = Window.partitionBy(EXECUTION, PROCESS)
    in_order = process.orderBy(FILE, SPLIT)
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    first_lacking = F.min("first_lacking").over(
        process.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    )
    first_given = F.min("first_given").over(process.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    counts = F.coalesce(first_lacking < first_given, first_lacking.isNotNull())
    return per_split.select(
        EXECUTION,
        PROCESS,
        FILE,
        SPLIT,
        F.coalesce(F.sum("lacking").over(earlier), F.lit(0)).alias(_BEFORE),
        counts.alias(_COUNTS),
    )


def numbered(parsed: DataFrame, counts: DataFrame, *, broadcast: bool) -> DataFrame:
    """SOURCED from PARSED: every event with its index; those that mix both ways left out."""
    joined = _joined(parsed, counts, broadcast=broadcast)
    index = F.when(F.col(_COUNTS), F.col(_BEFORE) + F.col(ORDINAL)).otherwise(F.col(INDEX))
    return joined.where(~_mixes()).withColumn(INDEX, index).select(*SOURCED.names)


def mixed_rejections(parsed: DataFrame, counts: DataFrame, *, broadcast: bool) -> DataFrame:
    """STAGED_REJECTED rows of the events that have an index where the first of their process has none, or none where
    it has one. `file` is still a number."""
    lacks = F.col(INDEX).isNull()
    quoted = F.concat(F.lit("'"), F.substring(PROCESS, 1, 80), F.lit("'"))
    detail = F.concat(
        F.lit("the event has "),
        F.when(lacks, "no").otherwise("an"),
        F.lit(" index and the first of process "),
        quoted,
        F.lit(" has "),
        F.when(lacks, "one").otherwise("none"),
        F.lit(": give all of them one, or none"),
    )
    values = {
        REASON: F.lit(INDEX_MIXED),
        DETAIL: detail,
        FILE: F.col(FILE).cast("string"),
        LINE: F.col(LINE),
        OFFSET: F.col(OFFSET),
        TEXT: F.col("name"),
        EVENTS: F.array().cast("array<string>"),
        MESSAGE: F.lit(None).cast("string"),
        NUMBER: F.col(FILE),
        SPLIT: F.col(SPLIT),
    }
    mixing = _joined(parsed, counts, broadcast=broadcast).where(_mixes())
    return mixing.select(*[values[name].alias(name) for name in STAGED_REJECTED.names])


def _mixes() -> Column:
    return F.col(_COUNTS) != F.col(INDEX).isNull()


def _joined(parsed: DataFrame, counts: DataFrame, *, broadcast: bool) -> DataFrame:
    table = F.broadcast(counts) if broadcast else counts
    return parsed.join(table, on=[EXECUTION, PROCESS, FILE, SPLIT], how="inner")
