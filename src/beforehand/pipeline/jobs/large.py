"""Large executions: match messages, cut, summarize, scan, replay.

1. Match sends and receives by one shuffle: `messages/`.
2. Cut the execution into blocks at consistent cuts, about equally large by corrected clocks. Wrong clocks make blocks
   uneven, never wrong.
3. Bring events to their blocks by a second shuffle; each block is put right by itself (a cycle lies inside one block,
   for no message goes back across a consistent cut) and summarized without knowing what came before it.
4. The driver scans the summaries in order: the true stamps where every block begins.
5. Replay the blocks from there, all at once, and write `events/`.

So stamps equal those of one replay in order, and nothing but the scan goes block by block. That an event's id occurs
twice is found in step 3 only: `DuplicateEventsError` asks the caller to remove those and come again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from beforehand.history.measures import TIME_MAX
from beforehand.pipeline import cutting
from beforehand.pipeline.blocking import Cells, block_rows, cells, is_packable, keyed, member_table
from beforehand.pipeline.census import BLOCK_EVENTS, Large
from beforehand.pipeline.cutting import Clocking
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.iterate import consistent_cuts
from beforehand.pipeline.jobs.running import run_over, run_tasks
from beforehand.pipeline.jobs.scanning import scan_blocks
from beforehand.pipeline.matching import message_ends
from beforehand.pipeline.paths import to_read, to_write
from beforehand.pipeline.progress import Progress
from beforehand.pipeline.schemas import (
    BLOCK,
    CYCLE,
    INDEX,
    MEMBER,
    MESSAGE,
    MESSAGE_TABLE,
    NUMBER,
    OUTCOME,
    POSITION,
    RECEIVE_INDEX,
    RECEIVE_TIME,
    RECEIVED,
    RECEIVER,
    RECEIVERS,
    SEND_INDEX,
    SEND_TIME,
    SENDER,
    SPREAD,
    TIME,
    UNSENT,
    spark_type,
)
from beforehand.pipeline.tasks.chains import follow_chains
from beforehand.pipeline.tasks.match import match_messages
from beforehand.pipeline.tasks.replay import replay_blocks
from beforehand.pipeline.tasks.stage import stage_blocks
from beforehand.pipeline.tasks.staging import LargeInfo, Staging

__all__ = ["DuplicateEventsError", "LargeOutcome", "analyze_large"]

Integers = npt.NDArray[np.int64]

RECUTS_MAX: Final = 3
"""How often blocks that are too large are cut again."""

HELD_EVENTS_MAX: Final = 2 * BLOCK_EVENTS
"""Events of a block that a task holds in memory; a larger one goes through files."""

MATCH_EVENTS: Final = 400_000
"""Events whose messages one task matches."""


class DuplicateEventsError(Exception):
    """An event's id occurs twice, which only sorting them all could tell: the caller removes them and comes again."""


@dataclass(slots=True)
class LargeOutcome:
    """What was found, bounded: of each block at most `limit` findings of a kind."""

    larges: list[LargeInfo]
    found: list[dict[str, Any]] = field(default_factory=list)  # Per block, see tasks/replay.py.
    rounds: int = 0
    blocks: int = 0
    depth: int | None = None  # The largest Lamport time, if these were asked for.
    in_flight_max: int = 0
    notes: list[str] = field(default_factory=list)


def analyze_large(
    spark: SparkSession,
    events: DataFrame,
    larges: list[Large],
    *,
    staging: Staging,
    directory: Directory,
    limit: int,
    progress: Progress,
    lamport: bool = False,
) -> LargeOutcome:
    """Write `events/`, `cuts/` and `messages/` of the large executions. `events` are SOURCED."""
    members = spark.createDataFrame(member_table(larges))
    mine = keyed(events, members)
    total = sum(large.events for large in larges)
    with progress.step("match sends and receives", rows=total):
        target = str(directory.messages / "large")
        (directory.messages / "large").mkdir()
        parts = max(total // MATCH_EVENTS, 2 * spark.sparkContext.defaultParallelism)
        names = [list(large.processes) for large in larges]
        matching = match_messages(directory, [large.execution for large in larges], names)
        run_over(message_ends(mine, partitions=parts), matching)
    messages = spark.read.schema(spark_type(MESSAGE_TABLE)).parquet(to_read(target))
    edges = messages.where(F.col(OUTCOME) == RECEIVED).select(
        NUMBER, SENDER, SEND_INDEX, RECEIVER, RECEIVE_INDEX, F.try_subtract(RECEIVE_TIME, SEND_TIME).alias("delay")
    )
    outcome = LargeOutcome([])
    with progress.step("find consistent cuts", rows=total):
        cuts = _cuts(spark, mine, edges, larges, outcome)
    bases = np.concatenate([[0], np.cumsum([cuts[large.number].shape[0] + 1 for large in larges])]).tolist()
    outcome.blocks = bases[-1]
    outcome.larges = [
        LargeInfo(
            large.number,
            large.execution,
            list(large.processes),
            bases[at],
            bases[at + 1] - bases[at],
            large.small_indexes,
        )
        for at, large in enumerate(larges)
    ]
    staging.write_plan(outcome.larges)
    for large in larges:
        begin = np.zeros((1, large.width), np.int64)
        staging.write_cuts(large.number, np.concatenate([begin, cuts[large.number]]))
    found = cells(larges, [cuts[large.number] for large in larges], bases[:-1])
    lookup = spark.createDataFrame(found.table)
    _write_leaving(edges, found, lookup, staging, outcome.blocks)
    with progress.step("bring events to their blocks and summarize them", rows=total):
        partitions = min(outcome.blocks, max(total // BLOCK_EVENTS, 2 * spark.sparkContext.defaultParallelism))
        rows = block_rows(
            mine, messages, found, lookup, blocks=outcome.blocks, partitions=partitions, packable=is_packable(larges)
        )
        staged = run_over(rows, stage_blocks(staging, lamport=lamport, held_max=HELD_EVENTS_MAX))
    if any(block["duplicates"] for block in staged):
        raise DuplicateEventsError
    with progress.step("scan the blocks", rows=outcome.blocks):
        outcome.in_flight_max = scan_blocks(outcome.larges, staging, directory)
    if lamport:
        with progress.step("follow the longest chains", rows=total):
            done = run_tasks(spark, len(larges), follow_chains(staging, outcome.larges))
            outcome.depth = max(large["depth"] for large in done)
    with progress.step("replay the blocks and write events", rows=total):
        streamed = frozenset(block["block"] for block in staged if block["streamed"])
        task = replay_blocks(staging, directory, limit=limit, lamport=lamport, streamed=streamed)
        replayed = run_tasks(spark, outcome.blocks, task)
        outcome.found = sorted(replayed, key=lambda block: int(block["block"]))
    assert sum(block["events"] for block in outcome.found) == total
    if any(block["cycles"] for block in staged):
        _leave_out_cycles(spark, messages, staging, target)
    _note_large_blocks(outcome, larges)
    return outcome


# Cuts.


def _cuts(
    spark: SparkSession, events: DataFrame, edges: DataFrame, larges: list[Large], outcome: LargeOutcome
) -> dict[int, Integers]:
    cut = [large for large in larges if large.blocks > 1]
    chosen = {large.number: np.empty((0, large.width), np.int64) for large in larges}
    if not cut:
        return chosen
    clocks = _clocks(edges, cut)
    first = _first_cuts(spark, events, cut, clocks)
    settled, outcome.rounds = consistent_cuts(edges, first)
    chosen |= {large.number: cutting.tidied(large, settled[large.number]) for large in cut}
    for _ in range(RECUTS_MAX):
        more = {}
        for large in cut:
            more[large.number] = _within_large_blocks(large, chosen[large.number])
        if not any(of.shape[0] for of in more.values()):
            break
        settled, rounds = consistent_cuts(edges, more)
        outcome.rounds += rounds
        for large in cut:
            # New cuts lie between the old ones, which are consistent cuts inside them: all of them are one chain.
            both = np.concatenate([chosen[large.number], settled[large.number]])
            chosen[large.number] = cutting.tidied(large, np.sort(both, axis=0))
    return chosen


def _within_large_blocks(large: Large, cuts: Integers) -> Integers:
    target = large.events / large.blocks
    low = np.maximum(large.first_index - 1, 0)
    ends = [low, *cuts, large.last_index]
    more = [
        cutting.index_quantiles(ends[block], ends[block + 1], count)
        for block, count in cutting.too_large(large, cuts, target=target)
    ]
    return np.concatenate(more) if more else np.empty((0, large.width), np.int64)


def _clocks(edges: DataFrame, larges: list[Large]) -> dict[int, Clocking]:
    usable = F.col("delay").between(-TIME_MAX, TIME_MAX)
    # At most a row per pair of processes.
    pairs = (
        edges.groupBy(NUMBER, SENDER, RECEIVER)
        .agg(F.min(F.when(usable, F.col("delay")).cast("double")).alias("delay"))
        .toArrow()
    )
    number = pairs[NUMBER].to_numpy()
    result = {}
    for large in larges:
        own = number == large.number
        result[large.number] = cutting.clocking(
            large,
            pairs[SENDER].to_numpy()[own],
            pairs[RECEIVER].to_numpy()[own],
            pairs["delay"].to_numpy(zero_copy_only=False).astype(np.float64)[own],
        )
    return result


def _first_cuts(
    spark: SparkSession, events: DataFrame, larges: list[Large], clocks: dict[int, Clocking]
) -> dict[int, Integers]:
    """Cuts at instants that make blocks equal, by corrected clocks: one pass over the times of all events."""
    grids = {
        large.number: cutting.grid(large, clocks[large.number], large.first_time, large.last_time) for large in larges
    }

    def per_process(of: Callable[[Large], Integers]) -> pa.Array:
        return pa.array(np.concatenate([of(large).astype(np.int64) for large in larges]))

    table = pa.table(
        {
            NUMBER: per_process(lambda large: np.full(large.width, large.number)).cast(pa.int32()),
            MEMBER: per_process(lambda large: np.arange(large.width)).cast(pa.int32()),
            "low": per_process(lambda large: grids[large.number].low + clocks[large.number].offset),
            "width": per_process(lambda large: grids[large.number].width),
            "steps": per_process(lambda large: np.full(large.width, grids[large.number].steps)),
        }
    )
    # As doubles: far-off clocks would not fit 64 bits, and a cut need not be exact.
    passed = (F.col(TIME).cast("double") - F.col("low").cast("double")) / F.col("width")
    step = F.greatest(F.least(passed, (F.col("steps") - 1).cast("double")), F.lit(0.0))
    # At most a row per process and step of the grid.
    steps = (
        events.where(F.col(TIME).between(-TIME_MAX, TIME_MAX))
        .join(F.broadcast(spark.createDataFrame(table)), on=[NUMBER, MEMBER], how="inner")
        .groupBy(NUMBER, MEMBER, F.floor(step).cast("int").alias("step"))
        .agg(F.count("*").alias("count"), F.min(INDEX).alias(INDEX))
        .toArrow()
    )
    number = steps[NUMBER].to_numpy()
    result = {}
    for large in larges:
        own = number == large.number
        arrays = [steps[name].to_numpy()[own] for name in (MEMBER, "step", "count", INDEX)]
        result[large.number] = cutting.prefixes(large, clocks[large.number], grids[large.number].steps, *arrays)
    return result


def _write_leaving(edges: DataFrame, found: Cells, lookup: DataFrame, staging: Staging, blocks: int) -> None:
    """The sends whose messages later blocks receive too: what is in flight across some cut, and nothing else."""
    sent = found.block(edges, lookup, member=SENDER, index=SEND_INDEX).withColumnRenamed(BLOCK, "send_block")
    both = found.block(sent, lookup, member=RECEIVER, index=RECEIVE_INDEX)
    crossing = (
        both.where(F.col(BLOCK) > F.col("send_block"))
        .groupBy("send_block", SENDER, SEND_INDEX)
        .agg(F.max(BLOCK).alias("until"))
        .toArrow()
    )
    block = crossing["send_block"].to_numpy().astype(np.int64)
    sender = crossing[SENDER].to_numpy().astype(np.int32)
    send, until = crossing[SEND_INDEX].to_numpy(), crossing["until"].to_numpy().astype(np.int64)
    by = np.lexsort((send, sender, block))
    start = np.searchsorted(block[by], np.arange(blocks + 1)).astype(np.int64)
    staging.write_leaving(start, sender[by], send[by], until[by])


# Afterwards.


def _leave_out_cycles(spark: SparkSession, messages: DataFrame, staging: Staging, target: str) -> None:
    """Messages that turned out to be in a cycle get that outcome: write their table again."""
    left_out = spark.read.parquet(to_read(staging.folder("cycles"))).select(
        NUMBER, RECEIVER, RECEIVE_INDEX, POSITION, F.lit(True).alias("in_cycle")
    )
    judged = messages.join(F.broadcast(left_out), on=[NUMBER, RECEIVER, RECEIVE_INDEX, POSITION], how="left")
    outcome = F.when(F.col("in_cycle") & (F.col(OUTCOME) == RECEIVED), F.lit(CYCLE)).otherwise(F.col(OUTCOME))
    again = f"{target}-again"
    told = _figures_told_anew(judged.withColumn(OUTCOME, outcome))
    told.select(*MESSAGE_TABLE.names).write.parquet(to_write(again))
    shutil.rmtree(target)
    shutil.move(again, target)


def _figures_told_anew(messages: DataFrame) -> DataFrame:
    """Receives in cycles are none: of these messages, `receivers` and `spread` count the others only.

    `messages` has `in_cycle`. They are few, so what is known of them is broadcast; does not shuffle the others.
    """
    looped = messages.where(F.col("in_cycle")).select(NUMBER, MESSAGE).distinct()
    mine = messages.join(F.broadcast(looped), on=[NUMBER, MESSAGE], how="left_semi")
    usable = F.abs(RECEIVE_TIME) < TIME_MAX
    timed = F.when((F.col(OUTCOME) == RECEIVED) & usable & (F.abs(SEND_TIME) < TIME_MAX), F.col(RECEIVE_TIME))
    figures = mine.groupBy(NUMBER, MESSAGE).agg(
        F.count(F.when(F.col(OUTCOME).isin(RECEIVED, UNSENT), 1)).cast("int").alias("kept"),
        (F.max(timed) - F.min(timed)).alias("apart"),
    )
    stands_here = F.col("kept").isNotNull() & F.col(RECEIVERS).isNotNull()
    return (
        messages.join(F.broadcast(figures), on=[NUMBER, MESSAGE], how="left")
        .withColumn(SPREAD, F.when(stands_here, F.col("apart")).otherwise(F.col(SPREAD)))
        .withColumn(RECEIVERS, F.when(stands_here, F.col("kept")).otherwise(F.col(RECEIVERS)))
    )


def _note_large_blocks(outcome: LargeOutcome, larges: list[Large]) -> None:
    events = {block["block"]: block["events"] for block in outcome.found}
    streamed = {block["block"] for block in outcome.found if block["streamed"]}
    for info, large in zip(outcome.larges, larges, strict=True):
        target = large.events / large.blocks
        number = max(range(info.base, info.base + info.blocks), key=lambda block: events.get(block, 0))
        largest = events.get(number, 0)
        how = "streamed it through files" if number in streamed else "replayed it"
        if largest > max(2 * target, 2) and large.blocks > 1:
            outcome.notes.append(
                f"execution {info.execution!r}: a block of {largest} events could not be cut any further "
                f"(blocks should have {int(target)}); one task {how}"
            )
