"""Real logs and traces through the pipeline: the counts of their README, and every reported clock confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analyses import Analysis, analyzed
from real_data import DATA, real_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VOLDEMORT = (
    r"\[(?<date>\d{4}-\d{2}-\d{2} (\d{2}:){2}\d{2},\d{3}) (?<path>\S*)\] (?<priority>(INFO|WARN)) (?<event>.*)\n"
    r"(?<host>.*) (?<clock>{.*})"
)
AKKA = r"\[\w+\] \[(?<date>([^ ]+ [^ ]+))\] [^ ]+ \[akka://Broadcast/user/(?<host>\w+)\] (?<clock>.*\}) (?<event>.*)"
FACEBOOK = (
    r"(?<ip>(\d{1,3}\.){3}\d{1,3}) (?<date>(\d{1,2}/){2}\d{4} (\d{2}:){2}\d{2} (AM|PM)) "
    r"(?<action>(INFO|GET|POST)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
)
TSVIZ = r"(?<timestamp>(\d*)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
DELIMITER = "^=== (?<trace>.*) ===$"


# Logs of vector clocks.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "regex", "events", "processes", "received", "left_over"),
    [
        ("shiviz/chord.log", None, 1235, 8, 541, []),
        ("shiviz/simpledb.log", None, 509, 5, 85, []),
        ("shiviz/voldemort.log", VOLDEMORT, 864, 20, 34, [("unmatched", 1)]),
        ("shiviz/reliable-broadcast.log", AKKA, 116, 4, 48, [("unmatched", 11)]),
        ("shiviz/tsviz_shared_var_4_threads.log", TSVIZ, 5000, 4, 548, []),
    ],
)
def test_a_log_has_the_counts_of_its_readme_and_its_clocks_are_confirmed(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    regex: str | None,
    events: int,
    processes: int,
    received: int,
    left_over: list[tuple[str, int]],
) -> None:
    options = {} if regex is None else {"regex": regex}

    analysis = analyzed(real_file(name), tmp_path / "history", **options)

    assert (analysis.report["events"], analysis.report["processes"]) == (events, processes)
    assert sum(bool(event["receives"]) for event in analysis.events) == received
    assert all(event["clock"] for event in analysis.events)
    assert analysis.report["violations"]["clock"] == 0
    assert [reason for reason, _ in analysis.refused(Path(name).name)] == [reason for reason, _ in left_over]
    assert len(analysis.rejected) == len(left_over)


@pytest.mark.slow
def test_logs_of_several_executions(spark: SparkSession, tmp_path: Path) -> None:
    files = [real_file("shiviz/facebook-multiple.log"), real_file("shiviz/multiple-comparison.log")]

    analysis = analyzed(files, tmp_path / "history", regex=FACEBOOK, delimiter=DELIMITER)

    sizes: dict[str, int] = {}
    for event in analysis.events:
        sizes[event["execution"]] = sizes.get(event["execution"], 0) + 1
    assert sorted(sizes.values()) == [8, 8, 8, 8, 8, 41, 47]
    assert analysis.report["violations"]["clock"] == 0
    assert analysis.rejected == []


@pytest.mark.slow
def test_train_ticket_reads_alike_as_a_log_and_as_a_trace(spark: SparkSession, tmp_path: Path) -> None:
    lines = real_file("train-ticket/regex.txt").read_text().split("\n")

    log = analyzed(
        real_file("train-ticket/shiviz.log"), tmp_path / "log", regex=lines[2], delimiter=lines[-1], time_unit="us"
    )
    trace = analyzed(real_file("train-ticket/zipkin-v1.json"), tmp_path / "trace")

    assert (log.report["events"], log.report["processes"], log.report["executions"]) == (314, 16, 1)
    assert trace.report["events"] == 314
    assert log.report["receives"] == trace.report["receives"] == 156
    assert log.report["violations"]["clock"] == 0
    assert log.rejected == trace.rejected == []


# DistributedClocks' tracing.


@pytest.mark.slow
def test_tokens_of_a_tracing_log_are_messages(spark: SparkSession, tmp_path: Path) -> None:
    report = analyzed(real_file("tracing/example2.log"), tmp_path / "history").report

    assert (report["events"], report["messages"], report["receives"]) == (625, 150, 149)
    assert (report["unreceived"], report["unsent"], report["inferred"]) == (1, 0, 0)
    assert report["violations"] == {"fifo": 0, "causal": 0, "total": 0, "clock": 0}


def causes(event: dict[str, Any]) -> tuple[object, ...]:
    sources = sorted((source["sender"], source["send_index"]) for source in event["sources"])
    return (event["process"], event["index"], event["clock"], event["past_size"], sources)


def test_one_run_in_two_formats_agrees_event_by_event(spark: SparkSession, tmp_path: Path) -> None:
    tracing = analyzed(real_file("tracing/echo.log"), tmp_path / "tracing")
    shiviz = analyzed(real_file("tracing/echo-shiviz.log"), tmp_path / "shiviz")

    assert len(tracing.events) == 169
    assert [causes(event) for event in tracing.events] == [causes(event) for event in shiviz.events]
    for event, twin in zip(tracing.events, shiviz.events, strict=True):
        assert twin["name"].startswith(f"{event['attributes']['TraceID']} {event['name']} ")
    assert tracing.report["violations"]["clock"] == shiviz.report["violations"]["clock"] == 0


# Traces, all of them in one analysis.

SPANS = {
    "jaeger/deathstarbench.json": 660,
    "jaeger/jaeger-ui-flamegraph.json": 4,
    "jaeger/jaeger-ui-genai.json": 57,
    "jaeger/jaeger-ui-odd-references.json": 5,
    "otlp/link_attributes_trace.json": 1,
    "otlp/otel_traces_01.json": 4,
    "otlp/proto-example.json": 1,
    "zipkin/messaging-kafka.json": 28,
    "zipkin/skew.json": 4,
    "zipkin/smartthings-oauth-authorization.json": 175,
    "zipkin/yelp.json": 16,
}


@pytest.fixture(scope="module")
def traces(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    real_file("README.md")
    folders = [DATA / "jaeger", DATA / "otlp", DATA / "zipkin"]
    return analyzed(folders, tmp_path_factory.mktemp("traces") / "history")


def test_every_trace_file_has_the_spans_of_its_readme(traces: Analysis) -> None:
    found = {one["path"].removeprefix(f"{DATA}/"): one["events"] for one in traces.report["inputs"]}
    assert {name: count for name, count in found.items() if name in SPANS} == SPANS
    assert found["otlp/example_trace.json"] == 5


def test_traces_give_the_events_of_their_spans(traces: Analysis) -> None:
    sizes: dict[str, int] = {}
    for event in traces.events:
        sizes[event["execution"]] = sizes.get(event["execution"], 0) + 1
    assert sum(sizes.values()) == 1320 + 8 + 114 + 12 + 2 + 16 + 2 + 56 + 8 + 340 + 33 + 20
    assert traces.report["executions"] == len(sizes)


def test_licences_beside_the_traces_are_no_traces_and_said_to_be_so(traces: Analysis) -> None:
    licences = sorted(path.name for folder in ("jaeger", "otlp", "zipkin") for path in (DATA / folder).glob("LIC*"))
    assert sorted(row["file"] for row in traces.rejected if row["reason"] == "unusable-file") == licences


def test_odd_references_are_told(traces: Analysis) -> None:
    reasons = {row["reason"] for row in traces.rejected} - {"unusable-file"}
    assert reasons == {"same-id", "cycle"}
    # 13 file by file; but two of the files have a trace of one id, and what one of them lacks the other has.
    assert any(note.startswith("11 × missing-spans") for note in traces.report["notes"])


def test_the_skew_of_a_real_trace_shows_in_the_clocks(traces: Analysis) -> None:
    clocks = traces.report["clocks"]
    skew = clocks["serviceb@192.0.0.0"]["offset_min_ns"] - clocks["servicea@127.0.0.0"]["offset_min_ns"]
    assert -67_000_000 < skew < -60_000_000
