"""`analyze`: read, match, stamp, order, check, measure, write.

1. The history directory appears whole or not at all, whatever ends the analysis; what was staged goes with it.
2. The same input gives the same events, findings and figures, however Spark divides the work.
3. What is refused is in `rejected/` with its reason. Only input without one usable event, or settings that make no
   sense, are an `InputError`.

Two ways lead through it. Small executions are analyzed whole by `History`, many to a task (tasks/small.py). Those
that are too large for that are cut into blocks at consistent cuts (large.py). The driver holds names of processes,
cuts and findings up to their limits, never events.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from beforehand import __version__
from beforehand.errors import InputError
from beforehand.events import INDEX_MAX, Rejection
from beforehand.formats.opening import shown_path
from beforehand.pipeline.census import (
    COUNT,
    LARGE_COLUMNS,
    REACH,
    Large,
    executions,
    large_executions,
    profile,
    small_executions,
)
from beforehand.pipeline.directory import Directory, Manifest, check_target, making
from beforehand.pipeline.inputs import InputFile, InputOptions, input_files
from beforehand.pipeline.jobs.findings import Findings, write_violations
from beforehand.pipeline.jobs.large import DuplicateEventsError, LargeOutcome, analyze_large
from beforehand.pipeline.jobs.measures import hidden_channels, measure_messages
from beforehand.pipeline.jobs.rejections import reject_duplicate_events, reject_duplicate_messages, write_rejections
from beforehand.pipeline.jobs.report import write_report
from beforehand.pipeline.jobs.running import run_over
from beforehand.pipeline.jobs.sources import Sources, read_sources
from beforehand.pipeline.jobs.total import check_total_order
from beforehand.pipeline.paths import to_read, to_write
from beforehand.pipeline.progress import Progress
from beforehand.pipeline.rejecting import rejection_table
from beforehand.pipeline.schemas import (
    DUPLICATE_RECEIVE,
    DUPLICATE_SEND,
    EXECUTION,
    FILE,
    INDEX,
    MESSAGE_TABLE,
    NUMBER,
    OFFSET,
    OUTCOME,
    PROCESS,
    SOURCED,
    spark_type,
)
from beforehand.pipeline.session import session
from beforehand.pipeline.stored import StoredHistory
from beforehand.pipeline.tables import write_parquet
from beforehand.pipeline.tasks.small import INDEX_TOO_LARGE, analyze_packs
from beforehand.pipeline.tasks.staging import Staging

__all__ = ["Settings", "analyze"]

LARGE_MAX: Final = 1_000
"""Executions that may be cut into blocks: the driver holds the names of their processes."""

BRIEF_BYTES: Final = 16 << 20
"""Of the input; less is soon done, before a JVM has gained anything by optimizing itself."""
PACK_EVENTS: Final = 50_000
SHUFFLE_EVENTS: Final = 400_000
"""Events that a partition of a shuffle should have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to analyze; all of it may be left out."""

    options: InputOptions = field(default_factory=InputOptions)
    replace: bool = False
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    blocks: int | None = None  # Cut every execution into so many blocks, whatever its size.
    witnesses: int = 100  # Findings of a kind that are kept with their explanation.
    lamport: bool = False  # Give every event its Lamport time, and the report the depth.
    last: int = 25  # Events of the past that explain a failure.

    def __post_init__(self) -> None:
        for name, least in (("blocks", 1), ("witnesses", 1), ("last", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}: it must be at least {least}")


def analyze(
    inputs: Sequence[str], to: str | Path, settings: Settings | None = None, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Analyze files into a history directory; gives what its report.json has. Raises `InputError`."""
    chosen = settings or Settings()
    said = progress or Progress(quiet=True)
    check_target(Path(to).absolute(), replace=chosen.replace)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="beforehand-"))
        files = input_files(inputs, chosen.options, scratch=Path(scratch))
        _refuse_inside(files, Path(to))
        directory = stack.enter_context(making(to, replace=chosen.replace))
        staging = Staging(directory.path / "staging")
        staging.make()
        with said.step("start Spark"):
            brief = sum(file.bytes for file in files) < BRIEF_BYTES
            spark = stack.enter_context(session(master=chosen.master, conf=chosen.conf, brief=brief))
        stack.enter_context(said.watching(spark))
        return _Analysis(spark, files, chosen, directory, staging, said).run()


def _refuse_inside(files: Sequence[InputFile], to: Path) -> None:
    """An input that lies in what is to be replaced would be gone afterwards."""
    target = Path(os.path.realpath(to))
    for file in files:
        if target in Path(os.path.realpath(file.path)).parents:
            raise InputError(
                f"the input {file.shown} lies in {shown_path(to)}, which is written anew: move it, or "
                "choose another --to"
            )


class _Analysis:
    def __init__(
        self,
        spark: SparkSession,
        files: list[InputFile],
        settings: Settings,
        directory: Directory,
        staging: Staging,
        progress: Progress,
    ) -> None:
        self.spark = spark
        self.files = files
        self.settings = settings
        self.directory = directory
        self.staging = staging
        self.progress = progress
        self.findings = Findings(limit=settings.witnesses)
        self.packs = 0
        self.large = LargeOutcome([])

    def run(self) -> dict[str, Any]:
        sources = read_sources(
            self.spark, self.files, self.settings.options, staging=self.staging, progress=self.progress
        )
        self.findings.note_sources(sources.notes)
        profiled = profile(sources.events).persist()
        with self.progress.step("count events, processes and executions"):
            larges = self._census(profiled)
        events = sources.events
        if self.packs:
            self._small(events, larges)
        if larges:
            self._large(events, larges)
        if not self.findings.events:
            raise InputError(self._nothing())
        report = self._judge(sources, profiled)
        profiled.unpersist()
        return report

    # How many of what there are.

    def _census(self, profiled: DataFrame) -> list[Large]:
        counts = executions(profiled)
        totals = counts.agg(F.sum(COUNT), F.count("*"), F.max(REACH)).first()
        assert totals is not None
        if not totals[0]:
            raise InputError(self._nothing())
        small = counts.limit(0) if self.settings.blocks else small_executions(counts)
        large = counts.join(small.select(EXECUTION), on=EXECUTION, how="left_anti")
        names = [row[0] for row in large.select(EXECUTION).limit(LARGE_MAX + 1).collect()]
        if len(names) > LARGE_MAX:
            raise InputError(
                f"more than {LARGE_MAX} executions would be cut into blocks: leave --blocks out, or analyze fewer"
            )
        few = small.agg(F.sum(COUNT), F.count("*")).first()
        assert few is not None
        self.packs = -(-int(few[0]) // PACK_EVENTS) if few[0] else 0
        partitions = max(int(totals[0]) // SHUFFLE_EVENTS, 2 * self.spark.sparkContext.defaultParallelism)
        if "spark.sql.shuffle.partitions" not in self.settings.conf:
            self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        if not names:
            return []
        # A row per process of an execution that will be cut, whose stamps the driver holds anyway.
        rows = profiled.where(F.col(EXECUTION).isin(names)).select(*LARGE_COLUMNS).collect()
        larges = large_executions([tuple(row) for row in rows], blocks=self.settings.blocks)
        return self._without_huge_indexes(larges)

    def _without_huge_indexes(self, larges: list[Large]) -> list[Large]:
        kept = []
        rejections = []
        for large in larges:
            if sum(large.last_index.tolist()) <= INDEX_MAX:
                kept.append(large)
                continue
            detail = (
                f"the last indexes of the {large.width} processes of execution {large.execution!r} add up to more "
                f"than {INDEX_MAX}: its {large.events} events are left out; number them from 1"
            )
            rejections.append(Rejection(reason=INDEX_TOO_LARGE, detail=detail))
        if rejections:
            write_parquet(rejection_table(rejections), self.staging.folder("rejected") / "indexes.parquet")
        return [Large(at, *(getattr(large, name) for name in Large.__slots__[1:])) for at, large in enumerate(kept)]

    def _nothing(self) -> str:
        write_rejections(self.spark, self.staging, self.directory, self.files, {})
        found = self.spark.read.parquet(to_read(self.directory.rejected / "all")) if self._has_rejections() else None
        first = None if found is None else found.orderBy(FILE, "line", OFFSET).first()
        where = ", ".join(file.shown for file in self.files[:3]) + (", …" if len(self.files) > 3 else "")
        if first is None:
            return f"{where}: there is not one event in it: name another input, or --format"
        return f"{where}: not one event could be read; the first problem: {first['detail']}"

    def _has_rejections(self) -> bool:
        return (self.directory.rejected / "all").exists()

    # The two ways.

    def _small(self, events: DataFrame, larges: list[Large]) -> None:
        mine = events
        if larges:
            mine = events.where(~F.col(EXECUTION).isin([large.execution for large in larges]))
        pack = (F.crc32(F.col(EXECUTION).cast("binary")) % self.packs).cast("int").alias("pack")
        packed = (
            mine.select("*", pack)
            .repartitionById(self.packs, F.col("pack"))
            .sortWithinPartitions(EXECUTION, FILE, OFFSET)
        )
        with self.progress.step("analyze small executions"):
            task = analyze_packs(
                self.staging, self.directory, limit=self.settings.witnesses, lamport=self.settings.lamport
            )
            self.findings.add_packs(run_over(packed, task))

    def _large(self, events: DataFrame, larges: list[Large]) -> None:
        surely = any(large.surely_duplicates for large in larges)
        if not surely:
            try:
                self.large = self._analyze_large(events, larges)
            except DuplicateEventsError:
                surely = True
                shutil.rmtree(self.directory.messages / "large")
                self.staging.forget_blocks()
        if surely:
            with self.progress.step("leave out events that occur twice"):
                unique, larges = self._first_of_each(events, larges)
            self.large = self._analyze_large(unique, larges)
        self.findings.add_blocks(self.large)

    def _analyze_large(self, events: DataFrame, larges: list[Large]) -> LargeOutcome:
        return analyze_large(
            self.spark,
            events,
            larges,
            staging=self.staging,
            directory=self.directory,
            limit=self.settings.witnesses,
            progress=self.progress,
            lamport=self.settings.lamport,
        )

    def _first_of_each(self, events: DataFrame, larges: list[Large]) -> tuple[DataFrame, list[Large]]:
        mine = events.where(F.col(EXECUTION).isin([large.execution for large in larges]))
        same = Window.partitionBy(EXECUTION, PROCESS, INDEX).orderBy(FILE, OFFSET)
        ranked = mine.select("*", F.row_number().over(same).alias("rank"))
        target = self.staging.path / "unique"
        ranked.write.parquet(to_write(target))
        read = self.spark.read.parquet(to_read(target))
        reject_duplicate_events(read.where(F.col("rank") > 1), self.staging)
        unique = read.where(F.col("rank") == 1).select(*SOURCED.names)
        rows = profile(unique).select(*LARGE_COLUMNS).collect()
        return unique, large_executions([tuple(row) for row in rows], blocks=self.settings.blocks)

    # What it comes to.

    def _judge(self, sources: Sources, profiled: DataFrame) -> dict[str, Any]:
        manifest = Manifest(
            version=__version__,
            inputs=[
                {
                    "path": file.shown,
                    "format": file.format,
                    "bytes": file.bytes,
                    "events": sources.by_file.get(file.number),
                }
                for file in self.files
            ],
            settings={
                "blocks": self.settings.blocks,
                "witnesses": self.settings.witnesses,
                "lamport": self.settings.lamport,
            },
            packs=self.packs,
            cut_executions=[
                {"execution": large.execution, "number": large.number, "blocks": large.blocks}
                for large in self.large.larges
            ],
            executions=self.findings.executions,
            events=self.findings.events,
        )
        stored = StoredHistory(self.directory, manifest)
        messages = self._messages()
        with self.progress.step("check order and measure"):
            if self.large.larges:
                self._judge_large(messages.where(F.col(NUMBER).isNotNull()), stored)
            measured, offsets = measure_messages(messages, self.findings.notes)
            paths = [
                to_read(self.directory.block(large.number, block))
                for large in self.large.larges
                for block in range(large.blocks)
                if self.directory.block(large.number, block).exists()
            ]
            self.findings.hidden += hidden_channels(self.spark, stored, paths, offsets, self.findings.notes)
            write_rejections(self.spark, self.staging, self.directory, self.files, sources.first_line)
        with self.progress.step("write the report"):
            report = write_report(
                self.spark,
                stored,
                self.findings,
                measured,
                profiled,
                seconds=self.progress.seconds,
                last=self.settings.last,
            )
        shutil.rmtree(self.staging.path)
        _tidy(self.directory.path)
        self.directory.write_manifest(manifest)
        return report

    def _messages(self) -> DataFrame:
        return (
            self.spark.read.option("recursiveFileLookup", "true")
            .schema(spark_type(MESSAGE_TABLE))
            .parquet(to_read(self.directory.messages))
        )

    def _judge_large(self, messages: DataFrame, stored: StoredHistory) -> None:
        if messages.where(F.col(OUTCOME).isin(DUPLICATE_SEND, DUPLICATE_RECEIVE)).limit(1).count():
            reject_duplicate_messages(messages, self.staging)
        count, witnesses, notes = check_total_order(messages, self.large.larges, limit=self.settings.witnesses)
        self.findings.add_total(count, notes)
        write_violations(self.directory, stored, self.findings, self.large, witnesses)


def _tidy(path: Path) -> None:
    """Spark leaves markers and checksums that say nothing to our readers."""
    for pattern in ("**/_SUCCESS", "**/*.crc", "**/.*.crc"):
        for marker in path.glob(pattern):
            marker.unlink(missing_ok=True)
