"""The pipeline on Spark equals the history in memory: stamps, causal times, sizes of pasts, order, violations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from beforehand.events import Event
from beforehand.formats import write_events
from beforehand.history import History
from beforehand.pipeline import room, tables
from beforehand.pipeline.jobs import large, running
from beforehand.pipeline.jobs.analyze import Settings, analyze
from beforehand.pipeline.stored import StoredHistory
from beforehand.pipeline.stored.checking import found_violations
from hard_histories import hard_history, with_broken_structure, with_reported_clocks

KINDS = ("fifo", "causal", "total", "clock")


def _world(kind: str, histories: int) -> list[Event]:
    """Many executions in one file, so that one analysis covers them all."""
    events: list[Event] = []
    for seed in range(histories):
        random = Random(f"{kind} {seed}")
        history = hard_history(seed if kind == "sound" else 1_000 + seed, execution=f"run {seed}")
        if kind == "sound" and seed % 2:
            history = with_reported_clocks(history, random, wrong=random.choice([0, 0, 0.1]))
        if kind == "broken":
            history = with_broken_structure(history, random)
        events += history
    return events


@pytest.mark.parametrize("kind", ["sound", "broken"])
@pytest.mark.parametrize(("blocks", "histories"), [(None, 40), (1, 20), (5, 20), (64, 8)])
def test_the_spark_result_equals_the_history_in_memory(
    spark: SparkSession, tmp_path: Path, kind: str, blocks: int | None, histories: int
) -> None:
    _analyze_and_compare(_world(kind, histories), tmp_path, blocks)


@pytest.mark.parametrize("kind", ["sound", "broken"])
@pytest.mark.parametrize(("blocks", "histories"), [(1, 20), (5, 12)])
def test_blocks_that_are_streamed_through_files_give_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, blocks: int, histories: int
) -> None:
    # The tasks run here, so that they see these limits: every block takes many batches, slices and row groups.
    monkeypatch.setattr(large, "run_over", _run_here)
    monkeypatch.setattr(running, "run_over", _run_here)
    monkeypatch.setattr(large, "HELD_EVENTS_MAX", 10)
    monkeypatch.setattr(room, "SLICE", 16)
    monkeypatch.setattr(tables, "ROW_GROUP_ROWS", 25)
    made = _count_rooms(monkeypatch)

    _analyze_and_compare(_world(kind, histories), tmp_path, blocks)

    assert made["files"] > histories


def _run_here(frame: DataFrame, task: running.Task) -> list[dict[str, Any]]:
    batches = iter(frame.toArrow().to_batches(max_chunksize=7))
    return [json.loads(text) for batch in task(batches) for text in batch.column(0).to_pylist()]


def _count_rooms(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    made: Counter[str] = Counter()
    make = room.Room.__init__

    def counted(self: room.Room, folder: Path | None = None) -> None:
        made["memory" if folder is None else "files"] += 1
        make(self, folder)

    monkeypatch.setattr(room.Room, "__init__", counted)
    return made


def _analyze_and_compare(events: list[Event], tmp_path: Path, blocks: int | None) -> None:
    write_events(events, tmp_path / "events.jsonl")
    oracle = History.by_execution(events)

    report = analyze(
        [str(tmp_path / "events.jsonl")],
        tmp_path / "history",
        Settings(blocks=blocks, witnesses=10_000, lamport=True),
    )

    stored = StoredHistory.open(tmp_path / "history")
    reports = {execution: history.check(limit=10_000) for execution, history in oracle.items()}
    counts: Counter[str] = Counter()
    for found in reports.values():
        counts.update(found.counts)
    judged = {kind: sum(one.judged[kind].judged for one in reports.values()) for kind in KINDS}
    assert {kind: report["judged"][kind]["judged"] for kind in KINDS} == judged
    assert {kind: report["judged"][kind]["of"] for kind in KINDS} == {
        kind: sum(one.judged[kind].of for one in reports.values()) for kind in KINDS
    }
    assert report["violations"] == {kind: counts[kind] if judged[kind] else None for kind in KINDS}
    assert report["events"] == sum(len(history) for history in oracle.values())
    assert report["rejected_reasons"] == Counter(
        rejection.reason for history in oracle.values() for rejection in history.rejections
    )
    assert report["receives"] == sum(history.columns.receive_message.size for history in oracle.values())
    assert report["messages"] == sum(len(history.messages) for history in oracle.values())
    assert report["depth"] == max(
        history.lamport_time(event) for history in oracle.values() for event in history.columns.events
    )
    _same_events(tmp_path / "history", oracle)
    _same_violations(stored, oracle, reports)
    random = Random(blocks or 0)
    for execution, history in oracle.items():
        for event in random.sample(list(history.columns.events), min(6, len(history))):
            assert stored.stamp(event) == history.stamp(event), (execution, event)


def _same_events(directory: Path, oracle: dict[str, History]) -> None:
    rows = duckdb.sql(
        f"""SELECT execution, process, index, causal_time, past_size, lamport_time, kind, time
        FROM '{directory}/events/*.parquet'
        ORDER BY execution, causal_time NULLS FIRST, past_size, process, index"""
    ).fetchall()
    expected = [
        (
            execution,
            event.process,
            event.index,
            history.causal_time(event),
            history.past_size(event),
            history.lamport_time(event),
            event.kind.value,
            event.time,
        )
        for execution, history in sorted(oracle.items())
        for event in history.order()
    ]
    assert rows == expected


def _same_violations(stored: StoredHistory, oracle: dict[str, History], reports: dict[str, object]) -> None:
    def key(violation: dict[str, object]) -> tuple[object, ...]:
        return tuple(str(violation[name]) for name in ("execution", "kind", "events", "messages", "why", "reasons"))

    found = sorted(key(row) for row in found_violations(stored.directory) if row["kind"] != "total")
    expected = sorted(
        (
            execution,
            violation.kind,
            str([str(event) for event in violation.events]),
            str(list(violation.messages)),
            violation.why,
            str(list(violation.reasons)),
        )
        for execution, report in reports.items()
        for violation in report.violations
        if violation.kind != "total"
    )
    assert found == expected
    _total_witnesses_are_cycles(stored, oracle)


def _total_witnesses_are_cycles(stored: StoredHistory, oracle: dict[str, History]) -> None:
    """Which of several cycles is shown may differ; that each is one must not."""
    for row in found_violations(stored.directory):
        if row["kind"] != "total":
            continue
        history = oracle[str(row["execution"])]
        messages, events = row["messages"], row["events"]
        assert isinstance(messages, list)
        assert isinstance(events, list)
        assert len(events) == 2 * len(messages)
        for at, message in enumerate(messages):
            first, second = history.event(events[2 * at]), history.event(events[2 * at + 1])
            assert first.process == second.process
            assert first.index < second.index
            assert message in first.receives
            assert messages[(at + 1) % len(messages)] in second.receives
