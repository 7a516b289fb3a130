"""The merge as a running query: read, merge, write; its progress and its end."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from beforehand.errors import BeforehandError, InputError
from beforehand.ordering.merging import MergeSettings
from beforehand.pipeline.failing import told
from beforehand.pipeline.merge import in_lanes
from beforehand.pipeline.merging.checkpoint import MergeCheckpoint, check_settings, claim_folder, held
from beforehand.pipeline.merging.file_source import FilesDataSource
from beforehand.pipeline.merging.folder_sink import MergedDataSource
from beforehand.pipeline.merging.ledger import Ledger
from beforehand.pipeline.merging.options import SparkMergeOptions
from beforehand.pipeline.merging.stream import STREAM_CONF, LaneBounds, merged_by_lane

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from beforehand.runtime.nats import StreamAddress

__all__ = ["Figures", "check_before", "register_sources", "run_merge", "source_options"]

LOOK_S: Final = 0.2
GRACE_NS_MIN: Final = 100_000_000

Figures = dict[str, Any]
"""`delivered`, `set_aside` by reason, `waiting`, `waiting_bytes`, `channels`, `time`, `behind`, `batch`."""


def run_merge(
    spark: SparkSession,
    options: SparkMergeOptions,
    *,
    stop: threading.Event | None = None,
    watch: Callable[[Figures], None] | None = None,
) -> Figures:
    """Merge until there is no more (`once`), or until `stop` is set; the figures of the merge so far.

    `watch` is called now and then with the figures. The session needs `STREAM_CONF`.
    """
    stop = stop or threading.Event()
    cores = spark.sparkContext.defaultParallelism
    with held(
        options.checkpoint,
        settings=options.settings,
        lanes=options.lanes,
        lanes_default=2 * cores,
        source=_sources(options),
        sink=_shown(options.sink),
        subjects=_subjects(options),
    ) as checkpoint:
        with _configured(spark, min(checkpoint.lanes, cores)):
            query = _started(spark, options, checkpoint)
            try:
                _follow(query, checkpoint, stop, watch)
            finally:
                query.stop()
        return _figures(query, checkpoint)


def check_before(options: SparkMergeOptions) -> None:
    """What can be refused before Spark is started."""
    if isinstance(options.source, Path) and not options.source.is_dir():
        raise InputError(f"there is no folder {options.source}: name one with files of messages, or a stream")
    _check_streams(options)
    check_settings(
        options.checkpoint,
        settings=options.settings,
        lanes=options.lanes,
        source=_sources(options),
        sink=_shown(options.sink),
        subjects=_subjects(options),
    )
    if not isinstance(options.source, Path):
        from beforehand.pipeline.merging.nats_source import check_streams

        check_streams(source_options(options)[1])


def register_sources(spark: SparkSession) -> None:
    """Make the data sources `nats` (where nats-py is installed) and `beforehand-files` known to a session."""
    spark.dataSource.register(FilesDataSource)
    with suppress(ImportError):
        from beforehand.pipeline.merging.nats_source import NatsDataSource

        spark.dataSource.register(NatsDataSource)


def source_options(options: SparkMergeOptions) -> tuple[str, dict[str, str]]:
    """The data source, and its options."""
    settings = options.settings
    given = {
        "span_ns": str(settings.rules.span * settings.tick_ns),
        "grace_ns": str(_grace(options.grace_ns, settings)),
        "flush": "true" if options.once and options.flush else "false",
    }
    if isinstance(options.source, Path):
        return "beforehand-files", given | {
            "path": str(options.source.resolve()),
            "bytes_max": str(options.bytes_max),
        }
    given |= {"stream": json.dumps(_streams(options.source, options)), "messages_max": str(options.messages_max)}
    return "nats", given | broker_options(options.source, options) | {
        "subjects": json.dumps(list(_subjects(options)))
    }


def broker_options(address: StreamAddress, options: SparkMergeOptions) -> dict[str, str]:
    given = {"server": address.server}
    if options.credentials is not None:
        given["credentials"] = str(options.credentials)
    if options.tls_ca is not None:
        given["tls_ca"] = str(options.tls_ca)
    return given


def _grace(asked: int | None, settings: MergeSettings) -> int:
    return max(settings.epsilon_ns, GRACE_NS_MIN) if asked is None else asked


def _streams(source: StreamAddress, options: SparkMergeOptions) -> list[str]:
    return [source.stream, *options.also]


def _check_streams(options: SparkMergeOptions) -> None:
    if not options.also:
        return
    if isinstance(options.source, Path):
        raise InputError("another stream can be merged with a stream only, not with a folder")
    if _subjects(options):
        raise InputError("several streams are merged with all their subjects: leave the filters out")
    twice = [name for name, count in Counter(_streams(options.source, options)).items() if count > 1]
    if twice:
        raise InputError(f"the stream {twice[0]} is named twice")


def _subjects(options: SparkMergeOptions) -> tuple[str, ...]:
    if isinstance(options.source, Path):
        return ()
    return options.subjects or ((options.source.subject,) if options.source.subject else ())


def _sources(options: SparkMergeOptions) -> str:
    return " and ".join((_shown(options.source), *sorted(options.also)))


def _shown(place: Path | StreamAddress) -> str:
    return str(place.resolve()) if isinstance(place, Path) else place.shown


@contextmanager
def _configured(spark: SparkSession, partitions: int) -> Iterator[None]:
    """The session may be somebody's: it is left as it was."""
    # Spark looks data sources up in the session that is active in this thread.
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    conf = {**STREAM_CONF, "spark.sql.shuffle.partitions": str(partitions)}
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _started(spark: SparkSession, options: SparkMergeOptions, checkpoint: MergeCheckpoint) -> StreamingQuery:
    if isinstance(options.sink, Path):
        claim_folder(options.sink, checkpoint, form=options.form)
    merged = merged_by_lane(
        in_lanes(_arrived(spark, options), lanes=checkpoint.lanes, settings=options.settings),
        settings=options.settings,
        bounds=LaneBounds(waiting_max=options.waiting_max),
    )
    writer = _sink(spark, merged, options, checkpoint).option("checkpointLocation", str(checkpoint.spark.resolve()))
    if options.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{max(1, math.ceil(options.interval_s * 1000))} milliseconds")
    query: StreamingQuery = writer.start()
    return query


def _arrived(spark: SparkSession, options: SparkMergeOptions) -> DataFrame:
    register_sources(spark)
    name, given = source_options(options)
    return spark.readStream.format(name).options(**given).load()


def _sink(spark: SparkSession, merged: DataFrame, options: SparkMergeOptions, checkpoint: MergeCheckpoint) -> Any:
    figures = {"figures": str(checkpoint.figures.resolve())}
    if isinstance(options.sink, Path):
        spark.dataSource.register(MergedDataSource)
        given = {"path": str(options.sink.resolve()), "form": options.form, **figures}
        return merged.writeStream.format("beforehand-merged").options(**given)
    from beforehand.pipeline.merging.nats_sink import MergedNatsDataSource, prepare_stream

    spark.dataSource.register(MergedNatsDataSource)
    given = {"stream": options.sink.stream, **broker_options(options.sink, options), **figures}
    given |= {"prefix": options.sink.prefix or options.sink.stream, "id": checkpoint.id}
    prepare_stream(given, fresh=checkpoint.fresh)
    # One task writes: the broker takes messages in the order of one writer, or not at all.
    return merged.repartition(1).writeStream.format("beforehand-merged-nats").options(**given)


def _follow(
    query: StreamingQuery,
    checkpoint: MergeCheckpoint,
    stop: threading.Event,
    watch: Callable[[Figures], None] | None,
) -> None:
    while not stop.wait(LOOK_S):
        if not query.isActive:
            break
        if watch is not None:
            watch(_figures(query, checkpoint))
    error = query.exception()
    if error is not None:
        raise BeforehandError(told(error)) from error


def _figures(query: StreamingQuery, checkpoint: MergeCheckpoint) -> Figures:
    empty = {
        "delivered": 0,
        "set_aside": {},
        "waiting": 0,
        "waiting_bytes": 0,
        "channels": 0,
        "time": None,
        "batch": -1,
    }
    found = {**empty, **Ledger(checkpoint.figures).figures()}
    try:
        last = query.lastProgress
    except PySparkException:
        return found
    if last is not None:
        found["rows_per_second"] = last.processedRowsPerSecond
    return found
