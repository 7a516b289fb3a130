"""The merger on Spark beside plain pass-through: the same source, the same sink, no merge; from files and from NATS.

Each side runs `RUNS` times in one session, in turns; the first micro-batch of a run, which starts Python workers, is
left out.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from beforehand.clocks.bounded import BoundedClock
from beforehand.formats.published import Arrived
from beforehand.ordering.merging import MergeSettings, Published
from beforehand.pipeline import session
from beforehand.pipeline.jobs.merge import source_options
from beforehand.pipeline.merge import in_lanes
from beforehand.pipeline.merging.file_source import FilesDataSource
from beforehand.pipeline.merging.folder_sink import MergedDataSource
from beforehand.pipeline.merging.ledger import Ledger
from beforehand.pipeline.merging.nats_source import NatsDataSource
from beforehand.pipeline.merging.options import SparkMergeOptions
from beforehand.pipeline.merging.stream import STREAM_CONF, merged_by_lane
from beforehand.runtime.embedded_broker import EmbeddedBroker
from beforehand.runtime.nats import StreamAddress, connect, ensure_stream
from benchmarks.report import Figure, Row, Section, Table, median_of

__all__ = ["sections"]

MESSAGES: Final = 400_000
BATCHES: Final = 4
RUNS: Final = 3
CHANNELS: Final = 16
PUBLISHERS: Final = 8
MS: Final = 1_000_000
SETTINGS: Final = MergeSettings(epsilon_ns=10 * MS, delta_ns=200 * MS)


def sections(messages: int = MESSAGES) -> list[Section]:
    """One row per source, with both rates and how many times slower the merge is."""
    rows = []
    conf = {**STREAM_CONF, "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}
    with tempfile.TemporaryDirectory() as scratch, EmbeddedBroker(Path(scratch) / "broker") as broker:
        folder = Path(scratch)
        files = folder / "in"
        _write_files(files, messages)
        asyncio.run(_publish(broker.url, messages))
        with session(master="local[2]", conf=conf) as spark:
            for source in (FilesDataSource, NatsDataSource, MergedDataSource):
                spark.dataSource.register(source)
            for name, place in (
                ("files", files),
                ("NATS", StreamAddress(server=broker.url, stream="BENCH")),
            ):
                rows.append(Row((name,), _measure(spark, place, folder / name, messages)))
    columns = ("source", "merge, messages per second", "pass-through", "times slower", "delivered, %")
    return [
        Section(
            "The merger on Spark",
            f"{messages:,} messages in {CHANNELS} channels; pass-through has the same source and the same sink. What "
            "is not delivered was set aside, which costs more.",
            Table("spark", columns, tuple(rows), median_of(RUNS, "In turns.")),
        )
    ]


def _measure(spark: SparkSession, place: Path | StreamAddress, folder: Path, messages: int) -> tuple[Figure, ...]:
    options = SparkMergeOptions(
        source=place,
        sink=folder,
        settings=SETTINGS,
        checkpoint=folder,
        once=True,
        flush=True,
        messages_max=messages // BATCHES,
        bytes_max=1,
    )

    def merge(arrived: DataFrame) -> DataFrame:
        return merged_by_lane(in_lanes(arrived, lanes=4, settings=SETTINGS), settings=SETTINGS)

    plain: list[float] = []
    merged: list[float] = []
    for run in range(RUNS):
        plain.append(_run(spark, options, folder / f"pass-{run}", lambda arrived: arrived, times=False))
        merged.append(_run(spark, options, folder / f"merge-{run}", merge, times=True))
    entries = Ledger(folder / "merge-1" / "out" / "commits").entries()
    delivered = sum(entry["delivered"] for entry in entries)
    return (
        Figure.of(merged),
        Figure.of(plain),
        Figure.of((base / rate for base, rate in zip(plain, merged, strict=True)), digits=2),
        Figure.of([100 * delivered / messages], digits=1),
    )


def _run(
    spark: SparkSession,
    options: SparkMergeOptions,
    folder: Path,
    between: Callable[[DataFrame], DataFrame],
    *,
    times: bool,
) -> float:
    """Messages per second over all micro-batches but the first."""
    name, given = source_options(options)
    if not times:
        del given["span_ns"]
    arrived = spark.readStream.format(name).options(**given).load()
    writer = between(arrived).writeStream.format("beforehand-merged").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress.numInputRows > 1][1:]
    rows = sum(progress.numInputRows for progress in batches)
    return rows / (sum(progress.durationMs["triggerExecution"] for progress in batches) / 1000)


def _messages(count: int) -> Iterator[Arrived]:
    """Of publishers that take turns, some fifty a millisecond, stamped now."""
    now = time.time_ns()
    names = [f"publisher-{number}" for number in range(PUBLISHERS)]
    clocks = [BoundedClock(name, SETTINGS.bounds, now=SETTINGS.reading(now)) for name in names]
    for number in range(count):
        at = now + number * MS // 50
        clock = clocks[number % PUBLISHERS]
        stamp = clock.tick(SETTINGS.reading(at))
        clocks[(number * 7 + 3) % PUBLISHERS].receive(stamp, SETTINGS.reading(at))
        message = Published(
            publisher=clock.process, sequence=number // PUBLISHERS + 1, stamp=stamp, payload=b"x" * 100
        )
        arrival = at + (number * 37 % 50) * MS
        yield Arrived(channel=f"bench.{number % CHANNELS}", message=message, stamp=stamp.to_text(), arrival=arrival)


def _write_files(folder: Path, count: int) -> None:
    folder.mkdir()
    for number, part in enumerate(_parts(sorted(_messages(count), key=lambda one: one.arrival), BATCHES)):
        (folder / f"{number:03}.jsonl").write_bytes(b"".join([arrived.line() for arrived in part]))


async def _publish(url: str, count: int) -> None:
    """As fast as it goes, each stamped as it is sent."""
    connection = await connect(url)
    address = StreamAddress(server=url, stream="BENCH")
    await ensure_stream(connection.jetstream(), address, ["bench.>"])
    clocks = [
        BoundedClock(f"publisher-{number}", SETTINGS.bounds, now=SETTINGS.reading(time.time_ns()))
        for number in range(PUBLISHERS)
    ]
    for at in range(0, count, 200):
        commands = []
        for number in range(at, min(at + 200, count)):
            clock = clocks[number % PUBLISHERS]
            stamp = clock.tick(SETTINGS.reading(time.time_ns()))
            headers = {
                "Beforehand-Publisher": clock.process,
                "Beforehand-Sequence": str(number // PUBLISHERS + 1),
                "Beforehand-Stamp": stamp.to_text(),
            }
            commands.append(connection.command(f"bench.{number % CHANNELS}", b"x" * 100, headers=headers))
        await connection.send(commands)
        await connection.flush()
    await connection.close()


def _parts(items: list[Arrived], count: int) -> Iterator[list[Arrived]]:
    each = -(-len(items) // count)
    for at in range(0, len(items), each):
        yield items[at : at + each]
