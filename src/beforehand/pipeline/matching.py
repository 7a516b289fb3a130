"""Which event sent what which event received: one shuffle by message."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from beforehand.pipeline.schemas import (
    FILE,
    INDEX,
    MEMBER,
    MESSAGE,
    NUMBER,
    OFFSET,
    POSITION,
    RECEIVES,
    SENDS,
    TIME,
)
from beforehand.pipeline.tasks.match import KEY

__all__ = ["message_ends"]

_HASH: Final = "hash"


def message_ends(events: DataFrame, *, partitions: int) -> DataFrame:
    """A row per send and per receive of a message: number, member, index, time, key, position, message.

    In: number, member, index, time, sends, receives, file, offset; an event's id occurs once. All ends of a message
    are in one partition, together, the sends first, then by receiver, each in the order of the input. Shuffles by
    message.
    """
    ends = _ends(events, SENDS, F.lit(-1)).unionByName(_ends(events, RECEIVES, F.col(MEMBER)))
    return (
        # The hash first: sorting compares eight bytes of the first column before anything else.
        ends.repartition(partitions, F.col(_HASH))
        .sortWithinPartitions(_HASH, NUMBER, MESSAGE, KEY, FILE, OFFSET)
        .select(NUMBER, MEMBER, INDEX, TIME, KEY, POSITION, MESSAGE)
    )


def _ends(events: DataFrame, ids: str, key: Column) -> DataFrame:
    return events.select(
        NUMBER,
        MEMBER,
        INDEX,
        TIME,
        FILE,
        OFFSET,
        key.cast("int").alias(KEY),
        F.posexplode(ids).alias(POSITION, MESSAGE),
    ).select("*", F.xxhash64(MESSAGE).alias(_HASH))
