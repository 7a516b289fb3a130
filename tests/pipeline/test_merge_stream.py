"""The merge on Spark: the stream equals the batch equals a sort, whatever the micro-batches; from files and NATS."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from merge_broker import SETTINGS as LIVE
from merge_broker import publish, stored
from merge_cases import MS, SETTINGS, Row, messages, oracle, shown

from beforehand.errors import BeforehandError, InputError
from beforehand.ordering.merging import MergeSettings
from beforehand.pipeline.merging.options import SparkMergeOptions
from beforehand.pipeline.merging.reader import read_merged, read_set_aside
from beforehand.runtime.embedded_broker import EmbeddedBroker
from beforehand.runtime.nats import StreamAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


def write_files(folder: Path, rows: list[Row], files: int) -> None:
    """Lines and, every third, Parquet. Each row learns where it stands."""
    folder.mkdir(parents=True)
    each = -(-len(rows) // files)
    for number in range(files):
        part = rows[number * each : (number + 1) * each]
        parquet = number % 3 == 2
        name = f"{number:03}.{'parquet' if parquet else 'jsonl'}"
        records = []
        for at, row in enumerate(part, start=1):
            row["source"], row["offset"] = name, at
            names = ("channel", "publisher", "sequence", "stamp", "arrival")
            records.append({**{key: row[key] for key in names}, "payload": row["payload"].decode()})
        if parquet:
            pq.write_table(pa.Table.from_pylist(records), folder / name)
        else:
            (folder / name).write_text("".join(f"{json.dumps(record)}\n" for record in records))


def run(spark: SparkSession, stop: threading.Event | None = None, **options: Any) -> dict[str, Any]:
    from beforehand.pipeline.jobs.merge import run_merge

    return run_merge(spark, SparkMergeOptions(**{"settings": SETTINGS, "once": True, **options}), stop=stop)


def written(folder: Path) -> list[tuple[Any, ...]]:
    rows = [(r.channel, r.position, r.publisher, r.sequence, r.payload) for r in read_merged(folder)]
    return sorted(rows, key=lambda row: row[:2])


def test_the_batch_form_gives_what_a_sort_gives(spark: SparkSession, tmp_path: Path) -> None:
    from beforehand.pipeline.merge import decided, merged, set_aside
    from beforehand.pipeline.merging.file_source import FilesDataSource

    rows = messages(11, 400, bad=True)
    write_files(tmp_path / "in", rows, 3)
    spark.dataSource.register(FilesDataSource)

    frame = decided(spark.read.format("beforehand-files").load(str(tmp_path / "in")), settings=SETTINGS)

    expected, reasons = oracle(rows)
    given = [row.asDict() | {"payload": bytes(row.payload)} for row in merged(frame).collect()]
    assert sorted(map(shown, given), key=lambda row: row[:2]) == expected
    assert Counter(row.reason for row in set_aside(frame).collect()) == reasons


@pytest.mark.parametrize(("bytes_max", "form"), [(1, "parquet"), (10**9, "jsonl")])
def test_the_stream_gives_what_a_sort_gives_whatever_its_micro_batches(
    spark: SparkSession, tmp_path: Path, bytes_max: int, form: str
) -> None:
    rows = messages(12, 400, bad=True)
    write_files(tmp_path / "in", rows, 5)

    figures = run(
        spark,
        source=tmp_path / "in",
        sink=tmp_path / "out",
        checkpoint=tmp_path / "c",
        bytes_max=bytes_max,
        form=form,
    )

    expected, reasons = oracle(rows)
    assert written(tmp_path / "out") == expected
    assert Counter(record.reason.value for record in read_set_aside(tmp_path / "out")) == reasons
    assert (figures["delivered"], figures["set_aside"], figures["waiting"]) == (len(expected), reasons, 0)
    assert figures["batch"] == (4 if bytes_max == 1 else 0)


def test_a_merge_goes_on_where_it_stopped_and_refuses_other_settings(spark: SparkSession, tmp_path: Path) -> None:
    rows = messages(13, 200)
    write_files(tmp_path / "all", rows, 4)
    (tmp_path / "in").mkdir()
    where = {"source": tmp_path / "in", "sink": tmp_path / "out", "checkpoint": tmp_path / "c"}
    names = sorted(path.name for path in (tmp_path / "all").iterdir())

    # Without wall clock: as if all were recent.
    for name in names[:2]:
        (tmp_path / "all" / name).rename(tmp_path / "in" / name)
    first = run(spark, **where, grace_ns=10**20)
    for name in names[2:]:
        (tmp_path / "all" / name).rename(tmp_path / "in" / name)
    last = run(spark, **where, grace_ns=10**20, flush=True)

    assert first["waiting"] > 0
    assert last["waiting"] == 0
    assert written(tmp_path / "out") == oracle(rows)[0]
    other = MergeSettings(epsilon_ns=5 * MS, delta_ns=41 * MS)
    with pytest.raises(InputError, match="started with --delta 40, not with --delta 41: keep it, or use another"):
        run(spark, **where, settings=other)
    with pytest.raises(InputError, match="another checkpoint"):
        run(spark, **{**where, "checkpoint": tmp_path / "d"})
    assert not (tmp_path / "d").exists()
    nobody = StreamAddress(server="nats://127.0.0.1:9", stream="X")
    with pytest.raises(BeforehandError, match="nothing listens there"):
        run(spark, source=nobody, sink=tmp_path / "new", checkpoint=tmp_path / "d")
    assert not (tmp_path / "d").exists()
    assert not (tmp_path / "new").exists()
    (tmp_path / "in" / "000.a").write_text("")
    with pytest.raises(BeforehandError, match="1 files appeared with names before"):
        run(spark, **where)


def test_two_mergers_with_other_batches_and_start_times_write_the_same(
    spark: SparkSession, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    publish(broker.url, "TWO", seed=1, count=300)
    source = StreamAddress(server=broker.url, stream="TWO")
    where = {"source": source, "settings": LIVE}

    # One starts at once and takes few at a time; while it runs, more is published.
    more = threading.Thread(target=publish, args=(broker.url, "TWO"), kwargs={"seed": 2, "count": 300})
    stop = threading.Event()
    early = {"sink": tmp_path / "early", "checkpoint": tmp_path / "c", "messages_max": 90, "interval_s": 0.1}
    runner = threading.Thread(target=run, args=(spark, stop), kwargs={**where, **early, "once": False})
    runner.start()
    more.start()
    more.join()
    expected, reasons = oracle(stored(broker.url, "TWO"), LIVE)
    # Input has stopped: time alone must release the rest.
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and runner.is_alive():
        time.sleep(0.5)
        if (tmp_path / "early" / "merge.json").exists() and len(written(tmp_path / "early")) >= len(expected):
            break
    # And then nothing is done any more: the last micro-batch stays the last.
    counts = [0, 1]
    while time.monotonic() < deadline and counts[-1] != counts[-2]:
        counts.append(len(list((tmp_path / "c" / "spark" / "offsets").glob("[0-9]*"))))
        time.sleep(3)
    assert counts[-1] == counts[-2]
    stop.set()
    runner.join()
    subjects = tuple(f"TWO.{number}" for number in range(3))
    late = {"sink": tmp_path / "late", "checkpoint": tmp_path / "d", "messages_max": 10_000, "subjects": subjects}
    figures = run(spark, **where, **late)

    assert len(expected) > 300
    assert written(tmp_path / "early") == expected
    assert written(tmp_path / "late") == expected
    assert figures["set_aside"] == reasons
    assert {"malformed", "oversize", "late", "corrupted", "repeated"} <= set(reasons)
    with pytest.raises(InputError, match="not with --subject TWO"):
        run(spark, **where, **{**late, "subjects": ("TWO.>",)})


def test_several_streams_are_merged_as_one_input(spark: SparkSession, tmp_path: Path, broker: EmbeddedBroker) -> None:
    for seed, name in enumerate(("EAST", "WEST")):
        publish(broker.url, name, seed=seed, count=60)
    where = {
        "source": StreamAddress(server=broker.url, stream="EAST"),
        "settings": LIVE,
        "also": ("WEST",),
        "flush": True,
    }

    for at, most in enumerate((25, 1_000)):
        run(spark, **where, sink=tmp_path / f"{at}", checkpoint=tmp_path / f"c{at}", messages_max=most)

    alone = [oracle(stored(broker.url, name), LIVE)[0] for name in ("EAST", "WEST")]
    assert written(tmp_path / "0") == written(tmp_path / "1")
    assert sorted(written(tmp_path / "0")) == sorted([*alone[0], *alone[1]])  # Each has channels of its own.
    with pytest.raises(InputError, match="EAST and WEST, not"):
        run(spark, **{**where, "also": ()}, sink=tmp_path / "0", checkpoint=tmp_path / "c0")


def test_a_merge_back_to_nats_has_every_position_once(
    spark: SparkSession, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    publish(broker.url, "IN", seed=3, count=300)
    where = {
        "source": StreamAddress(server=broker.url, stream="IN"),
        "sink": StreamAddress(server=broker.url, stream="OUT", prefix="out"),
        "checkpoint": tmp_path / "c",
        "settings": LIVE,
    }
    run(spark, **where, messages_max=120)
    time.sleep(1)  # What was published last may wait for its time.
    figures = run(spark, **where, flush=True)

    expected, reasons = oracle(stored(broker.url, "IN"), LIVE)
    given = stored(broker.url, "OUT")
    merged = [row for row in given if row["channel"].startswith("out.")]
    shown_rows = [
        (
            row["channel"].removeprefix("out."),
            int(row["headers"]["Beforehand-Position"]),
            row["publisher"],
            row["sequence"],
            row["payload"],
        )
        for row in merged
    ]
    assert sorted(shown_rows, key=lambda row: row[:2]) == expected
    aside = Counter(
        row["headers"]["Beforehand-Reason"] for row in given if row["channel"].startswith("out-set-aside.")
    )
    assert aside == reasons == figures["set_aside"]
    with pytest.raises(InputError, match="a stream of its own"):
        run(spark, **{**where, "checkpoint": tmp_path / "d"})


def test_messages_that_are_gone_before_they_were_read_end_the_merge(
    spark: SparkSession, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    import asyncio

    import nats

    async def purge(**what: int) -> None:
        connection = await nats.connect(broker.url)
        await connection.jetstream().purge_stream("GONE", **what)
        await connection.close()

    async def remove(number: int) -> None:
        connection = await nats.connect(broker.url)
        await connection.jetstream().delete_msg("GONE", number)
        await connection.close()

    publish(broker.url, "GONE", seed=4, count=30, bad=False)
    where = {"source": StreamAddress(server=broker.url, stream="GONE"), "settings": LIVE, "flush": True}
    run(spark, **where, sink=tmp_path / "a", checkpoint=tmp_path / "c")
    publish(broker.url, "GONE", seed=5, count=30, bad=False)
    asyncio.run(remove(50))
    with pytest.raises(BeforehandError, match=r"1 messages, 50 the first, were removed"):
        run(spark, **where, sink=tmp_path / "b", checkpoint=tmp_path / "d")
    asyncio.run(purge(seq=45))

    with pytest.raises(
        BeforehandError, match=r"messages \d+ to 44 were removed from the stream before they were read"
    ):
        run(spark, **where, sink=tmp_path / "a", checkpoint=tmp_path / "c")


def test_a_stream_that_is_not_there_is_told_of(spark: SparkSession, tmp_path: Path, broker: EmbeddedBroker) -> None:
    source = StreamAddress(server=broker.url, stream="NONE")
    with pytest.raises(BeforehandError, match="NONE: there is no such stream"):
        run(spark, source=source, sink=tmp_path / "a", checkpoint=tmp_path / "c")
