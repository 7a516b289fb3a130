"""The sources by themselves: offsets hold times, the same offsets give the same rows, and rest is rest."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import nats
import pytest
from merge_broker import SETTINGS, publish, stored

from beforehand.clocks.offset import OffsetStamp
from beforehand.errors import InputError
from beforehand.pipeline.jobs.merge import check_before
from beforehand.pipeline.merging.checkpoint import held
from beforehand.pipeline.merging.file_source import FilesDataSource
from beforehand.pipeline.merging.nats_source import NatsDataSource
from beforehand.pipeline.merging.options import SparkMergeOptions
from beforehand.runtime.embedded_broker import EmbeddedBroker
from beforehand.runtime.nats import StreamAddress

S = 1_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        publish(one.url, "FIRST", seed=1, count=50, bad=False)
        yield one


def reader(broker: EmbeddedBroker, **options: str) -> Any:
    given = {"server": broker.url, "stream": "FIRST", "span_ns": str(S), "grace_ns": "0", **options}
    return NatsDataSource(given).streamReader(None)  # type: ignore[arg-type]


def rows(source: Any, start: Any, end: Any) -> list[dict[str, Any]]:
    return [row for part in source.partitions(start, end) for batch in source.read(part) for row in batch.to_pylist()]


def drain(source: Any, start: Any) -> list[Any]:
    """All offsets up to the one that stays."""
    offsets = [start]
    while True:
        offsets.append(source.latestOffset(offsets[-1], source.getDefaultReadLimit()))
        if offsets[-1] == offsets[-2]:
            return offsets[:-1]


def test_micro_batches_cover_the_stream_and_can_be_read_again(broker: EmbeddedBroker) -> None:
    source = reader(broker, messages_max="20", flush="true")
    source.prepareForTriggerAvailableNow()
    offsets = drain(source, source.initialOffset())

    given = [rows(source, start, end) for start, end in pairwise(offsets)]
    again = [rows(source, start, end) for start, end in pairwise(offsets)]
    source.stop()

    assert given == again
    messages = [row for batch in given for row in batch if row["time"] is None]
    expected = stored(broker.url, "FIRST")
    assert [(row["offset"], row["arrival"], row["stamp"], row["payload"]) for row in messages] == [
        (row["offset"], row["arrival"], row["stamp"], row["payload"]) for row in expected
    ]
    # One time in each, never beyond what was read; at the end all that can wait is due.
    times = [[row["time"] for row in batch if row["time"] is not None] for batch in given]
    assert all(len(each) == 1 for each in times)
    arrivals = [max(row["arrival"] for row in batch if row["time"] is None) for batch in given]
    assert [each[0] for each in times[:-1]] == arrivals[:-1]
    assert times[-1] == [expected[-1]["arrival"] + S]


def test_when_only_time_moves_there_is_a_row_that_tells_it_and_then_rest(broker: EmbeddedBroker) -> None:
    source = reader(broker, span_ns=str(10**15))  # So long that the wall clock still moves.
    read = drain_once(source)
    later = source.latestOffset(read, source.getDefaultReadLimit())
    given = rows(source, read, later)
    resting = reader(broker, span_ns="1000")
    time.sleep(0.01)
    end = drain_once(resting)
    again = resting.latestOffset(end, resting.getDefaultReadLimit())
    source.stop()
    resting.stop()

    assert [row["time"] for row in given] == [later["FIRST"]["time"]]
    assert later["FIRST"]["time"] > read["FIRST"]["time"]
    assert later["FIRST"]["sequence"] == read["FIRST"]["sequence"]
    assert again == end


def drain_once(source: Any) -> Any:
    return source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())


def test_filters_are_read_apart_and_together_are_everything(broker: EmbeddedBroker) -> None:
    source = reader(broker, subjects='["FIRST.0", "FIRST.1", "FIRST.2"]', flush="true")
    start, end = source.initialOffset(), drain_once(source)

    parts = source.partitions(start, end)
    given = rows(source, start, end)
    source.stop()

    assert len(parts) == 3
    messages = [row["offset"] for row in given if row["time"] is None]
    assert sorted(messages) == [row["offset"] for row in stored(broker.url, "FIRST")]


def test_of_several_streams_the_smallest_time_counts(broker: EmbeddedBroker) -> None:
    publish(broker.url, "SECOND", seed=2, count=30, bad=False)
    source = reader(broker, stream='["FIRST", "SECOND"]', messages_max="40")

    start, end = source.initialOffset(), drain_once(source)
    given = rows(source, start, end)
    source.stop()

    # The first is not drained and holds the second up.
    assert (end["FIRST"]["sequence"], end["SECOND"]["sequence"]) == (20, 20)
    assert end["FIRST"]["time"] < end["SECOND"]["time"]
    assert [row["time"] for row in given if row["time"] is not None] == [end["FIRST"]["time"]]
    assert {row["source"] for row in given if row["time"] is None} == {"FIRST", "SECOND"}


@pytest.mark.parametrize("subjects", ['["a.>", "a.b"]', '["a.*", "*.b"]', '["a", "a"]', '[">", "x"]'])
def test_filters_that_overlap_are_refused(broker: EmbeddedBroker, subjects: str) -> None:
    with pytest.raises(InputError, match="overlap: a message would be read twice"):
        reader(broker, subjects=subjects)


def test_a_batch_has_all_messages_and_no_times(broker: EmbeddedBroker) -> None:
    source = NatsDataSource({"server": broker.url, "stream": "FIRST"}).reader(None)  # type: ignore[arg-type]
    given = [row for part in source.partitions() for batch in source.read(part) for row in batch.to_pylist()]
    assert [row["offset"] for row in given] == [row["offset"] for row in stored(broker.url, "FIRST")]
    assert {row["time"] for row in given} == {None}


def test_a_query_may_start_at_a_number_or_with_what_is_new(broker: EmbeddedBroker) -> None:
    last = len(stored(broker.url, "FIRST"))
    found = {}
    for start in ("new", "10"):
        source = reader(broker, start=start)
        found[start] = source.initialOffset()["FIRST"]["sequence"]
        source.stop()
    wrong = reader(broker, start="yesterday")

    assert found == {"new": last, "10": 9}
    with pytest.raises(InputError, match="it is first, new or the number of a message"):
        wrong.initialOffset()
    wrong.stop()


def line(arrival: int, stamp: str = OffsetStamp(1, 0).to_text()) -> str:
    return json.dumps({"publisher": "p", "sequence": 1, "stamp": stamp, "arrival": arrival}) + "\n"


def test_files_come_in_the_order_of_their_names_and_hidden_ones_do_not(tmp_path: Path) -> None:
    for name, arrival in (("b.jsonl", 20), ("a.jsonl", 10), (".c.jsonl", 30), ("_d.jsonl", 40)):
        (tmp_path / name).write_text(line(arrival))
    given = {"path": str(tmp_path), "span_ns": "100", "grace_ns": "0", "bytes_max": "1"}
    source: Any = FilesDataSource(given).streamReader(None)  # type: ignore[arg-type]

    offsets = drain(source, source.initialOffset())

    assert [offset["last"] for offset in offsets] == ["", "a.jsonl", "b.jsonl"]
    assert [offset["time"] for offset in offsets] == [0, 10, 120]


def files(folder: Path, **options: str) -> Any:
    given = {"path": str(folder), "span_ns": "100", "grace_ns": "0", "bytes_max": "1", **options}
    return FilesDataSource(given).streamReader(None)  # type: ignore[arg-type]


def test_an_arrival_beyond_the_wall_clock_moves_no_time_until_the_clock_has_reached_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = 3_800_000_000 * S
    (tmp_path / "a.jsonl").write_text(line(10) + line(far) + line(far + 1, stamp="garbage"))
    (tmp_path / "b.jsonl").write_text(line(20))

    source = files(tmp_path)
    offsets = drain(source, source.initialOffset())
    monkeypatch.setattr(time, "time_ns", lambda: far + 5)
    later = source.latestOffset(offsets[-1], source.getDefaultReadLimit())

    assert [(offset["arrival"], offset["time"]) for offset in offsets] == [(0, 0), (10, 10), (20, 120)]
    assert (later["arrival"], later["time"], later["ahead"]) == (far, far + 5, 0)


def test_with_a_flush_an_arrival_beyond_the_wall_clock_counts_at_the_end_and_not_before(tmp_path: Path) -> None:
    far = 3_800_000_000 * S
    (tmp_path / "a.jsonl").write_text(line(10) + line(far))
    (tmp_path / "b.jsonl").write_text(line(20))
    source = files(tmp_path, flush="true")

    offsets = drain(source, source.initialOffset())

    assert [offset["time"] for offset in offsets] == [0, 10, far + 100]


def test_a_file_whose_name_is_no_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line(10))
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.jsonl")).write_text(line(20))
    source = files(tmp_path)
    with pytest.raises(InputError, match=r"the file 'b\\udcff.jsonl' is not UTF-8: rename the file"):
        source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())


def test_a_stream_that_was_made_anew_is_refused(broker: EmbeddedBroker) -> None:
    publish(broker.url, "ANEW", seed=3, count=30, bad=False)
    source = reader(broker, stream="ANEW")
    start, end = source.initialOffset(), drain_once(source)

    async def remove() -> None:
        connection = await nats.connect(broker.url)
        await connection.jetstream().delete_stream("ANEW")
        await connection.close()

    asyncio.run(remove())
    publish(broker.url, "ANEW", seed=4, count=60, bad=False)

    with pytest.raises(InputError, match=r"the stream was made anew since: .* use another checkpoint"):
        source.latestOffset(end, source.getDefaultReadLimit())
    with pytest.raises(InputError, match="made anew"):  # A micro-batch that was logged, and is run again.
        rows(source, start, end)
    source.stop()


def test_what_cannot_start_is_refused_before_spark_is_started(broker: EmbeddedBroker, tmp_path: Path) -> None:
    def options(stream: str, subject: str | None = None, **changed: Any) -> SparkMergeOptions:
        source = StreamAddress(server=broker.url, stream=stream, subject=subject)
        where = {"sink": tmp_path / "out", "checkpoint": tmp_path / "c", "settings": SETTINGS}
        return SparkMergeOptions(source=source, **{**where, **changed})

    check_before(options("FIRST"))
    with pytest.raises(InputError, match="NONE: there is no such stream"):
        check_before(options("NONE"))
    with pytest.raises(InputError, match="overlap"):
        check_before(options("FIRST", subjects=("FIRST.>", "FIRST.1")))
    with pytest.raises(InputError, match="the stream FIRST is named twice"):
        check_before(options("FIRST", also=("SECOND", "FIRST")))
    with pytest.raises(InputError, match="leave the filters out"):
        check_before(options("FIRST", "FIRST.1", also=("SECOND",)))
    with pytest.raises(InputError, match="OTHER: there is no such stream"):
        check_before(options("FIRST", also=("OTHER",)))
    (tmp_path / "in").mkdir()
    with pytest.raises(InputError, match="not with a folder"):
        check_before(replace(options("FIRST"), source=tmp_path / "in", also=("SECOND",)))
    (tmp_path / "in").rmdir()
    assert list(tmp_path.iterdir()) == []
    places = {"source": f"{broker.url}/FIRST", "sink": str(tmp_path / "out"), "subjects": ("FIRST.1",)}
    with held(tmp_path / "c", settings=SETTINGS, lanes=None, lanes_default=2, **places):
        pass
    check_before(options("FIRST", "FIRST.1"))
    check_before(options("FIRST", subjects=("FIRST.1",)))
    with pytest.raises(InputError, match=r"with --subject FIRST\.1, not with --subject FIRST\.2"):
        check_before(options("FIRST", subjects=("FIRST.2",)))
