"""A block that cannot be cut: streamed through files, noted, and the same as any other; arrays in files."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from beforehand.events import Event
from beforehand.formats import write_events
from beforehand.history import History
from beforehand.pipeline import room, tables
from beforehand.pipeline.jobs import large
from beforehand.pipeline.jobs.analyze import Settings, analyze
from beforehand.pipeline.room import Room
from beforehand.pipeline.stored import StoredHistory
from beforehand.pipeline.tables import row_groups


def relay(runners: int, steps: int) -> list[Event]:
    """Each process begins when the one before it ends, and no event has a time: a cut at any share of all processes
    shrinks to a piece of the first.
    """
    return [
        Event(
            process=f"p{runner:02d}",
            index=step,
            sends=(f"baton-{runner}",) if step == steps else (),
            receives=(f"baton-{runner - 1}",) if step == 1 and runner else (),
        )
        for runner in range(runners)
        for step in range(1, steps + 1)
    ]


def test_a_block_that_cannot_be_cut_is_streamed_and_noted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "HELD_EVENTS_MAX", 100)
    events = relay(runners=20, steps=30)
    write_events(events, tmp_path / "events.jsonl")

    report = analyze([str(tmp_path / "events.jsonl")], tmp_path / "history", Settings(blocks=10, lamport=True))

    cuts = pq.read_table(tmp_path / "history" / "cuts" / "cuts.parquet")
    largest = max(cuts["events"].to_pylist())
    assert largest > 500
    said = (
        f"execution '': a block of {largest} events could not be cut any further "
        "(blocks should have 60); one task streamed it through files"
    )
    assert [note for note in report["notes"] if "could not be cut" in note] == [said]
    assert report["depth"] == 600
    assert _pasts(tmp_path / "history") == list(range(1, 601))
    stored, history = StoredHistory.open(tmp_path / "history"), History(events)
    for event in ("p00:30", "p07:1", "p19:30"):
        assert stored.stamp(event) == history.stamp(event)


def _pasts(directory: Path) -> list[int]:
    return sorted(
        size
        for file in (directory / "events").glob("*.parquet")
        for size in pq.read_table(file, columns=["past_size"])["past_size"].to_pylist()
    )


def test_a_block_that_fits_is_replayed_in_memory_and_the_note_says_so(spark: SparkSession, tmp_path: Path) -> None:
    write_events(relay(runners=20, steps=30), tmp_path / "events.jsonl")

    report = analyze([str(tmp_path / "events.jsonl")], tmp_path / "history", Settings(blocks=10))

    assert [note[-len("one task replayed it") :] for note in report["notes"] if "could not be cut" in note] == [
        "one task replayed it"
    ]


def test_arrays_in_files_keep_what_was_written_when_their_pages_are_given_back(tmp_path: Path) -> None:
    files = Room(tmp_path)
    zeros, sevens = files.zeros(100_000, np.int64), files.full(100_000, np.int32, 7)
    column = files.column(np.int64)
    for first in (0, 50_000):
        column.add(np.arange(first, first + 50_000))
    counted = column.array()
    zeros[::1000] = 1

    files.release()

    assert int(zeros.sum()) == 100
    assert set(sevens.tolist()) == {7}
    assert counted.tolist() == list(range(100_000))


def test_files_of_arrays_have_no_names(tmp_path: Path) -> None:
    files = Room(tmp_path)
    held = [files.empty(1_000, np.int64), files.column(np.int32).array()]

    assert list(tmp_path.iterdir()) == []

    del held, files
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_slices_cover_everything_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SLICE", 4)

    assert [(part.start, part.stop) for part in Room(tmp_path).slices(10)] == [(0, 4), (4, 8), (8, 10)]
    assert [(part.start, part.stop) for part in Room().slices(10)] == [(0, 10)]
    assert list(Room(tmp_path).slices(0)) == []


def test_row_groups_are_cut_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP_ROWS", 4)
    pieces = [pa.table({"x": np.arange(first, last)}) for first, last in ((0, 3), (3, 10), (10, 10), (10, 11))]

    assert [table["x"].to_pylist() for table in row_groups(pieces)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
