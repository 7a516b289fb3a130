"""From files to events: parse on Spark, lay spans on lanes, give indexes to events that have none."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.opening import shown_path
from beforehand.formats.spans import Reference, ReferenceKind, Span, executions
from beforehand.pipeline.inputs import UNUSABLE_FILE, InputFile, InputOptions, ParseTask, parse_tasks
from beforehand.pipeline.jobs.running import run_over, run_tasks
from beforehand.pipeline.native_parquet import check_columns, parquet_events, parquet_rejections, read_parquet
from beforehand.pipeline.numbering import mixed_rejections, numbered, split_counts
from beforehand.pipeline.paths import to_read, to_write
from beforehand.pipeline.progress import Progress
from beforehand.pipeline.rejecting import rejection_table
from beforehand.pipeline.schemas import EXECUTION, INDEX, PARSED, SOURCED, STAGED_SPAN, spark_type
from beforehand.pipeline.tables import write_parquet
from beforehand.pipeline.tasks.lanes import lay_spans
from beforehand.pipeline.tasks.parse import parse_inputs
from beforehand.pipeline.tasks.staging import Staging

__all__ = ["Sources", "read_sources"]

JOINS_MAX: Final = 5_000_000
"""Pairs of traces that reference each other: the driver holds them to find which are one execution."""

Problem: TypeAlias = tuple[str | None, str]
"""The file, if it is one, and why it cannot be used."""

BROADCAST_ROWS_MAX: Final = 300_000
SPANS_PER_TASK: Final = 50_000


@dataclass(slots=True)
class Sources:
    """What was read."""

    events: DataFrame  # SOURCED.
    first_line: dict[tuple[int, int], int] = field(default_factory=dict)  # (file, split) -> lines before it.
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)  # (reason, detail) -> how often.
    by_file: Counter[int] = field(default_factory=Counter)  # Events or spans per file.


def read_sources(
    spark: SparkSession, files: list[InputFile], options: InputOptions, *, staging: Staging, progress: Progress
) -> Sources:
    """All events of all files; what was refused is staged."""
    sources = Sources(_empty(spark))
    problems: list[Problem] = [(file.shown, file.problem) for file in files if file.problem is not None]
    tasks = parse_tasks(files, options)
    unnumbered = False
    if tasks:
        with progress.step("read the input", rows=None):
            done = run_tasks(spark, len(tasks), parse_inputs(staging, tasks))
        _count_lines(done, sources)
        problems += _stopped(done, tasks, files)
        unnumbered = any(task["unnumbered"] for task in done)
        spans = sum(task["spans"] for task in done)
        if spans:
            with progress.step("lay spans on lanes", rows=spans):
                _lay_spans(spark, staging, sources, spans=spans, number=len(files))
    frames = []
    if any(staging.folder("parsed").iterdir()):
        parsed = spark.read.schema(spark_type(PARSED)).parquet(to_read(staging.folder("parsed")))
        frames.append(_numbered(parsed, staging) if unnumbered else _as_sourced(parsed))
    whole, broken = _whole_parquet(files)
    problems += broken
    if whole:
        read = read_parquet(spark, whole)
        with progress.step("check the rows of the input"):
            has_bad = _reject_rows(parquet_rejections(read), staging)
        # Without bad rows nobody looks at them again, which would read every column each time.
        frames.append(parquet_events(read) if has_bad else _as_sourced(read))
    if problems and not frames:
        more = "" if len(problems) == 1 else f" (and {len(problems) - 1} more files cannot be read)"
        raise InputError(f"{problems[0][1]}{more}")
    _reject_files(problems, staging)
    for frame in frames:
        sources.events = frame if frame is frames[0] else sources.events.unionByName(frame)
    return sources


def _stopped(done: list[dict[str, Any]], tasks: list[ParseTask], files: list[InputFile]) -> list[Problem]:
    """What could not be read on, with the name of the file if it is one."""
    names = {file.number: file.shown for file in files}
    problems: dict[str, str | None] = {}  # Splits of one file may say the same.
    for task in sorted((task for task in done if task["error"] is not None), key=lambda task: int(task["task"])):
        read = tasks[task["task"]].files
        problems.setdefault(task["error"], names[read[0][0]] if len(read) == 1 else None)
    return [(name, problem) for problem, name in problems.items()]


def _whole_parquet(files: list[InputFile]) -> tuple[list[tuple[int, str]], list[Problem]]:
    """Files that Spark can read as events, and the others with what is wrong with them."""
    whole: list[tuple[int, str]] = []
    problems: list[Problem] = []
    for file in files:
        if file.format != "parquet":
            continue
        try:
            check_columns(file.path)
            whole.append((file.number, file.path))
        except InputError as error:
            problems.append((file.shown, str(error).replace(shown_path(file.path), file.shown)))
    return whole, problems


def _reject_rows(rejections: DataFrame, staging: Staging) -> bool:
    """The first time that rows of Parquet are read: what is broken inside the files comes to light here. Whether any
    row was refused.
    """
    target = staging.folder("rejected") / "parquet"
    try:
        rejections.write.parquet(to_write(target))
        return rejections.sparkSession.read.parquet(to_read(target)).limit(1).count() > 0
    except (PySparkException, Py4JError) as error:
        named = re.search(r"file file:/+(\S+?)\.?\s", str(error))
        where = "a Parquet file" if named is None else unquote(f"/{named.group(1)}")
        raise InputError(f"{where} is broken, or its columns are not those of events: write it again") from error


def _reject_files(problems: list[Problem], staging: Staging) -> None:
    if problems:
        rejections = [Rejection(reason=UNUSABLE_FILE, detail=problem, file=name) for name, problem in problems]
        write_parquet(rejection_table(rejections), staging.folder("rejected") / "files.parquet")


def _empty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], spark_type(SOURCED))


def _as_sourced(parsed: DataFrame) -> DataFrame:
    return parsed.select(*SOURCED.names)


def _count_lines(done: list[dict[str, Any]], sources: Sources) -> None:
    before: Counter[int] = Counter()
    for task in sorted(done, key=lambda task: (task["number"], task["split"])):
        number = task["number"]
        sources.first_line[number, task["split"]] = before[number]
        before[number] += task["lines"]
        sources.by_file[number] += task["events"] + task["spans"]
        for reason, detail, count in task["notes"]:
            sources.notes[reason, detail] += count


def _lay_spans(spark: SparkSession, staging: Staging, sources: Sources, *, spans: int, number: int) -> None:
    staged = spark.read.schema(spark_type(STAGED_SPAN)).parquet(to_read(staging.folder("spans")))
    placed = _with_execution(spark, staged)
    packs = max(-(-spans // SPANS_PER_TASK), 1)
    pack = (F.crc32(F.col(EXECUTION).cast("binary")) % packs).cast("int")
    sorted_spans = (
        placed.select(EXECUTION, pack.alias("pack"), "is_span", "payload")
        .repartitionById(packs, F.col("pack"))
        .sortWithinPartitions(EXECUTION, "is_span", "payload")
    )
    for done in run_over(sorted_spans, lay_spans(staging, number=number)):
        for reason, detail, count in done["notes"]:
            sources.notes[reason, detail] += count


def _with_execution(spark: SparkSession, staged: DataFrame) -> DataFrame:
    """Traces that reference each other are one execution, named by the smallest id."""
    pairs = staged.select("trace", F.explode("joins").alias("other")).distinct()
    present = staged.select(F.col("trace").alias("other")).distinct()
    joined = pairs.join(present, on="other", how="left_semi").limit(JOINS_MAX + 1).toArrow().to_pylist()
    if len(joined) > JOINS_MAX:
        raise InputError(f"more than {JOINS_MAX} pairs of traces reference each other: analyze fewer traces at once")
    if not joined:
        return staged.withColumnRenamed("trace", EXECUTION)
    ends = {pair["other"] for pair in joined}
    spans = [Span(trace_id=trace, span_id="0") for trace in ends]
    for pair in joined:
        reference = Reference(pair["other"], "0", ReferenceKind.LINK)
        spans.append(Span(trace_id=pair["trace"], span_id="0", references=(reference,)))
    names = spark.createDataFrame(sorted(executions(spans).items()), "trace string, renamed string")
    execution = F.coalesce("renamed", "trace").alias(EXECUTION)
    return staged.join(F.broadcast(names), on="trace", how="left").select(execution, "is_span", "payload")


def _numbered(parsed: DataFrame, staging: Staging) -> DataFrame:
    counts_path = staging.path / "numbering"
    split_counts(parsed).write.parquet(to_write(counts_path))
    counts = parsed.sparkSession.read.parquet(to_read(counts_path))
    small = counts.limit(BROADCAST_ROWS_MAX + 1).count() <= BROADCAST_ROWS_MAX
    if parsed.where(F.col(INDEX).isNotNull()).limit(1).count():
        rejections = mixed_rejections(parsed, counts, broadcast=small)
        rejections.write.parquet(to_write(staging.folder("rejected") / "mixed"))
    return numbered(parsed, counts, broadcast=small)
