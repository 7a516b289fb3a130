"""`--lamport`: asked for, every event has its Lamport time and the report the depth; else nothing has."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from beforehand.cli.analyze import _summary
from beforehand.events import Event
from beforehand.formats import write_events
from beforehand.pipeline.jobs.analyze import Settings, analyze
from beforehand.pipeline.stored import StoredHistory

# Nobody received `lost` and nobody sent `nobody`; c has gaps; z and x2 make a cycle, so both are left out.
EVENTS = [
    Event(process="a", index=1),
    Event(process="a", index=2, sends=("x", "lost")),
    Event(process="a", index=3, sends=("y",)),
    Event(process="b", index=1),
    Event(process="b", index=2, receives=("x",)),
    Event(process="b", index=3, receives=("y", "x2")),
    Event(process="b", index=4, sends=("z",)),
    Event(process="c", index=1, receives=("nobody",)),
    Event(process="c", index=5, receives=("z",), sends=("x2",)),
]
TIMES = {"a": [1, 2, 3], "b": [1, 3, 4, 5], "c": [1, 2]}


def _analyzed(folder: Path, *, blocks: int | None, lamport: bool) -> dict[str, object]:
    write_events(EVENTS, folder / "events.jsonl")
    return analyze(
        [str(folder / "events.jsonl")], folder / "history", Settings(blocks=blocks, lamport=lamport, replace=True)
    )


def _times(folder: Path) -> dict[str, list[int | None]]:
    rows = [
        row for file in (folder / "history" / "events").glob("*.parquet") for row in pq.read_table(file).to_pylist()
    ]
    result: dict[str, list[int | None]] = {}
    for row in sorted(rows, key=lambda row: (row["process"], row["index"])):
        result.setdefault(row["process"], []).append(row["lamport_time"])
    return result


@pytest.mark.parametrize("blocks", [None, 1, 4])
def test_a_lamport_time_is_the_length_of_the_longest_chain_without_messages_in_cycles(
    spark: SparkSession, tmp_path: Path, blocks: int | None
) -> None:
    report = _analyzed(tmp_path, blocks=blocks, lamport=True)

    assert report["rejected_reasons"] == {"cycle": 2}
    assert _times(tmp_path) == TIMES
    assert report["depth"] == 5
    assert json.loads((tmp_path / "history" / "report.json").read_text())["depth"] == 5
    assert StoredHistory.open(tmp_path / "history").manifest.settings["lamport"] is True
    assert "depth: 5 events in the longest causal chain" in _summary(report, tmp_path).splitlines()


@pytest.mark.parametrize("blocks", [None, 4])
def test_without_being_asked_for_there_are_none(spark: SparkSession, tmp_path: Path, blocks: int | None) -> None:
    report = _analyzed(tmp_path, blocks=blocks, lamport=False)

    assert _times(tmp_path) == {"a": [None] * 3, "b": [None] * 4, "c": [None] * 2}
    assert report["depth"] is None
    assert "depth" not in _summary(report, tmp_path)


def test_a_directory_of_old_that_has_no_lamport_times_is_still_read(spark: SparkSession, tmp_path: Path) -> None:
    _analyzed(tmp_path, blocks=2, lamport=False)
    for file in (tmp_path / "history" / "events").glob("*.parquet"):
        table = pq.read_table(file)
        pq.write_table(table.drop_columns(["lamport_time"]), file)

    explanation = StoredHistory.open(tmp_path / "history").explain("b:3")

    assert [str(event.id) for event in explanation.events] == ["a:1", "b:1", "a:2", "a:3", "b:2"]
