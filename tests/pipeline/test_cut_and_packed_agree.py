"""What an analysis says does not depend on whether executions were packed whole or cut into blocks: every table and
every figure, with few witnesses kept, with events of one process in several files, and twice the same event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analyses import Analysis
from beforehand.events import Event
from beforehand.formats import write_events
from beforehand.pipeline.jobs.analyze import Settings, analyze
from history_directories import random_events, untidy

LIMIT = 4


def _dense() -> list[Event]:
    """Without gaps or anything broken."""
    return [
        event
        for seed in range(3)
        for event in random_events(seed, processes=4, steps=150, skew_ns=2_000, untimed=0.1, execution=f"run {seed}")
    ]


def _broken() -> list[Event]:
    """With gaps, so that no count tells that events are there twice; they differ from the first in what they send."""
    events = untidy(random_events(7, processes=5, steps=200, gap=3, execution="gaps"), 3)
    again = [replace(event, sends=(f"again-{at}",), name="again") for at, event in enumerate(events[40:160:30])]
    return [*events, *again, *untidy(random_events(8, processes=3, steps=120, execution="untidy"), 5)]


@pytest.fixture(scope="module", params=["dense", "broken"])
def packed_and_cut(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Analysis, Analysis]:
    folder = tmp_path_factory.mktemp(str(request.param))
    events = _dense() if request.param == "dense" else _broken()
    # The later half comes first in the order of files, where only the index says what is later.
    write_events(events[len(events) // 2 :], folder / "a.jsonl")
    write_events(events[: len(events) // 2], folder / "b.jsonl")
    found = []
    for name, blocks in (("packed", None), ("cut", 6)):
        settings = Settings(blocks=blocks, witnesses=LIMIT, lamport=True)
        report = analyze([str(folder / "a.jsonl"), str(folder / "b.jsonl")], folder / name, settings)
        found.append(Analysis(report, folder / name))
    return found[0], found[1]


def test_events_are_the_same(packed_and_cut: tuple[Analysis, Analysis]) -> None:
    packed, cut = (
        [{**event, "block": 0, "sources": _named(event["sources"])} for event in found.events]
        for found in packed_and_cut
    )

    assert cut == packed


def _named(sources: list[dict[str, Any]]) -> list[tuple[int, int | None]]:
    return [(source["sender"], source["send_index"]) for source in sources]


def test_messages_are_the_same(packed_and_cut: tuple[Analysis, Analysis]) -> None:
    figures = ("number", "receivers", "spread")
    packed, cut = (
        Counter(tuple((k, v) for k, v in sorted(row.items()) if k not in figures) for row in _rows(found, "messages"))
        for found in packed_and_cut
    )

    assert cut == packed


def test_every_message_has_its_figures_once(packed_and_cut: tuple[Analysis, Analysis]) -> None:
    packed, cut = (
        sorted(
            (row["execution"], row["message"], row["receivers"], row["spread"])
            for row in _rows(found, "messages")
            if row["receivers"]
        )
        for found in packed_and_cut
    )

    assert cut == packed
    assert len({row[:2] for row in cut}) == len(cut)


def test_what_was_refused_is_the_same(packed_and_cut: tuple[Analysis, Analysis]) -> None:
    packed, cut = (
        Counter((row["reason"], row["detail"], tuple(row["events"]), row["message"]) for row in found.rejected)
        for found in packed_and_cut
    )

    assert cut == packed


@pytest.mark.parametrize(
    "key",
    [
        *("events", "processes", "executions", "messages", "receives", "unreceived", "unsent", "inferred"),
        *("rejected_reasons", "processes_table", "failures_total", "failures", "violations", "depth"),
        *("clocks", "references", "epsilon", "delta_ns", "delays", "lateness", "synchrony"),
    ],
)
def test_figures_of_the_report_are_the_same(packed_and_cut: tuple[Analysis, Analysis], key: str) -> None:
    packed, cut = packed_and_cut

    assert cut.report[key] == packed.report[key]


def test_concurrency_is_the_same_or_said_to_be_unknown_for_gaps(packed_and_cut: tuple[Analysis, Analysis]) -> None:
    packed, cut = (found.report["concurrency"] for found in packed_and_cut)
    has_gaps = any(row["gaps"] for row in packed_and_cut[0].report["processes_table"])

    assert packed is not None
    assert cut == (None if has_gaps else packed)


def test_few_witnesses_are_the_first_ones_and_there_are_no_more(packed_and_cut: tuple[Analysis, Analysis]) -> None:
    _, cut = packed_and_cut
    per_kind = Counter((row["execution"], row["kind"]) for row in _rows(cut, "violations") if row["kind"] != "clock")

    assert max(per_kind.values(), default=0) <= LIMIT
    assert len(cut.report["failures"]) == min(LIMIT, cut.report["failures_total"])
    assert [note for note in cut.report["notes"] if f", {LIMIT} are listed" in note]


def test_members_tell_the_first_and_the_last_index_and_the_number_of_events(
    packed_and_cut: tuple[Analysis, Analysis],
) -> None:
    packed, cut = packed_and_cut
    indexes: dict[tuple[str, str], list[int]] = {}
    for event in packed.events:
        indexes.setdefault((event["execution"], event["process"]), []).append(event["index"])

    members = pq.read_table(cut.path / "cuts" / "members.parquet").to_pylist()

    assert {
        (row["execution"], row["process"]): (row["first_index"], row["last_index"], row["events"]) for row in members
    } == {process: (min(own), max(own), len(own)) for process, own in indexes.items()}


def test_a_directory_has_what_its_page_says_and_nothing_else(packed_and_cut: tuple[Analysis, Analysis]) -> None:
    named = {"manifest.json", "report.json", "report.html", "events", "messages", "violations", "rejected", "cuts"}
    for found in packed_and_cut:
        assert {path.name for path in found.path.iterdir()} == named
        assert not [path for path in found.path.rglob("*") if path.name.startswith((".", "_"))]


def _rows(found: Analysis, table: str) -> list[dict[str, Any]]:
    return [
        row for file in sorted((found.path / table).rglob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]
