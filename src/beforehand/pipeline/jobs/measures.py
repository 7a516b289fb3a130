"""Measures of a whole analysis: clocks, synchrony, delays, hidden channels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from beforehand.events import EventId
from beforehand.history.measures import HIDDEN_MAX, TIME_MAX
from beforehand.history.offsets import PROCESSES_MAX, Offsets, clock_bounds
from beforehand.pipeline.measuring import bin_bounds, delay_bins, delays, message_counts, pair_delays
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    EXECUTION,
    INDEX,
    PROCESS,
    RECEIVE_PROCESS,
    SEND_PROCESS,
    STORED,
    TIME,
    spark_type,
)
from beforehand.pipeline.stored import StoredHistory

__all__ = ["hidden_channels", "measure_messages"]

PAIRS_MAX: Final = 1_000_000
"""Pairs of processes whose delays the driver receives."""

DISTANCE_PROCESSES_MAX: Final = 1_000


def measure_messages(messages: DataFrame, notes: list[str]) -> tuple[dict[str, Any], Offsets | None]:
    """What the messages tell: counts, clocks, synchrony, delays, lateness. Keys as in report.json."""
    counts = message_counts(messages).first()
    assert counts is not None
    delayed = delays(messages)
    # At most PAIRS_MAX rows, and then a few hundred bins.
    pairs = pair_delays(delayed).limit(PAIRS_MAX + 1).toArrow()
    bins = delay_bins(delayed).toArrow()
    numbered = sorted(zip(bins["bin"].to_pylist(), bins["count"].to_pylist(), strict=True))
    with_times = sum(count for _, count in numbered)
    sent = int(counts["receives"]) - int(counts["unsent"])
    if with_times < sent:
        notes.append(f"{sent - with_times} receives lack a usable time at one end")
    notes.append(
        "delays are on raw clocks: the offsets between clocks count in"
        if with_times
        else "no message has times at both ends: delays, synchrony and clock offsets are unknown"
    )
    offsets = _offsets(pairs, notes)
    least, greatest = pairs["least"].to_numpy(), pairs["greatest"].to_numpy()
    report: dict[str, Any] = {
        "messages": int(counts["messages"]),
        "receives": int(counts["receives"]),
        "unreceived": int(counts["unreceived"]),
        "unsent": int(counts["unsent"]),
        "inferred": int(counts["inferred"]),
        "unsent_real": int(counts["unsent_real"]),
        "synchrony": {
            "tightness_ns": counts["tightness"] if with_times else None,
            "steadiness_ns": _steadiness(pairs),
            "uncertainty_ns": int(greatest.max()) - int(least.min()) if with_times else None,
        },
        "clocks": {}
        if offsets is None
        else {
            process: {"offset_min_ns": bound.offset_min_ns, "offset_max_ns": bound.offset_max_ns}
            for process, bound in offsets.per_process.items()
        },
        "references": [] if offsets is None else list(offsets.references),
        "epsilon": {
            "min_ns": None if offsets is None else offsets.epsilon_min_ns,
            "max_ns": None if offsets is None else offsets.epsilon_max_ns,
        },
        "delta_ns": max(0, int(greatest.max())) if with_times else None,
        "delays": {"count": with_times, "histogram": [[*bin_bounds(at), count] for at, count in numbered]},
        "lateness": _lateness(numbered, with_times),
    }
    return report, offsets


def _offsets(pairs: Any, notes: list[str]) -> Offsets | None:
    if pairs.num_rows > PAIRS_MAX:
        notes.append(f"more than {PAIRS_MAX} pairs of processes exchanged messages: clocks were not bounded")
        return None
    senders, receivers = pairs[SEND_PROCESS].to_pylist(), pairs[RECEIVE_PROCESS].to_pylist()
    processes = sorted({*senders, *receivers})
    if len(processes) > PROCESSES_MAX:
        notes.append(
            f"{len(processes)} processes are more than {PROCESSES_MAX}: the offsets of their clocks were not bounded"
        )
        return None
    position = {process: at for at, process in enumerate(processes)}
    offsets = clock_bounds(
        processes,
        np.array([position[process] for process in senders], np.int32),
        np.array([position[process] for process in receivers], np.int32),
        pairs["least"].to_numpy().astype(np.int64),
        pairs["count"].to_numpy().astype(np.int64),
    )
    notes += offsets.notes
    return offsets


def _steadiness(pairs: Any) -> int | None:
    """The most that delivery times to one process differ."""
    longest: dict[str, int] = {}
    shortest: dict[str, int] = {}
    rows = zip(
        pairs[RECEIVE_PROCESS].to_pylist(), pairs["least"].to_pylist(), pairs["greatest"].to_pylist(), strict=True
    )
    for process, least, greatest in rows:
        longest[process] = max(greatest, longest.get(process, greatest))
        shortest[process] = min(least, shortest.get(process, least))
    return max((longest[process] - shortest[process] for process in longest), default=None)


def _lateness(numbered: list[tuple[int, int]], total: int) -> list[dict[str, float]]:
    """With δ at the end of each bin, the share of messages that would have been late."""
    points = []
    later = total
    for number, count in numbered:
        later -= count
        if number >= 0 or later == 0:
            points.append({"delta_ns": max(0, bin_bounds(number)[1]), "late": later / total})
    return points


def hidden_channels(
    spark: SparkSession, stored: StoredHistory, paths: list[str], offsets: Offsets | None, notes: list[str]
) -> list[dict[str, Any]]:
    """Of large executions: events on one resource, surely one after the other by the clocks, and yet concurrent."""
    if not paths or offsets is None or not offsets.per_process:
        return []
    processes = list(offsets.per_process)
    if len(processes) > DISTANCE_PROCESSES_MAX:
        notes.append("hidden channels: too many processes to bound every pair of clocks; not looked for")
        return []
    rows = [
        (p, q, float(offsets.distance[i, j]))
        for i, p in enumerate(processes)
        for j, q in enumerate(processes)
        if i != j and np.isfinite(offsets.distance[i, j])
    ]
    if not rows:
        return []
    distances = spark.createDataFrame(rows, "earlier_process string, process string, distance double")
    events = spark.read.schema(spark_type(STORED)).parquet(*paths)
    resource = F.element_at(ATTRIBUTES, "resource")
    touching = events.where(F.coalesce(resource, F.lit("")) != "").where(F.col(TIME).between(-TIME_MAX, TIME_MAX))
    in_time = Window.partitionBy(EXECUTION, "resource").orderBy(TIME, PROCESS, INDEX)
    pairs = touching.select(EXECUTION, PROCESS, INDEX, TIME, resource.alias("resource")).select(
        "*", F.lag(F.struct(PROCESS, INDEX, TIME)).over(in_time).alias("earlier")
    )
    apart = (
        pairs.where(F.col(f"earlier.{PROCESS}") != F.col(PROCESS))
        .select("*", F.col(f"earlier.{PROCESS}").alias("earlier_process"))
        .join(F.broadcast(distances), on=["earlier_process", PROCESS], how="inner")
        .select("*", (F.try_subtract(F.col(TIME), F.col(f"earlier.{TIME}")) - F.col("distance")).alias("apart"))
        .where(F.col("apart") > 0)
        .orderBy(EXECUTION, "resource", TIME, PROCESS, INDEX)
        .limit(HIDDEN_MAX + 1)
        .collect()
    )
    if len(apart) > HIDDEN_MAX:
        notes.append(f"hidden channels: more than {HIDDEN_MAX} suspects, the first are looked at")
    found = []
    for row in apart[:HIDDEN_MAX]:
        earlier = EventId(row[EXECUTION], row["earlier_process"], row["earlier"][INDEX])
        later = EventId(row[EXECUTION], row[PROCESS], row[INDEX])
        if stored.relate(earlier, later).relation == "concurrent":
            found.append(
                {
                    "resource": row["resource"],
                    "earlier": str(earlier),
                    "later": str(later),
                    "apart_ns": int(row["apart"]),
                }
            )
    return found
