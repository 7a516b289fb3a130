"""All that was refused, wherever in the analysis: one table, with names of files and true line numbers."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from beforehand.formats.opening import shown_path
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.inputs import InputFile
from beforehand.pipeline.paths import to_read, to_write
from beforehand.pipeline.schemas import (
    CYCLE,
    DETAIL,
    DUPLICATE_RECEIVE,
    DUPLICATE_SEND,
    EVENTS,
    EXECUTION,
    FILE,
    INDEX,
    LINE,
    MESSAGE,
    NAME,
    NUMBER,
    OFFSET,
    OUTCOME,
    PROCESS,
    REASON,
    RECEIVE_INDEX,
    RECEIVE_PROCESS,
    RECEIVED,
    REJECTED,
    SEND_INDEX,
    SEND_PROCESS,
    SPLIT,
    STAGED_REJECTED,
    TEXT,
    UNRECEIVED,
    UNSENT,
    spark_type,
)
from beforehand.pipeline.tasks.staging import Staging

__all__ = ["reject_duplicate_events", "reject_duplicate_messages", "write_rejections"]


def _event_id(process: str, index: str) -> Column:
    """Null if there is no process."""
    local = F.concat(F.col(process), F.lit(":"), F.col(index).cast("string"))
    return F.when(F.col(EXECUTION) == "", local).otherwise(F.concat(F.col(EXECUTION), F.lit("/"), local))


def _staged(frame: DataFrame, values: Mapping[str, Column]) -> DataFrame:
    fields = {field.name: field.dataType for field in spark_type(STAGED_REJECTED)}
    defaults: dict[str, Column] = {TEXT: F.lit(""), EVENTS: F.array().cast("array<string>")}
    return frame.select(
        *[values.get(name, defaults.get(name, F.lit(None))).cast(kind).alias(name) for name, kind in fields.items()]
    )


def reject_duplicate_events(duplicates: DataFrame, staging: Staging) -> None:
    """`duplicates` are SOURCED rows whose id an earlier one has."""
    event = _event_id(PROCESS, INDEX)
    values = {
        REASON: F.lit("duplicate-event"),
        DETAIL: F.concat(F.lit("a second event with the id "), event, F.lit("; the first one stays")),
        FILE: F.col(FILE).cast("string"),
        OFFSET: F.col(OFFSET),
        TEXT: F.col(NAME),
        EVENTS: F.array(event),
        NUMBER: F.col(FILE),
    }
    _staged(duplicates, values).write.parquet(to_write(staging.folder("rejected") / "duplicate-events"))


def reject_duplicate_messages(messages: DataFrame, staging: Staging) -> None:
    """Duplicate sends and receives of large executions, from `messages/`."""
    sent = _event_id(SEND_PROCESS, SEND_INDEX)
    received = _event_id(RECEIVE_PROCESS, RECEIVE_INDEX)
    first_sends = (
        messages.where(F.col(OUTCOME).isin(RECEIVED, UNRECEIVED, CYCLE))
        .groupBy(NUMBER, MESSAGE)
        .agg(F.min(F.struct(SEND_PROCESS, SEND_INDEX)).alias("sent"))
        .select(NUMBER, MESSAGE, F.col(f"sent.{SEND_PROCESS}").alias("p"), F.col(f"sent.{SEND_INDEX}").alias("i"))
    )
    first_receives = messages.where(F.col(OUTCOME).isin(RECEIVED, UNSENT, CYCLE)).select(
        NUMBER, MESSAGE, RECEIVE_PROCESS, F.col(RECEIVE_PROCESS).alias("p"), F.col(RECEIVE_INDEX).alias("i")
    )
    frames = []
    for outcome, firsts, on, event, word in (
        (DUPLICATE_SEND, first_sends, [NUMBER, MESSAGE], sent, "sent"),
        (DUPLICATE_RECEIVE, first_receives, [NUMBER, MESSAGE, RECEIVE_PROCESS], received, "received"),
    ):
        repeated = messages.where(F.col(OUTCOME) == outcome).join(firsts, on=on, how="left")
        first = F.coalesce(_event_id("p", "i"), F.lit("an event that left it out too"))
        detail = F.concat(
            F.lit("message '"), F.col(MESSAGE), F.lit(f"', {word} at "), first, F.lit(f", is {word} again at "), event
        )
        values = {REASON: F.lit(outcome), DETAIL: detail, EVENTS: F.array(first, event), MESSAGE: F.col(MESSAGE)}
        frames.append(_staged(repeated, values))
    frames[0].unionByName(frames[1]).write.parquet(to_write(staging.folder("rejected") / "duplicate-messages"))


def write_rejections(
    spark: SparkSession,
    staging: Staging,
    directory: Directory,
    files: list[InputFile],
    first_line: Mapping[tuple[int, int], int],
) -> None:
    """`rejected/` from all that was staged."""
    if not any(staging.folder("rejected").iterdir()):
        return
    staged = (
        spark.read.option("recursiveFileLookup", "true")
        .schema(spark_type(STAGED_REJECTED))
        .parquet(to_read(staging.folder("rejected")))
    )
    lines = spark.createDataFrame(
        [(number, split, before) for (number, split), before in first_line.items()] or [(-1, -1, 0)],
        f"{NUMBER} int, {SPLIT} int, before long",
    )
    names = spark.createDataFrame([(file.number, file.shown) for file in files], f"{NUMBER} int, path string")
    line = F.when(F.col(SPLIT).isNull(), F.col(LINE)).otherwise(F.col(LINE) + F.col("before"))
    placed = (
        staged.join(F.broadcast(lines), on=[NUMBER, SPLIT], how="left")
        .join(F.broadcast(names), on=NUMBER, how="left")
        .withColumn(FILE, F.coalesce("path", FILE))
        .withColumn(LINE, line)
        .select(*REJECTED.names)
    )
    for file in files:
        if file.shown != shown_path(file.path):  # Standard input: its copy has a name that nobody knows.
            copy, shown = F.lit(file.path), F.lit(file.shown)
            placed = placed.withColumns({name: F.replace(F.col(name), copy, shown) for name in (FILE, DETAIL)})
    placed.write.parquet(to_write(directory.rejected / "all"))
