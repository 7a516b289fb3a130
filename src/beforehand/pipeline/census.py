"""How many events there are, of which executions and processes: what decides how each is analyzed.

A *small* execution is analyzed whole, by one task that has many of them. A *large* one is cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from beforehand.pipeline.schemas import EXECUTION, INDEX, PROCESS, RECEIVES, SENDS, TIME

__all__ = ["BLOCK_EVENTS", "LARGE_COLUMNS", "Large", "executions", "large_executions", "profile", "small_executions"]

Integers = npt.NDArray[np.int64]

BLOCK_EVENTS: Final = 100_000
"""Events that a block should have."""

SMALL_EVENTS_MAX: Final = 100_000
SMALL_STAMPS_MAX: Final = 50_000_000
"""A small execution has at most this many events, and stamps with at most this many entries together."""

COUNT: Final = "count"
FIRST: Final = "first_index"
LAST: Final = "last_index"
TIMED: Final = "timed"
MEMBERS: Final = "members"
REACH: Final = "reach"


def profile(events: DataFrame) -> DataFrame:
    """A row per process: execution, process, count, first_index, last_index, timed, sends, receives, first_time and
    last_time. Key: execution, process. Shuffles partial counts.
    """
    return events.groupBy(EXECUTION, PROCESS).agg(
        F.count("*").alias(COUNT),
        F.min(INDEX).alias(FIRST),
        F.max(INDEX).alias(LAST),
        F.count(TIME).alias(TIMED),
        F.sum(F.size(SENDS)).alias(SENDS),
        F.sum(F.size(RECEIVES)).alias(RECEIVES),
        F.min(TIME).alias("first_time"),
        F.max(TIME).alias("last_time"),
    )


def executions(profiled: DataFrame) -> DataFrame:
    """A row per execution: execution, count, members, and reach, the sum of the last indexes (a double: only its size
    matters). Key: execution. Shuffles.
    """
    return profiled.groupBy(EXECUTION).agg(
        F.sum(COUNT).alias(COUNT),
        F.count("*").alias(MEMBERS),
        F.sum(F.col(LAST).cast("double")).alias(REACH),
    )


def small_executions(counts: DataFrame) -> DataFrame:
    """The small ones of `executions`."""
    return counts.where((F.col(COUNT) <= SMALL_EVENTS_MAX) & (F.col(COUNT) * F.col(MEMBERS) <= SMALL_STAMPS_MAX))


@dataclass(frozen=True, slots=True, eq=False)
class Large:
    """An execution that is cut into blocks. Arrays have an entry per process, in the order of names."""

    number: int
    execution: str
    processes: tuple[str, ...]
    count: Integers
    first_index: Integers
    last_index: Integers
    timed: Integers  # How many events have a time; the first and the last of these.
    first_time: Integers
    last_time: Integers
    blocks: int  # As many as there should be.

    @property
    def events(self) -> int:
        return int(self.count.sum())

    @property
    def width(self) -> int:
        return len(self.processes)

    @property
    def small_indexes(self) -> bool:
        return int(self.last_index.max()) < 2**31

    @property
    def surely_duplicates(self) -> bool:
        """More events than indexes: some index occurs twice."""
        return bool(np.any(self.count > self.last_index - self.first_index + 1))


LARGE_COLUMNS: Final = (EXECUTION, PROCESS, COUNT, FIRST, LAST, TIMED, "first_time", "last_time")


def large_executions(rows: Iterable[tuple[str | int | None, ...]], *, blocks: int | None) -> list[Large]:
    """From the profile of their processes: rows of LARGE_COLUMNS."""
    by_execution: dict[str, list[tuple[str | int, ...]]] = {}
    for execution, *figures in rows:
        by_execution.setdefault(str(execution), []).append(tuple(figure or 0 for figure in figures))
    result = []
    for number, execution in enumerate(sorted(by_execution)):
        members = sorted(by_execution[execution])
        count, first, last, timed, first_time, last_time = (
            np.array(column, np.int64) for column in list(zip(*members, strict=True))[1:]
        )
        wanted = blocks or -(-int(count.sum()) // BLOCK_EVENTS)
        result.append(
            Large(
                number=number,
                execution=execution,
                processes=tuple(str(member[0]) for member in members),
                count=count,
                first_index=first,
                last_index=last,
                timed=timed,
                first_time=first_time,
                last_time=last_time,
                blocks=max(wanted, 1),
            )
        )
    return result
