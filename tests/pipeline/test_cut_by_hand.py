"""The tasks of the pipeline, without Spark between them, against the history in memory: events, messages, findings,
and what a query makes of the directory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from by_hand import cut_by_hand

from beforehand.events import Event
from beforehand.history import History
from beforehand.history.cuts import Cut
from beforehand.pipeline import room, tables
from beforehand.pipeline.stored import StoredHistory
from beforehand.pipeline.stored.witnesses import clock_witness, overtaken_witness
from hard_histories import hard_history, with_reported_clocks
from history_directories import Case, message_rows, random_events, stored_rows, untidy


def _world(seed: int) -> list[list[Event]]:
    random = Random(seed)
    first = hard_history(seed, execution="a", steps=120)
    first[-1] = replace(first[-1], receives=(*first[-1].receives, "~ghost"))  # Inferred, and nobody sent it.
    return [
        _with_zeros(with_reported_clocks(first, random, wrong=0.1)) if seed % 2 else first,
        untidy(random_events(seed, processes=4, steps=120, gap=1 + seed % 3, untimed=0.1, execution="b"), seed),
    ]


def _with_zeros(events: list[Event]) -> list[Event]:
    """A clock may name processes that it knows nothing of: 0 is as good as nothing."""
    zeros = {event.process: 0 for event in events} | {"a stranger": 0}
    return [replace(event, clock=zeros | dict(event.clock or {})) for event in events]


@pytest.fixture(params=range(16))
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Every other one is streamed through files, in small pieces."""
    seed = request.param
    monkeypatch.setattr(room, "SLICE", 16)
    monkeypatch.setattr(tables, "ROW_GROUP_ROWS", 25)
    held_max = 10 if seed % 2 else 1_000_000
    return cut_by_hand(_world(seed), tmp_path, blocks=[1, 4, 9, 30][seed % 4], seed=seed, held_max=held_max)


def test_tasks_write_what_the_history_in_memory_knows(case: Case) -> None:
    for execution, history in case.histories.items():
        _same_events(case, execution, history)
        _same_messages(case, execution, history)
        _same_findings(case, execution, history)


def _same_events(case: Case, execution: str, history: History) -> None:
    rows = [row for row in _rows(case.path / "events") if row["execution"] == execution]
    found = {(row["process"], row["index"]): row for row in rows}
    assert len(found) == len(rows) == len(history)
    for expected, event in zip(stored_rows(history), history.columns.events, strict=True):
        row = found[event.process, event.index]
        assert row | {"block": 0} == expected | {"lamport_time": history.lamport_time(event)}


def _same_messages(case: Case, execution: str, history: History) -> None:
    kept = ("message", "outcome", "send_process", "send_index", "send_time")
    kept += ("receive_process", "receive_index", "receive_time", "position")
    rows = [row for row in _rows(case.path / "messages") if row["execution"] == execution]
    judged = Counter(
        tuple(row[name] for name in kept) for row in rows if row["outcome"] in ("received", "unsent", "unreceived")
    )
    expected = Counter(
        tuple(row.get(name) for name in kept)
        for row in message_rows(history)
        if row["outcome"] != "duplicate-send" and not _is_in_cycle(history, row["message"])
    )
    in_cycles = Counter({row: n for row, n in judged.items() if _is_in_cycle(history, str(row[0]))})
    assert judged - in_cycles == expected
    reasons = Counter(rejection.reason for rejection in history.rejections)
    for outcome in ("duplicate-send", "duplicate-receive", "cycle"):
        assert sum(row["outcome"] == outcome for row in rows) == reasons[outcome], outcome
    _same_figures(rows)


def _is_in_cycle(history: History, message: str) -> bool:
    return any(one.reason == "cycle" and one.message == message for one in history.rejections)


def _same_figures(rows: list[dict[str, Any]]) -> None:
    """One row of each message that was sent or received has its receivers; the spread is that of its receives."""
    by_message: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_message.setdefault(row["message"], []).append(row)
    for own in by_message.values():
        if any(row["outcome"] == "cycle" for row in own):
            continue  # What is left of it is counted on Spark.
        received = [row for row in own if row["outcome"] in ("received", "unsent")]
        told = [row for row in own if row["receivers"] is not None]
        assert [row["receivers"] for row in told] == [len(received)]
        usable = 2**60
        times = [row["receive_time"] for row in received if row["outcome"] != "unsent"]
        times = [time for time in times if time is not None and abs(time) < usable]
        sends = [row["send_time"] for row in received if row["send_time"] is not None]
        sent = bool(sends) and abs(sends[0]) < usable
        if any(abs(time) > usable // 2 for time in [*times, *sends]):
            continue  # Near the ends of 64 bits: judged elsewhere.
        assert told[0]["spread"] == (max(times) - min(times) if times and sent else None)


def _same_findings(case: Case, execution: str, history: History) -> None:
    stored = StoredHistory.open(case.path)
    report = history.check(limit=10_000)
    found = case.found[execution]
    for kind in ("causal", "fifo"):
        assert sum(block["counts"][kind] for block in found) == report.counts[kind]
        hits = sorted(tuple(hit) for block in found for hit in block[kind])
        witnesses = [overtaken_witness(stored, execution, kind, *hit) for hit in hits]
        expected = [violation for violation in report.violations if violation.kind == kind]
        assert sorted(witnesses, key=repr) == sorted(expected, key=repr)
    assert sum(block["counts"]["clock"] for block in found) == report.counts["clock"]
    first: dict[int, int] = {}
    for block in found:
        for member, index in block["clock"]:
            first.setdefault(member, index)
    clocks = [clock_witness(stored, execution, *one) for one in sorted(first.items())]
    assert clocks == [violation for violation in report.violations if violation.kind == "clock"]
    kept = history.columns.receive_message
    assert sum(block["inferred"] for block in found) == int((~history.columns.real[kept]).sum())
    assert sum(block["past"] for block in found) == sum(map(history.past_size, history.columns.events))


def test_findings_are_bounded_and_the_first_failures_are_kept(tmp_path: Path) -> None:
    events = random_events(5, processes=5, steps=400, execution="a")
    failing = [event for event in History(events).order() if event.attributes.get("level") == "error"]

    case = cut_by_hand([events], tmp_path, blocks=6, limit=2, held_max=40)

    for block in case.found["a"]:
        assert all(len(block[kind]) <= 2 for kind in ("causal", "fifo", "failures"))
    assert sum(block["failures_total"] for block in case.found["a"]) == len(failing)
    first = sorted(tuple(failure) for block in case.found["a"] for failure in block["failures"])[:2]
    processes = case.histories["a"].processes
    assert [(processes[member], index) for _, _, member, index in first] == [
        (e.process, e.index) for e in failing[:2]
    ]


def test_queries_of_a_directory_equal_those_of_the_history_in_memory(case: Case) -> None:
    stored = StoredHistory.open(case.path)
    for execution, history in case.histories.items():
        random = Random(execution)
        events = list(history.columns.events)
        assert list(stored.order(execution=execution)) == list(history.order())
        for event in random.sample(events, min(8, len(events))):
            assert stored.stamp(event) == history.stamp(event)
            assert stored.explain(event, last=9) == history.explain(event, last=9)
            other = random.choice(events)
            assert stored.compare(event, other) == history.compare(event, other)
            assert stored.chain(event, other) == history.chain(event, other)
            assert stored.reasons(stored.chain(event, other)) == history.reasons(history.chain(event, other))
            _same_cut(stored.cut_after(event, other), history.cut_after(event, other))
            cut = {p: random.randint(0, 40) for p in history.processes}
            _same_cut(stored.describe(cut, execution=execution), history.cut(cut))
            time = event.time if event.time is not None else 1_000_500
            _same_cut(stored.cut_at(time, execution=execution), history.cut_at(time))


def _same_cut(found: Cut, expected: Cut) -> None:
    assert (found.cut, found.front, found.consistent) == (expected.cut, expected.front, expected.consistent)
    assert sorted(found.in_flight) == sorted(expected.in_flight)
    assert sorted(found.unreceived) == sorted(expected.unreceived)


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.rglob("*.parquet")) for row in pq.read_table(file).to_pylist()]
