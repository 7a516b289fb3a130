"""How jobs run tasks that write their own files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from beforehand.pipeline.schemas import DONE, spark_type

__all__ = ["run_over", "run_tasks"]

TASKS_PER_CORE: Final = 8
NUMBERS_MAX: Final = 50
"""Numbers to a partition: few enough that what is left at the end is shared out evenly."""

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def run_over(frame: DataFrame, task: Task) -> list[dict[str, Any]]:
    """Run a task over the partitions of a frame; what each gave back. A row per task, each of bounded size."""
    return [json.loads(text) for text in frame.mapInArrow(task, spark_type(DONE)).toArrow().column(0).to_pylist()]


def run_tasks(spark: SparkSession, count: int, task: Task) -> list[dict[str, Any]]:
    """Run a task over the numbers below `count`, a few to a partition."""
    partitions = min(count, max(TASKS_PER_CORE * spark.sparkContext.defaultParallelism, count // NUMBERS_MAX))
    return run_over(spark.range(0, count, 1, partitions), task)
