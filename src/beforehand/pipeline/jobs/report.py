"""report.json and report.html: what was found, for programs and for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from beforehand import __version__
from beforehand.diagram import LayoutOptions, Marks
from beforehand.diagram.page.figure import Figure, figure
from beforehand.events import INDEX_MAX, Event
from beforehand.history.checks import inferred_note
from beforehand.history.judging import Judged, judged_clocks, judged_notes, judged_orders, known_counts
from beforehand.pipeline.census import COUNT, LAST, profile
from beforehand.pipeline.documents import event_record
from beforehand.pipeline.jobs.findings import Findings
from beforehand.pipeline.paths import to_read
from beforehand.pipeline.report import report_page
from beforehand.pipeline.schemas import (
    DETAIL,
    FILE,
    LINE,
    OFFSET,
    PROCESS,
    REASON,
    RECEIVES,
    SENDS,
    STORED,
    TEXT,
    spark_type,
)
from beforehand.pipeline.stored import StoredHistory
from beforehand.pipeline.stored.checking import found_violations, violating
from beforehand.pipeline.stored.naming import failure_id, id_within

__all__ = ["write_report"]

EXPLAINED_MAX: Final = 10
"""Failures that are explained, and violations that are drawn."""

PROCESSES_MAX: Final = 500
EXAMPLES_MAX: Final = 20
DRAWN_EVENTS: Final = 30


def write_report(
    spark: SparkSession,
    stored: StoredHistory,
    findings: Findings,
    measured: Mapping[str, Any],
    profiled: DataFrame,
    *,
    seconds: Mapping[str, float],
    last: int,
) -> dict[str, Any]:
    """Write both; gives what report.json has."""
    reasons, examples = _rejected(spark, stored)
    if "duplicate-event" in reasons:  # The census was taken before they were left out.
        events = spark.read.schema(spark_type(STORED)).parquet(to_read(stored.directory.events))
        profiled = profile(events)
    processes, table, gaps = _processes(profiled)
    notes = findings.notes
    concurrency = None
    if stored.manifest.cut_executions and _has_gaps(stored):
        notes.append("concurrency: there are gaps in the indexes of a large execution; not counted")
    elif findings.pairs and findings.past is not None:
        concurrency = 1.0 - findings.past / findings.pairs
    if gaps:
        shown = ", ".join(f"{process} ({count})" for process, count in gaps[:5]) + (", …" if len(gaps) > 5 else "")
        notes.append(f"indexes without an event, per process: {shown}")
    witnesses = _witnesses(stored, findings.limit)
    judged = _judged(findings, measured)
    violations = known_counts({kind: findings.counts[kind] for kind in judged}, judged)
    if findings.total_unjudged:  # Of some execution; what was found in others is no count of all.
        violations["total"] = None
    if 0 < measured["inferred"] < measured["receives"]:
        notes.append(inferred_note(measured["inferred"]))
    # Where total order was given up, a note says so already.
    notes += judged_notes(
        {kind: one for kind, one in judged.items() if kind != "total" or not findings.total_unjudged}
    )
    report: dict[str, Any] = {
        "events": findings.events,
        "processes": processes,
        "executions": findings.executions,
        **{key: measured[key] for key in ("messages", "receives", "unreceived", "unsent")},
        "rejected": sum(reasons.values()),
        "failures": _failures(stored, findings, last),
        "failures_total": findings.failures_total,
        "violations": violations,
        "judged": {kind: one.document() for kind, one in judged.items()},
        "witnesses": witnesses,
        **{
            key: measured[key]
            for key in ("synchrony", "clocks", "references", "epsilon", "delta_ns", "delays", "lateness", "inferred")
        },
        "concurrency": concurrency,
        "depth": findings.depth,
        "hidden_channels": findings.hidden,
        "processes_table": table,
        "rejected_reasons": reasons,
        "rejected_examples": examples,
        "inputs": stored.manifest.inputs,
        "notes": notes,
        "seconds": {step: round(taken, 3) for step, taken in seconds.items()},
        "version": __version__,
    }
    stored.directory.report.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    page = report_page(report, _pictures(stored, report))
    stored.directory.page.write_text(page, encoding="utf-8")
    return report


def _judged(findings: Findings, measured: Mapping[str, Any]) -> dict[str, Judged]:
    judged = judged_orders(
        receives=measured["receives"], inferred=measured["inferred"], unsent=measured["unsent_real"]
    )
    if findings.total_unjudged:
        judged["total"] = Judged(0, judged["total"].of, findings.total_unjudged)
    return judged | {"clock": judged_clocks(events=findings.events, clocks=findings.clocks)}


def _has_gaps(stored: StoredHistory) -> bool:
    """Whether an execution that was cut into blocks has indexes without an event."""
    members = pq.read_table(stored.directory.cuts / "members.parquet", columns=["last_index", "events"])
    return bool(pc.any(pc.greater(members["last_index"], members["events"])).as_py())


def _processes(profiled: DataFrame) -> tuple[int, list[dict[str, Any]], list[tuple[str, int]]]:
    """How many processes, the busiest of them, and those with gaps."""
    per_process = profiled.groupBy(PROCESS).agg(
        F.sum(COUNT).alias("events"),
        F.sum(SENDS).alias(SENDS),
        F.sum(RECEIVES).alias(RECEIVES),
        F.min("first_time").alias("first_time"),
        F.max("last_time").alias("last_time"),
        # Indexes may be so large that their sum is beyond 64 bits.
        F.least(F.sum(F.greatest(F.col(LAST) - F.col(COUNT), F.lit(0)).cast("decimal(20,0)")), F.lit(INDEX_MAX))
        .cast("long")
        .alias("gaps"),
    )
    count = per_process.count()
    busiest = per_process.orderBy(F.desc("events"), PROCESS).limit(PROCESSES_MAX).collect()
    table = [row.asDict() for row in busiest]
    gaps = per_process.where(F.col("gaps") > 0).orderBy(F.desc("gaps"), PROCESS).limit(20).collect()
    return count, table, [(row[PROCESS], row["gaps"]) for row in gaps]


def _rejected(spark: SparkSession, stored: StoredHistory) -> tuple[dict[str, int], list[dict[str, Any]]]:
    folder = stored.directory.rejected / "all"
    if not folder.exists():
        return {}, []
    rejected = spark.read.parquet(to_read(folder))
    # Reasons are a few fixed words.
    reasons = {row[REASON]: row["count"] for row in rejected.groupBy(REASON).count().orderBy(REASON).collect()}
    place = (FILE, LINE, OFFSET, REASON, DETAIL)
    within = (
        Window.partitionBy(REASON).orderBy(*place, TEXT).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # One of each reason, or many of one kind would hide the others; then the first ones.
    chosen = rejected.withColumn("rank", F.row_number().over(within)).where(F.col("rank") <= EXAMPLES_MAX)
    first = chosen.orderBy(F.col("rank") > 1, *place, TEXT).limit(EXAMPLES_MAX).orderBy(*place, TEXT).collect()
    return reasons, [{name: row[name] for name in (REASON, DETAIL, FILE, LINE, TEXT)} for row in first]


def _witnesses(stored: StoredHistory, limit: int) -> list[dict[str, Any]]:
    return list(islice(found_violations(stored.directory), 4 * limit))


def _failures(stored: StoredHistory, findings: Findings, last: int) -> list[dict[str, Any]]:
    result = []
    for at, (_, _, failed) in enumerate(findings.failures):
        event = stored.event(failed)
        record: dict[str, Any] = {"event": str(failed), **event_record(event), "past": None, "events": None}
        if at < EXPLAINED_MAX:
            explanation = stored.explain(failed, last=last)
            record["past"] = explanation.past
            record["events"] = [event_record(one) for one in explanation.events]
        result.append(record)
    return result


def _pictures(stored: StoredHistory, report: Mapping[str, Any]) -> dict[str, Figure]:
    pictures = {}
    for at, failure in enumerate(report["failures"][:EXPLAINED_MAX]):
        near = stored.around(failure_id(failure), DRAWN_EVENTS)
        pictures[f"failure:{at}"] = _figure([*near.events, *near.beyond], near.marks)
    for at, witness in enumerate(report["witnesses"][:EXPLAINED_MAX]):
        events = [id_within(witness["execution"], event) for event in witness["events"]]
        near = stored.around(events[-1], DRAWN_EVENTS)
        shown = {event.id for event in (*near.events, *near.beyond)}
        missing = [stored.event(one) for one in sorted({*events} - shown)]
        wrong, messages = violating([witness], witness["execution"])
        failures = near.marks.failures
        marks = Marks(violating_messages=messages, violations=wrong, failures=failures)
        pictures[f"violation:{at}"] = _figure([*near.events, *near.beyond, *missing], marks)
    return pictures


def _figure(events: list[Event], marks: Marks) -> Figure:
    return figure(events, marks=marks, options=LayoutOptions(events_max=2 * DRAWN_EVENTS))
