"""Native events that come as Parquet: read by Spark itself, checked like lines are."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from beforehand.errors import InputError
from beforehand.events import INDEX_MAX
from beforehand.formats.opening import shown_path
from beforehand.pipeline.paths import to_read
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    CLOCK,
    DETAIL,
    EVENTS,
    EXECUTION,
    FILE,
    INDEX,
    LINE,
    MESSAGE,
    NAME,
    NATIVE,
    NUMBER,
    OFFSET,
    PROCESS,
    REASON,
    RECEIVES,
    SENDS,
    SOURCED,
    SPLIT,
    STAGED_REJECTED,
    TEXT,
    TIME,
    spark_type,
)

__all__ = ["check_columns", "parquet_events", "parquet_rejections", "read_parquet"]

_PROBLEM: Final = "problem"
_PREFIX: Final = re.compile("^file:/+")
_REQUIRED: Final = (PROCESS, INDEX)


def check_columns(path: str) -> None:
    """Raise `InputError` for a file that is no Parquet, or whose columns are not those of events."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shown = shown_path(path)
    if shown != path:
        raise InputError(f"{shown}: the name of the file is not UTF-8: rename it")
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{shown} is not a whole Parquet file: {str(error)[:200]}") from error
    for name in _REQUIRED:
        if name not in schema.names:
            raise InputError(f"{shown} has no column {name!r}: see the columns of native events")
    for name in schema.names:
        if name in NATIVE.names and not _alike(schema.field(name).type, NATIVE.field(name).type):
            kind = schema.field(name).type
            raise InputError(f"{shown}: column {name!r} is {kind}, not {NATIVE.field(name).type}: write it as that")


def _alike(given: Any, wanted: Any) -> bool:
    import pyarrow.types as t

    if t.is_null(given):
        return True
    if t.is_map(wanted):
        return bool(
            t.is_map(given) and _alike(given.key_type, wanted.key_type) and _alike(given.item_type, wanted.item_type)
        )
    if t.is_list(wanted):
        is_list = t.is_list(given) or t.is_large_list(given)
        return bool(is_list and _alike(given.value_type, wanted.value_type))
    if t.is_integer(wanted):
        return bool(t.is_integer(given) and not t.is_uint64(given))
    is_text = t.is_string(given) or t.is_large_string(given)
    return bool(is_text or (t.is_dictionary(given) and _alike(given.value_type, wanted)))


def read_parquet(spark: SparkSession, files: list[tuple[int, str]]) -> DataFrame:
    """The rows as they are, with file, offset (the row's place in its file) and what is wrong with them, if anything.

    Columns that a file lacks are null.
    """
    raw = spark.read.schema(spark_type(NATIVE)).parquet(*(to_read(path) for _, path in files))
    if len(files) == 1:
        placed = raw.select("*", F.lit(files[0][0]).alias(FILE), F.col("_metadata.row_index").alias(OFFSET))
    else:
        given = {path: number for number, path in files}
        # Spark has its own way to write a URI, with one slash or three.
        uris = {_PREFIX.sub("/", uri): given[unquote(_PREFIX.sub("/", uri))] for uri in raw.inputFiles()}
        numbers = spark.createDataFrame(sorted(uris.items()), f"uri string, {FILE} int")
        uri = F.regexp_replace(F.col("_metadata.file_path"), _PREFIX.pattern, "/")
        placed = raw.select("*", F.col("_metadata.row_index").alias(OFFSET), uri.alias("uri")).join(
            F.broadcast(numbers), on="uri", how="inner"
        )
    filled = placed.select(
        F.coalesce(EXECUTION, F.lit("")).alias(EXECUTION),
        PROCESS,
        INDEX,
        F.coalesce(SENDS, F.array().cast("array<string>")).alias(SENDS),
        F.coalesce(RECEIVES, F.array().cast("array<string>")).alias(RECEIVES),
        TIME,
        F.coalesce(NAME, F.lit("")).alias(NAME),
        F.coalesce(ATTRIBUTES, F.create_map().cast("map<string,string>")).alias(ATTRIBUTES),
        CLOCK,
        FILE,
        OFFSET,
    )
    return filled.select("*", _problem().alias(_PROBLEM))


def _problem() -> Column:
    def ids(name: str) -> Column:
        return F.when(
            F.exists(name, lambda message: message.isNull() | (message == "")), f"{name} has an empty message id"
        ).when((F.size(name) > 1) & (F.size(F.array_distinct(name)) < F.size(name)), f"{name} names a message twice")

    def not_utf8(text: Column) -> Column:
        return ~F.is_valid_utf8(text)

    keys_and_values = F.concat(F.map_keys(ATTRIBUTES), F.map_values(ATTRIBUTES))
    return F.coalesce(
        F.when(
            not_utf8(F.concat_ws(" ", EXECUTION, PROCESS, NAME))
            | F.exists(F.concat(SENDS, RECEIVES, keys_and_values), not_utf8)
            | F.coalesce(F.exists(F.map_keys(CLOCK), not_utf8), F.lit(False)),
            "a text is not UTF-8",
        ),
        F.when(F.col(PROCESS).isNull() | (F.col(PROCESS) == ""), "process is empty or not a text"),
        F.when(F.col(INDEX).isNull(), "index is missing: events in Parquet need one"),
        F.when(F.col(INDEX) < 1, F.lit(f"index is not an integer between 1 and {INDEX_MAX}")),
        ids(SENDS),
        ids(RECEIVES),
        F.when(F.col(TIME) < -INDEX_MAX, "time is not a 64-bit number of nanoseconds"),
        F.when(F.exists(F.map_values(ATTRIBUTES), lambda value: value.isNull()), "attributes has a null"),
        F.when(
            F.exists(F.map_values(CLOCK), lambda count: count.isNull() | (count < 0)),
            "clock has an entry that is not a number from 0 up",
        ),
    )


def parquet_events(read: DataFrame) -> DataFrame:
    """SOURCED."""
    return read.where(F.col(_PROBLEM).isNull()).select(*SOURCED.names)


def parquet_rejections(read: DataFrame) -> DataFrame:
    """STAGED_REJECTED; `file` is still a number."""
    values = {
        REASON: F.lit("not-an-event"),
        DETAIL: F.concat(F.lit("row "), F.col(OFFSET).cast("string"), F.lit(": "), F.col(_PROBLEM)),
        FILE: F.col(FILE).cast("string"),
        LINE: F.lit(None).cast("long"),
        OFFSET: F.col(OFFSET),
        TEXT: F.substring(F.concat_ws(" ", PROCESS, NAME), 1, 200),
        EVENTS: F.array().cast("array<string>"),
        MESSAGE: F.lit(None).cast("string"),
        NUMBER: F.col(FILE),
        SPLIT: F.lit(None).cast("int"),
    }
    bad = read.where(F.col(_PROBLEM).isNotNull())
    return bad.select(*[values[name].alias(name) for name in STAGED_REJECTED.names])
